"""GradCAM with the last block's heads as channels."""

from __future__ import annotations

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register


@register(
    "gradcam",
    "the last block's heads weighted by their mean gradient (Selvaraju et al. 2017)",
    facts=Facts("Selvaraju et al.", 2017, "1 F 1 B", "the last attention, gradient"),
)
def gradcam(question: Question, *, gradient: str = "gradient") -> Answer:
    """(sum_h w_h A)^+, w_h the mean of G over the content columns of the pooled row.

    ``gradient`` names the backward that G is of: "gradient", or a balanced one, "cp", "libra" or
    "attnlrp". A preset's conventions may take a text's weights from the whole map, and scale to
    [0, 1].
    """
    return question.by_tower(lambda tower: _of_last_map(tower, gradient))


def _of_last_map(question: Question, gradient: str) -> Answer:
    attention = question.last_attention
    slope = question.gradients(last_only=True, table=gradient)[-1]
    content = question.columns(slope)
    scaled, image = question.preset.conventions.scaled_gradcam, question.tokens.kind == "image"
    if scaled and not image:
        weights = slope.mean((2, 3), keepdim=True)
    else:
        weights = (slope * content).sum(-1, keepdim=True) / content.sum(-1, keepdim=True)
    cam = (weights * attention).sum(1).clamp(min=0)
    if not scaled:
        return question.pool(cam)
    if not image:
        low, high = cam.amin((1, 2), keepdim=True), cam.amax((1, 2), keepdim=True)
        return question.pool((cam - low) / (high - low).clamp(min=1e-30))
    row = question.pool(cam).relevance
    hidden = ~question.tokens.content
    low = row.masked_fill(hidden, float("inf")).amin(1, keepdim=True)
    high = row.masked_fill(hidden, float("-inf")).amax(1, keepdim=True)
    return Answer(((row - low) / (high - low).clamp(min=1e-30)).clamp(0, 1))
