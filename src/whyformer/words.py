"""From a tokenizer's pieces back to the words that a person wrote."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

#: control characters, which could steer a terminal; line breaks and tabs stay
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: what tokenizers put before a piece that starts or continues a word
MARKS = ("##", "Ġ", "▁")
#: what tokenizers without a word of their own on it put in place of what they do not know
UNKNOWN = ("[UNK]", "<unk>")
#: unknown words that a note names
MOST_NAMED = 5
#: what stands between the two texts of a pair
BETWEEN_TEXTS = "\n\n"


@dataclass(frozen=True)
class Piece:
    """A token of a text: how it was written, what stood before it, and the word it belongs to.

    Special tokens belong to no word. ``unknown`` is the token that the model read in its place,
    such as "[UNK]", where the tokenizer does not know what was written; else it is empty. A
    ``sink`` gathers attention whatever it says: its score has no part in the colours.
    """

    text: str
    gap: str
    word: int | None
    unknown: str = ""
    sink: bool = False


@dataclass(frozen=True)
class Word:
    """Neighbouring pieces that make up a word; ``pieces`` are their places in the sequence.

    ``unknown`` is what the model read in place of an unknown piece of it, or empty.
    """

    text: str
    gap: str
    pieces: tuple[int, ...]
    unknown: str = ""

    @property
    def marked(self) -> str:
        """The word, and behind it what the model read where it does not know it."""
        return self.text if self.text == self.unknown else self.text + self.unknown


def strongest(scores: Any, pieces: Iterable[int]) -> float:
    """The score of a word: the highest of its pieces'."""
    return max(float(scores[i]) for i in pieces)


def pieces_of(
    encoding: Any,
    batch: int,
    texts: Sequence[str | tuple[str, str]] | None = None,
    unknown: Sequence[str] = UNKNOWN,
) -> list[list[Piece]] | None:
    """Every sample's pieces, where a fast tokenizer encoded it.

    With the ``texts`` the pieces are written as they stand there; without, as in the vocabulary.
    ``unknown`` are the tokens that stand for what the tokenizer does not know.
    """
    encodings = getattr(encoding, "encodings", None)
    if not encodings:
        return None
    return [list(_pieces(encodings[i], texts[i] if texts else None, unknown)) for i in range(batch)]


def _pieces(
    encoding: Any, text: str | tuple[str, str] | None, unknown: Sequence[str]
) -> Iterator[Piece]:
    parts = (text,) if isinstance(text, str) else text
    word, previous, end = -1, (None, None), 0
    places = zip(encoding.sequence_ids, encoding.offsets, strict=True)
    starts = {(part, start) for part, (start, _) in places}
    for token, inside, part, (start, stop) in zip(
        encoding.tokens, encoding.word_ids, encoding.sequence_ids, encoding.offsets, strict=True
    ):
        if inside is None or part is None:
            yield Piece(token, " ", None)
            continue
        fresh = (part, inside) != previous
        word += fresh
        instead = token if token in unknown else ""
        if parts is None:
            yield Piece(_unmarked(token), " " if fresh else "", word, instead)
        else:
            if part != previous[0]:
                end = 0
            # Tokenizers that drop accents leave them behind a piece, outside of all pieces.
            while (part, stop) not in starts and _is_mark(parts[part][stop : stop + 1]):
                stop += 1
            written = parts[part][max(start, end) : stop]
            text = written.lstrip() or written
            gap = parts[part][end:start] + written[: len(written) - len(text)]
            if part != previous[0] and previous[0] is not None:
                gap = BETWEEN_TEXTS + gap
            yield Piece(text, gap, word, instead)
            end = max(end, stop)
        previous = (part, inside)


def _is_mark(letter: str) -> bool:
    """Whether it stands on the letter before it, such as an accent or a vowel's sign."""
    return bool(letter) and unicodedata.category(letter)[0] == "M"


def _unmarked(token: str) -> str:
    for mark in MARKS:
        token = token.removeprefix(mark)
    return token


def words_of(pieces: Sequence[Piece]) -> list[Word]:
    """Neighbouring pieces of one word put together; special tokens are left out."""
    numbered: Iterable[tuple[int, Piece]] = enumerate(pieces)
    words = []
    for word, group in groupby(numbered, key=lambda item: item[1].word):
        if word is None:
            continue
        places, members = zip(*group, strict=True)
        text = members[0].text + "".join(piece.gap + piece.text for piece in members[1:])
        unknown = next((piece.unknown for piece in members if piece.unknown), "")
        words.append(Word(text, members[0].gap, places, unknown))
    return words


def unknown_note(samples: Sequence[Sequence[Piece]]) -> list[str]:
    """Which words the model did not read, because its tokenizer does not know them: a sentence."""
    words = [word for pieces in samples for word in words_of(pieces)]
    lost = [word for word in words if word.unknown]
    if not lost:
        return []
    each = list(dict.fromkeys(word.text for word in lost))
    named = ", ".join(shorten(text, 20) for text in each[:MOST_NAMED])
    more = ", ..." if len(each) > MOST_NAMED else ""
    are = "is" if len(lost) == 1 else "are"
    return [
        f"{len(lost)} of {len(words)} words {are} unknown to the tokenizer: {named}{more}; the "
        f"model read {lost[0].unknown} there, whatever stands in the text"
    ]


def printable(text: str) -> str:
    """A text from outside as a terminal may show it."""
    return CONTROL.sub("", text)


def shorten(text: str, length: int = 48) -> str:
    """The start of a text, to name it by."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 3].rstrip() + "..."
