"""Inputs to try, one click away: scenes, reviews and stories for the embedded models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from whyformer.demo.captions import with_article
from whyformer.demo.reviews import reviews
from whyformer.demo.scenes import draw_scene, draw_tidy
from whyformer.demo.stories import draw_story
from whyformer.demo.tour import REVIEW, SCENE_SEED, STORY_SEED, TIDY_SEED
from whyformer.render.png import png_bytes

#: the scenes by name: seed, digits
SCENES = {"two digits": (SCENE_SEED, 2), "two more": (7, 2), "one digit": (21, 1)}
SCENES |= {"three digits": (12, 3)}
#: for the model with windows
WINDOWED = {"two in windows": (7, 2), "one in windows": (22, 1)}
#: scenes whose digits lie apart, to be found and to be named
BOXES = {"two boxes": (TIDY_SEED, 2), "three boxes": (2, 3)}
CAPTIONS = {"two captions": (TIDY_SEED, 2), "two others": (8, 2)}
STORIES = {"a visit": (STORY_SEED, None), "a colour": (1, "paint"), "a need": (0, "need")}


@dataclass(frozen=True)
class Example:
    """``text`` is None for a picture; ``texts`` are what it is compared with."""

    name: str
    model: str
    text: str | None = None
    texts: tuple[str, ...] = ()


@cache
def examples() -> dict[str, Example]:
    """By name; every name is of one example only."""
    texts = {
        "mixed review": REVIEW,
        "joyless": "A joyless film. I checked my watch three times.",
        "not bad": "It is not a bad film at all: modest, well acted and never dull.",
        "long text": "\n\n".join(as_written(tokens) for _, tokens, _ in reviews()),
    }
    stories = {name: draw_story(seed, kind=kind).text for name, (seed, kind) in STORIES.items()}
    found = [Example(name, "demo-vision") for name in SCENES]
    found += [Example(name, "demo-text", text) for name, text in texts.items()]
    found += [Example(name, "demo-writer", text) for name, text in stories.items()]
    found += [Example(name, "demo-clip", texts=named(*scene)) for name, scene in CAPTIONS.items()]
    found += [Example(name, "demo-detector") for name in BOXES]
    found += [Example(name, "demo-swin") for name in WINDOWED]
    return {example.name: example for example in found}


def named(seed: int, count: int) -> tuple[str, ...]:
    """A tidy scene's digits in words, each a caption of it."""
    return tuple(with_article(label) for label in draw_tidy(seed, count).labels)


@cache
def picture(name: str) -> bytes:
    """A scene as a PNG file."""
    cluttered = {**SCENES, **WINDOWED}
    if name in cluttered:
        return png_bytes(draw_scene(*cluttered[name]).image)
    return png_bytes(draw_tidy(*{**BOXES, **CAPTIONS}[name]).image)


def as_written(tokens: list[str]) -> str:
    """Tokens as a sentence, with no space before a punctuation mark."""
    text = " ".join(tokens)
    for mark in ".,:;!?":
        text = text.replace(f" {mark}", mark)
    return text
