"""Language models: why this word follows, and why it rather than that one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.rules import DEFAULT_PRESET
from whyformer.errors import InputError, TargetError
from whyformer.explainer import Explainer
from whyformer.explanation import NEXT_WORD, Explanation
from whyformer.methods import get_method
from whyformer.models.pipeline import TokenPipeline
from whyformer.models.prompts import Message, Prompt, read_prompt, sink_notes, with_sink
from whyformer.models.recorded import Ask, Recorded
from whyformer.models.room import check_room, longest_prompt
from whyformer.models.vocabulary import Vocabulary, fast, load_tokenizer, quoted
from whyformer.models.written import Written
from whyformer.recording import Recording
from whyformer.targets import Contrast, class_index, listed
from whyformer.words import Piece, unknown_note

#: longer prompts have no matrix of every piece's own row: no page shows it
MOST_ROWS = 1024


class LanguagePipeline(TokenPipeline):
    """A model that writes, with its own tokenizer.

    Reads a text, or a chat as a list of messages. Its classes are the tokens of its vocabulary,
    called by their text: " girl" starts a word, "girl" goes on with one. ``position=p`` asks about
    the token that follows piece p, counted from 0, a start token included, or from the end; by
    default -1, the last piece.
    """

    kind = "language"
    takes = "text"
    #: of stories with a known deciding word it finds many more than the paper's method, at half its
    #: cost (docs/results.md)
    usual = "witness"

    def __init__(self, name: str, explainer: Explainer, tokenizer: Any) -> None:
        super().__init__(name, explainer)
        self.tokenizer = tokenizer
        self.vocabulary = Vocabulary(tokenizer, size_of(explainer.model, tokenizer))
        if not explainer.labels_given:
            explainer.labels = self.vocabulary.names
        explainer.problem = NEXT_WORD
        self.longest = longest_prompt(explainer.model)
        self._takes_rows = "logits_to_keep" in inspect.signature(self.model.forward).parameters

    def read(self, given: str | list[Message]) -> Prompt:
        """The prompt in pieces; one that the model cannot take is refused."""
        prompt = read_prompt(given, self.vocabulary, self.name)
        if self.longest is not None and len(prompt) > self.longest:
            raise InputError(
                f"the prompt has {len(prompt)} pieces, more than the {self.longest} that "
                f"{self.name} takes; shorten it"
            )
        return with_sink(prompt, self.explainer)

    def record(self, inputs: str | list[Message], *, progress: bool = False) -> RecordedPrompt:
        """Read a prompt; ``progress`` has no effect: one forward reads all of it."""
        return RecordedPrompt(self, self.read(inputs))

    def index_of(self, item: Any) -> int:
        """The token of a word, or of a number."""
        if isinstance(item, str):
            return self.vocabulary.index(item)
        return class_index(item, len(self.vocabulary), None)

    def only_rows(self, places: Sequence[int]) -> dict[str, Tensor]:
        """What tells the model to compute the output's rows at these places and no others."""
        return {"logits_to_keep": torch.tensor(places)} if self._takes_rows else {}

    def rows(self, prompt: Prompt, places: Sequence[int], maps: bool = True) -> Recording:
        """The forward, recorded, with the output's rows at these places and no others."""
        inputs: dict[str, Any] = {"input_ids": prompt.ids, **self.only_rows(places)}
        explainer = self.explainer
        if not self._takes_rows:
            explainer = Explainer(
                self.model,
                output=lambda out: out.logits[:, list(places)],
                labels=self.explainer.labels,
            )
        return Recording(explainer, inputs, content=prompt.content, maps=maps)

    def generate(
        self,
        prompt: str | list[Message],
        tokens: int = 30,
        method: str | None = None,
        preset: str = DEFAULT_PRESET,
        *,
        progress: bool = True,
        **options: Any,
    ) -> Written:
        """Let the model write, and explain every token that it wrote.

        ``options`` go to transformers' ``model.generate``; without any the likeliest token is
        taken each time. One forward reads the whole text, each token costs a method's backward.

        Examples:
            >>> why = whyformer.load("stories15M")
            >>> why.generate("Once upon a time", tokens=3, progress=False).save("why.html")
            PosixPath('why.html')
        """
        from whyformer.models.writing import write

        start = self.read(prompt)
        return write(self, start, tokens, method or self.usual, preset, options, progress=progress)


class RecordedPrompt(Recorded):
    """A prompt that a model has read, to be asked about the words that may follow any piece."""

    def __init__(self, pipeline: LanguagePipeline, prompt: Prompt) -> None:
        self.prompt = prompt
        self._why = pipeline
        self._kept: tuple[int, bool, Recording] | None = None
        super().__init__(pipeline, self._read_at(len(prompt) - 1, maps=False).logits[:, 0])

    def index_of(self, item: Any) -> int:
        return self._why.index_of(item)

    @property
    def bytes(self) -> int:
        return 0 if self._kept is None else self._kept[2].bytes

    @property
    def pieces(self) -> list[Piece]:
        return self.prompt.pieces

    @property
    def places(self) -> list[str]:
        return [piece.text for piece in self.prompt.pieces]

    def likeliest(self, count: int, position: Any = None) -> list[int]:
        logits = self._read_at(self._place(position, None), maps=False).logits[0, 0]
        return logits.argsort(descending=True)[:count].tolist()

    def _explain(self, target: Any, ask: Ask, position: int | None = None) -> Explanation:
        chosen = get_method(ask.method)
        place = self._place(position, target)
        question = self._question(target)
        check_room(self._why.model, chosen, len(self.prompt))
        recording = self._read_at(place, chosen.maps or ask.options.get("keep_blocks", False))
        matrix = ask.options["matrix"] and len(self.prompt) <= MOST_ROWS
        found = ask(recording, question, matrix=matrix)
        logits = recording.logits[:, 0]
        notes = [*found.notes, *unknown_note([self.prompt.pieces])]
        notes += sink_notes(self.prompt, found.relevance)
        found = replace(
            found,
            logits=logits,
            position=None if found.position is None else torch.full_like(found.position, place),
            asked=tuple(self._in_words(item, logits[0]) for item in flat(target))
            if found.asked
            else (),
            notes=(*notes, *self._siblings(target, logits[0])),
            problem=NEXT_WORD,
        )
        return found.showing(found.tokens.name, pieces=[self.prompt.pieces])

    def _read_at(self, place: int, maps: bool) -> Recording:
        """The forward with one row of the output; the last one is kept."""
        kept = self._kept
        if kept is None or kept[0] != place or (maps and not kept[1]):
            self._kept = None
            self._kept = kept = place, maps, self._why.rows(self.prompt, [place], maps)
        return kept[2]

    def _place(self, position: int | None, target: Any) -> int:
        """The piece that is asked about: as said, as the target's tuples say, or the last."""
        named = {item[0] for item in leaves(target) if isinstance(item, tuple) and len(item) == 2}
        named |= set() if position is None else {position}
        if len(named) > 1:
            raise TargetError(
                f"positions {', '.join(map(str, sorted(named)))} are asked about at once; ask "
                "about one after the other"
            )
        place = named.pop() if named else -1
        count = len(self.prompt)
        if isinstance(place, bool) or not isinstance(place, int) or not -count <= place < count:
            raise TargetError(
                f"position {place} of a prompt with {count} pieces; choose from 0 to {count - 1}, "
                f"or from -{count} to -1, counted from its end"
            )
        return place % count

    def _question(self, target: Any) -> Any:
        """The target as the recording reads it: the only row, and the numbers of tokens."""
        target = listed(target)
        if isinstance(target, list):
            return [self._question(item) for item in target]
        if isinstance(target, Contrast):
            return Contrast(self._question(target.a), self._question(target.b))
        if callable(target):
            return lambda logits: target(logits[:, 0])
        return None if target is None else (0, self._why.index_of(word_of(target)))

    def _in_words(self, item: Any, logits: Tensor) -> str:
        if isinstance(item, Contrast):
            return f"{self._in_words(item.a, logits)} rather than {self._in_words(item.b, logits)}"
        word = word_of(item)
        index = int(logits.argmax()) if word is None else self._why.index_of(word)
        return quoted(self._why.vocabulary.names[index])

    def _siblings(self, target: Any, logits: Tensor) -> list[str]:
        """Of words that go on with another: that the same behind a space is likelier."""
        places = self._why.vocabulary.places
        found = []
        for word in filter(lambda word: isinstance(word, str), map(word_of, leaves(target))):
            spaced = places.get(f" {word}")
            if word in places and spaced is not None and logits[spaced] > logits[places[word]]:
                found.append(
                    f"{quoted(word)} goes on with a word; {quoted(f' {word}')}, which starts one, "
                    "is likelier here"
                )
        return found


def language_pipeline(folder: Path, name: str, explainer: Explainer) -> LanguagePipeline:
    return written_by(load_tokenizer(folder, name), name, explainer)


def written_by(tokenizer: Any, name: str, explainer: Explainer) -> LanguagePipeline:
    """A language model that a transformers tokenizer reads and writes texts for."""
    return LanguagePipeline(name, explainer, fast(tokenizer, name))


def size_of(model: nn.Module, tokenizer: Any) -> int:
    """How many tokens the model's head tells apart."""
    find: Any = getattr(model, "get_output_embeddings", lambda: None)
    head = find()
    if head is not None:
        return int(head.weight.shape[0])
    return int(getattr(model.config, "vocab_size", None) or len(tokenizer))


def flat(target: Any) -> Iterator[Any]:
    """The targets of nested lists, one after the other."""
    target = listed(target)
    if isinstance(target, list):
        for item in target:
            yield from flat(item)
    else:
        yield target


def leaves(target: Any) -> Iterator[Any]:
    """The same, a contrast as its two sides."""
    for item in flat(target):
        if isinstance(item, Contrast):
            yield from leaves(item.a)
            yield from leaves(item.b)
        else:
            yield item


def word_of(item: Any) -> Any:
    """What is asked about: (position, word) without the position."""
    return item[1] if isinstance(item, tuple) and len(item) == 2 else item
