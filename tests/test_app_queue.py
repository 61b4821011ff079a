"""The bounded queue: a clean 503 when it is full, places freed by clients that leave."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from serving import running, wait_for
from test_app_image import settled
from whyformer.app import incoming
from whyformer.app.examples import picture
from whyformer.app.refusals import RefusalError
from whyformer.app.server import make_app
from whyformer.app.worker import ARRIVING, AbandonedError, Job, Worker
from whyformer.methods import registry
from whyformer.methods.registry import Method
from whyformer.render.document import document
from whyformer.render.sheets import make_sheet

QUESTION = {"text": "a film", "methods": ["patient", "counted"]}


class Gate:
    """Two methods for tests: one that waits to be let through, and one that is counted."""

    def __init__(self) -> None:
        self.entered, self.opened, self.counted = threading.Event(), threading.Event(), 0

    def patient(self, question: Any) -> Any:
        self.entered.set()
        assert self.opened.wait(30)
        return question.pool(question.attention[-1].mean(1))

    def count(self, question: Any) -> Any:
        self.counted += 1
        return question.pool(question.attention[-1].mean(1))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    for name, function in (("patient", gate.patient), ("counted", gate.count)):
        method = Method(name, "for tests", function, on_request=True)
        monkeypatch.setitem(registry._METHODS, name, method)
    yield gate
    gate.opened.set()


def taken(url: str) -> int:
    return httpx2.get(f"{url}/api/v1/health").json()["taken"]


def post(url: str, question: dict[str, Any] = QUESTION) -> httpx2.Response:
    return httpx2.post(f"{url}/api/v1/explain", json=question, timeout=60)


def test_a_full_queue_says_when_to_come_back(models: list[Any], gate: Gate) -> None:
    with running(make_app(models, places=2)) as url, ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(post, url) for _ in range(2)]
        wait_for(lambda: taken(url) == 2)
        refused = post(url)
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        assert "try again" in refused.json()["error"]
        gate.opened.set()
        assert [answer.result().status_code for answer in waiting] == [200, 200]
        assert (taken(url), gate.counted) == (0, 2)


def test_clients_that_leave_free_their_places(models: list[Any], gate: Gate) -> None:
    async def leave(url: str) -> None:
        async with httpx2.AsyncClient() as client:
            asks = [
                asyncio.create_task(client.post(f"{url}/api/v1/explain", json=QUESTION))
                for _ in range(3)
            ]
            await asyncio.to_thread(wait_for, lambda: gate.entered.is_set() and taken(url) == 3)
            for ask in asks:
                ask.cancel()
            await asyncio.gather(*asks, return_exceptions=True)

    with running(make_app(models, places=3)) as url:
        asyncio.run(leave(url))
        wait_for(lambda: taken(url) == 1)
        gate.opened.set()
        wait_for(lambda: taken(url) == 0)
        assert gate.counted == 0
        assert post(url).status_code == 200


def half_a_body(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    line = socket.create_connection((host, int(port)), 20)
    head = "POST /api/v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
    line.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
    return line


def test_bodies_that_never_end_keep_nobody_waiting(models: list[Any]) -> None:
    """One place, and four bodies that do not arrive: a fifth request has its answer."""
    app = make_app(models, places=1)
    with running(app) as url, ExitStack() as lines:
        for _ in range(4):
            lines.enter_context(half_a_body(url))
        assert post(url, {"text": "a film"}).status_code == 200


def test_bodies_are_read_so_many_at_once(models: list[Any]) -> None:
    with running(make_app(models, places=1)) as url, ExitStack() as lines:
        for _ in range(ARRIVING):
            lines.enter_context(half_a_body(url))
        wait_for(lambda: post(url, {"text": "a film"}).status_code == 503)
        lines.close()
        wait_for(lambda: post(url, {"text": "a film"}).status_code == 200)


def test_a_body_that_never_ends_is_waited_for_a_while_only(
    models: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "PATIENCE", 0.3)
    with running(make_app(models, places=1)) as url, half_a_body(url) as line:
        assert line.recv(30).startswith(b"HTTP/1.1 408")


def test_the_page_cancels(models: list[Any], gate: Gate, browser: Any) -> None:
    with running(make_app(models)) as url:
        page = browser.new_page()
        page.goto(f"{url}/#model=demo-text")
        settled(page, "Why “negative”, why “positive”?")
        page.get_by_text("More methods").click()
        page.locator("[data-method=patient]").click()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("status").get_by_text("Cancelled.").wait_for()
        gate.opened.set()
        wait_for(lambda: taken(url) == 0)
        page.locator("[data-method=counted]").click()
        page.locator("[data-method=counted][aria-pressed=true]").wait_for()
        page.close()


def test_typing_on_abandons_what_was_asked_before(
    models: list[Any], gate: Gate, browser: Any
) -> None:
    with running(make_app(models, places=2)) as url:
        page = browser.new_page()
        page.goto(f"{url}/#model=demo-text&method=patient")
        page.locator("#text").fill("one")
        wait_for(lambda: page.evaluate("1") and gate.entered.is_set())
        for text in ("one film", "one film more", "one film more than that"):
            page.locator("#text").fill(text)
            page.wait_for_timeout(400)
        gate.opened.set()
        page.locator("#view .why-stage", has_text="more than that").first.wait_for()
        wait_for(lambda: taken(url) == 0)
        page.close()


def test_the_page_tries_again_when_the_server_is_busy(
    models: list[Any], gate: Gate, browser: Any
) -> None:
    with running(make_app(models, places=1)) as url, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(post, url)
        wait_for(lambda: taken(url) == 1)
        page = browser.new_page()
        with page.expect_response(lambda answer: answer.status == 503):
            page.goto(f"{url}/#model=demo-text")
        gate.opened.set()
        settled(page, "Why “negative”, why “positive”?")
        assert waiting.result().status_code == 200
        page.close()


def test_a_job_called_off_lets_go_of_its_work() -> None:
    job: Job[int] = Job(lambda check: 1)
    job.check()
    job.call_off()
    with pytest.raises(AbandonedError):
        job()
    with pytest.raises(AbandonedError):
        job.check()


def test_places_come_back_after_errors() -> None:
    worker = Worker(1)
    with pytest.raises(ValueError, match="inside"), worker.place():
        raise ValueError("inside")
    with worker.place(), pytest.raises(RefusalError), worker.place():
        pass
    assert worker.taken == 0
    worker.close()


@pytest.mark.slow
def test_sixteen_clients_at_once(models: list[Any]) -> None:
    """A short run of what `benchmarks/serve.py` does for a minute."""
    expected = document(make_sheet(models[1].record("a film 3").compare(0), model="demo-text"))
    scores = [view["scores"] for view in expected["views"]]
    image = picture("two digits")
    until = time.monotonic() + 4
    statuses: list[int] = []

    def ask(number: int) -> None:
        with httpx2.Client(base_url=url, timeout=60) as client:
            while time.monotonic() < until:
                if number % 2:
                    files, fields = {"image": ("a.png", image)}, {"targets": [str(number % 10)]}
                    answer = client.post("/api/v1/explain", files=files, data=fields)
                else:
                    methods = [view["method"] for view in expected["views"]]
                    body = {"text": "a film 3", "targets": [0], "methods": methods}
                    answer = client.post("/api/v1/explain", json=body)
                    if answer.status_code == 200:
                        assert [view["scores"] for view in answer.json()["views"]] == scores
                statuses.append(answer.status_code)

    with running(make_app(models, places=8)) as url, ThreadPoolExecutor(16) as threads:
        for done in [threads.submit(ask, number) for number in range(16)]:
            done.result()
        assert taken(url) == 0
    assert set(statuses) == {200, 503}
    assert statuses.count(200) > 10
    assert len(os.listdir("/proc/self/fd")) < 200
