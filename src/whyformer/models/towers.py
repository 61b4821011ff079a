"""Two towers, one for images and one for texts: which text fits an image, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from PIL import Image

from whyformer.errors import InputError, ModelError
from whyformer.explainer import Explainer
from whyformer.explanation import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Explanation
from whyformer.methods import Method
from whyformer.models.encoders import EncoderPipeline
from whyformer.models.hugging_face import load_processor, longest_text, prepared_by
from whyformer.models.image_files import ImageInput
from whyformer.models.image_with_text import ImageWithText
from whyformer.models.images import Shown
from whyformer.models.reading import ReadTexts, TextReader
from whyformer.models.recorded import Ask, Recorded, RecordedInput
from whyformer.models.similarity import Side, pooled
from whyformer.models.texts import as_texts
from whyformer.models.vocabulary import load_tokenizer
from whyformer.recording import Recording
from whyformer.targets import Resolver


class TowersPipeline(ImageWithText):
    """An image and texts, of which the model says how well each fits.

    The texts are the classes: ``why("photo.jpg", text=["a cat", "a dog"], target="a cat")``. Or
    another image is compared: ``why("photo.jpg", similar_to="other.jpg")``.
    """

    kind = "towers"
    beside = ("text", "similar_to")
    needs: ClassVar[Mapping[str, str]] = {
        "text": "compares an image with texts, and no text was given; give "
        'text=["a cat", "a cup of coffee"], on the command line --text once for each, or another '
        "image as similar_to, on the command line --similar-to"
    }

    @property
    def labels(self) -> None:
        """None: the classes are the texts that come with an image."""
        return None

    def side(self, kind: str) -> EncoderPipeline:
        """One tower as a model of its own: "image" or "text".

        ``why.side("text")(("a cat", "a kitten"))``: why are two texts similar?
        """
        if kind not in ("image", "text"):
            raise InputError(f"{self.name} has a side for image and one for text, not for {kind!r}")
        explainer = Explainer(Side(self.model, kind), grid=self.explainer.grid)
        notes = [f"the features are the {kind} tower's, projected as they meet the other tower's"]
        reader = self._images if kind == "image" else self._texts
        return EncoderPipeline(self.name, explainer, reader, pooled, notes)

    def check_beside(self, given: Collection[str]) -> None:
        if "similar_to" not in given:
            super().check_beside(given)
        elif "text" in given:
            raise InputError(
                f"{self.name} compares an image with texts or with another image; give text or "
                "similar_to, not both"
            )

    def record(
        self,
        inputs: ImageInput | Sequence[ImageInput],
        *,
        progress: bool = False,
        text: str | Sequence[str] = (),
        similar_to: ImageInput | Sequence[ImageInput] | None = None,
    ) -> Recorded:
        """Read images, each beside all texts, or beside another image, in one forward."""
        texts = as_texts(text)
        if similar_to is not None:
            self.check_beside({"text", "similar_to"} if texts else {"similar_to"})
            return self.side("image").record(inputs, similar_to=similar_to)
        self.check_beside({"text"} if texts else {})
        read = self._texts.read(texts)
        twice = next((t for i, t in enumerate(texts) if t in texts[:i]), None)
        if twice is not None:
            raise InputError(f"the text {twice!r} is given twice; give every text once")
        notes = list(read.notes)
        pixels, shown = self._images.pixels(inputs, notes)
        explainer = Explainer(
            self.model, output=self.explainer.output, labels=texts, grid=self.explainer.grid
        )
        explainer.problem = self.problem(len(texts))
        recording = explainer.record({"pixel_values": pixels, **read.inputs})
        return RecordedTowers(self, recording, notes, shown, read, texts)

    def problem(self, texts: int) -> str:
        """A sigmoid judges every text on its own; a softmax needs several."""
        if hasattr(self.model, "logit_bias"):
            return MULTI_LABEL
        return SINGLE_LABEL if texts > 1 else REGRESSION


class RecordedTowers(RecordedInput):
    """Images that a model has compared with texts, which are its classes, ready for questions.

    An explanation shows the images and the texts that were asked about.
    """

    def __init__(
        self,
        pipeline: TowersPipeline,
        recording: Recording,
        notes: list[str],
        shown: Shown,
        read: ReadTexts,
        texts: list[str],
    ) -> None:
        def show(found: Explanation) -> Explanation:
            found = found.showing(found.tokens.name, **shown, title="image")
            return replace(found, one_scale=False)

        super().__init__(pipeline, recording, notes, show, labels=texts)
        self._read = read

    def looks_at_target(self, method: Method) -> bool:
        """Always: a target names the text whose rows are read."""
        return True

    def _explain(self, target: Any, ask: Ask) -> Explanation:
        """Of the row of all texts, the asked ones' tokens are shown, without the padding."""
        explanation = super()._explain(target, ask)
        part = explanation.part("input_ids")
        places, pieces = self._read.together(self._asked(target))
        return explanation.showing(
            part.name,
            tokens=replace(part.tokens, content=part.content[:, places]),
            relevance=part.relevance[..., places],
            pieces=[pieces] * len(self.logits),
            title="text" if len(self._read.pieces) == 1 else "asked text",
        )

    def _asked(self, target: Any) -> list[int]:
        """The texts whose logits a target depends on, of any image."""
        resolved = Resolver(self.logits, self.logits, self.labels, []).resolve(target)
        seeds = torch.stack([seed for ((_, seed),) in resolved.starts])
        return seeds.flatten(0, -2).any(0).nonzero().flatten().tolist()


def towers_pipeline(folder: Path, name: str, explainer: Explainer) -> TowersPipeline:
    model: Any = explainer.model
    images = prepared_by(load_processor(folder, name), name, explainer)
    if images.pixels(Image.new("RGB", (32, 32)), [])[0].ndim != 4:
        raise ModelError(f"{name} compares videos with texts; whyformer loads towers for images")
    tokenizer = load_tokenizer(folder, name)
    # SigLIP learnt from texts that were all padded to the same length, without a mask.
    padded = hasattr(model, "logit_bias")
    reader = TextReader(tokenizer, longest_text(model.text_model, tokenizer), padded)
    return TowersPipeline(name, explainer, images, reader)
