"""Every operator that has a handler, in every way that torch lets it be called.

A spelling is whatever torch itself accepts: the names of arguments come from the operators' own
schemas and from Python's signatures, and each call is first tried without the engine. What
it gives, and its gradients, are what the recording has to give.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves

from probe import recorded
from whyformer.engine import GRADIENT, PRESETS
from whyformer.engine.handlers import HANDLERS
from whyformer.engine.names import POINTWISE as ACTIVATIONS

Call = Callable[[Sequence[Any]], Any]

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


# -- sample arguments


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

#: operators that have no function of their name
SYMBOLS: dict[str, tuple[Callable[..., Any], ...]] = {
    "add": (operator.add, operator.iadd),
    "sub": (operator.sub, operator.isub),
    "mul": (operator.mul, operator.imul),
    "div": (operator.truediv, operator.itruediv),
    "pow": (operator.pow, operator.ipow),
    "matmul": (operator.matmul, operator.imatmul),
    "neg": (operator.neg,),
    "abs": (operator.abs,),
}
#: where a method takes its tensor from, if not from the first place
METHODS = {"where": (1, 0, 2)}
#: names that torch takes beside those of the schema
ALSO = {"dim": "axis", "keepdim": "keepdims", "self": "x", "other": "x2"}


# -- spellings


def names_of(name: str, function: Any) -> list[list[str]]:
    """The names of a function's arguments, by each of its signatures."""
    found = []
    try:
        found.append(list(inspect.signature(function).parameters))
    except (TypeError, ValueError):
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            arguments = getattr(packet, overload)._schema.arguments
            found.append([argument.name for argument in arguments if not argument.kwarg_only])
    same = [[{"self": "input"}.get(key, key) for key in names] for names in found]
    other = [[ALSO.get(key, key) for key in names] for names in found]
    return [*found, *same, *other]


def calls(name: str, function: Any, count: int, first: int = 0) -> Iterator[tuple[str, Any]]:
    """By position, by keyword, and by both: (what it looks like, how many places, the names)."""
    yield "positional", (count, ())
    done = set()
    for names in names_of(name, function):
        for split in sorted({first, first + 1, count - 1} & set(range(count))):
            named = tuple(names[split:count])
            if len(names) >= count and (split, named) not in done:
                done.add((split, named))
                yield ", ".join(["*"] * split + [f"{key}=" for key in named]), (split, named)


def written(function: Callable[..., Any], places: int, names: Sequence[str], **more: Any) -> Call:
    def call(args: Sequence[Any]) -> Any:
        named = dict(zip(names, args[places:], strict=True))
        return function(*args[:places], **named, **more)

    return call


def into(call: Call, fresh: bool) -> Call:
    """A call that writes into its first argument, and what is there afterwards."""

    def wrapped(args: Sequence[Any]) -> Any:
        target = args[0] * 1 if fresh else args[0].clone()[...]
        returned = call([target, *args[1:]])
        return target if returned.shape == target.shape else returned

    return wrapped


def spellings(name: str, given: Sample) -> Iterator[tuple[str, Call]]:
    """Every way to call an operator that might be one; not all are."""
    count = len(given.args)
    for place, holder in (("torch", torch), ("F", F), ("aten", torch.ops.aten)):
        function = getattr(holder, name, None)
        if function is None:
            continue
        for label, (split, named) in calls(name, function, count):
            yield f"{place}.{name}({label})", written(function, split, named, **given.kwargs)
    for symbol in SYMBOLS.get(name, ()) if not given.kwargs else ():
        call = written(symbol, count, ())
        if symbol.__name__.startswith("i"):
            for fresh in (True, False):
                yield f"{symbol.__name__}, {'fresh' if fresh else 'view'}", into(call, fresh)
        else:
            yield symbol.__name__, call
    order = METHODS.get(name, range(count))
    method = getattr(Tensor, name, None)
    if method is not None:
        for label, (split, named) in calls(name, method, count, 1):
            call = written(method, split, named, **given.kwargs)
            yield f"x.{name}({label})", lambda args, call=call: call([args[i] for i in order])
        if name == "where":  # the schema's order is not the method's
            yield (
                "x.where(condition=, other=)",
                lambda args: args[1].where(condition=args[0], other=args[2]),
            )
    yield from in_place(name, given)


def in_place(name: str, given: Sample) -> Iterator[tuple[str, Call]]:
    if not isinstance(given.args[0], Tensor):
        return
    found: list[tuple[str, Call]] = []
    count = len(given.args)
    for place, holder in (("torch", torch), ("F", F), ("x", Tensor)):
        function = getattr(holder, f"{name}_", None)
        if function is not None:
            for label, (split, named) in calls(name, function, count, 1):
                call = written(function, split, named, **given.kwargs)
                found.append((f"{place}.{name}_({label})", call))
    function = getattr(F, name, None)
    signature = inspect.signature(function).parameters if inspect.isfunction(function) else {}
    if "inplace" in signature:
        call = written(function, count, (), inplace=True, **given.kwargs)
        found.append((f"F.{name}(..., inplace=True)", call))
        middle = [p.default for p in list(signature.values())[count:-1]]
        if list(signature)[-1] == "inplace":
            call = lambda args: function(*args, *middle, True, **given.kwargs)  # noqa: E731
            found.append((f"F.{name}(..., True)", call))
    for label, call in found:
        yield label, into(call, True)
        if "=" not in label:
            yield f"{label}, view", into(call, False)


# -- without the engine, and with it


def flat(result: Any) -> Tensor:
    """All that a call returned in one row."""
    parts = [part for part in tree_leaves(result) if isinstance(part, Tensor)]
    return torch.cat([part.reshape(-1) for part in parts if part.is_floating_point()])


def part_of(call: Call, given: Sample, chosen: Sequence[int]) -> Callable[..., Tensor]:
    """A call as a part of a model that has the chosen arguments as its inputs, in rows."""

    def part(*rows: Tensor) -> Tensor:
        args = [value.clone() if isinstance(value, Tensor) else value for value in given.args]
        for place, row in zip(chosen, rows, strict=True):
            args[place] = row.view(given.args[place].shape)
        torch.default_generator.manual_seed(0)
        return flat(call(args)).unsqueeze(0)

    return part


@dataclass
class Eager:
    output: Tensor
    seed: Tensor
    gradients: list[Tensor]


def eager(part: Callable[..., Tensor], rows: Sequence[Tensor]) -> Eager | None:
    """What torch gives, or None where it does not take such a call."""
    leaves = [row.clone().requires_grad_() for row in rows]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            output = part(*(leaf.clone() for leaf in leaves))
        seed = torch.linspace(-1, 1, output.numel()).to(output).view_as(output)
        if not output.requires_grad:
            return None
        found = torch.autograd.grad(output, leaves, seed, allow_unused=True)
    except (TypeError, RuntimeError, ValueError, IndexError, NotImplementedError, AttributeError):
        return None
    gradients = [torch.zeros_like(x) if g is None else g for x, g in zip(rows, found, strict=True)]
    return Eager(output.detach(), seed, gradients)


def close(found: Tensor, expected: Tensor, name: str) -> None:
    """celu_ differentiates by its result, and torch's own two ways differ by 1e-9."""
    size = 1e-10 if found.dtype is torch.float64 else 1e-4
    size = 1e-8 if name == "celu" else size
    assert found.shape == expected.shape
    error = (found - expected).abs()
    assert bool((error <= size * (1 + expected.abs())).all()), f"differs by {float(error.max())}"


#: what was put out, and the relevance that came in
Known = list[tuple[Tensor, list[Tensor]]]


def check(name: str, call: Call, given: Sample, chosen: Sequence[int], known: Known) -> bool:
    """Compare one call with eager autograd, and its relevance with that of other spellings."""
    rows = [given.args[place].reshape(1, -1) for place in chosen]
    part = part_of(call, given, chosen)
    expected = eager(part, rows)
    if expected is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace, roots = recorded(part, *rows)
    if name in ACTIVATIONS and len(chosen) == 1 and chosen[0] == given.subject:
        assert not trace.seen.fallbacks
    start = [(trace.output, expected.seed)]
    close(trace.output.detach(), expected.output, name)
    found = trace.backward(GRADIENT, start, roots)
    for slot, gradient in zip(found, expected.gradients, strict=True):
        close(torch.zeros_like(gradient) if slot is None else slot, gradient, name)
    relevance = [
        torch.zeros_like(row) if slot is None else slot
        for row, slot in zip(
            rows, trace.backward(PRESETS["paper"].attribution, start, roots), strict=True
        )
    ]
    for output, others in known:
        if output.shape == expected.output.shape and torch.equal(output, expected.output):
            for mine, other in zip(relevance, others, strict=True):
                close(mine, other, "relevance")
            return True
    known.append((expected.output, relevance))
    return True


@pytest.mark.parametrize("name", sorted(HANDLERS))
def test_spelling(name: str) -> None:
    """Output and gradient are those of eager autograd; spellings of one call agree."""
    assert name in SAMPLES, f"{name} has a handler and no sample arguments in this file"
    tried, wrong, forms = 0, [], set()
    for number, given in enumerate(SAMPLES[name]):
        known: dict[tuple[int, ...], Known] = {}
        for label, call in spellings(name, given):
            if given.form in forms and ("=" in label or "view" in label):
                continue  # other shapes of arguments that were spelled already
            for chosen in given.choices():
                try:
                    tried += check(name, call, given, chosen, known.setdefault(chosen, []))
                except Exception as error:
                    tried += 1
                    reason = " ".join(f"{type(error).__name__}: {error}".split())
                    wrong.append(f"{label}, sample {number}, activations {chosen}: {reason[:200]}")
        forms.add(given.form)
    assert tried, "torch takes none of these calls"
    assert not wrong, "\n".join([f"{len(wrong)} of {tried}", *wrong[:12]])
