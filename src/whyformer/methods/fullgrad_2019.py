"""FullGrad as it was published (Srinivas and Fleuret 2019): the input's term and every bias's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.tables import gradient_table

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.sites import Site


@register(
    "fullgrad_2019",
    "sizes of the input times its gradient and of every bias times its own "
    "(Srinivas and Fleuret 2019)",
    on_request=True,
    facts=Facts("Srinivas and Fleuret", 2019, "1 F 2 B", "gradient, biases", works="any model"),
)
def fullgrad_2019(
    question: Question, *, gradient: str = "gradient", signed: bool = False
) -> Answer:
    """sum_d |x g| + sum over layers of sum_d |b g_b|, each at the tokens that the layer works on.

    The paper's y = x g + sum_b b g_b is of networks of ReLUs. LayerNorm, softmax and GELU break it
    under the plain gradient; ``gradient="libra"`` mends it, and ``signed=True``, which leaves the
    absolute values out, then sums to the logit, but for what the model puts beside the input: a
    class token and its position. The paper's rescaling of each layer's map to [0, 1] is left out:
    a layer counts by the size of its terms.
    """
    import torch

    from whyformer.engine.biases import bias_terms, carry_terms

    def size(values: Tensor) -> Tensor:
        return values if signed else values.abs()

    trace, start, roots = question.trace, question.start, question.roots
    slopes, terms = bias_terms(trace, gradient_table(gradient), start, roots)
    entries = [site.entry for site in question.sites if site.entry is not None]
    sizes = {operation: size(term) for operation, term in terms.items()}
    carried = carry_terms(trace, sizes, start, [*roots, *entries])
    parts = [torch.zeros_like(root).detach() for root in roots]
    for part, root, slope, mass in zip(parts, roots, slopes, carried, strict=False):
        part += 0 if slope is None else size(root.detach() * slope)
        part += 0 if mass is None else mass
    found = question.at_input(*parts)
    at_entries = iter(carried[len(roots) :])
    tokens = (
        beside(site, own, None if site.entry is None else next(at_entries))
        for site, own in zip(question.sites, found.parts, strict=True)
    )
    return Answer.of(tokens, found.input_relevance)


def beside(site: Site, tokens: Tensor, slot: Tensor | None) -> Tensor:
    """Relevance of an input's tokens, and of the special ones that the model put beside them."""
    special = site.at_special(slot)
    if special is None:
        return tokens
    own = tokens.new_zeros(len(tokens), tokens.shape[1] - special.shape[1])
    return tokens + site.with_special(own, special)
