"""R / z, and what is done where z is small: each relevance rule holds one of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from whyformer.engine.operations import Operation


class Division(Protocol):
    """factor * R / z for an operation's output z."""

    def __call__(
        self, op: Operation, relevance: Tensor, z: Tensor, factor: float = 1.0
    ) -> Tensor: ...


@dataclass(frozen=True)
class Guarded:
    """R / z, and 0 where z is 0: the equations as they are written."""

    def __call__(self, op: Operation, relevance: Tensor, z: Tensor, factor: float = 1.0) -> Tensor:
        return (relevance / z).masked_fill_(z == 0, 0).mul_(factor)


GUARDED = Guarded()


@dataclass(frozen=True)
class Dividing:
    """A rule of relevance that divides; ``divide`` says what it does where it divides by little."""

    divide: Division = GUARDED


@dataclass(frozen=True)
class Offset:
    """R / (z + e), and 0 where z is 0: the authors' ``safe_divide``, blind to sign."""

    epsilon: float = 1e-9

    def __call__(self, op: Operation, relevance: Tensor, z: Tensor, factor: float = 1.0) -> Tensor:
        s = z + self.epsilon
        s.masked_fill_(s == 0, self.epsilon)
        return torch.div(relevance, s, out=s).masked_fill_(z == 0, 0).mul_(factor)


@dataclass(frozen=True)
class Stabilised:
    """R z / (z^2 + e^2 m^2), m the root mean square of z over its last axis."""

    share: float = 0.01

    def __call__(self, op: Operation, relevance: Tensor, z: Tensor, factor: float = 1.0) -> Tensor:
        def reciprocal() -> Tensor:
            floor = op.mean_square(z).mul_(self.share**2)
            floor.clamp_(min=torch.finfo(z.dtype).tiny).div_(factor)
            s = torch.addcmul(floor, z, z, value=1 / factor)
            return torch.div(z, s, out=s)

        s = op.shared((self, factor), reciprocal)
        return s * relevance if op.current.abreast else s.mul_(relevance)


@dataclass(frozen=True)
class Signed:
    """R / (z + e sign(z)), sign(0) = 1: the epsilon rule's division (Bach et al. 2015)."""

    epsilon: float = 1e-6

    def __call__(self, op: Operation, relevance: Tensor, z: Tensor, factor: float = 1.0) -> Tensor:
        return relevance * factor / torch.where(z >= 0, z + self.epsilon, z - self.epsilon)
