"""ImageNet-Segmentation: 4,276 images with their foreground, in one MATLAB 7.3 (HDF5) file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from whyformer.data_sets import optional
from whyformer.errors import InputError, first_line
from whyformer.evaluation.data.samples import ImageSample, Samples, digest
from whyformer.files import what_is
from whyformer.models.image_files import read_image

IMAGES, MASKS = "/value/img", "/value/gt"


class Segmented(Samples[ImageSample]):
    """``gtsegs_ijcv.mat``: references to images, and to lists whose first entry is the mask.

    MATLAB stores arrays with their axes reversed. The file is opened for every sample: threads
    and forked processes share no handle.
    """

    benchmark = "imagenet-segmentation"

    def __init__(self, path: Path) -> None:
        if what_is(path) is None:
            raise InputError(f"no such file: {path}")
        self.name, self.path = path.name, path
        with opened(path) as file:
            images, masks = (_references(file, entry, path) for entry in (IMAGES, MASKS))
            if len(images) != len(masks):
                raise InputError(f"{path} holds {len(images)} images and {len(masks)} masks")
            self.keys = [f"{i:05d}" for i in range(len(images))]
        self.stamp = digest(f"{path.name} {path.stat().st_size}")

    def __getitem__(self, index: int) -> ImageSample:
        with opened(self.path) as file:
            try:
                image = np.asarray(file[file[IMAGES][index, 0]])
                mask = np.asarray(file[file[file[MASKS][index, 0]][0, 0]])
            except (OSError, LookupError, ValueError, TypeError, AttributeError) as error:
                raise InputError(f"its image or mask is damaged: {first_line(error)}") from error
        if mask.ndim != 2 or image.shape != (3, *mask.shape):
            raise InputError(
                f"an image of shape {image.shape} and a mask of {mask.shape}; expected "
                "(3, width, height) and (width, height)"
            )
        picture = read_image(image.transpose(2, 1, 0), [])
        return ImageSample(self.keys[index], picture, foreground=mask.transpose(1, 0) != 0)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    h5py = optional("h5py", "ImageNet-Segmentation")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(
            f"{path} is no MATLAB 7.3 (HDF5) file, or damaged: expected gtsegs_ijcv.mat "
            f"({first_line(error)})"
        ) from error
    with file:
        yield file


def _references(file: Any, entry: str, path: Path) -> Any:
    h5py = optional("h5py", "ImageNet-Segmentation")
    found = file.get(entry)
    if (
        not isinstance(found, h5py.Dataset)
        or found.ndim != 2
        or not h5py.check_ref_dtype(found.dtype)
    ):
        raise InputError(
            f"{path} lacks {entry}, a column of references: expected gtsegs_ijcv.mat of "
            "ImageNet-Segmentation"
        )
    return found
