"""An answer that a model wrote, to be asked about any of its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from whyformer.errors import InputError, TargetError
from whyformer.explanation import Explanation
from whyformer.methods import get_method
from whyformer.models.recorded import Ask, RecordedInput, Show
from whyformer.models.vocabulary import pieces_from
from whyformer.targets import Contrast, class_index, listed
from whyformer.words import words_of

if TYPE_CHECKING:
    from whyformer.models.answering import AnsweringPipeline

#: Chefer et al. 2021 made it for encoders with decoders; balanced, it costs one backward a word
USUAL = "generic_attention:gradient=libra"
DECODER = "decoder_input_ids"
#: a share of the relevance that start tokens may have without a word about it
UNSAID = 0.05


@dataclass(frozen=True)
class Source:
    """What the encoder reads, what was decided on the way, and how an explanation shows it.

    ``bytes`` are those that showing it keeps.
    """

    inputs: dict[str, Tensor]
    notes: tuple[str, ...]
    show: Show
    bytes: int = 0


@dataclass(frozen=True)
class ResolvedQuestion:
    """One question in the answer's terms: its words, and the same for the recording.

    ``row`` and ``token`` are the place in the output, where one token was asked about.
    """

    words: str
    question: Any
    row: int | None = None
    token: int | None = None


class RecordedAnswer(RecordedInput):
    """A source that a model has read, and the answer that it wrote.

    ``len()`` counts the answer's tokens, ``words`` lists them, and an index gives the explanation
    of one.
    """

    def __init__(
        self, pipeline: AnsweringPipeline, source: Source, ids: Tensor, progress: bool
    ) -> None:
        self._why, self._progress = pipeline, progress
        self.ids: list[int] = ids[0].tolist()
        special = pipeline.vocabulary.special
        marks = [number in special for number in self.ids]
        if all(marks):
            raise InputError(
                "the model wrote nothing: its answer ends where it starts; there is nothing to "
                "explain"
            )
        self.texts = pipeline.vocabulary.texts(self.ids)
        self.pieces = pieces_from(self.texts, marks)
        recording = pipeline.explainer.record({**source.inputs, DECODER: ids[:, :-1]})
        held = source.bytes + sum(value.nbytes for value in source.inputs.values())
        super().__init__(pipeline, recording, source.notes, source.show, held=held)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def words(self) -> list[str]:
        """The answer's tokens as they are written, with the space that starts a word."""
        return [self.texts[place] for place in self._places]

    @property
    def text(self) -> str:
        return "".join(self.words).strip()

    @property
    def _places(self) -> list[int]:
        """The places of the answer's own tokens in ``ids``: marks are no words."""
        return [i for i, piece in enumerate(self.pieces) if piece.word is not None]

    @property
    def places(self) -> list[str]:
        return [word.strip() for word in self.words]

    def likeliest(self, count: int, position: Any = None) -> list[int]:
        """Without a position every word of the answer is asked about."""
        if position is None:
            return []
        row = self._places[self._checked(position)] - 1
        return self.logits[0, row].argsort(descending=True)[:count].tolist()

    def index_of(self, item: Any) -> Any:
        """Words stay words: which tokens they are, the answer tells."""
        return item

    def __getitem__(self, number: int) -> Explanation:
        return self.explain(None, position=self._checked(number))

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._why.name!r}, {self.text!r})"

    def _explain(self, target: Any, ask: Ask, position: int | None = None) -> Explanation:
        """Encoders and decoders have no matrix of all tokens: ``matrix`` has no effect."""
        if not get_method(ask.method).class_specific:
            return self._shown(ask(self._recording, None, matrix=False))
        asked = self._questions(target, position)
        if len(asked) == 1:
            found = ask(self._recording, asked[0].question, matrix=False)
            words = () if asked[0].token is not None else (asked[0].words,)
            return self._shown(replace(found, asked=words))
        if ask.options.get("keep_blocks"):
            raise InputError("the blocks of several words cannot be kept as one; ask about one")
        bar = tqdm(asked, ask.method, unit="word", disable=not self._progress)
        answers = []
        for item in bar:
            self.pause()
            answers.append(ask(self._recording, item.question, matrix=False))
        return self._shown(together(answers, asked))

    def _shown(self, explanation: Explanation) -> Explanation:
        """With the source and the words so far as people see them."""
        part = explanation.part(DECODER)
        pieces = self.pieces[:-1]
        own = torch.tensor([[piece.word is not None for piece in pieces]])
        tokens = replace(part.tokens, content=own.to(part.content.device))
        notes = (*explanation.notes, *self._start_notes(part.relevance, own))
        if self.ids[-1] not in self._why.vocabulary.special:
            notes += (f"the answer was cut after {len(self)} tokens",)
        shown = explanation.showing(DECODER, tokens=tokens, pieces=[pieces], title="words so far")
        return super()._shown(replace(shown, notes=notes))

    def _start_notes(self, relevance: Tensor, own: Tensor) -> list[str]:
        """How much fell on the tokens that start every answer, which has no colour."""
        sizes = relevance.abs().cpu()
        share = float((sizes * ~own).sum() / sizes.sum().clamp(min=1e-30))
        if share < UNSAID:
            return []
        return [
            f"of the words so far the start tokens have {share:.0%} of the relevance; they say "
            "nothing and have no colour"
        ]

    # -- from what people ask to rows and tokens

    def _questions(self, target: Any, position: int | None) -> list[ResolvedQuestion]:
        target = listed(target)
        if isinstance(target, list):
            if len(target) == 1 and isinstance(target[0], list):
                target = target[0]
            return [found for item in target for found in self._questions(item, position)]
        if callable(target):
            return [ResolvedQuestion("the function", target)]
        if isinstance(target, tuple):
            if len(target) != 2:
                raise TargetError(f"target {target!r}; give (position, word)")
            position, target = target
        if position is not None:
            return [self._at(self._checked(position), target)]
        if target is None:
            return [self._at(number, None) for number in range(len(self))]
        return self._in_answer(target)

    def _checked(self, position: Any) -> int:
        count = len(self)
        if isinstance(position, bool) or not isinstance(position, int):
            raise TargetError(f"position {position!r}; give the number of a token of the answer")
        if not -count <= position < count:
            raise TargetError(
                f"position {position} of an answer with {count} tokens; choose from 0 to "
                f"{count - 1}"
            )
        return position % count

    def _at(self, number: int, target: Any) -> ResolvedQuestion:
        """The answer's token, or another one in its place."""
        row = self._places[number] - 1
        if isinstance(target, Contrast):
            first, second = self._at(number, target.a), self._at(number, target.b)
            question = Contrast(first.question, second.question)
            return ResolvedQuestion(f"{first.words} rather than {second.words}", question)
        token = self.ids[row + 1] if target is None else self._token(target)
        return ResolvedQuestion(self._why.vocabulary.names[token].strip(), (row, token), row, token)

    def _token(self, target: Any) -> int:
        if isinstance(target, str):
            spaced = f" {target}"  # of a word that is no token itself, the one that starts it
            known = self._why.vocabulary.places
            alone = target not in known and spaced in known
            return self._why.vocabulary.index(spaced if alone else target)
        return class_index(target, len(self._why.vocabulary), None)

    def _in_answer(self, target: Any) -> list[ResolvedQuestion]:
        """Wherever the answer has the word."""
        if isinstance(target, Contrast):
            if target.a is None:
                raise TargetError("say where the other word would have stood: position=0, ...")
            return [
                self._at(self._places.index(found.row + 1), target)
                for found in self._in_answer(target.a)
                if found.row is not None
            ]
        if not isinstance(target, str):
            places = [place for place in self._places if self.ids[place] == target]
            found = [self._at(self._places.index(place), None) for place in places]
        else:
            wanted = target.strip().casefold()
            found = [
                self._word(word.pieces)
                for word in words_of(self.pieces)
                if word.text.strip().casefold() == wanted
            ] or [
                self._at(number, None)
                for number, word in enumerate(self.words)
                if word.strip().casefold() == wanted
            ]
        if not found:
            raise TargetError(
                f"the answer has no word {target!r}: it is {self.text!r}; to ask about a word that "
                "was not written, say where it would have stood: position=0 is the first token"
            )
        return found

    def _word(self, places: Sequence[int]) -> ResolvedQuestion:
        """A word of the answer; of several tokens, the sum of their logits."""
        if len(places) == 1:
            return self._at(self._places.index(places[0]), None)
        chosen = [(place - 1, self.ids[place]) for place in places]

        def total(logits: Tensor) -> Tensor:
            return torch.stack([logits[:, row, token] for row, token in chosen]).sum(0)

        return ResolvedQuestion("".join(self.texts[place] for place in places).strip(), total)


def together(answers: Sequence[Explanation], asked: Sequence[ResolvedQuestion]) -> Explanation:
    """One explanation with several targets, of one for each."""
    first = answers[0]
    relevances = zip(*([part.relevance for part in a.parts] for a in answers), strict=True)
    parts = zip(first.parts, relevances, strict=True)
    known = [(item.row, item.token) for item in asked if item.row is not None]
    placed = len(known) == len(asked)
    return replace(
        first,
        target=torch.tensor([[token for _, token in known]]) if placed else None,
        position=torch.tensor([[row for row, _ in known]]) if placed else None,
        asked=tuple(item.words for item in asked),
        parts=tuple(
            replace(part, relevance=torch.stack(each, 1), input_relevance=None)
            for part, each in parts
        ),
        rows=None,
        notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
    )
