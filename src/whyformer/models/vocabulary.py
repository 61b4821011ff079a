"""The words that a model writes: a vocabulary that people can read and type, and its pieces."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whyformer.errors import ModelError, TargetError, first_line
from whyformer.words import Piece

TOKENIZERS = ("tokenizer.json", "vocab.*", "*.model")
#: what a decoder writes for bytes that make no letter
BROKEN = "\ufffd"
#: a token that is one byte, as SentencePiece spells it
BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
#: the bytes that byte-level tokenizers spell as the letter of that number; the others follow 255
LETTERS = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in LETTERS]
LETTER_BYTES = {chr(byte): byte for byte in LETTERS} | {
    chr(256 + i): byte for i, byte in enumerate(OTHERS)
}
#: white space that would not be seen, and how it is typed
UNSEEN = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def load_tokenizer(folder: Path, name: str) -> Any:
    """The tokenizer of a model's directory, which must be a fast one.

    Where its own class is slow, or needs a package that is not there, its tokenizer.json is enough.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not any(found for pattern in TOKENIZERS for found in folder.glob(pattern)):
        raise ModelError(
            f"{name} has no tokenizer: expected tokenizer.json, a vocabulary or a *.model file"
        )
    whole = (folder / "tokenizer.json").is_file()
    try:
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except ImportError:
            if not whole:
                raise
            tokenizer = None
        if whole and (tokenizer is None or not tokenizer.is_fast):
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise ModelError(f"{name}'s tokenizer cannot be used: {first_line(error)}") from error
    return fast(tokenizer, name)


def fast(tokenizer: Any, name: str) -> Any:
    if not tokenizer.is_fast:
        raise ModelError(
            f"{name} has no fast tokenizer (tokenizer.json), which tells the words of the pieces; "
            "encode the text yourself and use whyformer.Explainer(model)"
        )
    return tokenizer


def by_number(token: str, text: str) -> str:
    """A token of bytes that are no letters, by their numbers: a byte-level tokenizer spells the
    byte E9 as the letter é, which it is not. Others stay as they are spelled."""
    data = bytes(LETTER_BYTES.get(letter, 0) for letter in token)
    if data.decode("utf-8", "replace") != text:
        return token
    return "".join(f"<0x{byte:02X}>" for byte in data)


class Vocabulary:
    """What every token of a model is called: its text, with the space that starts a word.

    Bytes that are no letter by themselves are called by their numbers, such as ``<0xE9>``; tokens
    whose text another one has as the tokenizer spells them. Line breaks and tabs are typed ``\\n``
    and ``\\t``.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        self.tokenizer = tokenizer
        self._decoder = tokenizer.backend_tokenizer.decoder
        self._anchor = tokenizer.backend_tokenizer.encode("a", add_special_tokens=False).tokens[-1:]
        added = tokenizer.added_tokens_decoder.items()
        #: tokens that are no text: starts, ends, marks of a chat
        self.special = {*tokenizer.all_special_ids, *(i for i, mark in added if mark.special)}
        ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        #: the token that stands for what the tokenizer does not know, where it has one
        self.unknown = None if tokenizer.unk_token_id in ends else tokenizer.unk_token_id
        self.special.discard(self.unknown)
        self.names = self._names(size)
        self.places: dict[str, int] = {}
        for place, name in enumerate(self.names):
            self.places.setdefault(name, place)

    def __len__(self) -> int:
        return len(self.names)

    def _names(self, size: int) -> list[str]:
        tokens = self.tokenizer.convert_ids_to_tokens(list(range(size)))
        names: list[str] = []
        for i, token in enumerate(tokens):
            if token is None:
                names.append(f"<no token {i}>")
                continue
            text = token if i in self.special else self._after_anchor([token])
            if BROKEN in text or not typed(text).isprintable():
                text = by_number(token, text)
            names.append(typed(text) or token)
        taken: set[str] = set()
        plain_first = sorted(range(size), key=lambda i: bool(BYTE.fullmatch(tokens[i] or "")))
        for i in plain_first:
            if names[i] in taken and tokens[i]:
                names[i] = tokens[i]
            taken.add(names[i])
        return names

    def _after_anchor(self, tokens: list[str]) -> str:
        """The text of tokens that follow others: at a text's start decoders drop the space."""
        if self._decoder is None:
            return "".join(tokens)
        both = self._decoder.decode(self._anchor + tokens)
        return both[len(self._decoder.decode(self._anchor)) :]

    def index(self, word: str) -> int:
        """The token that is written like this, or an error that shows what the word is made of."""
        place = self.places.get(typed(word))
        if place is not None:
            return place
        if not word:
            raise TargetError('the empty word was asked for; give a word such as " girl"')
        spaced = f" {word}"
        if spaced in self.places:
            raise TargetError(
                f"{quoted(word)} is no token of this model; {quoted(spaced)}, with the space that "
                "starts a word, is one"
            )
        pieces = ", ".join(map(quoted, self._spelled(word)))
        raise TargetError(
            f"{quoted(word)} is no single token of this model: it is written as {pieces}; ask "
            "about one of these"
        )

    def _spelled(self, word: str) -> list[str]:
        """A word's pieces: some tokenizers put a space before a text, others take it as it is."""
        names: list[str] = []
        for text in (word, word.lstrip(" ") or word):
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            names = [self.names[i] for i in ids]
            if "".join(names) == word:
                return names
        return names[names[:1] == [" "] :]

    def texts(self, ids: Sequence[int]) -> list[str]:
        """What each token adds to a text; a letter of several tokens stands with its last one."""
        tokens = self.tokenizer.convert_ids_to_tokens(list(ids))
        texts: list[str] = []
        held: list[str] = []
        for i, (number, token) in enumerate(zip(ids, tokens, strict=True)):
            if number in self.special or token is None:
                texts.append(token or self.names[number])
                held = []
                continue
            held.append(token)
            text = self._after_anchor(held)
            unfinished = text.endswith(BROKEN) and i + 1 < len(tokens)
            texts.append("" if unfinished else text)
            held = held if unfinished else []
        return texts


def typed(text: str) -> str:
    """A text with its line breaks and tabs as people type them."""
    return "".join(UNSEEN.get(letter, letter) for letter in text)


def quoted(name: str) -> str:
    return f'"{name}"'


def slices(encoding: Any, text: str) -> list[str]:
    """The part of a text that each token stands for, with the white space before it."""
    found, end = [], 0
    marks = zip(encoding.offsets, encoding.tokens, encoding.special_tokens_mask, strict=True)
    for (_, stop), token, special in marks:
        found.append(token if special else text[end:stop])
        end = max(end, stop)
    return found


def pieces_from(texts: Sequence[str], special: Sequence[bool]) -> list[Piece]:
    """Tokens as pieces of words: a word ends at white space, at a sign, at a letter such as 字."""
    pieces: list[Piece] = []
    word, before = -1, ""
    for raw, apart in zip(texts, special, strict=True):
        if apart:
            pieces.append(Piece(raw, " " if pieces else "", None))
            before = ""
            continue
        text = raw.lstrip() or raw
        gap = raw[: len(raw) - len(text)]
        if not before or gap or (text and not (_in_words(before) and _in_words(text[0]))):
            word += 1
        pieces.append(Piece(text, gap, word))
        before = text[-1:] or before
    return pieces


def _in_words(letter: str) -> bool:
    """Whether a letter stands in one word with others of its kind."""
    wide = unicodedata.east_asian_width(letter) in "WF"
    return letter in "'\u2019" or (letter.isalnum() and not wide)


def tokenizer_settings(tokenizer: Any) -> bytes:
    """All settings that last: a call's truncation and padding are no part of them."""
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    for passing in ("truncation", "padding"):
        settings.pop(passing, None)
    return json.dumps(settings, sort_keys=True).encode()
