"""The report of a text in a browser: words, their colours and rows; hostile strings stay text."""

from __future__ import annotations

import html
import json
import re
from itertools import pairwise
from typing import Any

import pytest

from browsing import background, press, question, reading
from report_documents import (
    PICTURE,
    SCRIPT,
    TITLE,
    text_document,
    view,
)
from whyformer.render.report import report_html


def test_the_text_keeps_its_gaps_and_hides_special_tokens(open_report: Any) -> None:
    page = open_report(text_document())
    stage = page.locator(".why-stage")
    assert stage.text_content() == f"{SCRIPT}\njoyless  film"
    press(page, "Pieces")
    assert stage.text_content() == f"[CLS]{SCRIPT}\njoyless  film[SEP]"
    assert page.locator(".why-unit").count() == 6
    press(page, "Words")
    assert page.locator(".why-unit").count() == 3


def test_words_are_coloured_for_their_class(open_report: Any) -> None:
    page = open_report(text_document())
    nothing = "rgba(0, 0, 0, 0)"
    assert background(page, "<script>") == "rgb(230, 159, 0)"
    assert background(page, "film") == nothing
    page.locator("[data-class='0']").click()
    assert background(page, "<script>") == nothing
    assert background(page, "joyless") == "rgb(0, 114, 178)"
    page.locator(".why-unit", has_text="joyless").hover()
    assert "“joyless”" in reading(page)
    assert "0.80 · 94.1 % · 1st of 3" in reading(page)
    press(page, "Side by side")
    assert page.locator(".why-stage").count() == 2


def test_words_for_are_orange_and_words_against_blue(open_report: Any) -> None:
    page = open_report(text_document())
    page.locator("[data-method=lrp]").click()
    assert background(page, "<script>") == "rgb(230, 159, 0)"
    blue = [255 + 0.4 * (c - 255) for c in (0, 114, 178)]
    assert background(page, "joyless") == "rgb({:.0f}, {:.0f}, {:.0f})".format(*blue)
    legend = page.locator(".why-legend").inner_text()
    assert legend.split() == ["against", "\u22120.50", "0.50", "for"]
    page.locator(".why-unit", has_text="joyless").hover()
    assert "\u22120.20" in reading(page)


def test_one_scale_for_all_classes(open_report: Any) -> None:
    page = open_report(text_document())
    press(page, "Side by side")
    highs = [".40", ".80"]
    assert [t[-3:] for t in page.locator(".why-legend").all_inner_texts()] == highs
    press(page, "One scale")
    assert [t[-3:] for t in page.locator(".why-legend").all_inner_texts()] == [".80", ".80"]
    faint = [255 + 0.5 * (c - 255) for c in (230, 159, 0)]
    shown = [int(part) for part in re.findall(r"\d+", background(page, "<script>"))]
    assert shown == pytest.approx(faint, abs=1)


@pytest.mark.parametrize("text", ["thin,", "a/b", "好看。"])
def test_boxes_never_cover_letters(open_report: Any, text: str) -> None:
    """Where no space divides two words, their boxes end where their letters do."""
    document = text_document()
    document["pieces"] = [
        {"text": sign, "gap": "", "word": i, "content": True} for i, sign in enumerate(text)
    ]
    document["views"] = [view("gradcam", 1, [1.0] * len(text), rows=False)]
    page = open_report(document)
    boxes = [unit.bounding_box() for unit in page.locator(".why-unit").all()]
    for one, other in pairwise(boxes):
        assert one["x"] + one["width"] <= other["x"] + 0.02


def test_a_word_shows_its_row_until_escape(open_report: Any) -> None:
    page = open_report(text_document())
    page.locator(".why-unit", has_text="joyless").click()
    assert question(page) == "What “joyless” gathered from the others"
    assert page.locator(".why-unit-chosen").inner_text() == "joyless"
    assert background(page, "film") == "rgb(230, 159, 0)"
    assert background(page, "<script>") == "rgba(0, 0, 0, 0)"
    page.keyboard.press("Escape")
    assert background(page, "film") == "rgba(0, 0, 0, 0)"
    press(page, "Pieces")
    page.locator(".why-unit", has_text="joy").click()
    assert question(page) == "What “joy” gathered from the others"
    assert background(page, "less") == "rgb(230, 159, 0)"
    page.locator(".why-back").click()
    assert page.locator(".why-unit-chosen").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stay_readable_on_every_shade(open_report: Any, scheme: str) -> None:
    document = text_document()
    count = 60
    document["pieces"] = [
        {"text": f"w{i}", "gap": " ", "word": i, "content": True} for i in range(count)
    ]
    scores = [i / count for i in range(count)]
    document["views"] = [view("gradcam", target, scores, rows=False) for target in (1, 0)] + [
        view("rollout", None, scores, rows=False)
    ]
    page = open_report(document, scheme=scheme)
    press(page, "Side by side")
    assert lowest_contrast(page) >= 4.5
    page.locator("[data-method=rollout]").click()
    assert lowest_contrast(page) >= 4.5


def lowest_contrast(page: Any) -> float:
    """WCAG 2's contrast of text and ground, the least over all words."""
    pairs = page.locator(".why-unit").evaluate_all(
        """(spans) => spans.map((span) => {
          const { color, backgroundColor } = getComputedStyle(span);
          const page = getComputedStyle(document.body).backgroundColor;
          return [color, backgroundColor === "rgba(0, 0, 0, 0)" ? page : backgroundColor];
        })"""
    )
    assert len({ground for _, ground in pairs}) > 20
    return min(contrast(luminance(text), luminance(ground)) for text, ground in pairs)


def luminance(colour: str) -> float:
    channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def test_hostile_strings_stay_text(open_report: Any) -> None:
    document = text_document()
    page = open_report(document)
    assert page.title() == f"{TITLE} · whyformer"
    assert page.locator("h1").inner_text() == TITLE
    assert page.locator(".why-class .why-name").first.inner_text() == PICTURE
    assert page.locator(".why-notes p").inner_text() == SCRIPT
    page.locator(".why-unit").first.click()
    page.locator(".why-unit").first.hover()
    press(page, "Side by side")
    press(page, "Pieces")
    assert page.locator("script").count() == 2
    assert page.locator("img, b:has(*), h1 *").count() == 0
    stored = page.locator("#why-data").evaluate("(node) => node.textContent")
    assert json.loads(stored) == document


def test_the_page_holds_everything_and_allows_nothing_else() -> None:
    page = report_html(text_document())
    policy = html.unescape(re.search(r'Policy" content="([^"]+)"', page)[1])
    assert policy.startswith(
        "default-src 'none'; img-src data:; media-src data:; script-src 'sha256-"
    )
    assert "unsafe" not in policy
    assert page.count("</script>") == 2
    assert page.count("</title>") == 1
    assert not re.search(r"(src|href)=\"?https?:", page)


def test_the_document_is_json_that_html_leaves_alone() -> None:
    """Line separators, which JSON allows, stay; what could end the script is escaped."""
    document = text_document()
    document["notes"] = ["a\u2028b\u2029c & d </script>"]
    page = report_html(document)
    assert "a\u2028b\u2029c " + r"\u0026 d \u003c/script\u003e" in page
    document["views"][0]["scores"][0] = float("nan")
    with pytest.raises(ValueError, match="not JSON compliant"):
        report_html(document)
