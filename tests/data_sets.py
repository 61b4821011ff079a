"""What the tests of data sets share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whyformer.errors import InputError
from whyformer.evaluation.data.samples import open_images

NUMBERS = ("n01440764", "n01443537", "n15075141")


def labels_of(samples: Any) -> list[int]:
    return [samples[i].label for i in range(len(samples))]


def refused(data: Path | str, said: str, labels: list[str] | None = None) -> None:
    with pytest.raises(InputError, match=said):
        open_images(str(data), 1, labels)


def gtsegs(path: Path, pairs: list[tuple[np.ndarray, np.ndarray]]) -> Path:
    """The structure of gtsegs_ijcv.mat: arrays with their axes reversed, behind references."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        kept = file.create_group("#refs#")
        shape = (len(pairs), 1)
        images = file.create_dataset("value/img", shape, h5py.ref_dtype)
        masks = file.create_dataset("value/gt", shape, h5py.ref_dtype)
        for i, (image, mask) in enumerate(pairs):
            images[i, 0] = kept.create_dataset(f"img{i}", data=image.transpose(2, 1, 0)).ref
            cell = kept.create_dataset(f"cell{i}", (1, 1), h5py.ref_dtype)
            cell[0, 0] = kept.create_dataset(f"gt{i}", data=mask.transpose(1, 0)).ref
            masks[i, 0] = cell.ref
    return path
