"""The answer without some patches or words, beside the answer with all of them."""

from __future__ import annotations

from pydantic import BaseModel

from whyformer.app.answers import chosen_targets
from whyformer.app.questions import EraseQuestion
from whyformer.app.recordings import KeptRecording
from whyformer.app.worker import Check
from whyformer.explanation import as_probabilities
from whyformer.models.images import ImagePipeline
from whyformer.targets import Contrast

WORDS = "An erased word keeps its place; its embedding is zero."


class ErasedClass(BaseModel):
    """A class's probability, or a regression's value, with all and without the erased."""

    index: int
    label: str
    before: float
    after: float


class Erasure(BaseModel):
    """``how`` says what erasing does, ``colour`` what an erased patch looks like.

    ``prediction`` is the most probable class without the erased; where it was not asked about, it
    is the last of ``classes``. Values are no ``probabilities`` where the model has none.
    """

    input: str
    how: str
    colour: str | None
    probabilities: bool
    prediction: int
    classes: list[ErasedClass]


def to_erasure(question: EraseQuestion, reading: KeptRecording, check: Check) -> Erasure:
    recorded = reading.recorded
    pipeline, labels = recorded.pipeline, recorded.labels
    rows = recorded.logits[0], recorded.without(question.erased)[0]
    shares = [as_probabilities(row, pipeline.explainer.problem) for row in rows]
    before, after = (
        (row if share is None else share).tolist() for row, share in zip(rows, shares, strict=True)
    )
    prediction = int(rows[1].argmax())
    targets = chosen_targets(question, recorded)
    asked = [i for t in targets for i in ((t.a, t.b) if isinstance(t, Contrast) else (t,))]
    colour = None
    if isinstance(pipeline, ImagePipeline):
        colour = f"rgb({', '.join(map(str, pipeline.mean_colour))})"
    return Erasure(
        input=reading.key,
        how=f"An erased patch has the colour {colour}, which the model reads as zero."
        if colour
        else WORDS,
        colour=colour,
        probabilities=shares[0] is not None,
        prediction=prediction,
        classes=[
            ErasedClass(
                index=i, label=labels[i] if labels else str(i), before=before[i], after=after[i]
            )
            for i in dict.fromkeys([*asked, prediction])
        ],
    )
