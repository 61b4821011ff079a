"""What the tests of data sets share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whyformer.errors import InputError
from whyformer.evaluation.samples import open_images

NUMBERS = ("n01440764", "n01443537", "n15075141")


def labels_of(samples: Any) -> list[int]:
    return [samples[i].label for i in range(len(samples))]


def refused(data: Path | str, said: str, labels: list[str] | None = None) -> None:
    with pytest.raises(InputError, match=said):
        open_images(str(data), 1, labels)
