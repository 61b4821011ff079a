"""Arguments for every operator that has a handler, in the shapes and types that torch takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

GENERATOR = torch.Generator().manual_seed(3)


def some(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=GENERATOR)


def positive(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=GENERATOR) + 0.5


def truths(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=GENERATOR) > 0.4


@dataclass
class Sample:
    """Arguments by position, and options that are always keywords.

    ``fixed`` are the places of tensors that nobody differentiates: running means, masks.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[int, ...] = ()

    @property
    def floats(self) -> list[int]:
        return [
            place
            for place, value in enumerate(self.args)
            if isinstance(value, Tensor) and value.is_floating_point() and place not in self.fixed
        ]

    def choices(self) -> list[tuple[int, ...]]:
        """Which arguments are activations: all, one alone, or of three the first and one."""
        every = self.floats
        found = [tuple(every), *((place,) for place in every)]
        if len(every) == 3:
            found += [(every[0], every[1]), (every[0], every[2])]
        return list(dict.fromkeys(found))

    @property
    def subject(self) -> int:
        """The first tensor: what an activation function is of."""
        return next(i for i, value in enumerate(self.args) if isinstance(value, Tensor))

    @property
    def form(self) -> tuple[Any, ...]:
        return (*map(type, self.args), *sorted(self.kwargs))


def sample(*args: Any, fixed: tuple[int, ...] = (), **kwargs: Any) -> Sample:
    return Sample(args, kwargs, fixed)


def binary() -> list[Sample]:
    return [
        sample(some(2, 3), positive(2, 3)),
        sample(some(2, 3), positive(3)),
        sample(some(3), positive(2, 1)),
        sample(some(2, 1, 3), positive(4, 1)),
        sample(some(2, 3), 2.5),
        sample(some(2, 3), 2),
        sample(2.5, positive(2, 3)),
        sample(3, positive(2, 3)),
        sample(some(2, 3), positive(2, 3).sum()),
    ]


def with_alpha() -> list[Sample]:
    return [
        *binary(),
        sample(some(2, 3), some(2, 3), alpha=2),
        sample(some(2, 3), some(3), alpha=-0.5),
        sample(some(2, 3), 1.5, alpha=2),
    ]


def matrices() -> list[Sample]:
    return [
        sample(some(2, 3), some(3, 4)),
        sample(some(2, 2, 3), some(3, 4)),
        sample(some(2, 2, 3), some(2, 3, 4)),
        sample(some(2, 3), some(5, 3, 4)),
        sample(some(2, 1, 2, 3), some(5, 3, 4)),
        sample(some(2, 3), some(3)),
        sample(some(5, 2, 3), some(3)),
        sample(some(3), some(3, 4)),
        sample(some(3), some(5, 3, 4)),
        sample(some(3), some(3)),
    ]


def anything(*more: Sample) -> list[Sample]:
    return [sample(some(2, 3)), sample(some(3)), sample(some(())), *more]


def above_zero(*more: Sample) -> list[Sample]:
    return [sample(positive(2, 3)), sample(positive(())), *more]


def powers() -> list[Sample]:
    return [
        sample(positive(2, 3), 2),
        sample(some(2, 3), 3),
        sample(positive(2, 3), 0.5),
        sample(positive(2, 3), -1.5),
        sample(2.0, some(2, 3)),
        sample(positive(2, 3), positive(2, 3)),
        sample(positive(2, 3), positive(3)),
    ]


def convolutions(axes: int, transposed: bool = False) -> list[Sample]:
    size, kernel = (7,) * axes, (3,) * axes
    weight = (4, 6) if transposed else (6, 4)
    middle = (0,) if transposed else ()
    grouped = (4, 3) if transposed else (6, 2)
    return [
        sample(some(2, 4, *size), some(*weight, *kernel)),
        sample(some(2, 4, *size), some(*weight, *kernel), some(6)),
        sample(some(2, 4, *size), some(*weight, *kernel), some(6), 2),
        sample(some(2, 4, *size), some(*weight, *kernel), some(6), (2,) * axes, 1),
        sample(some(2, 4, *size), some(*grouped, *kernel), some(6), 1, 1, *middle, *(
            (2, 1) if transposed else (1, 2)
        )),
        sample(some(4, *size), some(*weight, *kernel), None, 1),
    ]  # fmt: skip


def dropouts(*shape: int) -> list[Sample]:
    return [
        sample(some(*shape), 0.5, True),
        sample(some(*shape), 0.3, False),
        sample(some(*shape), 0.0, True),
    ]


def softmaxes() -> list[Sample]:
    return [
        sample(some(2, 3), -1),
        sample(some(2, 3), 0),
        sample(some(2, 3, 4), 1),
        sample(some(3), 0),
        sample(some(2, 3), -1, dtype=torch.float64),
    ]


def reductions() -> list[Sample]:
    return [
        sample(some(2, 3)),
        sample(some(())),
        sample(some(2, 3, 4), 1),
        sample(some(2, 3, 4), -1, True),
        sample(some(2, 3, 4), (0, 2)),
        sample(some(2, 3, 4), [0, -1], True),
        sample(some(2, 3, 4), None),
        sample(some(2, 3, 4), ()),
        sample(some(2, 3, 4), 1, dtype=torch.float64),
    ]


def additions(
    total: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...]
) -> list[Sample]:
    return [
        sample(some(*total), some(*left), some(*right)),
        sample(some(*total), some(*left), some(*right), beta=0.5, alpha=2),
        sample(some(*total), some(*left), some(*right), beta=0, fixed=(0,)),
        sample(some(*total[-1:]), some(*left), some(*right), beta=2),
    ]


def attention() -> list[Sample]:
    q, k, v = (some(2, 4, 5, 3), some(2, 4, 6, 3), some(2, 4, 6, 7))
    few = some(2, 2, 6, 3), some(2, 2, 6, 7)
    return [
        sample(q, k, v),
        sample(some(5, 3), some(6, 3), some(6, 3)),
        sample(q, k, v, some(5, 6)),
        sample(q, k, v, truths(2, 1, 5, 6).index_fill_(-1, torch.tensor([0]), True)),
        sample(q, k, v, None, 0.0, True),
        sample(q, k, v, scale=0.3),
        sample(q, *few, enable_gqa=True),
    ]


def multi_head() -> list[Sample]:
    tail = (None, None, False, 0.0, some(6, 6), some(6))
    head = (some(18, 6), some(18))
    x, y = some(4, 2, 6), some(5, 2, 6)
    fixed = (5, 6, 11, 12)
    return [
        sample(x, y, some(5, 2, 6), 6, 2, *head, *tail, fixed=fixed),
        sample(x, y, some(5, 2, 6), 6, 2, *head, *tail, True, None, False, fixed=fixed),
        sample(
            x, y, some(5, 2, 6), 6, 2, *head, *tail, average_attn_weights=False, fixed=fixed
        ),
        sample(
            x, y, some(5, 2, 6), 6, 2, None, head[1], *tail, use_separate_proj_weight=True,
            q_proj_weight=some(6, 6), k_proj_weight=some(6, 6), v_proj_weight=some(6, 6),
            fixed=fixed,
        ),
    ]  # fmt: skip


def statistics_first() -> list[Sample]:
    """``F.batch_norm`` has the running statistics first, ``torch.batch_norm`` the weights."""
    mean, variance, weight, bias = some(4), positive(4), positive(4), some(4)
    stats = {"fixed": (1, 2)}
    return [
        sample(some(3, 4, 5), mean, variance, weight, bias, False, **stats),
        sample(some(3, 4, 5), mean, variance, weight, bias, True, 0.1, 1e-3, **stats),
        sample(some(3, 4, 5), mean, variance, **stats),
        sample(some(3, 4, 5), None, None, weight, bias, True),
        sample(some(3, 4, 5), mean, variance, None, None, False, 0.1, 1e-2, **stats),
    ]


def weights_first() -> list[Sample]:
    mean, variance, weight, bias = some(4), positive(4), positive(4), some(4)
    stats = {"fixed": (3, 4)}
    return [
        sample(some(3, 4, 5), weight, bias, mean, variance, False, 0.1, 1e-3, False, **stats),
        sample(some(3, 4, 5), weight, bias, mean, variance, True, 0.1, 1e-3, False, **stats),
        sample(some(3, 4, 5), None, None, mean, variance, False, 0.1, 1e-3, False, **stats),
    ]


POINTWISE: dict[str, list[Sample]] = {
    **{
        name: anything()
        for name in """
        gelu relu relu6 selu silu mish hardswish hardsigmoid softsign tanh sigmoid logsigmoid exp
        expm1 square abs absolute erf sin cos exp2 sinc nan_to_num __abs__ reciprocal
        """.split()
    },
    **{name: above_zero() for name in "log log1p sqrt rsqrt".split()},
    "leaky_relu": anything(sample(some(2, 3), 0.2)),
    "elu": anything(sample(some(2, 3), 0.7)),
    "celu": anything(sample(some(2, 3), 0.7)),
    "hardtanh": anything(sample(some(2, 3), -0.5, 0.4)),
    "softplus": anything(sample(some(2, 3), 2.0, 1.0)),
    "softshrink": anything(sample(some(2, 3), 0.2)),
    "hardshrink": anything(sample(some(2, 3), 0.2)),
    "threshold": [sample(some(2, 3), 0.1, -2.0)],
    "_threshold": [sample(some(2, 3), 0.1, -2.0)],
    "log_sigmoid": anything(),
    "__rpow__": [sample(some(2, 3), 2.0), sample(some(2, 3), positive(2, 3))],
    "rrelu": anything(sample(some(2, 3), 0.1, 0.3), sample(some(2, 3), 0.1, 0.3, True)),
    "prelu": [sample(some(2, 3, 4), positive(3)), sample(some(2, 3), positive(1))],
    "pow": powers(),
    "__pow__": powers(),
    "float_power": powers(),
    "clamp": [
        sample(some(2, 3), -0.5),
        sample(some(2, 3), -0.5, 0.5),
        sample(some(2, 3), None, 0.5),
        sample(some(2, 3), some(2, 3) - 1, some(2, 3) + 1),
    ],
    "clamp_min": [sample(some(2, 3), 0.1), sample(some(2, 3), some(2, 3))],
    "clamp_max": [sample(some(2, 3), 0.1), sample(some(2, 3), some(2, 3))],
}


NORMS: dict[str, list[Sample]] = {
    "layer_norm": [
        sample(some(2, 3, 4), (4,)),
        sample(some(2, 3, 4), [3, 4], some(3, 4), some(3, 4)),
        sample(some(2, 3, 4), (4,), some(4), None, 1e-2),
    ],
    "rms_norm": [
        sample(some(2, 3, 4), (4,)),
        sample(some(2, 3, 4), [3, 4], some(3, 4)),
        sample(some(2, 3, 4), (4,), some(4), 1e-2),
    ],
    "group_norm": [
        sample(some(2, 6, 4), 3),
        sample(some(2, 6, 4), 2, some(6), some(6)),
        sample(some(2, 6, 4, 3), 2, some(6), None, 1e-2),
    ],
    "instance_norm": [*statistics_first(), *weights_first(), sample(some(3, 4, 5))],
    "batch_norm": [*statistics_first(), *weights_first()],
    "normalize": [
        sample(some(2, 3)),
        sample(some(2, 3, 4), 2.0, -1),
        sample(some(2, 3, 4), 3.0, 1, 1e-3),
    ],
}


SAMPLES: dict[str, list[Sample]] = {
    **POINTWISE,
    **NORMS,
    "linear": [
        sample(some(2, 3), some(4, 3)),
        sample(some(2, 5, 3), some(4, 3), some(4)),
        sample(some(3), some(4, 3), some(4)),
    ],
    **{
        name: matrices()
        for name in "matmul __matmul__ __rmatmul__ bmm mm mv dot".split()
    },
    "addmm": additions((2, 4), (2, 3), (3, 4)),
    "baddbmm": additions((5, 2, 4), (5, 2, 3), (5, 3, 4)),
    "addbmm": additions((2, 4), (5, 2, 3), (5, 3, 4)),
    "addmv": additions((2,), (2, 3), (3,)),
    "cosine_similarity": [
        sample(some(2, 3), some(2, 3)),
        sample(some(2, 1, 4), some(3, 4), -1),
        sample(some(2, 3, 4), some(2, 3, 4), 2, 1e-3),
    ],
    "einsum": [
        sample("bij,bjk->bik", some(2, 3, 4), some(2, 4, 5)),
        sample("bij,jk->bki", some(2, 3, 4), some(4, 5)),
        sample("bhqk,bkhd->bqhd", some(2, 2, 3, 4), some(2, 4, 2, 5)),
        sample("ij,jk", some(2, 3), some(3, 4)),
        sample("...i,...i->...", some(2, 3, 4), some(2, 3, 4)),
        sample("i,i->", some(3), some(3)),
        sample("i,j->ij", some(3), some(4)),
        sample("bii->b", some(2, 3, 3)),
        sample("ij,jk,kl->il", some(2, 3), some(3, 4), some(4, 2)),
    ],
    "conv1d": convolutions(1),
    "conv2d": convolutions(2),
    "conv3d": convolutions(3)[:3],
    "conv_transpose1d": convolutions(1, True),
    "conv_transpose2d": convolutions(2, True),
    "conv_transpose3d": convolutions(3, True)[:3],
    "add": with_alpha(),
    "__add__": binary(),
    "__radd__": binary(),
    "sub": with_alpha(),
    "subtract": with_alpha(),
    "__sub__": binary(),
    "__rsub__": binary(),
    "rsub": with_alpha(),
    **{name: binary() for name in "mul multiply __mul__ __rmul__ true_divide".split()},
    **{name: binary() for name in "div divide __truediv__ __div__ __rdiv__ __rtruediv__".split()},
    **{name: anything() for name in "neg negative __neg__".split()},
    "index_add": [
        sample(some(4, 3), 0, torch.tensor([2, 0]), some(2, 3)),
        sample(some(4, 3), 0, torch.tensor([2, 0, 2]), some(3, 3), alpha=2),
        sample(some(2, 4), -1, torch.tensor([3]), some(2, 1), alpha=-0.5),
    ],
    "broadcast_tensors": [sample(some(2, 3), some(3)), sample(some(2, 1), some(1, 3), some(1))],
    "masked_fill": [
        sample(some(2, 3), truths(2, 3), 0.5),
        sample(some(2, 3), truths(3), -1),
        sample(some(2, 3), truths(2, 1), some(())),
    ],
    "where": [
        sample(truths(2, 3), some(2, 3), some(2, 3)),
        sample(truths(2, 1), some(2, 3), some(3)),
        sample(truths(2, 3), some(2, 3), 0.5),
        sample(truths(2, 3), -1.0, some(2, 3)),
    ],
    "sum": reductions(),
    "mean": reductions(),
    "softmax": softmaxes(),
    "log_softmax": softmaxes(),
    "_softmax": [sample(some(2, 3), 1, False)],
    "_safe_softmax": softmaxes(),
    "dropout": dropouts(2, 3, 4),
    "dropout1d": dropouts(2, 3, 4),
    "dropout2d": dropouts(2, 3, 4, 4),
    "feature_dropout": dropouts(2, 3, 4),
    "alpha_dropout": dropouts(2, 3, 4),
    "scaled_dot_product_attention": attention(),
    "multi_head_attention_forward": multi_head(),
    **{
        name: [
            sample(
                some(6, 16).float(), some(2, 16, 8).float(),
                offs=torch.tensor([2, 6], dtype=torch.int32),
            )
        ]
        for name in "_grouped_mm grouped_mm".split()
    },
}  # fmt: skip
