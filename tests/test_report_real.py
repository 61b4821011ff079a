"""Pages of real explanations open in a browser without a word of complaint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whyformer
from whyformer.demo.scenes import draw_scene
from whyformer.explanation import Explanation
from whyformer.render import save

METHODS = ["transformer_attribution", "lrp", "rollout"]


def explain(name: str) -> list[Explanation]:
    if name == "demo-text":
        text = "A joyless, overlong film.\nAnd yet <b>superb</b> acting!"
        return whyformer.load(name).compare(text, [["negative", "positive"]], METHODS)
    scene = draw_scene(seed=7, count=2)
    return whyformer.load(name).compare(scene.image, [list(scene.labels)], METHODS)


@pytest.mark.parametrize("name", ["demo-text", "demo-vision"])
def test_a_real_page_opens_without_errors(
    name: str,
    tab: Any,
    tmp_path: Path,
) -> None:
    page, events = tab
    path = save(explain(name), tmp_path / "why.html", title="scene 7", model=name)
    events.clear()
    page.goto(path.as_uri())
    assert page.title() == "scene 7 · whyformer"
    shown = page.locator("#why-root").inner_text()
    for expected in (name, *METHODS):
        assert expected in shown
    quiet = [event for event in events if not event.startswith("request: data:")]
    assert quiet == [f"request: {path.as_uri()}"]


def test_a_page_about_a_function_opens(tab: Any, tmp_path: Path) -> None:
    """A difference of logits is no class: it has neither index nor probability."""
    page, events = tab
    why = whyformer.load("demo-text")
    explanation = why("a joyless film", target=lambda logits: logits[:, 1] - logits[:, 0])
    path = save(explanation, tmp_path / "why.html")
    events.clear()
    page.goto(path.as_uri())
    assert "joyless" in page.locator("#why-root").inner_text()
    quiet = [event for event in events if not event.startswith("request: data:")]
    assert quiet == [f"request: {path.as_uri()}"]
