"""What methods say about one input: timed beside the model's forward, and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch

from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.run.timing import Clock
from whyformer.explanation import Explanation
from whyformer.methods import get_method
from whyformer.models.pipeline import Pipeline
from whyformer.models.recorded import Recorded
from whyformer.provenance import digest_of


class TimedAnswers:
    """Answers to questions about one input; ``given`` tells it from all others in the cache.

    ``forward`` runs the model itself: its time is what explanations are compared with.
    """

    def __init__(
        self,
        why: Pipeline,
        preset: str,
        cache: Cache,
        given: bytes,
        forward: Callable[[], Any] | None = None,
    ) -> None:
        self._preset, self._cache, self._given, self._forward = preset, cache, given, forward
        self.clock = Clock(next(why.model.parameters()).device)

    @cached_property
    def logits(self) -> np.ndarray:
        """What ``forward`` gives, where that is the logits of one sample."""
        return self._cache.remember(
            "logits", self._given, lambda: self._timed_forward()[0].float().cpu().numpy()
        )

    @torch.no_grad()
    def _timed_forward(self) -> Any:
        assert self._forward is not None
        found, self.clock.forward = self.clock.time(self._forward)
        return found

    def ask(
        self,
        record: Callable[[], Recorded],
        method: str,
        target: Any,
        read: Callable[[Explanation], np.ndarray],
        **options: Any,
    ) -> np.ndarray:
        """What is read from a method's explanation; the time of ``record`` counts."""
        named = f"{method} {digest_of(method)} {options or ''} {self._preset} {target}"
        quiet = get_method(method).progress(False)

        def make() -> np.ndarray:
            if self.clock.forward is None and self._forward is not None:
                self._timed_forward()
            answer, seconds = self.clock.time(
                lambda: record().explain(
                    target, method, self._preset, matrix=False, **options, **quiet
                )
            )
            self.clock.add(method, seconds)
            return read(answer)

        return self._cache.remember(named, self._given, make)
