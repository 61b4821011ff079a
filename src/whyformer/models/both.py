"""An image and a text in one stream: a question about a picture, and its answer's two parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.explanation import MULTI_LABEL, REGRESSION, Explanation
from whyformer.models.hugging_face import load_processor, longest_text, prepared_by
from whyformer.models.image_with_text import ImageWithText, RecordedImageWithText
from whyformer.models.images import ImageInput
from whyformer.models.pipeline import Recorded
from whyformer.models.reading import TextReader
from whyformer.models.texts import as_texts
from whyformer.models.vocabulary import load_tokenizer

#: what the head's one number is, where it says how well text and image fit
FITS = "fits"


class BothPipeline(ImageWithText):
    """A model that reads an image and a text together, such as ViLT.

    ``why("photo.jpg", text="what is on the table?")``: the answers are the classes.
    """

    kind = "picture questions"
    needs: ClassVar[Mapping[str, str]] = {
        "text": "reads an image and a text, and no text was given; give "
        'text="what is on the table?", on the command line --text'
    }

    def record(
        self, inputs: ImageInput, *, progress: bool = False, text: str | Sequence[str] = ()
    ) -> Recorded:
        """Read one image and one text, and run the model's forward once."""
        texts = as_texts(text)
        self.check_beside({"text"} if texts else {})
        if len(texts) > 1 or isinstance(inputs, list | tuple):
            raise InputError(
                f"{self.name} reads one image and one text at a time; give one of each"
            )
        read = self._texts.read(texts)
        notes = list(read.notes)
        pixels, shown = self._images.pixels(inputs, notes)
        mask = torch.ones(len(pixels), *pixels.shape[-2:], dtype=torch.long)
        recording = self.explainer.record(
            {**read.inputs, "pixel_values": pixels, "pixel_mask": mask}
        )
        return RecordedBoth(self, recording, shown, read, tuple(notes))


class RecordedBoth(RecordedImageWithText):
    """An image and a text that a model has read together, ready for questions."""

    def _explain(self, target: Any, method: str, preset: str, **options: Any) -> Explanation:
        found = self._recording.explain(target, method, preset, **options)
        found = found.showing("pixel_values", **self._shown, title="image")
        found = found.showing("input_ids", pieces=self._read.pieces, title="text")
        return replace(found, notes=(*self._notes, *found.notes))


def both_pipeline(folder: Path, name: str, explainer: Explainer) -> BothPipeline:
    if type(explainer.model).__name__.endswith("Retrieval"):
        explainer = Explainer(explainer.model, output=explainer.output, labels=[FITS])
        explainer.problem = REGRESSION
    else:
        # Several answers may be right: the head was trained with a sigmoid for each.
        explainer.problem = MULTI_LABEL
    tokenizer = load_tokenizer(folder, name)
    reader = TextReader(tokenizer, longest_text(explainer.model, tokenizer))
    images = prepared_by(load_processor(folder, name), name, explainer)
    return BothPipeline(name, explainer, images, reader)
