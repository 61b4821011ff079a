"""Prompts: a text, or the messages of a chat, as a language model reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import InputError, first_line
from whyformer.explainer import Explainer
from whyformer.models.texts import check_text
from whyformer.models.vocabulary import Vocabulary, pieces_from, slices
from whyformer.recording import Recording
from whyformer.words import Piece

#: pieces that are looked at to see whether attention sinks into the first one
LOOKED_AT = 32
#: the share of attention from which on the first piece is called a sink (Gu et al. 2025)
SINKING = 0.3
#: a sink with a smaller share of the relevance is not worth a note
LITTLE = 0.005

Message = dict[str, Any]


@dataclass(frozen=True)
class Prompt:
    """What a model reads: ``ids`` (1, pieces), and the same as written."""

    text: str
    ids: Tensor
    pieces: list[Piece]

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def content(self) -> Tensor:
        """(1, pieces): everything but a start token."""
        found = torch.ones_like(self.ids, dtype=torch.bool)
        found[0, 0] = self.pieces[0].word is not None or len(self) == 1
        return found

    def followed_by(self, ids: Tensor, vocabulary: Vocabulary) -> Prompt:
        """The same with tokens (1, more) behind it."""
        more = ids[0].tolist()
        texts = vocabulary.texts(more)
        special = [number in vocabulary.special for number in more]
        raw = [p.text if p.word is None else p.gap + p.text for p in self.pieces]
        apart = [p.word is None for p in self.pieces]
        pieces = pieces_from([*raw, *texts], [*apart, *special])
        pieces = [replace(p, sink=p.sink or i == self.sink) for i, p in enumerate(pieces)]
        written = "".join(t for t, mark in zip(texts, special, strict=True) if not mark)
        return Prompt(self.text + written, torch.cat([self.ids, ids], 1), pieces)

    @property
    def sink(self) -> int | None:
        return next((i for i, piece in enumerate(self.pieces) if piece.sink), None)


def read_prompt(given: Any, vocabulary: Vocabulary, name: str) -> Prompt:
    """A text, or a list of messages: {"role": "user", "content": "..."}."""
    tokenizer = vocabulary.tokenizer
    is_chat = isinstance(given, list)
    text = rendered(given, tokenizer, name) if is_chat else given
    if not isinstance(text, str):
        raise InputError(
            f"a text was expected, not {type(text).__name__}; give a string, or a chat as a list "
            'of messages such as {"role": "user", "content": "Hello"}'
        )
    check_text(text)
    encoding = tokenizer(text, add_special_tokens=not is_chat, verbose=False).encodings[0]
    ids = encoding.ids
    # Some tokenizers end a text with a mark; what follows the mark is not what follows the text.
    count = max((i for i, mark in enumerate(encoding.special_tokens_mask) if not mark), default=0)
    texts = slices(encoding, text)[: count + 1]
    pieces = pieces_from(texts, [number in vocabulary.special for number in ids[: count + 1]])
    pieces = [
        replace(piece, unknown=token) if number == vocabulary.unknown else piece
        for piece, number, token in zip(pieces, ids, encoding.tokens, strict=False)
    ]
    return Prompt(text, torch.tensor([ids[: count + 1]]), pieces)


def rendered(messages: Sequence[Any], tokenizer: Any, name: str) -> str:
    """A chat as the text that the model was trained on, with the start of the answer."""
    if not messages or not all(
        isinstance(m, dict) and {"role", "content"} <= set(m) for m in messages
    ):
        raise InputError(
            "a list is read as a chat: messages such as "
            '{"role": "user", "content": "Hello"}; several prompts are explained one at a time'
        )
    if not tokenizer.chat_template:
        raise InputError(
            f"{name} has no chat template: it was not made for chats; give the prompt as one text"
        )
    try:
        return tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
    except Exception as error:  # templates raise what they like
        raise InputError(f"{name}'s chat template refuses this: {first_line(error)}") from error


def with_sink(prompt: Prompt, explainer: Explainer) -> Prompt:
    """The prompt, its first piece marked where it is a start token or attention sinks into it."""
    if len(prompt) < 2:
        return prompt
    if prompt.pieces[0].word is not None and not _sinks(prompt, explainer):
        return prompt
    return replace(prompt, pieces=[replace(prompt.pieces[0], sink=True), *prompt.pieces[1:]])


def _sinks(prompt: Prompt, explainer: Explainer) -> bool:
    """Whether the first piece draws attention that others would share, in the prompt's start.

    The mean over all maps, of the later half of the queries; a few pieces share attention anyway.
    """
    few = {"input_ids": prompt.ids[:, :LOOKED_AT]}
    count = few["input_ids"].shape[1]
    seen = Recording(explainer, few, remember=False).trace.seen.attention
    shares = [
        float(seen_map.weights.detach()[..., count // 2 :, 0].mean())
        for seen_map in seen
        if seen_map.weights.shape[-2:] == (count, count)
    ]
    return bool(shares) and sum(shares) / len(shares) > max(SINKING, 2 / (count // 2 + 1))


def sink_notes(prompt: Prompt, relevance: Tensor) -> list[str]:
    """That the sink is left out of the colours, where it has relevance, and how much."""
    if prompt.sink is None:
        return []
    sizes = relevance.abs()
    share = float(sizes[..., prompt.sink].sum() / sizes.sum().clamp(min=1e-30))
    if share < LITTLE:
        return []
    return [
        f'the first token "{prompt.pieces[prompt.sink].text}" has {share:.0%} of the relevance: '
        "language models attend to it whatever it says, so it is left out of the colours"
    ]
