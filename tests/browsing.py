"""A browser for tests, and what a reader does in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    """Skip, except where the browser was promised."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        unavailable("no chromium on this machine")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[tuple[Any, list[str]]]:
    """A browser's only page, and what it fetched, logged, threw and popped up."""
    events: list[str] = []

    def on_dialog(dialog: Any) -> None:
        events.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page = browser.new_page()
    page.set_default_timeout(5000)
    page.on("request", lambda request: events.append(f"request: {request.url}"))
    page.on("dialog", on_dialog)
    page.on("console", lambda message: events.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: events.append(f"error: {error}"))
    yield page, events
    page.close()


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def question(page: Any) -> str:
    return page.locator(".why-question").inner_text()


def reading(page: Any) -> str:
    return page.locator(".why-read").first.inner_text().replace("\u00a0", " ")


def background(page: Any, word: str) -> str:
    unit = page.locator(".why-unit", has_text=word).first
    return unit.evaluate("(span) => getComputedStyle(span).backgroundColor")


@pytest.fixture
def open_report(tab: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a document; afterwards nothing may have happened but reading the file."""
    from whyformer.render.report import report_html

    page, events = tab
    path = tmp_path / "report.html"

    def open_document(document: dict[str, Any], width: int = 1100, scheme: str = "light") -> Any:
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
