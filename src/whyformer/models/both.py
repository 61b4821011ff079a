"""An image and a text in one stream: a question about a picture, and its answer's two parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch

from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.explanation import MULTI_LABEL, REGRESSION, Explanation
from whyformer.models.hugging_face import load_processor, longest_text, prepared_by
from whyformer.models.image_files import ImageInput
from whyformer.models.image_with_text import ImageWithText
from whyformer.models.reading import TextReader
from whyformer.models.recorded import RecordedInput
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
    ) -> RecordedInput:
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

        def show(found: Explanation) -> Explanation:
            found = found.showing("pixel_values", **shown, title="image")
            return found.showing("input_ids", pieces=read.pieces, title="text")

        return RecordedInput(self, recording, notes, show)


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
