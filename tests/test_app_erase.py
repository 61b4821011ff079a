"""Erasing on the page: what becomes of the probabilities without some patches or words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import whyformer
from browsing import press, question
from serving import running, wait_for
from test_app_image import WHY, centre, settled
from test_app_text import TEXT, type_text
from whyformer.app.examples import picture
from whyformer.app.server import make_app

REVIEW = "A gorgeous, superb film"


def test_the_endpoint_is_the_model_without_them(client: Any, models: list[Any]) -> None:
    asked = {"example": "two digits", "targets": [8, 4], "erased": [88, 89, 100, 101]}
    answer = client.post("/erase", json=asked).json()
    recorded = models[0].record(picture("two digits"))
    before = recorded.logits.softmax(-1)[0]
    after = recorded.without(asked["erased"]).softmax(-1)[0]
    assert [entry["index"] for entry in answer["classes"][:2]] == [8, 4]
    for entry in answer["classes"]:
        assert entry["before"] == pytest.approx(float(before[entry["index"]]), abs=1e-6)
        assert entry["after"] == pytest.approx(float(after[entry["index"]]), abs=1e-6)
    assert answer["prediction"] == int(after.argmax())
    assert answer["colour"] in answer["how"]
    again = {"input": answer["input"], "targets": [8, 4], "erased": asked["erased"]}
    assert client.post("/erase", json=again).json() == answer
    form = {"targets": ["8", "4"], "erased": [str(patch) for patch in asked["erased"]]}
    sent = client.post("/erase", files={"image": ("a.png", picture("two digits"))}, data=form)
    assert sent.json()["classes"] == answer["classes"]


def test_the_new_prediction_is_told_where_it_was_not_asked(client: Any, models: list[Any]) -> None:
    found = models[0](picture("two digits"), 8)
    strongest = found.relevance[0, found.tokens.patches].topk(10).indices.tolist()
    asked = {"example": "two digits", "targets": [8]}
    whole = client.post("/erase", json=asked).json()
    left = client.post("/erase", json={**asked, "erased": strongest}).json()
    assert (whole["prediction"], [entry["index"] for entry in whole["classes"]]) == (8, [8])
    assert (left["prediction"], [entry["index"] for entry in left["classes"]]) == (4, [8, 4])
    word = client.post("/erase", json={"text": REVIEW, "erased": [1]}).json()
    assert (word["colour"], "embedding" in word["how"]) == (None, True)


def test_what_is_not_there_is_refused(client: Any) -> None:
    refused = client.post("/erase", json={"text": REVIEW, "erased": [99]})
    assert refused.status_code == 422
    assert "unit 99 of an input with 5 patches or words" in refused.json()["error"]
    for wrong in ([-1], ["one"], 3):
        assert client.post("/erase", json={"text": REVIEW, "erased": wrong}).status_code == 422


def shares(page: Any) -> dict[str, list[str]]:
    """Every class's cells in the table."""
    rows = page.locator(".erase tbody tr").all()
    return {
        row.locator("th span").first.inner_text(): [
            text.replace("\u00a0", " ") for text in row.locator("td").all_inner_texts()
        ]
        for row in rows
    }


def told(page: Any, sentence: str) -> None:
    page.locator(".erase-state", has_text=sentence).wait_for()


def test_patches_are_erased_by_clicks_and_restored(visit: Any, models: list[Any]) -> None:
    page = visit()
    settled(page, WHY)
    erase = page.get_by_role("button", name="Erase", exact=True)
    assert erase.get_attribute("aria-pressed") == "false"
    erase.click()
    told(page, "Click a patch to erase it. An erased patch has the colour")
    assert shares(page)["8"] == ["72.3 %", "72.3 %", "0.0 points"]
    stage = page.locator("#view .why-stage").first
    for patch in (88, 100):
        stage.click(position=centre(page, patch))
    told(page, "2 patches erased.")
    assert page.locator("#view .why-cell-erased").count() == 4
    assert question(page) == WHY
    recorded = models[0].record(picture("two digits"))
    before, after = (
        100 * float(logits.softmax(-1)[0, 8])
        for logits in (recorded.logits, recorded.without([88, 100]))
    )
    change = f"{after - before:+.1f} points".replace("-", "\N{MINUS SIGN}")
    assert shares(page)["8"] == [f"{before:.1f} %", f"{after:.1f} %", change]
    stage.click(position=centre(page, 88))
    told(page, "1 patch erased.")
    page.get_by_role("button", name="Erase the strongest 5 for “8”").click()
    told(page, "6 patches erased.")
    page.locator(".erase tr", has_text="predicted").filter(has_text="4").wait_for()
    page.locator("[data-class='9']").click()
    settled(page, "Why “8”, why “9”?")
    told(page, "6 patches erased.")
    wait_for(lambda: list(shares(page)) == ["8", "9", "4"])
    press(page, "Restore all")
    told(page, "Click a patch to erase it.")
    assert shares(page)["8"] == ["72.3 %", "72.3 %", "0.0 points"]
    erase.click()
    assert page.locator(".erase").is_hidden()
    stage.click(position=centre(page, 100))
    assert question(page) == "What the patch in row 9, column 5 gathered from the others"


def test_words_are_erased_by_the_keyboard(visit: Any, models: list[Any]) -> None:
    page = visit(TEXT)
    settled(page, "Why “negative”, why “positive”?")
    type_text(page, "An unwatchable film")
    press(page, "Erase")
    told(page, "Click a word to erase it.")
    page.locator("#view .why-stage").first.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    told(page, "1 word erased. An erased word keeps its place; its embedding is zero.")
    assert page.locator("#view .why-unit-erased").all_inner_texts() == ["unwatchable"] * 2
    after = models[1].record("An unwatchable film").without([1]).softmax(-1)[0, 0]
    assert shares(page)["negative"][1] == f"{100 * float(after):.1f} %"
    press(page, "Pieces")
    assert "".join(page.locator("#view .why-stage").first.locator(
        ".why-unit-erased").all_inner_texts()) == "unwatchable"  # fmt: skip
    press(page, "Words")
    page.locator("#view .why-stage").first.focus()
    for key in ("ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
    told(page, "Click a word")
    press(page, "Erase the strongest 5 for “negative”")
    told(page, "3 words erased.")
    type_text(page, "A film")
    told(page, "Click a word to erase it.")
    assert page.locator("#view .why-unit-erased").count() == 0


def test_a_saved_page_has_no_eraser_and_neither_has_a_model_of_two_inputs(
    visit: Any, browser: Any
) -> None:
    page = visit()
    settled(page, WHY)
    with page.expect_download() as started:
        page.get_by_role("button", name="HTML", exact=True).click()
    report = browser.new_page()
    report.set_content(Path(started.value.path()).read_text(encoding="utf-8"))
    report.locator(".why-stage").first.wait_for()
    assert report.get_by_role("button", name=re.compile("Erase")).count() == 0
    report.close()
    clip = whyformer.load("demo-clip")
    with running(make_app([clip])) as url:
        other = browser.new_page()
        other.goto(f"{url}/")
        other.locator("#models button").wait_for()
        other.locator("#file").set_input_files(
            {"name": "scene.png", "mimeType": "image/png", "buffer": picture("one digit")}
        )
        other.locator("#beside").fill("the digit one\nthe digit two")
        other.locator("#view .why-stage").first.wait_for()
        assert other.get_by_role("button", name=re.compile("Erase")).count() == 0
        other.close()


@pytest.mark.parametrize("model", ["demo-vision", "demo-text"])
def test_erasing_needs_no_sideways_scrolling(visit: Any, model: str) -> None:
    page = visit(f"#model={model}", width=375)
    page.locator("#view .why-stage").first.wait_for()
    press(page, "Erase")
    page.locator(".erase tbody tr").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
