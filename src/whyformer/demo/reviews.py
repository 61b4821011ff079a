"""Short film reviews, written for this project, with the passages that give their verdict.

The embedded data of the rationale benchmark. In `reviews.txt` a line is a review: its verdict, a
tab, its tokens; passages stand in double brackets.
"""

from __future__ import annotations

from importlib.resources import files

OPEN, CLOSE = "[[", "]]"


def reviews() -> list[tuple[str, list[str], frozenset[int]]]:
    """Each review's verdict, its tokens, and the places of the marked ones."""
    text = (files("whyformer.demo") / "reviews.txt").read_text(encoding="utf-8")
    lines = (line.split("\t") for line in text.splitlines())
    return [(verdict, *unmarked(words)) for verdict, words in lines]


def unmarked(text: str) -> tuple[list[str], frozenset[int]]:
    tokens: list[str] = []
    marked: set[int] = set()
    inside = False
    for word in text.split():
        if word in (OPEN, CLOSE):
            inside = word == OPEN
            continue
        if inside:
            marked.add(len(tokens))
        tokens.append(word)
    return tokens, frozenset(marked)
