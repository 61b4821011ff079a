"""What models that read an image and texts share."""

from __future__ import annotations

from typing import Any, ClassVar

from whyformer.explainer import Explainer
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline
from whyformer.models.reading import TextReader


class ImageWithText(Pipeline):
    """An image, and texts beside it."""

    takes = "image"
    beside: ClassVar[tuple[str, ...]] = ("text",)

    def __init__(
        self, name: str, explainer: Explainer, images: ImagePipeline, texts: TextReader
    ) -> None:
        super().__init__(name, explainer)
        self._images, self._texts = images, texts

    @property
    def reads(self) -> dict[str, Any]:
        return {**self._images.reads, **self._texts.reads}

    def _prepared_example(self) -> bytes:
        return self._images._prepared_example() + self._texts._prepared_example()
