"""Inputs to try, one click away: scenes and reviews for the embedded models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from whyformer.demo.reviews import reviews
from whyformer.demo.scenes import draw_scene
from whyformer.demo.tour import REVIEW, SCENE_SEED
from whyformer.render.document import png_bytes

#: (name, seed, digits)
SCENES = (
    ("two digits", SCENE_SEED, 2),
    ("two more", 7, 2),
    ("one digit", 21, 1),
    ("three digits", 12, 3),
)


@dataclass(frozen=True)
class Example:
    """``text`` is None for a picture."""

    name: str
    model: str
    text: str | None = None


def examples() -> dict[str, Example]:
    """By name; every name is of one example only."""
    texts = {
        "mixed review": REVIEW,
        "joyless": "A joyless film. I checked my watch three times.",
        "not bad": "It is not a bad film at all: modest, well acted and never dull.",
        "long text": "\n\n".join(as_written(tokens) for _, tokens, _ in reviews()),
    }
    pictures = [Example(name, "demo-vision") for name, _, _ in SCENES]
    written = [Example(name, "demo-text", text) for name, text in texts.items()]
    return {example.name: example for example in (*pictures, *written)}


@cache
def picture(name: str) -> bytes:
    """A scene as a PNG file."""
    seed, count = next((seed, count) for known, seed, count in SCENES if known == name)
    return png_bytes(draw_scene(seed, count).image)


def as_written(tokens: list[str]) -> str:
    """Tokens as a sentence, with no space before a punctuation mark."""
    text = " ".join(tokens)
    for mark in ".,:;!?":
        text = text.replace(f" {mark}", mark)
    return text
