"""A text that a language model writes on request, in the models' thread."""

from __future__ import annotations

from typing import Any

from whyformer.app.questions import WritingQuestion
from whyformer.app.recordings import KeptRecording
from whyformer.app.worker import Check
from whyformer.errors import InputError
from whyformer.models.written import Written


def written(question: WritingQuestion, reading: KeptRecording, check: Check) -> Written:
    """What ``why.generate`` gives; stops between two words where nobody waits any more."""
    from whyformer.models.language import LanguagePipeline, RecordedPrompt
    from whyformer.models.writing import write

    recorded, why = reading.recorded, reading.recorded.pipeline
    if not isinstance(why, LanguagePipeline) or not isinstance(recorded, RecordedPrompt):
        raise InputError(f"{why.name} is no language model: it writes nothing; leave write out")
    alone = (question.targets, question.rather_than is not None, question.position is not None)
    if any(alone) or len(question.methods) > 1:
        raise InputError(
            "every word that is written is explained, by one method; leave targets, rather_than "
            "and position out, and name one method at most"
        )
    assert question.write is not None
    method = next(iter(question.methods), why.usual)
    options: dict[str, Any] = {"stopping_criteria": [lambda ids, scores: going_on(ids, check)]}
    return write(
        why, recorded.prompt, question.write, method, question.preset, options, check=check
    )


def going_on(ids: Any, check: Check) -> Any:
    """Never a reason to stop writing, but the moment to notice that nobody waits."""
    check()
    return ids.new_zeros(len(ids), dtype=bool)
