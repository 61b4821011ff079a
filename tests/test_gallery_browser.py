"""The page of a folder, as a reader uses it: in a browser, by mouse and by keyboard."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import Run, draw, rows_of
from galleries import HOSTILE, RECORDS, SCRIPT

Open = Callable[..., Any]


@pytest.fixture
def open_gallery(tab: tuple[Any, list[str]]) -> Open:
    """Open a folder's page; nothing may be fetched, logged, thrown or popped up."""
    page, events = tab

    def show(folder: Path, width: int = 1100, scheme: str = "light") -> Any:
        events.clear()
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.goto((folder / "index.html").as_uri())
        fetched = [event for event in events if not event.startswith("request: data:")]
        assert fetched == [f"request: {(folder / 'index.html').as_uri()}"]
        return page

    return show


def shown(page: Any) -> list[str]:
    return page.locator(".why-card .why-file").all_inner_texts()


class TestPage:
    def test_filters(self, run: Run, digits: Path, tmp_path: Path, open_gallery: Open) -> None:
        run("explain", digits, "--out", tmp_path / "maps")
        page = open_gallery(tmp_path / "maps")
        assert "3 of 4 right (75.0\u00a0%)" in page.locator(".why-meta").inner_text()
        every = ["3/a.png", "3/b.png", "8/a.png", "8/b.png"]
        assert shown(page) == every
        assert page.locator(".why-mean figcaption").all_inner_texts() == ["8 2\u00a0images"]
        page.get_by_label("Mistakes only").check()
        assert shown(page) == ["3/b.png"]
        card = page.locator(".why-card")
        assert card.locator(".why-mark").get_attribute("aria-label") == "mistake"
        assert "true: 3" in card.inner_text()
        assert page.get_by_role("status").inner_text() == "1 of 4\u00a0inputs"
        page.get_by_label("Mistakes only").uncheck()
        page.get_by_label("Predicted").select_option(label="8 (2)")
        assert shown(page) == every[2:]
        page.get_by_label("Predicted").select_option(label="all")
        page.get_by_label("True class").select_option(label="3 (2)")
        assert shown(page) == every[:2]
        page.get_by_label("True class").select_option(label="all")
        page.get_by_label("Search names").fill("B.PNG")
        assert shown(page) == ["3/b.png", "8/b.png"]
        page.get_by_label("Search names").fill("")
        rows = sorted(rows_of(tmp_path / "maps"), key=lambda r: float(r["predicted_probability"]))
        page.get_by_label("Sort by").select_option(label="least sure first")
        assert shown(page) == [row["file"] for row in rows]
        page.get_by_label("Sort by").select_option(label="surest first")
        assert shown(page) == [row["file"] for row in reversed(rows)]

    def test_by_keyboard(self, run: Run, digits: Path, tmp_path: Path, open_gallery: Open) -> None:
        run("explain", digits, "--out", tmp_path / "maps", "--format", "html")
        page = open_gallery(tmp_path / "maps")
        page.get_by_label("Search names").focus()
        for _ in range(4):
            page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert shown(page) == ["3/b.png"]
        page.keyboard.press("Tab")
        outline = page.locator(":focus").evaluate("(node) => getComputedStyle(node).outlineStyle")
        assert outline == "solid"
        page.keyboard.press("Enter")
        page.wait_for_url((tmp_path / "maps" / "3" / "b.html").as_uri())

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_narrow(
        self, run: Run, sentences: Path, tmp_path: Path, open_gallery: Open, scheme: str
    ) -> None:
        run("explain", "--lines", sentences, "--out", tmp_path / "texts")
        page = open_gallery(tmp_path / "texts", 390, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 20, 26)")
        strongest = page.locator(".why-unit", has_text="joyless").first
        colour = strongest.evaluate("(node) => getComputedStyle(node).backgroundColor")
        assert colour not in ("rgba(0, 0, 0, 0)", ground)
        assert page.get_by_text("Mistakes only").count() == 0

    def test_hostile_names_and_texts(
        self, run: Run, sentences: Path, tmp_path: Path, open_gallery: Open
    ) -> None:
        for name in (HOSTILE, "javascript:alert(1).png"):
            draw(tmp_path / "photos" / name, 1)
        for given, out in ((["--lines", sentences], "texts"), ([tmp_path / "photos"], "<b>maps")):
            assert run("explain", *given, "--out", tmp_path / out, "--format", "html")[0] == 0
        page = open_gallery(tmp_path / "<b>maps")
        assert page.locator("h1").inner_text() == "<b>maps"
        assert page.locator(".why-file").first.text_content() == HOSTILE
        assert page.locator("script").count() == 2
        assert page.locator(".why-file *, h1 *").count() == 0
        for number in (0, 1):
            page.locator(".why-card a").nth(number).click()
            page.locator(".why-stage").first.wait_for()
            assert page.locator(".why-viewer").count() == 1
            page.go_back()
        page = open_gallery(tmp_path / "texts")
        written = page.locator(".why-stage-text").nth(2).text_content()
        assert written.replace("[UNK]", "") == SCRIPT
        page.get_by_label("Search names and texts").fill("<SCRIPT>")
        assert shown(page) == ["00003"]

    def test_many_inputs_come_as_they_are_reached(
        self, run: Run, digits: Path, tmp_path: Path, open_gallery: Open
    ) -> None:
        from whyformer.render.gallery import write_gallery

        run("explain", digits, "--out", tmp_path / "maps")
        lines = (tmp_path / "maps" / RECORDS).read_text().splitlines()
        some = [json.loads(line) for line in lines]
        many = [{**some[i % 4], "file": f"{i:04d}"} for i in range(600)]
        write_gallery(tmp_path / "maps", lambda: many)
        page = open_gallery(tmp_path / "maps")
        assert page.locator(".why-card").count() < 600
        before = page.locator(".why-card").count()
        page.locator(".why-further").scroll_into_view_if_needed()
        page.locator(".why-card").nth(before).wait_for()
        page.get_by_label("Search names").fill("0599")
        assert shown(page) == ["0599"]
        assert page.get_by_role("button", name="Show more").is_hidden()
