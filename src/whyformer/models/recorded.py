"""An input that one forward has read, and how its explanations are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whyformer.erasing import output_without
from whyformer.explanation import Explanation
from whyformer.models.pipeline import Pipeline, Recorded
from whyformer.recording import Recording

#: puts what people see into an explanation: pictures, pieces of a text, sounds
Show = Callable[[Explanation], Explanation]


class RecordedInput(Recorded):
    """An input that one forward has read.

    ``notes`` are what was decided when it was read; they stand before those of an explanation.
    ``show`` makes an explanation one that people can look at, and keeps ``held`` bytes for it.
    ``logits`` are those that are asked about, where these are not all of the recording's.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        recording: Recording,
        notes: Sequence[str] = (),
        show: Show = lambda found: found,
        *,
        held: int = 0,
        logits: Tensor | None = None,
        labels: list[str] | None = None,
    ) -> None:
        super().__init__(pipeline, recording.logits if logits is None else logits, labels)
        self._recording, self._show, self._held = recording, show, held
        self._notes = tuple(dict.fromkeys(notes))

    @property
    def bytes(self) -> int:
        return self._recording.bytes + self._held

    def _explain(self, target: Any, method: str, preset: str, **options: Any) -> Explanation:
        return self._shown(self._recording.explain(target, method, preset, **options))

    def _shown(self, explanation: Explanation) -> Explanation:
        shown = self._show(explanation)
        return replace(shown, notes=(*self._notes, *shown.notes))

    def _without(self, tokens: Sequence[int]) -> Tensor:
        gone = torch.zeros_like(self._recording.tokens.content)
        gone[:, tokens] = True
        return output_without(self._recording, gone)
