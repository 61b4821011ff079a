"""What a model without a head makes of an input, and how alike it makes two inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from whyformer.engine.calls import held_fixed

#: what the second input's names begin with
OTHER = "other_"

#: from what a model returned, and what it was given, to its features: (batch, features)
Pool = Callable[[Any, Mapping[str, Any]], Tensor]


class Features(nn.Module):
    """A model with its pooling; the model itself is untouched."""

    def __init__(self, model: nn.Module, pool: Pool) -> None:
        super().__init__()
        self.model, self._pool = model, pool
        self.training = model.training

    def forward(self, **inputs: Any) -> Tensor:
        return self._pool(self.model(**inputs), inputs)


class Side(nn.Module):
    """One of a model's two towers with its projection: "image" or "text"."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self._name = model, name
        self.training = model.training

    def forward(self, **inputs: Any) -> Any:
        return getattr(self.model, f"get_{self._name}_features")(**inputs)


class Similarity(nn.Module):
    """The cosine between the features of two inputs, (batch, 1): both in one forward.

    The second input's names begin with ``OTHER``. The features' lengths are held fixed: a cosine's
    own gradient is zero where two inputs are the same, and nothing would speak for that.
    """

    def __init__(self, features: Features) -> None:
        super().__init__()
        self.features = features
        self.training = features.training

    def forward(self, **inputs: Any) -> Tensor:
        first = {k: v for k, v in inputs.items() if not k.startswith(OTHER)}
        second = {k.removeprefix(OTHER): v for k, v in inputs.items() if k.startswith(OTHER)}
        return (self._direction(first) * self._direction(second)).sum(-1, keepdim=True)

    def _direction(self, inputs: Mapping[str, Any]) -> Tensor:
        found = self.features(**inputs)
        return found / held_fixed(found).norm(dim=-1, keepdim=True)


def beside(inputs: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Two inputs as one call."""
    return {**inputs, **{OTHER + name: value for name, value in others.items()}}


def mean_of_tokens(output: Any, inputs: Mapping[str, Any]) -> Tensor:
    mask = inputs["attention_mask"].unsqueeze(-1).to(output.last_hidden_state)
    return (output.last_hidden_state * mask).sum(1) / mask.sum(1)


def first_token(output: Any, inputs: Mapping[str, Any]) -> Tensor:
    return output.last_hidden_state[:, 0]


def last_token(output: Any, inputs: Mapping[str, Any]) -> Tensor:
    """Of texts without padding."""
    return output.last_hidden_state[:, -1]


def pooled(output: Any, inputs: Mapping[str, Any]) -> Tensor:
    """The model's own pooling."""
    return output.pooler_output.flatten(1)
