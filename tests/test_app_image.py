"""The web page with pictures, driven as a visitor would."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import whyformer
from browsing import press, question, reading
from serving import wait_for
from whyformer.app.examples import picture

SIDE = 12
WHY = "Why “8”, why “4”?"


def settled(page: Any, expected: str) -> None:
    """Wait until the page answers this question."""
    page.locator("#view .why-question", has_text=expected).wait_for()
    page.locator("#view:not([aria-busy])").wait_for()


def pressed(page: Any, what: str) -> list[str]:
    chips = page.locator(f"#view [data-{what}][aria-pressed=true]")
    return [chip.get_attribute(f"data-{what}") for chip in chips.all()]


def heat(page: Any, panel: int = 0, root: str = "#view") -> str:
    """A map's pixels, to tell maps apart."""
    canvas = page.locator(f"{root} canvas").nth(panel)
    return canvas.evaluate("(canvas) => canvas.toDataURL()")


def centre(page: Any, patch: int, root: str = "#view") -> dict[str, float]:
    box = page.locator(f"{root} .why-stage").first.bounding_box()
    row, column = divmod(patch, SIDE)
    return {"x": (column + 0.5) * box["width"] / SIDE, "y": (row + 0.5) * box["height"] / SIDE}


def test_an_example_waits_explained_for_the_class_and_the_runner_up(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    assert pressed(page, "class") == ["8", "4"]
    assert page.locator("#view .why-stage").count() == 2
    assert "72.3" in page.locator("[data-class='8']").inner_text()
    assert heat(page, 0) != heat(page, 1)
    page.get_by_role("button", name="one digit").click()
    settled(page, "Why “1”")


def test_the_last_two_classes_clicked_stand_side_by_side(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    eight = heat(page)
    page.locator("[data-class='9']").click()
    settled(page, "Why “8”, why “9”?")
    assert heat(page) == eight
    page.locator("[data-class='5']").click()
    settled(page, "Why “5”, why “9”?")
    assert page.locator(":focus").get_attribute("data-class") == "5"
    page.locator("[data-class='5']").click()
    settled(page, "Why “9”?")
    assert page.locator("#view .why-stage").count() == 1
    page.locator("[data-class='9']").click()
    assert question(page) == "Why “9”?"


def test_the_search_reaches_every_class(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    assert page.locator("[data-class='3']").count() == 0
    box = page.get_by_label("Search all 10 classes")
    box.fill("3")
    page.locator(".found button", has_text="3").click()
    settled(page, "Why “8”, why “3”?")
    assert page.locator("[data-class='3']").get_attribute("aria-pressed") == "true"
    assert box.input_value() == ""
    box.fill("zebra")
    page.get_by_text("No class holds these letters").wait_for()


def test_methods_presets_and_all_of_them(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    first = heat(page)
    page.locator("[data-method=gradcam]").click()
    page.locator("[data-method=gradcam][aria-pressed=true]").wait_for()
    assert heat(page) != first
    page.get_by_text("More methods").click()
    page.locator("[data-method=attention_flow]").click()
    settled(page, "Where it looked, whatever the class")
    assert page.locator("#view .why-stage").count() == 1
    page.locator("[data-method=transformer_attribution]").click()
    settled(page, WHY)
    page.get_by_label("Preset").select_option("reference")
    wait_for(lambda: heat(page) != first)
    page.get_by_role("button", name="All methods").click()
    page.locator(".why-part").nth(2).wait_for()
    assert page.locator("#view .why-stage").count() == 14
    assert pressed(page, "method") == []
    page.get_by_role("button", name="All methods").click()
    wait_for(lambda: page.locator("#view .why-stage").count() == 2)


def test_opacity_patches_and_a_patches_own_row(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    page.locator("#view").get_by_label("Opacity").fill("30")
    assert page.locator("#view canvas").first.evaluate("(c) => c.style.opacity") == "0.3"
    press(page, "Patches")
    classes = heat(page)
    page.locator("#view .why-stage").first.click(position=centre(page, 100))
    assert question(page) == "What the patch in row 9, column 5 gathered from the others"
    assert heat(page) != classes
    assert "the token itself" in reading(page)
    page.locator("[data-class='9']").click()
    page.locator("[data-class='9'][aria-pressed=true]").wait_for()
    assert "row 9, column 5" in question(page)
    page.keyboard.press("Escape")
    assert question(page) == "Why “8”, why “9”?"
    assert page.locator("#view canvas").first.evaluate("(c) => c.style.opacity") == "0.3"


def test_a_file_a_drop_and_a_paste(visit: Any, tmp_path: Path) -> None:
    page = visit("#model=demo-text")
    page.locator("#text").wait_for()
    data = base64.b64encode(picture("one digit")).decode()
    give = """([kind, data]) => {
      const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
      const carried = new DataTransfer();
      carried.items.add(new File([bytes], `${kind}.png`, { type: "image/png" }));
      if (kind === "paste") {
        dispatchEvent(new ClipboardEvent("paste", { clipboardData: carried, bubbles: true }));
      } else {
        const options = { dataTransfer: carried, bubbles: true, cancelable: true };
        document.body.dispatchEvent(new DragEvent("dragover", options));
        if (!document.body.classList.contains("dropping")) throw new Error("no sign of a drop");
        document.body.dispatchEvent(new DragEvent("drop", options));
      }
    }"""
    for kind in ("drop", "paste"):
        page.evaluate(give, [kind, data])
        page.locator("#file-name", has_text=f"{kind}.png").wait_for()
        settled(page, "Why “1”")
    path = tmp_path / "<img src=x onerror=alert(1)>.png"
    path.write_bytes(picture("two more"))
    page.locator("#file").set_input_files(path)
    settled(page, "Why “0”")
    assert page.locator("#file-name").inner_text() == path.name
    assert page.locator("#file-name *").count() == 0


def test_what_is_no_picture_is_refused_in_a_sentence(visit: Any, tmp_path: Path) -> None:
    page = visit(refused=415)
    settled(page, WHY)
    path = tmp_path / "words.png"
    path.write_text("no picture")
    with page.expect_response("**/explain") as answered:
        page.locator("#file").set_input_files(path)
    assert answered.value.status == 415
    assert "not an image" in page.get_by_role("alert").first.inner_text()
    page.get_by_role("button", name="one digit").click()
    settled(page, "Why “1”")
    assert page.get_by_role("alert").count() == 0


def test_downloads(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    saved = {}
    for name in ("PNG", "HTML", "JSON"):
        with page.expect_download() as started:
            page.get_by_role("button", name=name, exact=True).click()
        assert started.value.suggested_filename == f"why.{name.lower()}"
        saved[name] = Path(started.value.path()).read_bytes()
    assert Image.open(io.BytesIO(saved["PNG"])).width > 900
    assert [view["target"] for view in json.loads(saved["JSON"])["views"]] == [8, 4]
    assert b"whyformerViewer(" in saved["HTML"]


def test_the_address_restores_the_view(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    page.get_by_role("button", name="two more").click()
    settled(page, "Why “0”")
    page.locator("[data-class]").nth(2).click()
    page.locator("[data-class]").nth(2).and_(page.locator("[aria-pressed=true]")).wait_for()
    asked = question(page)
    page.locator("[data-method=generic_attention]").click()
    page.locator("[data-method=generic_attention][aria-pressed=true]").wait_for()
    press(page, "Patches")
    page.locator("#view").get_by_label("Opacity").fill("40")
    shown = [heat(page, panel) for panel in (0, 1)]
    page.get_by_role("button", name="Link", exact=True).click()
    page.get_by_role("status").get_by_text("Copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    wait_for(lambda: page.evaluate("location.href") == link)

    other = visit(link.partition("/#")[2].join(["#", ""]))
    settled(other, asked)
    assert [heat(other, panel) for panel in (0, 1)] == shown
    assert pressed(other, "method") == ["generic_attention"]
    assert other.get_by_role("button", name="two more").get_attribute("aria-pressed") == "true"
    other.evaluate("location.hash = '#model=demo-vision&example=one%20digit&all=1'")
    other.locator(".why-part").first.wait_for()
    assert pressed(other, "class")[0] == "1"


@pytest.mark.parametrize("settings", ["#model=nobody&class=x", "#text=%00", "#class=999999"])
def test_a_damaged_address_still_opens(visit: Any, settings: str) -> None:
    page = visit(refused=422)
    settled(page, WHY)
    page.evaluate("(settings) => { location.hash = settings; }", settings)
    if "999999" in settings:
        page.get_by_role("alert").get_by_text("class 999999 of a model with 10").wait_for()
    else:
        settled(page, WHY)


def test_code_and_command_are_copied(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    page.get_by_role("button", name="Python").click()
    page.get_by_role("status").get_by_text("Copied.").wait_for()
    assert "target=[[8, 4]]" in page.evaluate("navigator.clipboard.readText()")
    page.get_by_role("button", name="Command line").click()
    wait_for(lambda: "--target=8 --target=4" in page.evaluate("navigator.clipboard.readText()"))
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Python").click()
    page.get_by_role("dialog").wait_for()
    assert page.locator("#copying-text").input_value().startswith("import whyformer")
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0


def test_inside_the_model(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    page.locator("#inside summary").click()
    inside = page.locator("#inside-view")
    inside.locator(".why-stage").nth(3).wait_for()
    names = ["attention", "gradient", "relevance", "product"]
    assert inside.locator(".why-caption").all_inner_texts() == names
    assert page.locator("#block-name").inner_text() == "5 of 5"
    mean = heat(page, 1, "#inside-view")

    def changes(act: Any) -> str:
        before = heat(page, 1, "#inside-view")
        act()
        wait_for(lambda: heat(page, 1, "#inside-view") != before)
        return heat(page, 1, "#inside-view")

    changes(lambda: page.locator("#block").fill("2"))
    assert page.locator("#block-name").inner_text() == "2 of 5"
    changes(lambda: page.locator("#heads button", has_text="3").click())
    assert page.locator("#heads [aria-pressed=true]").inner_text() == "3"
    changes(lambda: page.locator("#inside-classes button", has_text="4").click())
    changes(lambda: inside.locator(".why-stage").first.click(position={"x": 30, "y": 30}))
    assert "gathered from the others" in inside.locator(".why-question").inner_text()
    page.keyboard.press("Escape")
    changes(lambda: page.locator("#inside-classes button", has_text="8").click())
    changes(lambda: page.locator("#heads button", has_text="Mean").click())
    assert changes(lambda: page.locator("#block").fill("5")) == mean


def test_the_keyboard_alone(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the explanation"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.locator(":focus").get_attribute("data-class") == "8"
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    settled(page, "Why “8”, why “9”?")
    assert page.locator(":focus").get_attribute("data-class") == "9"
    outline = page.locator(":focus").evaluate("(node) => getComputedStyle(node).outlineStyle")
    assert outline == "solid"
    assert page.get_by_role("status").first.inner_text() == "Why “8”, why “9”?"


def test_skipping_to_the_explanation_keeps_the_question(visit: Any) -> None:
    page = visit("#model=demo-vision&class=9&opacity=30")
    settled(page, "Why “9”?")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(":focus").get_attribute("id") == "view"
    assert page.url.endswith("class=9&opacity=30")
    settled(page, "Why “9”?")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_sideways_scrolling(visit: Any, scheme: str) -> None:
    page = visit("#model=demo-vision&all=1", width=375, scheme=scheme)
    page.locator(".why-part").first.wait_for()
    page.locator("#inside summary").click()
    page.locator("#inside-view .why-stage").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 20, 26)"}[scheme]


def test_a_link_without_its_picture_says_what_it_asks(browser: Any, tmp_path: Path) -> None:
    from serving import running
    from small_images import save_vit
    from whyformer.app.server import make_app

    why = whyformer.load(save_vit(tmp_path / "my-vit"))
    label = (why.labels or [])[2]
    with running(make_app([why])) as url:
        page = browser.new_page()
        page.goto(f"{url}/#model=my-vit&class=2")
        page.get_by_text(f"Drop a picture to ask: why “{label}”?").wait_for()
        assert page.locator("#models button").inner_text().startswith("my-vit")
        page.close()
        page = browser.new_page()
        page.goto(f"{url}/#model=other")
        page.get_by_role("alert").get_by_text("a model named “other”, which is not here").wait_for()
        page.close()
