"""Short stories with a question: the next word is decided by one known earlier word.

>>> story = draw_story(seed=9)
>>> story.text
'tom went to the station. sam went to the school. where is tom? at the'
>>> story.answer, story.words[story.deciding], story.rival
('station', 'station', 'school')

A story is a pure function of its arguments. No story of ``split="test"`` is told in training, and
every question has a rival: a second fact of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

#: the words that fill each slot; a story uses each at most once
FILLERS = {
    "name": "tom anna ben lucy max emma sam nina paul rosa".split(),
    "thing": "key coin ring book ball lamp cup hat pen bell".split(),
    "colour": "red blue green white black yellow brown grey pink orange".split(),
    "container": "box bag drawer basket".split(),
    "food": "bread cheese soup rice cake fish honey salad pasta fruit".split(),
    "town": "park school river market station library beach museum farm church".split(),
    "state": "hungry thirsty tired cold dirty lost ill wet bored late".split(),
    "noun": (
        "dog cat horse bird child girl boy tree car boat "
        "dogs cats horses birds children girls boys trees cars boats"
    ).split(),
}
#: what helps in each state: here the answer is another word than the one that decides it
HELP = dict(
    zip(FILLERS["state"], "meal drink nap coat bath map pill towel game taxi".split(), strict=True)
)
ADJECTIVES = "big small old new".split()
#: one of so many stories is kept from training
HELD_OUT = 5


@dataclass(frozen=True)
class Kind:
    """A kind of fact: what is stated, what is asked, and what the question's answer goes on with.

    ``known`` is the slot that the question names and ``asked`` the one that decides the answer.
    """

    known: str
    asked: str
    fact: str
    question: str


KINDS = {
    "place": Kind(
        "thing", "colour", "{name} put the {known} in the {asked} {container} .",
        "where is the {known} ? in the {answer} {container} .",
    ),
    "owner": Kind("thing", "name", "{asked} has the {known} .", "who has the {known} ? {answer} ."),
    "taste": Kind(
        "name", "food", "{known} likes {asked} .",
        "what does {known} like ? {known} likes {answer} .",
    ),
    "visit": Kind(
        "name", "town", "{known} went to the {asked} .", "where is {known} ? at the {answer} ."
    ),
    "paint": Kind(
        "thing", "colour", "the {known} is {asked} .", "what colour is the {known} ? {answer} ."
    ),
    "need": Kind(
        "name", "state", "{known} was {asked} .", "what did {known} need ? a {answer} ."
    ),
}  # fmt: skip
#: a sentence whose verb agrees with its first noun, whatever the second one is
NUMBER = "the {known} near the {other} {answer} {adjective} ."
ENDS = (".", "?")


@dataclass(frozen=True)
class Ask:
    """A place of a story whose word is decided: by the word at ``deciding``, found with the words
    at ``pointing``: what the question names, there and where it was stated."""

    place: int
    answer: str
    rival: str
    deciding: int
    pointing: tuple[int, ...]
    kind: str


@dataclass(frozen=True)
class Story:
    """``words`` up to where the answer is asked for; punctuation marks are words too."""

    words: tuple[str, ...]
    answer: str
    rival: str
    deciding: int
    pointing: tuple[int, ...]
    kind: str

    @property
    def text(self) -> str:
        return spelled(self.words)


def draw_story(seed: int | Sequence[int], split: str = "test", kind: str | None = None) -> Story:
    """A story up to its last question, which is of the given ``kind`` or of any."""
    words, asks = tell(np.random.default_rng(seed), split, kind)
    last = asks[-1]
    return Story(
        tuple(words[: last.place]), last.answer, last.rival, last.deciding, last.pointing, last.kind
    )


def exchanged(story: Story) -> list[Story]:
    """The story with every other word in the place that decides, and the answer that follows."""
    old = story.words[story.deciding]
    slot = next(name for name, words in FILLERS.items() if old in words)
    found = []
    for new in FILLERS[slot]:
        if new not in story.words:
            words = list(story.words)
            words[story.deciding] = new
            answer = verbs(new)[0] if slot == "noun" else HELP.get(new, new)
            found.append(replace(story, words=tuple(words), answer=answer))
    return found


def tell(
    rng: np.random.Generator, split: str, kind: str | None = None, most: int = 4
) -> tuple[list[str], list[Ask]]:
    """A whole story: two facts or up to ``most``, then one or more questions with their answers."""
    while True:
        words, asks = tell_any(rng, kind, most)
        if held_out(words) == (split == "test"):
            return words, asks


def held_out(words: Sequence[str]) -> bool:
    """Whether a whole story is kept from training; nothing in it tells."""
    return crc32(" ".join(words).encode()) % HELD_OUT == 0


def tell_any(rng: np.random.Generator, kind: str | None, most: int) -> tuple[list[str], list[Ask]]:
    last = kind or str(rng.choice([*KINDS, "number"]))
    about = [last] * 2 if last in KINDS else []
    count = rng.integers(2, most + 1)
    while len(about) < count:
        about.append(str(rng.choice(list(KINDS))))
    unused = {slot: [str(w) for w in rng.permutation(words)] for slot, words in FILLERS.items()}
    facts = [(name, filled(KINDS[name], unused)) for name in about]
    others = [i for i in range(1, len(facts)) if answerable(facts, i) and rng.random() < 0.5]
    asked = [int(i) for i in rng.permutation(others)] + ([0] if last in KINDS else [])
    words: list[str] = []
    stated = {}
    for i in rng.permutation(len(facts)):
        name, fillers = facts[i]
        stated[int(i)] = append(words, KINDS[name].fact, fillers)
    asks = [question(words, facts, i, stated[i]) for i in asked]
    if last not in KINDS:
        asks.append(agreement(rng, words, unused["noun"]))
    return words, asks


def filled(kind: Kind, unused: dict[str, list[str]]) -> dict[str, str]:
    """Words for every slot of a fact, taken out of ``unused``."""
    slots = [slot for slot in ("name", "container") if f"{{{slot}}}" in kind.fact]
    fillers = {slot: unused[slot].pop() for slot in slots}
    known, asked = unused[kind.known].pop(), unused[kind.asked].pop()
    answer = HELP[asked] if kind.asked == "state" else asked
    return {**fillers, "known": known, "asked": asked, "answer": answer}


def answerable(facts: Sequence[tuple[str, dict[str, str]]], index: int) -> bool:
    """Whether another fact of the same kind gives a rival."""
    return sum(name == facts[index][0] for name, _ in facts) > 1


def append(words: list[str], template: str, fillers: dict[str, str]) -> dict[str, int]:
    """Write a sentence; returns the place of each slot's last word."""
    places: dict[str, int] = {}
    for word in template.split():
        slot = word.strip("{}") if word.startswith("{") else None
        if slot is not None:
            places[slot] = len(words)
        words.append(word if slot is None else fillers[slot])
    return places


def question(
    words: list[str],
    facts: Sequence[tuple[str, dict[str, str]]],
    index: int,
    stated: dict[str, int],
) -> Ask:
    name, fillers = facts[index]
    rival = next(
        other["answer"] for i, (kind, other) in enumerate(facts) if i != index and kind == name
    )
    start = len(words)
    place = append(words, KINDS[name].question, fillers)["answer"]
    named = [i for i in range(start, place) if words[i] == fillers["known"]]
    pointing = (stated["known"], *named)
    return Ask(place, fillers["answer"], rival, stated["asked"], pointing, name)


def agreement(rng: np.random.Generator, words: list[str], nouns: list[str]) -> Ask:
    """A sentence about a noun near another."""
    subject, other = nouns[:2]
    answer, rival = verbs(subject)
    fillers = {
        "known": subject, "other": other, "answer": answer,
        "adjective": str(rng.choice(ADJECTIVES)),
    }  # fmt: skip
    places = append(words, NUMBER, fillers)
    return Ask(places["answer"], answer, rival, places["known"], (), "number")


def verbs(noun: str) -> tuple[str, str]:
    """The verb that agrees with a noun, and the one that does not. No other sentence has them:
    "is" would be likelier than "are" before any noun was read."""
    nouns = FILLERS["noun"]
    return ("looks", "look") if nouns.index(noun) < len(nouns) // 2 else ("look", "looks")


def spelled(words: Sequence[str]) -> str:
    """Words as people write them: no space before a mark."""
    return " ".join(words).replace(" .", ".").replace(" ?", "?")


def vocabulary() -> list[str]:
    """Every word of the language, in alphabetical order."""
    sentences = [text for kind in KINDS.values() for text in (kind.fact, kind.question)]
    fixed = {word for text in [*sentences, NUMBER] for word in text.split() if word[0] != "{"}
    slots = {word for words in FILLERS.values() for word in words}
    return sorted(fixed | slots | {*HELP.values(), *ADJECTIVES, "looks", "look", *ENDS})
