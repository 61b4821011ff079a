"""The HTML report, driven as a reader would: in a browser, from a file, without a network."""

from __future__ import annotations

import re
from typing import Any

import pytest

from browsing import press, question, reading
from report_documents import (
    PATCHES,
    SIDE,
    image_document,
    peak,
    text_document,
    view,
)


def coloured(page: Any, panel: int = 0) -> list[int]:
    """The patches of a crisp map that have any colour at all."""
    return (
        page.locator("canvas")
        .nth(panel)
        .evaluate(
            """(canvas) => {
          const { width, height } = canvas;
          const copy = new OffscreenCanvas(width, height).getContext("2d");
          copy.drawImage(canvas, 0, 0);
          const { data } = copy.getImageData(0, 0, width, height);
          return [...Array(width * height).keys()].filter((i) => data[4 * i + 3] > 0);
        }"""
        )
    )


def centre(patch: int, page: Any) -> dict[str, float]:
    box = page.locator(".why-stage").first.bounding_box()
    row, column = divmod(patch, SIDE)
    return {
        "x": (column + 0.5) * box["width"] / SIDE,
        "y": (row + 0.5) * box["height"] / SIDE,
    }


def test_the_class_and_method_switchers_change_the_map(open_report: Any) -> None:
    page = open_report(image_document())
    smooth = page.locator("canvas").evaluate("(canvas) => canvas.width")
    press(page, "Patches")
    assert page.locator("canvas").evaluate("(canvas) => canvas.width") == SIDE < smooth
    assert coloured(page) == [7]
    assert question(page) == "Why “three”?"
    page.locator("[data-class='8']").click()
    assert coloured(page) == [28]
    assert question(page) == "Why “eight”?"
    assert "Why “eight”?" in page.locator("canvas").get_attribute("aria-label")
    page.locator("[data-method=rollout]").click()
    assert coloured(page) == [14]
    assert "whatever the class" in question(page)
    assert "same for every class" in page.locator("[data-method=rollout]").inner_text()
    assert page.locator(".why-code").inner_text() == "rollout"


def test_only_classes_that_were_asked_about_are_buttons(open_report: Any) -> None:
    page = open_report(image_document())
    assert page.locator("button.why-class .why-name").all_inner_texts() == ["three", "eight"]
    assert page.locator("div.why-class .why-name").all_inner_texts() == ["one"]


def test_the_opacity_slider(open_report: Any) -> None:
    page = open_report(image_document())
    slider = page.get_by_label("Opacity")
    for value in ("0", "35", "100"):
        slider.fill(value)
        opacity = page.locator("canvas").evaluate("(canvas) => getComputedStyle(canvas).opacity")
        assert float(opacity) == int(value) / 100


def test_a_photo_that_was_cut_has_a_frame_and_patches_inside_of_it(open_report: Any) -> None:
    document = image_document()
    source = document["image"]["src"]
    crop = {"width": 400, "height": 200, "box": [20, 40, 180, 360], "src": source}
    document["image"]["crop"] = crop
    page = open_report(document)
    photo = page.locator(".why-photo").bounding_box()
    stage = page.locator(".why-stage").bounding_box()
    assert photo["width"] == pytest.approx(2 * photo["height"], abs=1)
    for edge, side, share in (("x", "width", 0.1), ("y", "height", 0.1)):
        assert stage[edge] - photo[edge] == pytest.approx(share * photo[side], abs=1)
        assert stage[side] == pytest.approx(0.8 * photo[side], abs=1)
    page.locator(".why-stage").hover(position=centre(7, page))
    assert "row 2, column 2" in reading(page)
    press(page, "What it saw")
    assert page.locator(".why-unseen").is_hidden()
    stage = page.locator(".why-stage").bounding_box()
    assert stage["width"] == pytest.approx(photo["width"], abs=1)
    assert stage["height"] == pytest.approx(stage["width"], abs=1)
    press(page, "Whole photo")
    assert page.locator(".why-unseen").is_visible()


def test_pointing_at_a_patch_reads_its_score_and_moves_nothing(open_report: Any) -> None:
    document = image_document()
    document["views"][0]["scores"] = peak(7, 0.3, 0.02)
    page = open_report(document)
    height = page.locator(".why-viewer").bounding_box()["height"]
    page.locator(".why-stage").hover(position=centre(7, page))
    assert re.sub(r"\s+", " ", reading(page)) == "row 2, column 2 0.30 · 30.0 % · 1st of 36"
    assert page.locator(".why-cell-hover").is_visible()
    page.locator(".why-stage").hover(position=centre(0, page))
    assert "0.020 · 2.0 % · 2nd of 36" in reading(page)
    assert page.locator(".why-viewer").bounding_box()["height"] == height
    page.locator(".why-title").hover()
    assert "Point at a patch" in reading(page)
    assert page.locator(".why-cell-hover").is_hidden()


def test_a_patch_shows_its_row_until_escape(open_report: Any) -> None:
    page = open_report(image_document())
    press(page, "Patches")
    stage, back = page.locator(".why-stage"), page.locator(".why-back")
    assert back.is_hidden()
    stage.click(position=centre(10, page))
    assert question(page) == "What the patch in row 2, column 5 gathered from the others"
    assert coloured(page) == [11]
    assert page.locator(".why-cell-chosen").is_visible()
    assert "the token itself" in reading(page)
    stage.hover(position=centre(11, page))
    assert "0.50 · 100 % · 1st of 35" in reading(page)
    page.keyboard.press("Escape")
    assert coloured(page) == [7]
    assert back.is_hidden()
    stage.click(position=centre(10, page))
    back.click()
    assert coloured(page) == [7]
    assert page.locator(".why-cell-chosen").is_hidden()


def test_a_method_without_rows_says_so(open_report: Any) -> None:
    page = open_report(image_document())
    page.locator("[data-method=lrp]").click()
    page.locator(".why-stage").click(position=centre(10, page))
    assert question(page).startswith("lrp has no row for a single token")
    page.keyboard.press("Escape")
    assert question(page) == "Why “three”?"


def test_negative_scores_keep_their_sign(open_report: Any) -> None:
    page = open_report(image_document())
    page.locator("[data-method=lrp]").click()
    page.locator(".why-stage").hover(position=centre(7, page))
    assert "\u22120.50" in reading(page)
    assert "36th of 36" in reading(page)
    assert page.locator(".why-legend").inner_text().startswith("against \u22120.50")


def test_classes_side_by_side(open_report: Any) -> None:
    page = open_report(image_document())
    press(page, "Patches")
    press(page, "Side by side")
    assert (coloured(page, 0), coloured(page, 1)) == ([7], [28])
    assert question(page) == "Why “three”, why “eight”?"
    boxes = [stage.bounding_box() for stage in page.locator(".why-stage").all()]
    assert boxes[0]["y"] == boxes[1]["y"]
    page.locator(".why-stage").nth(1).hover(position=centre(28, page))
    readings = page.locator(".why-read").all_inner_texts()
    assert "100" in readings[1]
    assert "100" not in readings[0]
    page.locator("[data-method=rollout]").click()
    assert page.locator(".why-stage").count() == 1


def test_all_methods_at_once(open_report: Any) -> None:
    page = open_report(image_document())
    press(page, "Patches")
    press(page, "All methods")
    assert page.locator(".why-part h3").all_inner_texts() == ["three · 70.0\u00a0%", "Every class"]
    names = ["transformer_attribution", "lrp", "rollout"]
    assert page.locator(".why-caption").all_inner_texts() == names
    assert (coloured(page, 0), coloured(page, 2)) == ([7], [14])
    press(page, "Side by side")
    assert page.locator(".why-part").count() == 3
    assert page.locator(".why-stage").count() == 5
    assert coloured(page, 2) == [28]
    assert question(page) == "Why “three”, why “eight”?"
    page.locator(".why-stage").first.click(position={"x": 5, "y": 5})
    assert "where a method has rows" in question(page)
    page.keyboard.press("Escape")
    page.locator("[data-method=rollout]").click()
    assert page.locator(".why-stage").count() == 1
    assert coloured(page) == [14]


def test_the_keyboard_reaches_everything(open_report: Any) -> None:
    page = open_report(image_document())
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                  const { dataset, type, textContent, className } = document.activeElement;
                  if (type === "range") return "opacity";
                  return dataset.class || dataset.method || (type ? textContent : className);
                }"""
            )
        )
        if reached[-1] in ("8", "Patches"):
            page.keyboard.press("Space")
            assert page.locator(":focus").get_attribute("aria-pressed") == "true"
        if reached[-1] == "opacity":
            page.keyboard.press("ArrowLeft")
    assert reached[:5] == ["3", "8", "transformer_attribution", "lrp", "rollout"]
    assert reached[5:9] == ["Smooth", "Patches", "Side by side", "All methods"]
    assert reached[9:] == ["Own scale", "One scale", "opacity"]
    assert page.locator("canvas").evaluate("(canvas) => canvas.style.opacity") == "0.79"
    assert coloured(page) == [28]

    page.keyboard.press("Tab")
    outline = page.locator(":focus").evaluate("(node) => getComputedStyle(node).outlineStyle")
    assert outline == "solid"
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert question(page) == "What the patch in row 2, column 2 gathered from the others"
    assert coloured(page) == [8]
    page.keyboard.press("Escape")
    assert coloured(page) == [28]
    assert "why-stage" in page.locator(":focus").get_attribute("class")


def test_long_labels_are_whole(open_report: Any) -> None:
    document = image_document()
    label = "Greater Swiss Mountain dog, the one that stands behind the fence"
    document["classes"][0]["label"] = label
    page = open_report(document)
    name = page.locator(".why-class .why-name").first
    assert name.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    assert question(page) == f"Why “{label}”?"


def test_a_smooth_map_is_bilinear(open_report: Any) -> None:
    """As the map that is evaluated: halfway between two patches it is halfway."""
    document = image_document()
    ramp = [i % SIDE / (SIDE - 1) for i in range(PATCHES)]
    document["views"] = [view("gradcam", 3, ramp, rows=False)]
    page = open_report(document)
    pixels = page.locator("canvas").evaluate(
        "(c) => Array.from(c.getContext('2d').getImageData(0, 60, c.width, 1).data)"
    )
    shares = [(alpha / 255) ** (1 / 0.75) for alpha in pixels[3::4]]
    zoom = len(shares) // SIDE
    for place in range(zoom // 2, len(shares) - zoom // 2):
        assert shares[place] == pytest.approx((place + 0.5 - zoom / 2) / zoom / 5, abs=0.01)


@pytest.mark.parametrize("build", [image_document, text_document])
def test_a_narrow_screen_needs_no_sideways_scrolling(open_report: Any, build: Any) -> None:
    page = open_report(build(), width=375)
    press(page, "Side by side")
    page.locator(".why-stage").first.click(position={"x": 40, "y": 30})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_unusual_documents(open_report: Any) -> None:
    document = image_document()
    document.update(problem="regression", notes=[], views=[view("rollout", None, [0.0] * PATCHES)])
    document["classes"] = [{"index": 0, "label": "score", "logit": -1.5, "probability": None}]
    document["image"]["grid"] = [4, 9]
    page = open_report(document)
    assert page.locator("div.why-class").inner_text().split() == ["score", "\u22121.5"]
    press(page, "Patches")
    assert coloured(page) == []
    assert page.get_by_text("Side by side").count() == 0
