"""Which rows the caller says the classifier reads, where the model's own are not wanted."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.errors import InputError
from whyformer.sites import Site

Pooling = int | str | Callable[[Tensor], Tensor] | None


def named_rows(pooling: Pooling, site: Site) -> Tensor:
    """The weight of every row of the stream, summing to one."""
    content = site.tokens.content
    order = site.order
    back = torch.arange(content.shape[1]) if order is None else order.argsort()
    if isinstance(pooling, int):
        row = torch.tensor(pooling % content.shape[1])
        return F.one_hot(row, content.shape[1]).expand_as(content).to(torch.float64)
    if callable(pooling):
        rows = pooling(content).to(torch.float64).expand_as(content)
    elif pooling == "mean":
        rows = content.to(torch.float64)
    else:
        raise InputError(
            f"unknown pooling {pooling!r}; give a row's index, 'mean', a function from the content "
            "mask to row weights, or None to read it off the model"
        )
    return (rows / rows.sum(1, keepdim=True))[:, back]
