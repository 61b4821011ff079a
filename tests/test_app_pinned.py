"""An explanation that is kept beside the next ones."""

from __future__ import annotations

from typing import Any

import pytest

from browsing import press
from test_app_image import WHY, centre, heat, settled
from test_app_text import TEXT, type_text


def kept(page: Any) -> str:
    return page.locator("#pinned .why-title").inner_text()


def places(page: Any) -> list[dict[str, float]]:
    return [
        page.locator(f"{root} .why-stage").first.bounding_box() for root in ("#pinned", "#view")
    ]


def test_an_explanation_stays_while_one_asks_about_another_input(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    assert page.locator("#pinned").is_hidden()
    press(page, "Patches")
    shown = [heat(page, panel) for panel in (0, 1)]
    press(page, "Keep to compare")
    assert [heat(page, panel, "#pinned") for panel in (0, 1)] == shown
    page.get_by_role("button", name="two more").click()
    settled(page, "Why “0”")
    assert (kept(page), page.locator("#view .why-title").inner_text()) == ("two digits", "two more")
    assert page.locator("#pinned .why-question").inner_text() == WHY
    assert "72.3" in page.locator("#pinned .why-caption").first.inner_text()
    assert [heat(page, panel, "#pinned") for panel in (0, 1)] == shown
    left, right = places(page)
    assert left["x"] + left["width"] < right["x"]
    page.locator("#pinned .why-stage").first.click(position=centre(page, 100, "#pinned"))
    assert "gathered from the others" in page.locator("#pinned .why-question").inner_text()
    settled(page, "Why “0”")


def test_one_is_kept_at_most_and_can_be_removed(visit: Any) -> None:
    page = visit(TEXT)
    settled(page, "Why “negative”, why “positive”?")
    press(page, "Keep to compare")
    type_text(page, "A gorgeous film")
    press(page, "Keep to compare")
    assert page.locator("#pinned .why-viewer").count() == 1
    assert kept(page) == "A gorgeous film"
    page.locator("#models button", has_text="demo-vision").click()
    settled(page, WHY)
    assert kept(page) == "A gorgeous film"
    press(page, "Remove")
    assert page.locator("#pinned").is_hidden()
    assert page.locator("#pinned .why-viewer").count() == 0
    assert page.locator(":focus").inner_text() == "Keep to compare"
    assert page.locator("#view .why-title").is_hidden()


@pytest.mark.parametrize("width", [375, 900])
def test_on_a_narrow_screen_one_stands_below_the_other(visit: Any, width: int) -> None:
    page = visit(width=width)
    settled(page, WHY)
    press(page, "Keep to compare")
    above, below = places(page)
    assert above["y"] + above["height"] < below["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
