"""Four photos of four classes in one image, for the grid pointing game."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image
from tqdm.auto import tqdm

from whyformer.errors import InputError
from whyformer.evaluation.data.samples import ImageSample, Samples
from whyformer.evaluation.tasks.pictures import logits_of
from whyformer.models.images import ImagePipeline

#: the probability that a photo alone in its cell needs, unless told otherwise
CONFIDENCE = 0.5
CELLS = 4
SEED = 0


@dataclass(frozen=True)
class Tile:
    """A photo in a cell: its place in the data set, its key and its class."""

    index: int
    key: str
    label: int


class Mosaics(Samples[ImageSample]):
    """Grids of two by two photos, as large as the model's input; ``masks`` are the cells.

    A photo is read by the model's own preprocessing and halved. It is taken where the model
    recognises it in its own cell, with the mean colour around it: the predicted class is the label
    and has a probability of at least ``confidence``. Photos come in a seeded random order, each
    once; only where ``limit`` asks for more grids do they come again, in another order. Without a
    limit there is a round of all photos.
    """

    def __init__(
        self,
        why: ImagePipeline,
        photos: Samples[ImageSample],
        limit: int | None = None,
        confidence: float = CONFIDENCE,
        progress: bool = False,
    ) -> None:
        if not 0 <= confidence <= 1:
            raise InputError(f"confidence {confidence}; expected a probability from 0 to 1")
        self._why, self._photos, self._confidence = why, photos, confidence
        self._shown = self._recognised = 0
        self._classes: set[int] = set()
        self._broken: dict[str, str] = {}
        self.stamp = f"{photos.stamp} {confidence}"
        with tqdm(total=limit, desc="choosing photos", unit="grid", disable=not progress) as bar:
            self._grids = self._choose(limit, bar)
        if not self._grids:
            raise InputError(
                f"{photos.name}: the model recognises {self._recognised} of {self._shown} photos "
                f"that were tried, of {len(photos)} in all, at half size with a probability of at "
                f"least {confidence}: they are of {len(self._classes)} classes, and a grid needs "
                "four of four classes; give photos of more classes, or a lower confidence"
                f"{self._unread()}"
            )
        self.name = f"{photos.name}, {len(self._grids)} grids of four"
        self.keys = [self._key(grid) for grid in self._grids]
        used = [tile.key for grid in self._grids for tile in grid]
        self.notes = (
            *photos.notes,
            f"{len(set(used))} photos in {len(used)} cells; of {self._shown} shown alone in their "
            f"cell the model recognised {self._recognised} (p >= {confidence}){self._unread()}",
        )

    def __getitem__(self, index: int) -> ImageSample:
        grid = self._grids[index]
        canvas = self._empty()
        masks = {}
        for cell, tile in enumerate(grid):
            box = self._box(cell)
            canvas.paste(self._tile(self._photos[tile.index].image, cell), box)
            masks[tile.label] = self._inside(box)
        return ImageSample(self.keys[index], canvas, masks=masks)

    # -- which photos

    def _choose(self, limit: int | None, bar: tqdm[None]) -> list[tuple[Tile, ...]]:
        """Grids until there are enough, or until a round of all photos brings nothing new."""
        found: dict[str, tuple[Tile, ...]] = {}
        for number in range(1 if limit is None else limit):
            before = len(found)
            order = np.random.default_rng([SEED, number]).permutation(len(self._photos))
            for grid in self._round(order):
                if self._key(grid) not in found:
                    bar.update()
                found[self._key(grid)] = grid
                if len(found) == limit:
                    return list(found.values())
            if len(found) == before:
                break
        return list(found.values())

    def _round(self, order: np.ndarray) -> Iterator[tuple[Tile, ...]]:
        """Grids in which no photo comes twice; one that a grid cannot take waits for the next."""
        waiting, grid = [int(i) for i in order], list[Tile]()
        while waiting:
            later: list[int] = []
            while waiting and len(grid) < CELLS:
                index = waiting.pop(0)
                sample = self._read(index)
                if sample is None:
                    continue
                if sample.label in {tile.label for tile in grid}:
                    later.append(index)
                elif self._recognises(sample, len(grid)):
                    assert sample.label is not None
                    grid.append(Tile(index, sample.key, sample.label))
            if len(grid) < CELLS:
                return
            yield tuple(grid)
            waiting, grid = later + waiting, []

    def _read(self, index: int) -> ImageSample | None:
        """A photo with its class; one that cannot be read takes no part, and is counted."""
        try:
            sample = self._photos[index]
        except InputError as error:
            self._broken[self._photos.keys[index]] = str(error)
            return None
        if sample.label is None:
            raise InputError(f"{sample.key} has no label, which the grid needs")
        return sample

    def _unread(self) -> str:
        if not self._broken:
            return ""
        key, reason = next(iter(self._broken.items()))
        return f"; {len(self._broken)} could not be read (the first, {key}: {reason})"

    def _recognises(self, sample: ImageSample, cell: int) -> bool:
        """The rule that decides which photos take part."""
        assert sample.label is not None
        canvas = self._empty()
        canvas.paste(self._tile(sample.image, cell), self._box(cell))
        chances = logits_of(self._why, self._why.fit(canvas))[0].softmax(-1)
        if not 0 <= sample.label < len(chances):
            raise InputError(f"label {sample.label} of a model with {len(chances)} classes")
        predicted = int(chances.argmax())
        good = predicted == sample.label and float(chances[predicted]) >= self._confidence
        self._shown += 1
        self._recognised += good
        if good:
            self._classes.add(sample.label)
        return good

    def _key(self, grid: tuple[Tile, ...]) -> str:
        return " + ".join(tile.key for tile in grid)

    # -- how they look

    def _box(self, cell: int) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of a cell; cells are counted in reading order."""
        height, width = self._why.input_size
        row, column = divmod(cell, 2)
        across, down = (0, width // 2, width), (0, height // 2, height)
        return across[column], down[row], across[column + 1], down[row + 1]

    def _inside(self, box: tuple[int, int, int, int]) -> np.ndarray:
        mask = np.zeros(self._why.input_size, bool)
        left, top, right, bottom = box
        mask[top:bottom, left:right] = True
        return mask

    def _empty(self) -> Image.Image:
        height, width = self._why.input_size
        return Image.new("RGB", (width, height), self._why.mean_colour)

    def _tile(self, image: Image.Image, cell: int) -> Image.Image:
        read = (self._why.read(image)[0].permute(1, 2, 0) * 255).round().byte().numpy()
        left, top, right, bottom = self._box(cell)
        size = (right - left, bottom - top)
        return Image.fromarray(read).resize(size, Image.Resampling.BILINEAR)
