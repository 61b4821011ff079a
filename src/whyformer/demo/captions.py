"""Scenes of two digits and what is true of them in words.

>>> captioned = draw_captioned(seed=7)
>>> captioned.scene.labels, captioned.caption
((8, 0), 'a zero above an eight')
>>> captioned.named
((3, 4), (0, 1))

``named`` holds, for each digit of the scene, the places of the words that name it. A captioned
scene is a pure function of its arguments; its digits are kept from training as those of all scenes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whyformer.demo.scenes import Scene, boxes_of, draw_tidy

NUMBERS = "zero one two three four five six seven eight nine".split()
#: each relation's axis (0: across, 1: down), the sign of second minus first, and its inverse
RELATIONS = {
    "left of": (0, 1, "right of"),
    "right of": (0, -1, "left of"),
    "above": (1, 1, "below"),
    "below": (1, -1, "above"),
}


@dataclass(frozen=True)
class Claim:
    """What a caption says: a digit, or a digit and how it lies to a second one."""

    first: int
    relation: str | None = None
    second: int | None = None

    @property
    def text(self) -> str:
        if self.second is None:
            return with_article(self.first)
        return f"{with_article(self.first)} {self.relation} {with_article(self.second)}"


@dataclass(frozen=True)
class Captioned:
    scene: Scene
    claim: Claim
    named: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def caption(self) -> str:
        return self.claim.text


def draw_captioned(
    seed: int | Sequence[int], split: str = "test", labels: Sequence[int] = ()
) -> Captioned:
    """A tidy scene of two different digits, or of the given ones, and a caption that names both."""
    scene = draw_tidy(seed, 2, split, labels)
    rng = np.random.default_rng([1, *np.atleast_1d(seed)])
    first = int(rng.integers(2))
    across, _ = relations(scene.labels, boxes_of(scene))
    claim = across[first]
    last = len(claim.text.split()) - 1
    named = [(last - 1, last)] * 2
    named[scene.labels.index(claim.first)] = (0, 1)
    return Captioned(scene, claim, (named[0], named[1]))


def relations(
    labels: Sequence[int], boxes: np.ndarray
) -> tuple[tuple[Claim, Claim], tuple[Claim, Claim]]:
    """How two digits lie to each other, said of the first and of the second: along the axis that
    parts them more, then along the other one, where it may be hard to tell."""
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    away = middles[1] - middles[0]
    widest = int(np.abs(away).argmax())
    both = []
    for axis in (widest, 1 - widest):
        sign = 1 if away[axis] >= 0 else -1
        relation = next(name for name, (a, s, _) in RELATIONS.items() if (a, s) == (axis, sign))
        said = Claim(labels[0], relation, labels[1])
        both.append((said, inverse(said)))
    return both[0], both[1]


def inverse(claim: Claim) -> Claim:
    """The same said of the second digit."""
    assert claim.relation is not None
    assert claim.second is not None
    return Claim(claim.second, RELATIONS[claim.relation][2], claim.first)


def one_digit_wrong(claim: Claim) -> list[Claim]:
    """Every claim that names one digit of two wrongly, and says nothing of a digit to itself."""
    wrong = [Claim(digit, claim.relation, claim.second) for digit in range(10)]
    wrong += [Claim(claim.first, claim.relation, digit) for digit in range(10)]
    return [other for other in wrong if other != claim and other.first != other.second]


def with_article(digit: int) -> str:
    return f"{'an' if digit == 8 else 'a'} {NUMBERS[digit]}"


def vocabulary() -> list[str]:
    """Every word of the captions, in alphabetical order."""
    return sorted({"a", "an", *NUMBERS, *" ".join(RELATIONS).split()})
