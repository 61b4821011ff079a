"""The tokens of an input: which are content, and how they lie in an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.errors import InputError


@dataclass(frozen=True, eq=False)
class Tokens:
    """The layout of one input's tokens.

    ``name``: the input's name in the model's forward. ``kind``: "image", "video", "spectrogram",
    "text" or "sequence". ``content``: (batch, tokens), the tokens that are actual input. An image's
    patches stand row by row behind ``prefix`` special tokens, a video's frame by frame
    (``volume``).
    """

    kind: str
    content: Tensor
    grid: tuple[int, int] | None = None
    size: tuple[int, int] | None = None
    prefix: int = 0
    volume: tuple[int, int, int] | None = None
    name: str = "input"

    def __repr__(self) -> str:
        shape = "x".join(str(n) for n in self.content.shape)
        laid = "" if self.grid is None else f", grid {self.grid[0]}x{self.grid[1]}"
        return f"Tokens({self.name}, {self.kind}, {shape}{laid})"

    @property
    def patches(self) -> slice:
        """Where patches stand; ``prefix`` special tokens stand before them."""
        size = torch.Size(self.volume or self.grid or ()).numel()
        return slice(self.prefix, self.prefix + size)

    def with_content(self, content: Tensor) -> Tokens:
        """The same tokens, of which others are content; every sample needs one at least."""
        if content.shape != self.content.shape:
            raise InputError(
                f"content of shape {tuple(content.shape)}; expected (batch, tokens) = "
                f"{tuple(self.content.shape)}"
            )
        blank = (~content.any(1)).nonzero().flatten().tolist()
        if blank:
            raise InputError(
                f"sample {blank[0]} has no content, only special tokens and padding: an empty text "
                "has nothing to explain"
            )
        return replace(self, content=content)

    def to_map(self, relevance: Tensor) -> Tensor:
        """(..., tokens) to (..., grid height, grid width).

        A video's frames stand side by side, a spectrogram's low frequencies below.
        """
        if self.volume is not None:
            frames = relevance[..., self.patches].unflatten(-1, self.volume)
            return frames.movedim(-3, -2).flatten(-2)
        if self.grid is None:
            raise InputError("only images have a patch grid; this input is text or a sequence")
        patches = relevance[..., self.patches].unflatten(-1, self.grid)
        return patches.flip(-2) if self.kind == "spectrogram" else patches

    def over_time(self, relevance: Tensor) -> Tensor:
        """(..., tokens) to (..., times): the totals of a video's frames or of a sound's moments."""
        if self.volume is not None:
            return relevance[..., self.patches].unflatten(-1, self.volume).sum((-2, -1))
        if self.kind == "spectrogram":
            return self.to_map(relevance).sum(-2)
        if self.kind != "sequence":
            raise InputError(f"only a sound or a video goes over time; this input is {self.kind}")
        return relevance


def sums_over_patches(values: Tensor, grid: tuple[int, ...]) -> Tensor:
    """(batch, length), (batch, height, width) or with frames before them, to (batch, patches)."""
    pools: dict[int, Any] = {
        1: F.adaptive_avg_pool1d,
        2: F.adaptive_avg_pool2d,
        3: F.adaptive_avg_pool3d,
    }
    size = values[0].numel() / torch.Size(grid).numel()
    return pools[len(grid)](values.unsqueeze(1), grid).flatten(1) * size


def text_content(inputs: Any, name: str, shape: torch.Size) -> Tensor:
    """(batch, tokens): what the masks and the tokenizer do not exclude."""
    content = torch.ones(shape, dtype=torch.bool)
    if not isinstance(inputs, Mapping):
        return content
    beside_text = "input_ids" not in name and "input_ids" in inputs
    if beside_text:  # the masks without a prefix are the text's
        mask = inputs.get(f"{name.partition('_')[0]}_attention_mask")
    elif "input_ids" in name:
        mask = inputs.get(name.replace("input_ids", "attention_mask"))
    else:
        mask = inputs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.numel() == content.numel():
        content &= mask.reshape(shape).to(content)
    if not name.startswith("decoder_") and not beside_text:
        special = special_tokens(inputs, shape, name)
        if special is not None:
            content &= ~special.to(content)
    return content


def special_tokens(inputs: Any, shape: torch.Size, name: str = "input_ids") -> Tensor | None:
    """The tokenizer's own word on which tokens are special, where the inputs carry it."""
    stated = name.replace("input_ids", "special_tokens_mask")
    stated = stated if "input_ids" in name else "special_tokens_mask"
    given = inputs.get(stated) if isinstance(inputs, Mapping) else None
    if given is None:
        encodings = getattr(inputs, "encodings", None)
        if not encodings:
            return None
        given = torch.tensor([encoding.special_tokens_mask for encoding in encodings])
    if isinstance(given, Tensor) and given.numel() == shape.numel():
        return given.reshape(shape)
    return None


def told(inputs: Any) -> bool:
    """Whether the tokenizer said which tokens are special."""
    given = isinstance(inputs, Mapping) and "special_tokens_mask" in inputs
    return given or bool(getattr(inputs, "encodings", None))


def upsampled(patches: Tensor, size: tuple[int, int] | None) -> Tensor:
    """(..., height, width) maps in another size."""
    assert size is not None
    flat = patches.reshape(-1, 1, *patches.shape[-2:])
    full = F.interpolate(flat, size, mode="bilinear", align_corners=False)
    return full.reshape(*patches.shape[:-2], *size)
