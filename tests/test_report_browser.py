"""The HTML report, driven as a reader would: in a browser, from a file, without a network."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from browsing import background, press, question, reading
from whyformer.render.report import report_html

SCRIPT = "<script>alert(1)</script>"
PICTURE = '"><img src=x onerror=alert(1)>'
TITLE = "</title><b>"
SIDE = 6
PATCHES = SIDE * SIDE

Document = dict[str, Any]


def shifted_rows(count: int) -> Document:
    """The matrix in which every token gathered 0.5 from the next one, and nothing else."""
    cells = bytearray(count * count)
    for i in range(count):
        cells[i * count + (i + 1) % count] = 255
    return {"scale": [0.5] * count, "data": base64.b64encode(cells).decode()}


def view(method: str, target: int | None, scores: list[float], rows: bool = True) -> Document:
    return {
        "method": method,
        "class_specific": target is not None,
        "target": target,
        "label": None if target is None else f"label {target}",
        "scores": scores,
        "rows": shifted_rows(len(scores)) if rows else None,
    }


def peak(index: int, value: float = 0.75, rest: float = 0.0) -> list[float]:
    return [value if i == index else rest for i in range(PATCHES)]


def image_document() -> Document:
    stream = io.BytesIO()
    Image.new("RGB", (96, 96), (120, 140, 160)).save(stream, "PNG")
    classes = [(3, "three", 0.7), (8, "eight", 0.25), (1, "one", 0.05)]
    return {
        "kind": "image",
        "title": "scene.png",
        "model": "demo-vision",
        "preset": "stable",
        "problem": "single_label_classification",
        "classes": [
            {"index": i, "label": label, "logit": 1.0, "probability": p} for i, label, p in classes
        ],
        "notes": ["a note"],
        "image": {
            "src": "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode(),
            "width": 96,
            "height": 96,
            "grid": [SIDE, SIDE],
        },
        "heat": ["#180a3a", "#e25852", "#fdf1af"],
        "views": [
            view("transformer_attribution", 3, peak(7)),
            view("transformer_attribution", 8, peak(28)),
            view("lrp", 3, peak(7, -0.5, 0.01), rows=False),
            view("lrp", 8, peak(28, 0.5), rows=False),
            view("rollout", None, peak(14)),
        ],
    }


def text_document() -> Document:
    def piece(text: str, gap: str, word: int | None) -> Document:
        return {"text": text, "gap": gap, "word": word, "content": word is not None}

    return {
        "kind": "text",
        "title": TITLE,
        "model": PICTURE,
        "preset": "stable",
        "problem": "single_label_classification",
        "classes": [
            {"index": 1, "label": PICTURE, "logit": 2.0, "probability": 0.9},
            {"index": 0, "label": "negative", "logit": -2.0, "probability": 0.1},
        ],
        "notes": [SCRIPT],
        "pieces": [
            piece("[CLS]", "", None),
            piece(SCRIPT, "", 0),
            piece("joy", "\n", 1),
            piece("less", "", 1),
            piece("film", "  ", 2),
            piece("[SEP]", "", None),
        ],
        "views": [
            view("transformer_attribution", 1, [0.0, 0.4, 0.1, 0.2, 0.0, 0.3]),
            view("transformer_attribution", 0, [0.0, 0.0, 0.1, 0.8, 0.05, 0.05]),
            view("lrp", 1, [0.0, 0.5, -0.4, -0.2, 0.1, 0.0], rows=False),
            view("lrp", 0, [0.0, 0.1, 0.2, 0.3, 0.4, 0.0], rows=False),
        ],
    }


@pytest.fixture
def open_report(tab: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a document; afterwards nothing may have happened but reading the file."""
    page, events = tab
    path = tmp_path / "report.html"

    def open_document(document: Document, width: int = 1100, scheme: str = "light") -> Any:
        path.write_text(report_html(document), encoding="utf-8")
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.mouse.move(0, 0)
        events.clear()
        page.goto(path.as_uri())
        return page

    yield open_document
    assert [event for event in events if not event.startswith("request: data:")] == [
        f"request: {path.as_uri()}"
    ]


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
