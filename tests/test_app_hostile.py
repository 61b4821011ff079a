"""Requests that cannot be: each gets its status and one sentence, and the server lives on.

Sizes, times, names and forms have tests of their own in the test_app files; this is the rest.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

JSON = {"Content-Type": "application/json"}
LONG = "x" * 301
QUESTIONS: list[tuple[dict[str, Any], int, str]] = [
    ({}, 422, "give one of text, example and input"),
    ({"text": None}, 422, "give one of"),
    ({"text": ""}, 422, "empty"),
    ({"text": "\n\t "}, 422, "empty"),
    ({"text": []}, 422, "text: Input should be a valid string"),
    ({"text": {"a": 1}}, 422, "text"),
    ({"text": "a", "pair": 7}, 422, "pair"),
    ({"text": "a", "pair": ""}, 422, "empty"),
    ({"text": "a", "pair": " "}, 422, "empty"),
    ({"example": "mixed review", "pair": "b"}, 422, "pair goes with text"),
    ({"text": "a", "input": "b"}, 422, "give one of"),
    ({"example": ""}, 422, "no example"),
    ({"example": "../../etc/passwd"}, 422, "no example"),
    ({"example": LONG}, 422, "example"),
    ({"input": "none"}, 410, "send it again"),
    ({"input": ""}, 410, "send it again"),
    ({"input": LONG}, 422, "input"),
    ({"input": 3}, 422, "input"),
    ({"text": "a", "model": "nobody"}, 422, "no model 'nobody' here"),
    ({"text": "a", "model": "/etc/passwd"}, 422, "no model"),
    ({"text": "a", "model": ""}, 422, "no model"),
    ({"text": "a", "model": 3}, 422, "model"),
    ({"text": "a", "model": "demo-vision"}, 422, "demo-vision reads images"),
    ({"example": "two digits", "model": "demo-text"}, 422, "demo-text reads texts"),
    ({"text": "a", "targets": 0}, 422, "targets"),
    ({"text": "a", "targets": None}, 422, "targets"),
    ({"text": "a", "targets": [None]}, 422, "targets.0"),
    ({"text": "a", "targets": [-1]}, 422, "targets.0"),
    ({"text": "a", "targets": ["-1"]}, 422, "classes are counted from 0"),
    ({"text": "a", "targets": [2]}, 422, "choose from 0 to 1"),
    ({"text": "a", "targets": ["2"]}, 422, "choose from 0 to 1"),
    ({"text": "a", "targets": [2**40]}, 422, "targets.0"),
    ({"text": "a", "targets": [1.5]}, 422, "targets.0"),
    ({"text": "a", "targets": [[0]]}, 422, "targets.0"),
    ({"text": "a", "targets": [{"a": 1}]}, 422, "targets.0"),
    ({"text": "a", "targets": [0, "nothing"]}, 422, "no label 'nothing'"),
    ({"text": "a", "targets": [""]}, 422, "no label ''"),
    ({"text": "a", "targets": [LONG]}, 422, "targets.0"),
    ({"text": "a", "targets": [0] * 9}, 422, "targets"),
    ({"text": "a", "methods": "rollout"}, 422, "methods"),
    ({"text": "a", "methods": [0]}, 422, "methods.0"),
    ({"text": "a", "methods": [""]}, 422, "method"),
    ({"text": "a", "methods": ["rolout"]}, 422, "did you mean 'rollout'"),
    ({"text": "a", "methods": ["rollout"] * 33}, 422, "methods"),
    ({"text": "a", "methods": [LONG]}, 422, "methods.0"),
    ({"text": "a", "preset": "papr"}, 422, "did you mean 'paper'"),
    ({"text": "a", "preset": None}, 422, "preset"),
    ({"text": "a", "preset": ["paper"]}, 422, "preset"),
    ({"text": "a", "runner_up": "perhaps"}, 422, "runner_up"),
    ({"text": "a", "runner_up": 2}, 422, "runner_up"),
    ({"text": "a", "detail": "yes"}, 422, "detail"),
    ({"text": "a", "nothing": 1}, 422, "nothing"),
    ({"text": "a", "__proto__": 1}, 422, "__proto__"),
]
OTHERS: list[tuple[str, str, Any, int, str]] = [
    ("POST", "/save", {"text": "a", "format": "exe"}, 422, "format"),
    ("POST", "/save", {"text": "a", "format": "../png"}, 422, "format"),
    ("POST", "/save", {"text": "a", "opacity": 2}, 422, "opacity"),
    ("POST", "/save", {"text": "a", "opacity": "x"}, 422, "opacity"),
    ("POST", "/save", {"text": "a", "smooth": 3}, 422, "smooth"),
    ("POST", "/save", {"input": "none"}, 410, "send it again"),
    ("POST", "/blocks", {"text": "a", "block": -1}, 422, "block"),
    ("POST", "/blocks", {"text": "a", "block": 999}, 422, "block 999 of a model with"),
    ("POST", "/blocks", {"text": "a", "block": 99_999}, 422, "block"),
    ("POST", "/blocks", {"text": "a", "head": 999}, 422, "head 999 of a block with"),
    ("POST", "/blocks", {"text": "a", "head": "all"}, 422, "head"),
    ("POST", "/save", {"text": "a", "cropped": "perhaps"}, 422, "cropped"),
    ("POST", "/heads", {"text": "a", "map": "nothing"}, 422, "map"),
    ("POST", "/heads", {}, 422, "give one of"),
    ("POST", "/erase", {"text": "a", "erased": [999]}, 422, "999"),
    ("POST", "/erase", {"text": "a", "erased": [-1]}, 422, "erased.0"),
    ("POST", "/erase", {"text": "a", "erased": "all"}, 422, "erased"),
    ("POST", "/erase", {"text": "a", "erased": [0] * 100_000}, 422, "erased"),
    ("POST", "/recipe", {}, 422, "model"),
    ("POST", "/recipe", {"model": "nobody", "content": "a"}, 422, "no model 'nobody'"),
    ("POST", "/recipe", {"model": "demo-text"}, 422, "content"),
    ("POST", "/recipe", {"model": "demo-text", "content": "a", "methods": ["x"]}, 422, "'x'"),
    ("GET", "/classes", None, 422, "model"),
    ("GET", "/classes?model=nobody", None, 422, "no model 'nobody'"),
    ("GET", "/classes?model=demo-text&limit=0", None, 422, "limit"),
    ("GET", "/classes?model=demo-text&limit=x", None, 422, "limit"),
    ("GET", f"/classes?model={LONG}", None, 422, "model"),
    ("GET", "/examples/picture", None, 422, "name"),
    ("GET", "/examples/picture?name=joyless", None, 422, "no example picture"),
    ("GET", "/examples/picture?name=..%2F..%2Fx", None, 422, "no example picture"),
    ("GET", "/nothing", None, 404, "nothing at this address"),
    ("GET", "/../../etc/passwd", None, 404, "nothing at this address"),
    ("GET", "/explain", None, 405, "does not take that method"),
    ("PUT", "/explain", {"text": "a"}, 405, "does not take that method"),
    ("DELETE", "/models", None, 405, "does not take that method"),
    ("POST", "/models", {}, 405, "does not take that method"),
    ("PATCH", "/health", None, 405, "does not take that method"),
]
TABLE = [("POST", "/explain", *question) for question in QUESTIONS] + OTHERS


@pytest.mark.parametrize(("method", "path", "body", "status", "said"), TABLE)
def test_a_status_and_a_sentence(
    client: Any, method: str, path: str, body: Any, status: int, said: str
) -> None:
    content = None if body is None else json.dumps(body).encode()
    answer = client.request(method, path, content=content, headers=JSON)
    assert answer.status_code == status, answer.text
    sentence = answer.json()["error"]
    assert said in sentence
    assert len(sentence) < 400
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    assert client.get("/health").json()["taken"] == 0
