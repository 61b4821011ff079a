"""Which way a text is read: the order of words where scripts run both ways (UAX 9)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

RIGHT_TO_LEFT = ("R", "AL", "AN")


def right_to_left(text: str) -> bool:
    """Whether a text starts at the right: its first letter with a direction says so."""
    for letter in text:
        direction = unicodedata.bidirectional(letter)
        if direction in ("L", "R", "AL"):
            return direction != "L"
    return False


def read_order(words: Sequence[tuple[str, str]], rtl: bool) -> tuple[list[int], list[bool]]:
    """The places of words (gap, text) from left to right, and which run from right to left."""
    text = "".join(gap + word for gap, word in words)
    if not rtl and not any(unicodedata.bidirectional(letter) in RIGHT_TO_LEFT for letter in text):
        return list(range(len(words))), [False] * len(words)
    levels = _levels([part for pair in words for part in pair], rtl)
    # Gaps take part: two numbers with a space between them are two, not one.
    order = [place // 2 for place in visual(levels) if place % 2]
    return order, [level % 2 == 1 for level in levels[1::2]]


def _levels(parts: Sequence[str], rtl: bool) -> list[int]:
    """Each part's embedding level: odd ones run from right to left."""
    from fpdf.bidi import BidiParagraph
    from fpdf.enums import TextDirection

    text = "".join(" " if letter.isspace() else letter for part in parts for letter in part)
    direction = TextDirection.RTL if rtl else TextDirection.LTR
    characters = BidiParagraph(text, base_direction=direction).characters
    found = {character.character_index: character.embedding_level for character in characters}
    levels, place = [], 0
    for part in parts:
        inside = range(place, place + len(part))
        levels.append(next((found[i] for i in inside if i in found), int(rtl)))
        place += len(part)
    return levels


def visual(levels: Sequence[int]) -> list[int]:
    """Places from left to right (UAX 9, L2): from the highest level down, runs are turned round."""
    order = list(range(len(levels)))
    for level in range(max(levels, default=0), 0, -1):
        start = 0
        while start < len(order):
            end = start
            while end < len(order) and levels[order[end]] >= level:
                end += 1
            order[start:end] = order[start:end][::-1]
            start = max(end, start + 1)
    return order
