"""A text that is longer than the model reads: windows of it, and the means over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from whyformer.erasing import output_without
from whyformer.errors import InputError
from whyformer.explanation import Explanation, Part
from whyformer.methods import get_method
from whyformer.models.recorded import Ask, Recorded
from whyformer.recording import Recording
from whyformer.targets import ResolvedTarget, Resolver
from whyformer.tokens import Tokens
from whyformer.words import unknown_note, words_of

if TYPE_CHECKING:
    from whyformer.models.texts import TextInput, TextPipeline

#: windows that go through the model together, at most
WINDOWS_AT_ONCE = 8
#: bytes of windows that go through the model together, and of those that are kept
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Windows:
    """A long text cut up: part ``cut`` in windows with ``room`` pieces each, the other whole."""

    text: TextInput
    whole: Any
    encoding: Any
    cut: int
    room: int
    overlap: int

    def __len__(self) -> int:
        return len(self.encoding["input_ids"])

    @property
    def note(self) -> str:
        return (
            f"the text has {len(self.whole.encodings[0])} pieces: it was read in {len(self)} "
            f"windows of up to {self.room} that overlap by {self.overlap}; logits and relevance "
            "are their means"
        )

    def batches(self, at_once: int = WINDOWS_AT_ONCE) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """A few windows at a time, and where their tokens stand in the text; -1 is nowhere."""
        encodings = self.encoding.encodings
        special = torch.tensor([window.special_tokens_mask for window in encodings])
        places = torch.tensor([self._places(i) for i in range(len(self))])
        for i in range(0, len(self), at_once):
            few = slice(i, i + at_once)
            inputs = {key: value[few] for key, value in self.encoding.items()}
            yield {**inputs, "special_tokens_mask": special[few]}, places[few]

    def _places(self, window: int) -> list[int]:
        first_of_second = self.whole.encodings[0].sequence_ids.count(0)
        following = [0, first_of_second]
        following[self.cut] += window * (self.room - self.overlap)
        places = []
        for part in self.encoding.encodings[window].sequence_ids:
            places.append(-1 if part is None else following[part])
            if part is not None:
                following[part] += 1
        return places


class RecordedWindows(Recorded):
    """A long text, window by window. The forwards are kept where they take little memory."""

    def __init__(self, pipeline: TextPipeline, windows: Windows, progress: bool) -> None:
        self._pipeline, self._windows, self._progress = pipeline, windows, progress
        self._kept: list[tuple[Recording, Tensor]] | None = None
        first, _ = next(windows.batches(1))
        each = max(1, Recording(pipeline.explainer, first, remember=False).bytes)
        self._at_once = max(1, min(WINDOWS_AT_ONCE, MOST_BYTES // each))
        if each * len(windows) <= MOST_BYTES:
            self._kept = list(self._recordings("reading", remember=True))
        logits = [recording.logits for recording, _ in self._recordings("reading")]
        super().__init__(pipeline, torch.cat(logits).mean(0, keepdim=True))
        self._pieces = pipeline.pieces(windows.whole, [windows.text])

    @property
    def bytes(self) -> int:
        return sum(recording.bytes for recording, _ in self._kept or [])

    @property
    def units(self) -> list[list[int]]:
        return [list(word.pieces) for word in words_of(self._pieces[0])]

    def _without(self, tokens: Sequence[int]) -> Tensor:
        gone = torch.tensor(tokens, dtype=torch.long)
        left = [
            output_without(recording, torch.isin(places, gone).to(recording.logits.device))
            for recording, places in self._recordings("erasing")
        ]
        return torch.cat(left).mean(0, keepdim=True)

    def _recordings(self, what: str, remember: bool = False) -> Iterator[tuple[Recording, Tensor]]:
        if self._kept is not None:
            yield from self._kept
            return
        with tqdm(
            total=len(self._windows), desc=what, unit="window", disable=not self._progress
        ) as bar:
            for inputs, places in self._windows.batches(self._at_once):
                yield Recording(self._pipeline.explainer, inputs, remember=remember), places
                bar.update(len(places))

    def _explain(self, target: Any, ask: Ask) -> Explanation:
        """Windows have no matrix of the whole text: ``matrix`` has no effect."""
        if ask.options.get("keep_blocks"):
            raise InputError("the blocks of a text in several windows cannot be kept as one")
        asked = Resolver(self.logits, self.logits, self.pipeline.labels, []).resolve(target)
        specific = get_method(ask.method).class_specific
        total: Tensor | None = None
        notes: list[str] = []
        seen = torch.zeros(len(self._windows.whole.encodings[0]))
        for recording, places in self._recordings(ask.method):
            question = _for_each(asked) if specific else None
            answer = ask(recording, question, matrix=False)
            notes += answer.notes
            relevance = answer.relevance.double().cpu()
            if relevance.ndim == 3:
                relevance = relevance.transpose(0, 1)
            inside = places >= 0
            if total is None:
                total = relevance.new_zeros(*relevance.shape[:-2], len(seen))
            total.index_add_(-1, places[inside], relevance[..., inside])
            seen.index_add_(0, places[inside], torch.ones(int(inside.sum())))
        assert total is not None
        merged = (total / seen).unsqueeze(0).to(self.logits)
        tokens = Tokens("text", torch.ones(1, len(seen), dtype=torch.bool), name="input_ids")
        return Explanation(
            logits=self.logits,
            target=asked.index if specific else None,
            method=ask.method,
            preset=ask.preset,
            parts=(Part(tokens, merged, pieces=self._pieces),),
            notes=(self._windows.note, *unknown_note(self._pieces), *dict.fromkeys(notes)),
            labels=self.pipeline.labels,
            problem=self.pipeline.explainer.problem,
        )


def _for_each(asked: ResolvedTarget) -> Any:
    """The whole text's question, put to each of its windows."""
    if asked.index is None:
        (((_, seed),),) = asked.starts
        return lambda logits: (logits * seed).sum(-1)
    return asked.index.tolist() if asked.several else int(asked.index)
