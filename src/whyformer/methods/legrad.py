"""LeGrad (Bousselham et al. 2024): every block's stream is read by the model's own head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.errors import ModelError
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.transformed import norm_of, norms_behind

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine.forward_record import Made


@register(
    "legrad",
    "the gradient of attention when the head reads each block's own stream, averaged "
    "(Bousselham et al. 2024)",
    on_request=True,
    facts=Facts("Bousselham et al.", 2024, "12 F 24 B", works="one sequence"),
)
def legrad(question: Question) -> Answer:
    """E_{b,h,query} (d y_b / d A_b)^+, y_b the target where the stream behind block b is the last.

    The stream goes through what the model has behind its last block: final norm, pooling, head.
    Each block costs a forward with the last stream replaced. What is hidden from a query counts
    nothing.
    """
    from whyformer.engine import GRADIENT

    question.needs_one_sequence("legrad")
    last = last_stream(question)
    maps = question.trace.seen.attention
    streams = [block.entry for block in question.trace.seen.blocks[1:]] + [last.out]
    layers = []
    for seen, stream in zip(maps, streams, strict=True):
        slope = read_out(question, last, stream)
        (found,) = question.trace.backward(GRADIENT, [(stream, slope)], [seen.weights])
        shown = question.shaped(seen.weights.detach())
        slopes = shown * 0 if found is None else question.shaped(found).clamp(min=0)
        layers.append((slopes * (shown > 0)).mean(1))
    masses = question.onto_streams(layers, "legrad")
    return question.carry([mass / len(masses) for mass in masses])


def last_stream(question: Question) -> Made:
    """What leaves the last block, like that which enters every block but the first."""
    from whyformer.engine.graph import origin

    seen = question.trace.seen
    sums = [
        m for m in seen.made if m.entry is not None and m.operation in question.trace.operations
    ]
    shape = seen.blocks[-1].entry.shape if seen.blocks else None
    alike = [m for m in sums if m.out.shape == shape]
    last = alike[-1] if alike else None
    if last is not None and norms_behind(question, seen.blocks[-1], "legrad"):
        last = norm_of(seen.made, last.out)
    known = [m.operation for m in seen.made]
    between = [origin(block.entry) for block in seen.blocks[1:]]
    if (
        last is None
        or len(seen.blocks) != len(seen.attention)
        or not all(type(made) is type(last.operation) and made in known for made in between)
    ):
        raise ModelError(
            "legrad lets the head read every block's stream, and needs streams that one skip "
            "connection, or one norm behind it, makes in every block; this model's are not so: "
            "use generic_attention"
        )
    return last


def read_out(question: Question, last: Made, stream: Tensor) -> Tensor:
    """The gradient of the target by a stream that is put where the last one was."""
    from whyformer.engine import GRADIENT

    leaf = stream.detach().clone().requires_grad_()
    there = question
    if stream is last.out:
        leaf = stream
    else:
        there = question.at(changed={last.operation.number: lambda _: leaf.clone()})
    (slope,) = there.trace.backward(GRADIENT, there.start, [leaf])
    return leaf.detach() * 0 if slope is None else slope
