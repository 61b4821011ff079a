"""Models that read one thing and write another: translation, summaries, speech to text."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.explanation import NEXT_WORD, Explanation
from whyformer.models.answers import USUAL, RecordedAnswer, Source
from whyformer.models.hearing import Hearing, alone, ear_of, with_sound
from whyformer.models.hugging_face import quiet_transformers
from whyformer.models.pipeline import TokenPipeline
from whyformer.models.sounds import Ear, SoundInput
from whyformer.models.texts import check_text
from whyformer.models.vocabulary import Vocabulary, load_tokenizer
from whyformer.words import pieces_of

if TYPE_CHECKING:
    pass

#: tokens of an answer where the model's own settings name no limit
MOST_TOKENS = 200


class AnsweringPipeline(TokenPipeline):
    """A model that reads a source and writes an answer, word by word.

    Without a target every token of the answer is explained, by the source and by the words so far,
    two parts on one scale. ``target`` is a word of the answer; with ``position``, which counts the
    answer's tokens from 0, it may be any token that could stand there. ``answer`` is a text that
    the model did not write itself, such as a translation that was expected.
    """

    usual = USUAL

    def __init__(self, name: str, explainer: Explainer, tokenizer: Any) -> None:
        super().__init__(name, explainer)
        self.tokenizer = tokenizer
        head: Any = explainer.model
        self.vocabulary = Vocabulary(tokenizer, len(head.get_output_embeddings().weight))
        if not explainer.labels_given:
            explainer.labels = self.vocabulary.names
        explainer.problem = NEXT_WORD

    @abstractmethod
    def read(self, inputs: Any) -> Source:
        """What the encoder reads."""

    def generate(
        self, inputs: Any, tokens: int | None = None, *, progress: bool = False, **options: Any
    ) -> RecordedAnswer:
        """Let the model write, to be asked about any of its words.

        At most ``tokens``; ``options`` go to transformers' ``model.generate``. Without any, the
        model's own settings hold, and nothing is left to chance.
        """
        source = self.read(inputs)
        ids = self._write(source, tokens, options)
        return RecordedAnswer(self, source, ids, progress)

    def record(
        self, inputs: Any, *, answer: str | None = None, progress: bool = False
    ) -> RecordedAnswer:
        """Read a source and write the answer, or take the one that is given."""
        if answer is None:
            return self.generate(inputs, progress=progress)
        source = self.read(inputs)
        return RecordedAnswer(self, source, self._given(answer), progress)

    def _taken(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"answer": options.pop("answer", None)}

    def _write(self, source: Source, tokens: int | None, options: dict[str, Any]) -> Tensor:
        """(1, tokens), the decoder's start included."""
        model: Any = self.model
        settings = model.generation_config
        if tokens is not None and tokens < 1:
            raise InputError(f"an answer of {tokens} tokens was asked for; give at least 1")
        if tokens is None and "max_length" not in options and not _limited(settings):
            tokens = MOST_TOKENS
        limit = {} if tokens is None else {"max_new_tokens": tokens}
        chosen = {"do_sample": False, **limit, **options, "return_dict_in_generate": True}
        inputs = self.explainer.place(source.inputs)
        with quiet_transformers(), torch.inference_mode():
            return model.generate(**dict(inputs), **chosen)["sequences"][:1].cpu().clone()

    def _given(self, answer: str) -> Tensor:
        """An answer as the decoder would have been taught it."""
        check_text(answer)
        config: Any = self.model.config
        settings: Any = self.model.generation_config
        start = settings.decoder_start_token_id
        start = config.decoder_start_token_id if start is None else start
        labels = self.tokenizer(text_target=answer)["input_ids"]
        return torch.tensor([labels if labels[0] == start else [start, *labels]])


def _limited(settings: Any) -> bool:
    """Whether a model's own settings say how long an answer may be; 20 is transformers' default."""
    return settings.max_new_tokens is not None or settings.max_length not in (None, 20)


class SpeechPipeline(Hearing, AnsweringPipeline):
    """A model that writes what it hears: Whisper and similar ones."""

    kind, takes = "speech", "sound"

    def __init__(self, name: str, explainer: Explainer, tokenizer: Any, ear: Ear) -> None:
        super().__init__(name, explainer, tokenizer)
        self.ear = ear

    def read(self, inputs: SoundInput) -> Source:
        notes: list[str] = []
        sound = self.ear.hear(alone(inputs), notes)
        features = self.ear.prepare(sound)
        name = next(key for key in features if "mask" not in key)

        def show(explanation: Explanation) -> Explanation:
            return with_sound(explanation, name, sound, self.ear.seconds)

        return Source(features, tuple(notes), show, sound.samples.nbytes)


class TextToTextPipeline(AnsweringPipeline):
    """A model that writes a text from a text: T5, BART, Marian and similar ones."""

    kind, takes = "translation", "text"

    def __init__(self, name: str, explainer: Explainer, tokenizer: Any) -> None:
        super().__init__(name, explainer, tokenizer)
        names = ("max_encoder_position_embeddings", "max_position_embeddings")
        stated = [getattr(self.model.config, limit, None) for limit in names]
        self.longest = next((limit for limit in stated if isinstance(limit, int)), None)

    def read(self, inputs: str) -> Source:
        if not isinstance(inputs, str):
            raise InputError(
                f"a text was expected, not {type(inputs).__name__}; sources are explained one at "
                "a time"
            )
        check_text(inputs)
        encoding = self.tokenizer([inputs], return_tensors="pt", verbose=False)
        encoding.pop("token_type_ids", None)
        count = encoding["input_ids"].shape[1]
        if self.longest is not None and count > self.longest:
            raise InputError(
                f"the text has {count} pieces, more than the {self.longest} that {self.name} "
                "takes; shorten it"
            )
        pieces = pieces_of(encoding, 1, [inputs], (self.tokenizer.unk_token,))

        def show(explanation: Explanation) -> Explanation:
            return explanation.showing("input_ids", pieces=pieces, title="source")

        return Source(dict(encoding), (), show)


def speech_pipeline(folder: Path, name: str, explainer: Explainer) -> SpeechPipeline:
    return SpeechPipeline(name, explainer, load_tokenizer(folder, name), ear_of(folder, name))


def translation_pipeline(folder: Path, name: str, explainer: Explainer) -> TextToTextPipeline:
    return TextToTextPipeline(name, explainer, load_tokenizer(folder, name))
