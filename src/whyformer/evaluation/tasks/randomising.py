"""A model that loses its weights block by block, from the output down (Adebayo et al. 2018)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import groupby

import torch
from torch import Tensor, nn

from whyformer.models.images import ImagePipeline

SEED = 0


def units(model: nn.Module) -> list[list[str]]:
    """The names of the parameters, by block: input side first.

    A block is what shares the path up to its first number ("encoder.layer.3"), so a stage of a
    hierarchical model is one. What has no number and comes in a row is one, too: the embeddings,
    and the head with the last norm. Parameters come in the order of their registration.
    """
    names = [name for name, _ in model.named_parameters()]
    return [list(members) for _, members in groupby(names, block_of)]


def block_of(name: str) -> str:
    path = name.split(".")
    number = next((i for i, part in enumerate(path) if part.isdecimal()), None)
    return "" if number is None else ".".join(path[: number + 1])


def cascade(why: ImagePipeline) -> Iterator[ImagePipeline]:
    """The same pipeline around a copy of the model, with one more random block each time.

    A random tensor is normal, with the mean and the standard deviation of the one it replaces.
    The draws are seeded, and the given model is left alone.
    """
    clone, clone.explainer = copy.copy(why), copy.copy(why.explainer)
    clone.explainer.model = copy.deepcopy(why.model)
    parameters = dict(clone.model.named_parameters())
    generator = torch.Generator().manual_seed(SEED)
    for names in reversed(units(clone.model)):
        for name in names:
            randomise(parameters[name], generator)
        yield clone


@torch.no_grad()
def randomise(value: Tensor, generator: torch.Generator) -> None:
    mean, deviation = value.float().mean(), value.float().std(correction=0)
    drawn = torch.randn(value.shape, generator=generator).to(value.device)
    value.copy_(drawn * deviation + mean)
