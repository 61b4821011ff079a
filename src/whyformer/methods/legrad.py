"""LeGrad (Bousselham et al. 2024): every block's stream is read by the model's own head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whyformer.errors import ModelError
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.transformed import norm_of, norms_behind

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine.forward_record import Block, Made


@register(
    "legrad",
    "the gradient of attention when the head reads each block's own stream, averaged "
    "(Bousselham et al. 2024)",
    on_request=True,
    facts=Facts(
        "Bousselham et al.",
        2024,
        "1 F 2 B a block",
        "attention, a head that reads every block",
        works="one sequence",
    ),
)
def legrad(question: Question) -> Answer:
    """E_{b,h,query} (d y_b / d A_b)^+, y_b the target where the stream behind block b is the last.

    The stream goes through what the model has behind its last block: final norm, pooling, head,
    another tower's embedding. Each block costs a forward with the last stream replaced. What is
    hidden from a query counts nothing.
    """
    from whyformer.engine import GRADIENT

    if len(question.trace.seen.blocks) != len(question.attention):
        raise refusal()
    layers = []
    for tower in towers(question):
        last = last_stream(question, [block for _, block in tower])
        streams = [block.entry for _, block in tower[1:]] + [last.out]
        for (number, _), stream in zip(tower, streams, strict=True):
            slope = read_out(question, last, stream)
            weights = question.trace.seen.attention[number].weights
            (found,) = question.trace.backward(GRADIENT, [(stream, slope)], [weights])
            shown = question.attention[number]
            slopes = shown * 0 if found is None else question.shaped(found).clamp(min=0)
            layers.append((slopes * (shown > 0)).mean(1) / len(tower))
    return question.carry(question.onto_streams(layers, "legrad"))


def towers(question: Question) -> list[list[tuple[int, Block]]]:
    """The blocks, with their numbers, by the inputs that they read; no input is read by two."""
    found: dict[frozenset[int], list[tuple[int, Block]]] = {}
    for number, block in enumerate(question.trace.seen.blocks):
        found.setdefault(inputs_of(question, block.entry), []).append((number, block))
    together = [number for inputs in found for number in inputs]
    ordered = [number for tower in found.values() for number, _ in tower]
    if len(together) != len(set(together)) or ordered != sorted(ordered):
        raise refusal()
    return list(found.values())


def inputs_of(question: Question, value: Tensor) -> frozenset[int]:
    """The numbers of the roots that a value was computed from."""
    from whyformer.engine.graph import nodes

    leaves = {id(node.variable) for node in nodes([value]) if hasattr(node, "variable")}
    roots = question.trace.seen.roots
    return frozenset(number for number, root in enumerate(roots) if id(root.leaf) in leaves)


def last_stream(question: Question, blocks: Sequence[Block]) -> Made:
    """What leaves the last block, made like that which enters every block but the first."""
    from whyformer.engine.graph import origin

    made, last_block = question.trace.seen.made, blocks[-1]
    inputs, shape = inputs_of(question, last_block.exit), last_block.exit.shape
    sums = [
        m
        for m in made
        if m.entry is not None
        and m.operation in question.trace.operations
        and m.out.shape == shape
        and inputs_of(question, m.out) == inputs
    ]
    last = sums[-1] if sums else None
    if last is not None and norms_behind(question, last_block, "legrad"):
        last = norm_of(made, last.out)
    known = [m.operation for m in made]
    alike = last is not None and all(
        block.entry.shape == shape
        and (before := origin(block.entry)) in known
        and type(before) is type(last.operation)
        for block in blocks[1:]
    )
    if last is None or not alike:
        raise refusal()
    return last


def refusal() -> ModelError:
    return ModelError(
        "legrad lets the head read the stream behind every block, and needs streams of one shape "
        "that every block makes alike, by a skip connection or a norm behind it, from one input; "
        "this model's are not so: use generic_attention"
    )


def read_out(question: Question, last: Made, stream: Tensor) -> Tensor:
    """The gradient of the target by a stream that is put where the last one was."""
    import torch

    from whyformer.engine import GRADIENT

    there, leaf = question, stream
    if stream is not last.out:
        with torch.inference_mode(False):
            leaf = stream.detach().clone().requires_grad_()
        there = question.at(changed={last.operation.number: lambda _: leaf.clone()})
    (slope,) = there.trace.backward(GRADIENT, there.start, [leaf])
    return leaf.detach() * 0 if slope is None else slope
