"""Layer-wise relevance propagation to the input itself (Bach et al. 2015)."""

from __future__ import annotations

from whyformer.errors import UnknownNameError, nearest
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register


@register(
    "lrp",
    "relevance carried to the pixels or word embeddings by LRP's rules (Bach et al. 2015)",
    facts=Facts("Bach et al.", 2015, "1 F 1 B", "relevance", signed=True, works="any model"),
)
def lrp(question: Question, *, rules: str = "lrp") -> Answer:
    """Signed relevance of the input, summed over channels, and its sum for every token.

    ``rules="attribution"`` carries the paper's own rules to the input instead of LRP's.
    """
    tables = {"lrp": question.preset.lrp, "attribution": question.preset.attribution}
    if rules not in tables:
        raise UnknownNameError(f"unknown rules {rules!r}; {nearest(rules, tables)}")
    return question.at_input(*question.input_relevance(tables[rules]))
