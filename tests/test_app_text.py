"""The web page with texts, driven as a visitor would."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from browsing import background, press, question, reading
from serving import wait_for
from test_app_image import pressed, settled
from whyformer.app.examples import examples

TEXT = "#model=demo-text"
NOTHING = "rgba(0, 0, 0, 0)"


def words(page: Any, panel: int = 0) -> str:
    """The text that is shown, without the marks of unknown words."""
    return page.locator("#view .why-stage").nth(panel).text_content().replace("[UNK]", "")


def type_text(page: Any, text: str) -> None:
    page.get_by_label("Type or paste a text").fill(text)
    wait_for(lambda: page.locator("#view .why-stage").count() and words(page) == text)
    page.locator("#view:not([aria-busy])").wait_for()


def test_both_sides_stand_beside_each_other_and_follow_the_typing(visit: Any) -> None:
    page = visit(TEXT)
    settled(page, "Why “negative”, why “positive”?")
    assert words(page, 0) == words(page, 1) == examples()["mixed review"].text
    type_text(page, "A gorgeous film, superb")
    page.get_by_label("Type or paste a text").press_sequentially("ly acted")
    wait_for(lambda: words(page) == "A gorgeous film, superbly acted")
    settled(page, "Why “positive”, why “negative”?")
    assert background(page, "gorgeous") != NOTHING
    assert page.get_by_role("button", name="mixed review").get_attribute("aria-pressed") == "false"
    assert page.locator(":focus").get_attribute("id") == "text"


def test_a_chosen_class_stays_chosen_while_typing(visit: Any) -> None:
    page = visit(TEXT)
    settled(page, "Why “negative”, why “positive”?")
    page.locator("[data-class='1']").click()
    settled(page, "Why “negative”?")
    type_text(page, "A gorgeous film")
    assert question(page) == "Why “negative”?"


def test_scores_pieces_and_rows(visit: Any) -> None:
    page = visit(TEXT)
    settled(page, "Why “negative”, why “positive”?")
    type_text(page, "An overlong, unwatchable film")
    page.locator("#view .why-unit", has_text="unwatchable").first.hover()
    assert "“unwatchable”" in reading(page)
    press(page, "Pieces")
    assert words(page).strip().startswith("[CLS]")
    page.locator("[data-method=rollout]").click()
    settled(page, "Where it looked, whatever the class")
    assert words(page).strip().startswith("[CLS]")
    press(page, "Words")
    page.locator("#view .why-unit", has_text="film").click()
    assert question(page) == "What “film” gathered from the others"


def test_nothing_to_explain_is_no_error(visit: Any) -> None:
    page = visit(TEXT)
    settled(page, "Why “negative”, why “positive”?")
    page.get_by_label("Type or paste a text").fill("  ")
    page.get_by_role("status").get_by_text("Type a text to begin.").wait_for()
    assert page.locator("#view .why-stage").count() == 0
    assert page.locator("#actions").is_hidden()
    page.get_by_role("button", name="joyless").click()
    settled(page, "Why “negative”")


def test_a_long_text_is_read_in_windows_and_says_so(visit: Any) -> None:
    page = visit(TEXT, refused=422)
    settled(page, "Why “negative”, why “positive”?")
    page.get_by_role("button", name="long text").click()
    page.locator(".why-notes", has_text="windows").wait_for()
    page.locator("#inside summary").click()
    page.locator("#inside-alert", has_text="several windows").wait_for()
    page.get_by_role("button", name="joyless").click()
    page.locator("#inside-view .why-stage").nth(3).wait_for()
    assert page.locator("#inside-alert").is_hidden()


def test_the_address_holds_the_text_and_the_settings(visit: Any) -> None:
    text = "Ein schöner Film & more: 100 % #1 + “quotes”\nand lines"
    page = visit(f"{TEXT}&text={quote(text)}&class=0&method=gradcam&pieces=1&preset=paper")
    settled(page, "Why “negative”?")
    assert page.get_by_label("Type or paste a text").input_value() == text
    assert pressed(page, "method") == ["gradcam"]
    assert page.get_by_label("Preset").input_value() == "paper"
    assert words(page).strip().startswith("[CLS]")
    page.wait_for_timeout(300)
    link = page.url
    again = visit(link[link.index("#") :])
    settled(again, "Why “negative”?")
    assert again.get_by_label("Type or paste a text").input_value() == text
    assert background(again, "Film") == background(page, "Film")


def test_the_python_code_quotes_the_text(visit: Any) -> None:
    page = visit(TEXT)
    text = 'It\'s "fine" \\ $HOME `x`\nreally'
    settled(page, "Why “negative”, why “positive”?")
    type_text(page, text)
    page.get_by_role("button", name="Python").click()
    page.get_by_role("status").get_by_text("Copied.").wait_for()
    code = page.evaluate("navigator.clipboard.readText()")
    assert f"why({text!r}, target=[" in code


def test_script_in_a_text_stays_text(visit: Any) -> None:
    page = visit(TEXT)
    settled(page, "Why “negative”, why “positive”?")
    type_text(page, "<img src=x onerror=alert(1)><script>alert(2)</script> film")
    assert page.locator("#view img, #view script").count() == 0
    address = visit(
        f"{TEXT}&text=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&preset=%3Cscript%3E", refused=422
    )
    address.get_by_role("alert").get_by_text("unknown preset '<script>'").wait_for()
    assert address.locator("main img[src=x], main script").count() == 0
