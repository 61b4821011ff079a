"""What the server refuses, each in a sentence: nothing here may end in an error of its own."""

from __future__ import annotations

import io
import json
import re
import socket
import struct
import zlib
from typing import Any

import httpx2
import pytest
from PIL import Image

from command_line import start
from serving import running
from test_app_api import explained, upload
from whyformer.app.examples import picture
from whyformer.app.guard import Guard, is_loopback
from whyformer.app.incoming import LARGEST_UPLOAD, title_of
from whyformer.app.server import listen, make_app
from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.models.texts import TextPipeline

SCRIPT = "<script>alert(1)</script>"
OUTSIDE = ["../../etc/passwd", "/etc/passwd", "..\\..\\x", "%2e%2e%2f", "file:///etc/passwd", "\0"]


def refused(response: Any, status: int, words: str) -> None:
    assert response.status_code == status, response.text
    assert words in response.json()["error"]
    assert "Traceback" not in response.text


def png_of(width: int, height: int) -> bytes:
    """A picture whose header promises more than its few bytes hold."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 1000)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def test_uploads_have_a_limit(client: Any) -> None:
    refused(upload(client, bytes(LARGEST_UPLOAD + 1)), 413, "larger than 20 MB")


def test_decompression_bombs(client: Any) -> None:
    for width, height in ((60_000, 60_000), (11_000, 10_000)):
        answer = upload(client, png_of(width, height))
        assert answer.status_code == 413
        assert "pixels" in answer.json()["error"]
    stream = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(stream, "PNG")
    assert len(stream.getvalue()) < 100_000
    assert upload(client, stream.getvalue()).status_code == 413


def test_what_is_no_picture(client: Any) -> None:
    refused(upload(client, b""), 415, "not an image")
    refused(upload(client, b"<svg xmlns='http://www.w3.org/2000/svg'/>", "a.png"), 415, "PNG")
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    refused(upload(client, postscript, "a.png"), 415, "not an image")
    refused(upload(client, picture("one digit")[:2000]), 422, "truncated or damaged")
    refused(upload(client, png_of(64, 64)), 422, "truncated or damaged")


def test_texts_have_a_limit(client: Any) -> None:
    refused(client.post("/explain", json={"text": "x" * 2**20}), 413, "larger than 1 MB")
    refused(client.post("/explain", json={"text": "a b " * 30_000}), 413, "100000 characters")
    huge = {"model": "demo-text", "content": "x" * 2**20}
    refused(client.post("/recipe", json=huge), 413, "larger than 1 MB")
    refused(client.post("/explain", json={"text": " \n"}), 422, "empty")
    refused(client.post("/explain", content=b'{"text": "\\ud800"}', headers=JSON), 422, "JSON")


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'"text"', 422),
        (b"[" * 100_000, 422),
        (b"\xff\xfe", 422),
        (b'{"text": "a", "text_": 1}', 422),
        (b'{"text": 7}', 422),
        (b'{"text": "a", "targets": "0"}', 422),
        (b'{"text": "a", "targets": [true]}', 422),
        (b'{"text": "a", "targets": [1e400]}', 422),
        (b'{"text": "a", "targets": [' + b"9" * 5000 + b"]}", 422),
        (b'{"text": "a", "targets": [7]}', 422),
        (b'{"text": "a", "targets": ["nobody"]}', 422),
        (b'{"text": "a", "targets": [0,0,0,0,0,0,0,0,0]}', 422),
        (b'{"text": "a", "methods": ["nothing"]}', 422),
        (b'{"text": "a", "methods": ["fullgrad:gradient=cp"]}', 422),
        (b'{"text": "a", "preset": "nothing"}', 422),
        (b'{"text": "a", "example": "joyless"}', 422),
        (b'{"example": "nothing"}', 422),
        (b'{"pair": "a"}', 422),
    ],
)
def test_wrong_questions(client: Any, body: bytes, status: int) -> None:
    answer = client.post("/explain", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert len(answer.json()["error"]) < 400


def test_wrong_types_and_damaged_forms(client: Any) -> None:
    refused(client.post("/explain", content=b"text=a"), 415, "send application/json")
    form = {"Content-Type": "multipart/form-data"}
    refused(client.post("/explain", content=b"x", headers=form), 400, "damaged")
    form = {"Content-Type": "multipart/form-data; boundary=b"}
    refused(client.post("/explain", content=b"--b\r\nx", headers=form), 422, "no file")
    two = [("image", ("a", b"1")), ("image", ("b", b"2"))]
    refused(client.post("/explain", files=two), 422, "2 files were sent")
    refused(client.post("/explain", files={"picture": ("a", b"1")}), 422, "no file named file")
    refused(upload(client, picture("one digit"), text="a"), 422, "does not go with a file")
    refused(upload(client, picture("one digit"), detail="perhaps"), 422, "detail")
    twice = {"preset": ["paper", "stable"]}
    refused(upload(client, picture("one digit"), **twice), 422, "preset is given 2 times")
    refused(client.get("/nowhere"), 404, "nothing at this address")
    for method in ("GET", "DELETE", "PUT"):
        answer = client.request(method, "/explain")
        refused(answer, 405, "does not take that method")
        assert answer.headers["Allow"] == "POST"


def test_wrong_fields_are_named_as_the_page_names_them(client: Any) -> None:
    asked = client.post("/explain", json={"text": "a", "targets": [0, 1.5]})
    refused(asked, 422, "targets.1: Input should be a valid integer, or Input should be a valid")
    assert "constrained" not in asked.text


def test_what_browsers_ask_before_they_ask(address: str) -> None:
    assert httpx2.head(f"{address}/").status_code == 200
    assert httpx2.head(f"{address}/page.js").headers["Content-Type"].startswith("text/javascript")


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_parameter_is_a_path(client: Any, path: str) -> None:
    for field in ("model", "example", "input", "preset"):
        question = {"text": "a film"} if field in ("model", "preset") else {}
        answer = client.post("/explain", json={**question, field: path})
        assert answer.status_code in (410, 422), (field, answer.text)
        assert "root:" not in answer.text
    for field in ("targets", "methods"):
        refused(client.post("/explain", json={"text": "a film", field: [path]}), 422, "")
    saved = client.post("/save", json={"text": "a film", "format": path})
    assert saved.status_code == 422
    assert client.get("/classes", params={"model": path}).status_code == 422
    assert client.get("/examples/picture", params={"name": path}).status_code == 422
    recipe = {"model": path, "content": "a"}
    assert client.post("/recipe", json=recipe).status_code == 422
    answer = upload(client, picture("one digit"), path.replace("\0", "%00"))
    assert answer.status_code == 200
    assert "/" not in answer.json()["title"]


def test_no_address_leads_out_of_the_page(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    for path in (
        "/../../etc/passwd",
        "/page.js/../../x",
        "/%2e%2e/x",
        "//etc/passwd",
        "/api/v1/../x",
    ):
        with socket.create_connection((host, int(port)), 5) as line:
            line.sendall(
                f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
            )
            answer = b"".join(iter(lambda: line.recv(4096), b""))
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:200]


def test_file_names_are_only_words() -> None:
    assert title_of("../../a b.png") == "a b.png"
    assert title_of("C:\\photos\\x.png") == "x.png"
    assert title_of("\x1b[31m\0red.png") == "[31mred.png"
    assert title_of(None) == title_of("/") == "image"
    assert len(title_of("x" * 999)) == 80


def test_only_models_given_at_the_start(client: Any) -> None:
    for name in ("demo-text-2", "google/vit-base-patch16-224", ".", ""):
        answer = client.post("/explain", json={"text": "a film", "model": name})
        refused(answer, 422, "no model")
    mixed = client.post("/explain", json={"text": "a film", "model": "demo-vision"})
    refused(mixed, 422, "reads images")


def test_script_in_text_name_and_label_stays_text(
    models: list[Any], browser: Any, client: Any
) -> None:
    page = client.post("/save", json={"text": SCRIPT, "format": "html"}).text
    assert page.count("<script") == 2
    assert SCRIPT not in page
    title = upload(client, picture("one digit"), f"{SCRIPT}.png").json()["title"]
    assert title == "script>.png"

    why = models[1]
    explainer = Explainer(why.model, labels=[SCRIPT, "<img src=x onerror=alert(2)>"])
    hostile = TextPipeline(SCRIPT, explainer, why.tokenizer, why.longest)
    alarms: list[str] = []
    with running(make_app([hostile])) as url:
        tab = browser.new_page()
        tab.on("dialog", lambda dialog: (alarms.append(dialog.message), dialog.dismiss()))
        tab.on("console", lambda message: alarms.append(message.text))
        tab.goto(url)
        tab.locator("#text").fill(SCRIPT)
        tab.locator("[data-class='0']").wait_for()
        labels = {entry.inner_text() for entry in tab.locator(".why-class .why-name").all()}
        assert labels == {SCRIPT, "<img src=x onerror=alert(2)>"}
        assert SCRIPT in tab.locator("#models").inner_text()
        tab.locator("#inside summary").click()
        tab.locator("#inside-view .why-stage").nth(3).wait_for()
        assert tab.locator("main script, main img[src=x]").count() == 0
        tab.close()
    assert alarms == []


def test_every_answer_carries_the_headers(address: str, client: Any) -> None:
    answers = [client.get(f"{address}/"), client.get("/health"), client.get("/nothing")]
    answers += [client.post("/explain", json={}), client.get("/", headers={"Host": "evil.test"})]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
    page = answers[0].text
    assert not re.search(r"<script>|<style|style=|onclick|https?:", page)
    assert client.get("/nothing").status_code == 404


def test_names_of_other_machines_are_refused(client: Any) -> None:
    for host in (
        "evil.test",
        "evil.test:8000",
        "127.0.0.1.evil.test",
        "10.1.2.3",
        "[::2]:80",
        "[",
        "",
    ):
        refused(client.get("/health", headers={"Host": host}), 421, "does not answer to that name")
    for host in ("localhost:1", "127.0.0.1", "[::1]:8000", "LOCALHOST"):
        assert client.get("/health", headers={"Host": host}).status_code == 200


def test_pages_of_other_origins_are_refused(address: str, client: Any) -> None:
    for origin in ("http://evil.test", "null", "http://[", f"{address}0", "http://127.0.0.1"):
        answer = client.post("/explain", json={"text": "a"}, headers={"Origin": origin})
        refused(answer, 403, "other origins")
    answer = client.post("/explain", json={"text": "a"}, headers={"Origin": address})
    assert answer.status_code == 200


def test_an_open_server_answers_to_its_own_names() -> None:
    opened = Guard(lambda *_: None, "0.0.0.0")  # type: ignore[arg-type, return-value]
    assert opened._is_mine("192.168.1.7")
    assert opened._is_mine(socket.gethostname().lower())
    assert not opened._is_mine("evil.test")
    assert [is_loopback(host) for host in ("127.0.0.2", "::1", "localhost")] == [True] * 3
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.7", "example.org"))


def test_a_mistake_of_our_own_shows_nothing_of_it(
    client: Any, monkeypatch: pytest.MonkeyPatch, models: list[Any]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret path /home")

    monkeypatch.setattr(type(models[1]), "record", broken)
    answer = client.post("/explain", json={"text": "a text that nobody asked about before"})
    refused(answer, 500, "its log says more")
    assert "secret" not in answer.text
    assert "content-security-policy" in answer.headers


def test_serve_listens_at_home_and_says_what_else_means() -> None:
    for host, words in (("127.0.0.1", "whyformer is at"), ("0.0.0.0", "without a password")):
        server = start("serve", "--model", "demo-vision", "--host", host, "--port", "0")
        try:
            assert server.stdout is not None
            said = server.stdout.readline().decode()
            assert words in said
            if host == "0.0.0.0":
                said = server.stdout.readline().decode()
            place = re.fullmatch(
                rf"whyformer is at http://{host}:(\d+)/ \(Ctrl-C ends it\)\n", said
            )
            assert place is not None
            port = int(place[1])
            with socket.create_connection(("127.0.0.1", port), 5) as line:
                line.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert line.recv(20).startswith(b"HTTP/1.1 200")
            with pytest.raises(InputError, match="choose another --port"):
                listen(host, port)
        finally:
            server.terminate()
            server.communicate(timeout=30)


def test_addresses_that_cannot_be() -> None:
    for host, port in (("127.0.0.1", 99_999), ("nobody.invalid", 0)):
        with pytest.raises(InputError, match=f"cannot listen at {host} port {port}"):
            listen(host, port)


def test_the_answer_is_json_whatever_the_text(client: Any) -> None:
    answer = explained(client, text="zero\u2028width \u200b and \U0001f3ac emoji \x07 bell")
    assert json.loads(json.dumps(answer)) == answer
