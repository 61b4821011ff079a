"""Connections that are slow or left, the end of the server, and the memory that it keeps."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

import whyformer
from command_line import start
from serving import running, wait_for
from whyformer.app import connections
from whyformer.app.recordings import RecordingCache
from whyformer.app.server import make_app
from whyformer.app.worker import AbandonedError, Worker

HEAD = b"POST /api/v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
#: a method of one's own that takes half a minute
SLOW = """
import time
import whyformer

@whyformer.register("slow", "takes its time", class_specific=False)
def slow(question):
    time.sleep(30)
    return question.roll_out(question.attention)
"""


def line_to(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 10)


@pytest.mark.parametrize("sent", ["", "GET /api/v1/health HTTP/1.1\r\nHost: local"])
def test_half_sent_headers_are_not_waited_for(
    models: list[Any], monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.3)
    with running(make_app(models)) as url, line_to(url) as line:
        line.sendall(sent.encode())
        assert line.recv(30) == b""


def test_half_a_second_request_on_a_connection_that_is_kept(
    models: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    whole = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(make_app(models)) as url, line_to(url) as line:
        line.sendall(whole)
        assert line.recv(10_000).startswith(b"HTTP/1.1 200")
        line.sendall(whole[:20])
        started = time.monotonic()
        try:
            while line.recv(10_000):
                line.sendall(b"G")
        except ConnectionError:
            pass
        assert time.monotonic() - started < 4


def test_work_that_takes_longer_than_headers_may(
    models: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is of the headers, not of the answer."""
    from whyformer.app import answers

    usual = answers.make_sheet

    def slowly(*given: Any, **how: Any) -> Any:
        time.sleep(0.6)
        return usual(*given, **how)

    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    monkeypatch.setattr(answers, "make_sheet", slowly)
    with running(make_app(models)) as url:
        asked = {"text": "a film", "model": "demo-text"}
        assert httpx2.post(f"{url}/api/v1/explain", json=asked, timeout=30).status_code == 200


def test_an_abandoned_job_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> None:
        worker = Worker(2)

        def work(check: Any) -> None:
            time.sleep(0.1)
            check()

        with pytest.raises(AbandonedError):
            await worker.run(work, asyncio.sleep(0.01))
        worker.close()

    with caplog.at_level(logging.DEBUG, "asyncio"):
        asyncio.run(leave())
        gc.collect()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_stops_at_once(tmp_path: Path, kind: signal.Signals) -> None:
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    server = start("serve", "--model", "demo-text", "--port", "0", "--methods-from", file)
    try:
        url = server.stdout.readline().decode().split()[3].rstrip("/")
        asked = b'{"text": "a film", "methods": ["slow"]}'
        with line_to(url) as line:
            line.sendall(HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(asked), asked))
            wait_for(lambda: httpx2.get(f"{url}/api/v1/health").json()["taken"] == 1)
            server.send_signal(kind)
            assert server.stderr.readline().startswith(b"whyformer: finishing 1 request; ")
            server.send_signal(kind)
            _, rest = server.communicate(timeout=10)
        assert rest == b"whyformer: stopped\n"
        assert server.returncode == 128 + kind
    finally:
        server.kill()
        server.communicate()


@pytest.mark.slow
def test_an_idle_server_ends_at_the_first_signal() -> None:
    server = start("serve", "--model", "demo-vision", "--port", "0")
    url = server.stdout.readline().decode().split()[3].rstrip("/")
    assert httpx2.get(f"{url}/api/v1/health").status_code == 200
    server.send_signal(signal.SIGINT)
    _, said = server.communicate(timeout=20)
    assert said == b"whyformer: interrupted\n"
    assert server.returncode == 130


def texts(cache: RecordingCache, *given: str) -> list[str]:
    """Read texts; those that are still kept."""
    why = cache.models["demo-text"]
    keys = {text: cache.read(why, text, text).key for text in given}
    return [text for text, key in keys.items() if key in cache._readings]


def test_what_is_kept_is_bounded_in_bytes() -> None:
    why = whyformer.load("demo-text")
    long, longer = "film " * 60, "plot " * 60
    size = why.record(long).bytes
    assert texts(RecordingCache([why], 4, 10 * size), "a film", long, longer) == [
        "a film",
        long,
        longer,
    ]
    assert texts(RecordingCache([why], 4, size // 2), "a film", long, longer) == [longer]
    assert texts(RecordingCache([why], 1, 10 * size), "a film", long, longer) == [longer]


def test_answers_count_as_well() -> None:
    """The maps of what was asked take memory too."""
    why = whyformer.load("demo-text")
    cache = RecordingCache([why], 4, 2 * why.record("film " * 60).bytes)
    reading = cache.read(why, "film " * 60, "")
    before = cache.bytes
    for target in (0, 1):
        reading.recorded.explain(target)
    assert cache.bytes > before


def test_names_that_the_server_is_told_of(models: list[Any]) -> None:
    named = {"Host": "gpubox.lab.example:8000"}
    with running(make_app(models, names=["GPUbox.lab.example"])) as url:
        assert httpx2.get(f"{url}/api/v1/health", headers=named).status_code == 200
        foreign = httpx2.get(f"{url}/api/v1/health", headers={"Host": "evil.example"})
        assert foreign.status_code == 421
        assert "--allow-host" in foreign.json()["error"]
    with running(make_app(models)) as url:
        assert httpx2.get(f"{url}/api/v1/health", headers=named).status_code == 421


def test_an_enormous_body_is_refused_before_it_is_sent(address: str) -> None:
    with line_to(address) as line:
        line.sendall(HEAD + b"Content-Length: 99000000000\r\n\r\n")
        assert line.recv(30).startswith(b"HTTP/1.1 413")
