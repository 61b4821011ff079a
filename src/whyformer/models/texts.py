"""Text classifiers: from sentences, pairs and long texts to what the model reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.explanation import Explanation, Part
from whyformer.methods import get_method
from whyformer.models.pipeline import Pipeline, Recorded
from whyformer.recording import Recording
from whyformer.targets import ResolvedTarget, Resolver
from whyformer.tokens import Tokens
from whyformer.words import Piece, pieces_of

#: windows that go through the model together
WINDOWS_AT_ONCE = 8
#: how much of a window its neighbour repeats
OVERLAP = 0.25

TextInput = str | tuple[str, str]


class TextPipeline(Pipeline):
    """A text classifier with its own tokenizer.

    Reads a text, a pair of texts as a tuple, or a list of either. A text longer than the model
    takes is read in windows that overlap by a quarter: their logits are averaged, and so is the
    relevance of a piece that several windows saw.
    """

    kind = takes = "text"

    def __init__(self, name: str, explainer: Explainer, tokenizer: Any, longest: int) -> None:
        super().__init__(name, explainer)
        self.tokenizer = tokenizer
        self.longest = longest

    def record(
        self, inputs: TextInput | Sequence[TextInput], *, progress: bool = False
    ) -> Recorded:
        """Read texts and run the model's forward; ``progress`` shows a bar over many windows."""
        texts: list[Any] = list(inputs) if isinstance(inputs, list) else [inputs]
        if not texts:
            raise InputError("the list of texts is empty; give at least one")
        for text in texts:
            check_text(text)
        encoding = self._encode(texts, verbose=False)
        lengths = [len(pieces) for pieces in encoding["input_ids"]]
        if max(lengths) <= self.longest:
            padded = self._encode(texts, padding=True, return_tensors="pt")
            return RecordedTexts(
                self,
                self.explainer.record(padded),
                pieces_of(padded, len(texts), texts),
            )
        if len(texts) > 1:
            raise InputError(
                f"text {lengths.index(max(lengths))} has {max(lengths)} pieces, more than the "
                f"model's {self.longest}; texts that need windows are explained one at a time"
            )
        return RecordedWindows(self, self._windows(texts[0]), progress)

    def batches(self, text: TextInput) -> list[dict[str, Tensor]]:
        """What the model reads of a text: all of it at once, or some windows at a time."""
        if len(self._encode([text], verbose=False)["input_ids"][0]) <= self.longest:
            return [dict(self._encode([text], return_tensors="pt"))]
        return [inputs for inputs, _ in self._windows(text).batches()]

    @property
    def reads(self) -> dict[str, Any]:
        return {"longest": self.longest}

    def _prepared_example(self) -> bytes:
        settings = json.loads(self.tokenizer.backend_tokenizer.to_str())
        for passing in ("truncation", "padding"):
            settings.pop(passing, None)
        return json.dumps(settings, sort_keys=True).encode()

    def reading(self, longest: int) -> TextPipeline:
        """The same model, read fewer pieces at once than it could take."""
        fewest = self.tokenizer.num_special_tokens_to_add(pair=False) + 1
        if not fewest <= longest <= self.longest:
            raise InputError(
                f"longest is {longest}; expected {fewest} to {self.longest}, what {self.name} reads"
            )
        return TextPipeline(self.name, self.explainer, self.tokenizer, longest)

    def fitting(self, tokens: Sequence[str], from_end: bool = False) -> int:
        """How many of a text's tokens the model reads at once, from its start or its end."""
        encoding = self.tokenizer(" ".join(tokens), add_special_tokens=False, verbose=False)
        offsets = encoding.encodings[0].offsets
        room = self.longest - self.tokenizer.num_special_tokens_to_add(pair=False)
        if len(offsets) <= room:
            return len(tokens)
        ends = np.cumsum([len(token) + 1 for token in tokens]) - 1
        if from_end:
            starts = ends - [len(token) for token in tokens]
            return int((starts >= offsets[-room][0]).sum())
        return int((ends <= offsets[room - 1][1]).sum())

    def _encode(self, texts: Sequence[TextInput], **options: Any) -> Any:
        pairs = {isinstance(text, tuple) for text in texts}
        if len(pairs) > 1:
            raise InputError("single texts and pairs are mixed; give either, not both at once")
        if pairs == {True}:
            first, second = zip(*texts, strict=True)
            return self.tokenizer(list(first), list(second), **options)
        return self.tokenizer(list(texts), **options)

    def _windows(self, text: TextInput) -> Windows:
        """The longer part in overlapping windows, each beside the whole of the shorter part."""
        parts = (text,) if isinstance(text, str) else text
        lengths = [
            len(self.tokenizer(part, add_special_tokens=False, verbose=False)["input_ids"])
            for part in parts
        ]
        cut = max(range(len(parts)), key=lengths.__getitem__)
        special = self.tokenizer.num_special_tokens_to_add(pair=len(parts) == 2)
        room = self.longest - special - (sum(lengths) - lengths[cut])
        if room < (16 if len(parts) == 2 else 1):
            raise InputError(
                f"the text has {' and '.join(map(str, lengths))} pieces, too many for a model that "
                f"reads {self.longest}; shorten {'one of the two' if len(parts) == 2 else 'it'}"
            )
        overlap = int(room * OVERLAP)
        side = self.tokenizer.truncation_side
        self.tokenizer.truncation_side = "right"
        try:
            encoding = self._encode(
                [text],
                truncation=("only_first", "only_second")[cut],
                max_length=self.longest,
                stride=overlap,
                return_overflowing_tokens=True,
                padding=True,
                return_tensors="pt",
            )
        finally:
            self.tokenizer.truncation_side = side
        encoding.pop("overflow_to_sample_mapping", None)
        whole = self._encode([text], add_special_tokens=False, verbose=False)
        return Windows(text, whole, encoding, cut, room, overlap)


class RecordedTexts(Recorded):
    """Texts that a model has read, ready for questions."""

    def __init__(
        self, pipeline: Pipeline, recording: Recording, pieces: list[list[Piece]] | None
    ) -> None:
        super().__init__(pipeline, recording.logits)
        self._recording, self._pieces = recording, pieces

    def _explain(self, target: Any, method: str, preset: str, **options: Any) -> Explanation:
        explanation = self._recording.explain(target, method, preset, **options)
        return explanation.showing(explanation.tokens.name, pieces=self._pieces)


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

    def batches(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """A few windows at a time, and where their tokens stand in the text; -1 is nowhere."""
        encodings = self.encoding.encodings
        special = torch.tensor([window.special_tokens_mask for window in encodings])
        places = torch.tensor([self._places(i) for i in range(len(self))])
        for i in range(0, len(self), WINDOWS_AT_ONCE):
            few = slice(i, i + WINDOWS_AT_ONCE)
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
    """A long text, window by window. The forwards are kept where the windows are few."""

    def __init__(self, pipeline: Pipeline, windows: Windows, progress: bool) -> None:
        self._pipeline, self._windows, self._progress = pipeline, windows, progress
        self._kept: list[tuple[Recording, Tensor]] | None = None
        if len(windows) <= WINDOWS_AT_ONCE:
            self._kept = list(self._recordings("reading"))
        logits = [recording.logits for recording, _ in self._recordings("reading")]
        super().__init__(pipeline, torch.cat(logits).mean(0, keepdim=True))
        self._pieces = pieces_of(windows.whole, 1, [windows.text])

    def _recordings(self, what: str) -> Iterator[tuple[Recording, Tensor]]:
        if self._kept is not None:
            yield from self._kept
            return
        with tqdm(
            total=len(self._windows), desc=what, unit="window", disable=not self._progress
        ) as bar:
            for inputs, places in self._windows.batches():
                yield self._pipeline.explainer.record(inputs), places
                bar.update(len(places))

    def _explain(
        self, target: Any, method: str, preset: str, *, matrix: bool = False, **options: Any
    ) -> Explanation:
        """Windows have no matrix of the whole text: ``matrix`` has no effect."""
        if options.pop("keep_blocks", False):
            raise InputError("the blocks of a text in several windows cannot be kept as one")
        asked = Resolver(self.logits, self.logits, self.pipeline.labels, []).resolve(target)
        specific = get_method(method).class_specific
        total: Tensor | None = None
        seen = torch.zeros(len(self._windows.whole.encodings[0]))
        for recording, places in self._recordings(method):
            question = _for_each(asked) if specific else None
            answer = recording.explain(question, method, preset, **options)
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
            relevance=merged,
            logits=self.logits,
            target=asked.index if specific else None,
            method=method,
            preset=preset,
            tokens=tokens,
            parts=(Part(tokens, merged, pieces=self._pieces),),
            notes=(self._windows.note, *answer.notes),
            labels=self.pipeline.labels,
            problem=self.pipeline.explainer.problem,
            pieces=self._pieces,
        )


def _for_each(asked: ResolvedTarget) -> Any:
    """The whole text's question, put to each of its windows."""
    if asked.index is None:
        (((_, seed),),) = asked.starts
        return lambda logits: (logits * seed).sum(-1)
    return asked.index.tolist() if asked.several else int(asked.index)


def check_text(text: Any) -> None:
    """A text, or a pair of texts, that holds something to explain."""
    parts = text if isinstance(text, tuple) and len(text) == 2 else (text,)
    if not all(isinstance(part, str) for part in parts):
        raise InputError(
            f"a text was expected, not {type(text).__name__}; give a string, a pair of strings as "
            "a tuple, or a list of either; for token ids use whyformer.Explainer"
        )
    if any("\ud800" <= letter <= "\udfff" for part in parts for letter in part):
        raise InputError("the text holds bytes that are not UTF-8")
    if not all(part.strip() for part in parts):
        raise InputError("the text is empty: there is nothing to explain")
