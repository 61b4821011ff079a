"""Which tokens are actual input, where they lie in the image, which row the classifier reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine import Trace
from whyformer.engine.trace import MAIN_INPUTS
from whyformer.errors import InputError, ModelError

#: class, distillation and register tokens that a model puts before its input
MOST_PREFIX_TOKENS = 16

Pooling = int | str | Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class Tokens:
    """The layout of a recorded forward's tokens.

    ``kind``: "image", "text" or "sequence". ``content``: (batch, tokens), the tokens that are
    actual input. ``rows``: (batch, tokens), how much the classifier reads of each token's row.
    """

    kind: str
    content: Tensor
    rows: Tensor
    grid: tuple[int, int] | None = None
    size: tuple[int, int] | None = None
    prefix: int = 0

    @property
    def patches(self) -> slice:
        """Where an image's patches stand; ``prefix`` special tokens stand before them."""
        assert self.grid is not None
        return slice(self.prefix, self.prefix + self.grid[0] * self.grid[1])

    def to_map(self, relevance: Tensor) -> Tensor:
        """(..., tokens) to (..., grid height, grid width)."""
        if self.grid is None:
            raise InputError("only images have a patch grid; this input is text or a sequence")
        return relevance[..., self.patches].unflatten(-1, self.grid)

    def from_pixels(self, pixels: Tensor) -> Tensor:
        """(batch, height, width) to each token's sum; special tokens have none."""
        assert self.grid is not None
        area = pixels.shape[-2] * pixels.shape[-1] / (self.grid[0] * self.grid[1])
        patches = F.adaptive_avg_pool2d(pixels.unsqueeze(1), self.grid).flatten(1) * area
        after = self.content.shape[1] - self.patches.stop
        return F.pad(patches, (self.prefix, after))

    def from_input(self, values: Tensor) -> Tensor:
        """(batch, input length) to (batch, tokens): tokens the model put in front have none."""
        return F.pad(values, (self.content.shape[1] - values.shape[1], 0))


def lay_out(
    trace: Trace,
    inputs: Any,
    pooling: Pooling = None,
    grid: tuple[int, int] | None = None,
    content: Tensor | None = None,
) -> Tokens:
    """Read the layout off a recorded forward; each part can be given instead."""
    sizes = sorted({weights.shape[-1] for weights in trace.attention})
    if len(sizes) > 1:
        raise ModelError(
            f"the model's attention maps have different sizes ({', '.join(map(str, sizes))}); "
            "hierarchical Transformers and those that drop tokens are not supported"
        )
    kind, size = "sequence", None
    if trace.pixels is not None:
        grid = grid or find_grid(trace)
        size = (trace.pixels.shape[-2], trace.pixels.shape[-1])
        kind = "image" if grid is not None else "sequence"
    elif trace.seen.embedded is not None:
        kind = "text"
    strength = row_strength(trace)
    deaf = (strength == 0).all(1).nonzero().flatten().tolist()
    if deaf:
        raise ModelError(
            f"the predicted class's logit depends on no token of sample {deaf[0]}: the "
            "classifier's weights are zero, as in a model whose head is not trained yet; load its "
            "weights, or give the head some"
        )
    prefix = find_prefix(strength, grid) if kind == "image" and grid else 0
    if content is None:
        content = find_content(trace, inputs, kind, strength)
        if kind == "image" and grid:
            content[:] = False
            content[:, prefix : prefix + grid[0] * grid[1]] = True
    content = content.to(device=strength.device, dtype=torch.bool)
    if content.shape != strength.shape:
        raise InputError(
            f"content of shape {tuple(content.shape)}; expected (batch, tokens) = "
            f"{tuple(strength.shape)}"
        )
    blank = (~content.any(1)).nonzero().flatten().tolist()
    if blank:
        raise InputError(
            f"sample {blank[0]} has no content, only special tokens and padding: an empty text has "
            "nothing to explain"
        )
    rows = find_rows(strength, content, pooling)
    return Tokens(kind, content, rows, grid if kind == "image" else None, size, prefix)


def find_grid(trace: Trace) -> tuple[int, int] | None:
    """The finest convolution before the first attention with no more patches than tokens."""
    fitting = [grid for grid in trace.seen.grids if grid[0] * grid[1] <= trace.tokens]
    if fitting:
        return max(fitting, key=lambda grid: grid[0] * grid[1])
    assert trace.pixels is not None
    height, width = trace.pixels.shape[-2:]
    for prefix in (1, 0, 2, 5):
        patches = trace.tokens - prefix
        rows = round((patches * height / width) ** 0.5)
        if rows > 0 and rows * width == (patches // rows) * height and patches % rows == 0:
            return rows, patches // rows
    return None


def row_strength(trace: Trace) -> Tensor:
    """How strongly the prediction depends on each row of the last attention map."""
    predicted = trace.logits.detach().argmax(-1)
    seed = F.one_hot(predicted, trace.logits.shape[-1]).to(trace.logits.dtype)
    gradient = trace.gradients(seed, last_only=True)[-1]
    return gradient.square().sum((1, 3)).sqrt()


def find_prefix(strength: Tensor, grid: tuple[int, int]) -> int:
    """Special tokens stand before the patches, unless the classifier reads only behind them."""
    special = strength.shape[1] - grid[0] * grid[1]
    read = (strength > 0).any(0)
    return 0 if special and not read[:-special].any() else special


def find_content(trace: Trace, inputs: Any, kind: str, strength: Tensor) -> Tensor:
    batch, tokens = strength.shape
    content = torch.ones(batch, tokens, dtype=torch.bool, device=strength.device)
    first = first_tensor(inputs)
    length = first.shape[1] if first.ndim > 1 else tokens
    if not 0 <= tokens - length <= MOST_PREFIX_TOKENS:
        return content
    content[:, : tokens - length] = False
    if isinstance(inputs, Mapping):
        mask = inputs.get("attention_mask")
        if isinstance(mask, Tensor) and mask.shape == (batch, length):
            content[:, tokens - length :] &= mask.to(content)
    special = special_tokens(inputs, batch)
    if special is not None:
        content[:, tokens - length :] &= ~special.to(content)
    elif kind == "text":
        alone = (strength > 0).sum(1) == 1
        content[:, 0] &= ~((strength[:, 0] > 0) & alone)
    return content


def special_tokens(inputs: Any, batch: int) -> Tensor | None:
    """The tokenizer's own word on which tokens are special, where the inputs carry it."""
    if isinstance(inputs, Mapping) and isinstance(inputs.get("special_tokens_mask"), Tensor):
        return inputs["special_tokens_mask"]
    encodings = getattr(inputs, "encodings", None)
    if encodings:
        return torch.tensor([encodings[i].special_tokens_mask for i in range(batch)])
    return None


def first_tensor(inputs: Any) -> Tensor:
    if isinstance(inputs, Tensor):
        return inputs
    if isinstance(inputs, Mapping):
        main = [inputs[key] for key in MAIN_INPUTS if key in inputs]
        inputs = [*main, *inputs.values()]
    values = inputs
    return next(value for value in values if isinstance(value, Tensor))


def find_rows(strength: Tensor, content: Tensor, pooling: Pooling) -> Tensor:
    """The weight of every row, summing to one: the rows that the prediction depends on.

    A class token is one row, two heads (distilled DeiT) are two, mean pooling is the mean of
    all. A class token beside a mean (DINOv2) is as strong as many rows together: then the
    two count the same.
    """
    if isinstance(pooling, int):
        return F.one_hot(
            torch.full(strength.shape[:1], pooling % strength.shape[1], device=strength.device),
            strength.shape[1],
        ).to(strength)
    if callable(pooling):
        rows = pooling(content).to(strength).expand_as(strength)
    elif pooling == "mean":
        rows = content.to(strength)
    elif pooling is None:
        rows = _groups(strength, content)
    else:
        raise InputError(
            f"unknown pooling {pooling!r}; give a row's index, 'mean', a function from the content "
            "mask to row weights, or None to read it off the model"
        )
    return rows / rows.sum(1, keepdim=True)


def _groups(strength: Tensor, content: Tensor) -> Tensor:
    alive = strength > 0
    patches, special = alive & content, alive & ~content
    count = patches.sum(1, keepdim=True)
    typical = (strength * patches).sum(1, keepdim=True) / count.clamp(min=1)
    apart = special & (strength > typical * count.sqrt()) & (count > 1)
    weights = alive.to(strength)
    shared = apart.any(1, keepdim=True)
    mean = patches.to(strength) / count.clamp(min=1)
    return torch.where(shared, mean + apart.to(strength), weights)
