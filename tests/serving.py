"""A server for tests: the embedded models behind a real socket, and a browser before it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def running(app: Any) -> Iterator[str]:
    """The address of an application that runs in a thread of this process."""
    from whyformer.app.connections import Server
    from whyformer.app.server import listen

    with listen("127.0.0.1", 0) as listening:
        server = Server(app, getattr(app, "working", int))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        wait_for(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def models() -> list[Any]:
    import whyformer

    return [whyformer.load("demo-vision"), whyformer.load("demo-text")]


@pytest.fixture(scope="module")
def address(models: list[Any]) -> Iterator[str]:
    from whyformer.app.server import make_app

    with running(make_app(models)) as url:
        yield url


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    import httpx2

    with httpx2.Client(base_url=f"{address}/api/v1", timeout=60) as client:
        yield client


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open the page; afterwards nothing may have been logged, thrown or asked of other hosts.

    ``refused`` is a status that the browser may log.
    """
    events: list[str] = []
    contexts = []
    expected = []

    def open_page(
        settings: str = "", width: int = 1180, scheme: str = "light", refused: int = 0
    ) -> Any:
        expected.extend([f"status of {refused} ("] if refused else [])
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            permissions=["clipboard-read", "clipboard-write"],
            accept_downloads=True,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("request", lambda request: events.append(request.url))
        page.on("dialog", lambda dialog: (events.append(dialog.message), dialog.dismiss()))
        page.on("console", lambda message: events.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: events.append(f"error: {error}"))
        page.goto(f"{address}/{settings}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    own = (f"{address}/", f"blob:{address}/", "data:image/png;", "data:audio/wav;")
    events = [event for event in events if not event.startswith(own)]
    assert [event for event in events if not any(part in event for part in expected)] == []
