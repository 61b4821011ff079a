"""Attention taken apart into what each key gives to each query, as vectors of the stream.

Behind A V stands a matrix W_O, and then the skip connection: x_i + sum_h sum_j A_h,ij v_h,j W_O,h.
W_O is read off the recorded graph, by backwards from the sum: no module is looked up by its name.
Where norms stand behind the sums (post-norm), they belong to the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whyformer.errors import ModelError
from whyformer.methods.question import Question

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine.forward_record import Block, Made, Mix
    from whyformer.engine.local import Normalisation


@dataclass(frozen=True, eq=False)
class Transformed:
    """One block's attention as vectors, batch first.

    ``attention`` (batch, heads, queries, keys); ``values`` (batch, heads, keys, width): v W_O;
    ``stream`` and ``out`` (batch, tokens, width): x before the block's attention and
    x + attention, before any norm. ``norms`` are the norms that the stream passes up to the next
    block, each with the value that it normalises; a pre-norm block has none.
    """

    attention: Tensor
    values: Tensor
    stream: Tensor
    out: Tensor
    norms: tuple[tuple[Normalisation, Tensor], ...]

    def vectors(self) -> Iterator[Tensor]:
        """For one query after another what each key gives to it, its own stream with it.

        (batch, keys, width); they sum to x + attention, but for the bias.
        """
        import torch

        for query in range(self.attention.shape[2]):
            given = torch.einsum("bhj,bhjd->bjd", self.attention[:, :, query], self.values)
            given[:, query] += self.stream[:, query]
            yield given


def transformed(question: Question, method: str) -> list[Transformed]:
    """Every block up to the last that the target depends on."""
    question.needs_one_sequence(method)
    seen = question.trace.seen
    count = len(question.reached)
    if len(seen.blocks) != len(seen.attention) or any(len(a.mixes) != 1 for a in seen.attention):
        raise ModelError(
            f"{method} needs one skip connection around every attention map; this model has "
            f"{len(seen.attention)} maps and {len(seen.blocks)} such connections: use rollout or "
            "generic_attention"
        )
    return [
        take_apart(question, number, seen.blocks[number], seen.attention[number].mixes[0], method)
        for number in range(count)
    ]


def take_apart(question: Question, number: int, block: Block, mix: Mix, method: str) -> Transformed:
    import torch

    attention, first = question.attention[number], question.sequence_first(block.exit)
    by_sample = (lambda x: x.transpose(0, 1)) if first else (lambda x: x)
    stream, out = by_sample(block.entry.detach()), by_sample(block.exit.detach())
    matrix, values = output_matrix(question, block, mix, by_sample), None
    if matrix is not None:
        own = question.shaped(mix.product.values.detach())
        values = torch.einsum("bhjf,hfd->bhjd", own, matrix)
    if values is None or not adds_up(attention, values, stream, out):
        raise ModelError(
            f"{method} needs values that reach the stream by one matrix; behind attention map "
            f"{number} stands something else, such as a norm, a gate, dropout or a branch beside "
            "it: use rollout or generic_attention"
        )
    norms = tuple((norm, by_sample(value)) for norm, value in norms_behind(question, block, method))
    return Transformed(attention, values, stream, out, norms)


def adds_up(attention: Tensor, values: Tensor, stream: Tensor, out: Tensor) -> bool:
    """Whether x + sum_h A_h v_h W_O,h is the sum, but for a bias that all tokens share."""
    import torch

    bias = out - stream - torch.einsum("bhij,bhjd->bid", attention, values)
    off = (bias - bias[:1, :1]).abs().max()
    return bool(off <= torch.finfo(out.dtype).eps ** 0.5 * out.abs().max())


def output_matrix(
    question: Question, block: Block, mix: Mix, by_sample: Callable[[Tensor], Tensor]
) -> Tensor | None:
    """W_O as (heads, features, width): the slope of the sum by A V, which all tokens share.

    So that few backwards do, every token asks for another of the sum's features.
    """
    import torch

    from whyformer.engine import GRADIENT

    width = block.exit.shape[-1]
    places = block.exit.shape[:-1].numel()
    rows = []
    for begin in range(0, width, places):
        asked = min(places, width - begin)
        slot = torch.zeros_like(block.exit)
        samples = by_sample(slot)
        numbers = torch.arange(asked)
        tokens = samples.shape[1]
        samples[numbers // tokens, numbers % tokens, begin + numbers] = 1
        (found,) = question.trace.backward(GRADIENT, [(block.exit, slot)], [mix.out])
        if found is None:
            return None
        shaped = question.shaped(mix.product.by_query(found))
        rows.append(shaped[numbers // tokens, :, numbers % tokens])
    return torch.cat(rows).permute(1, 2, 0)


def norms_behind(
    question: Question, block: Block, method: str
) -> list[tuple[Normalisation, Tensor]]:
    """The norms that the stream passes behind a block's attention, and behind its MLP."""
    made = question.trace.seen.made
    first = norm_of(made, block.exit)
    sums = [m for m in made if m.entry is not None]
    if first is None or not any(same(m.entry, first.out) for m in sums):
        return []
    second = next(m for m in sums if same(m.entry, first.out))
    found = [(first, block.exit)]
    behind = norm_of(made, second.out)
    if behind is not None and not any(second.out is b.exit for b in question.trace.seen.blocks):
        found.append((behind, second.out))
    for norm, _ in found:
        if norm.operation.name not in ("layer_norm", "rms_norm"):
            raise ModelError(
                f"{method} knows LayerNorm and RMSNorm behind a block; this model has "
                f"{norm.operation.name}: use rollout or generic_attention"
            )
    return [(as_norm(norm.operation), value.detach()) for norm, value in found]


def norm_of(made: list[Made], value: Tensor) -> Made | None:
    """The norm that reads a value."""
    norms = (m for m in made if m.entry is None)
    return next((m for m in norms if same(as_norm(m.operation).x, value)), None)


def as_norm(operation: Any) -> Normalisation:
    norm: Normalisation = operation
    return norm


def same(one: Tensor | None, other: Tensor) -> bool:
    """Whether two tensors are one value in memory."""
    return one is not None and one.shape == other.shape and one.data_ptr() == other.data_ptr()


def normalised(norm: Normalisation, vectors: Tensor, value: Tensor) -> Tensor:
    """What a norm makes of a part of a value: the deviation is the value's own, a constant."""
    mean, _ = norm.statistics(vectors)
    scale = norm.statistics(value)[1]
    centred = vectors if mean is None else vectors - mean
    return centred * scale if norm.weight is None else centred * scale * norm.weight
