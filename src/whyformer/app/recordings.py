"""The models that were given at the start, and the inputs that they read last."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whyformer.errors import InputError, UnknownNameError, nearest

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline
    from whyformer.models.recorded import Recorded


@dataclass
class KeptRecording:
    """An input that a model has read: further questions about it cost no new forward.

    ``picture`` is the address of the picture as the model saw it, once somebody wanted it.
    """

    key: str
    title: str
    recorded: Recorded
    picture: str = ""


class RecordingCache:
    """Models by name, and the last few readings: ``keep`` at most, of ``most_bytes`` together.

    The newest reading stays, whatever it takes, until the next input comes.
    """

    def __init__(self, models: Sequence[Pipeline], keep: int, most_bytes: int) -> None:
        alike = Counter(why.name for why in models)
        self.models = {why.name if alike[why.name] == 1 else why.source: why for why in models}
        self._keep, self._most_bytes = keep, most_bytes
        self._readings: OrderedDict[str, KeptRecording] = OrderedDict()

    def model(self, name: str | None, kind: str, beside: Collection[str] | None = None) -> Pipeline:
        """The model of that name; without a name the first that reads such an input.

        ``beside`` names what else was given.
        """
        others = set(beside or ())
        if name is None:
            fitting = [n for n, why in self.models.items() if why.takes == kind]
            # Of those that take all that was given, one that takes nothing else comes first.
            fitting = [n for n in fitting if others <= set(self.models[n].beside)]
            name = min(fitting, key=lambda n: len(self.models[n].beside), default=None)
            if name is None and others:
                raise InputError(f"no model here reads {kind}s with {' and '.join(others)} beside")
            if name is None:
                raise InputError(f"no model here reads {kind}s; known: {', '.join(self.models)}")
        why = self.named(name)
        if not others <= set(why.beside):
            raise InputError(f"{why.name} reads no {' and no '.join(others - set(why.beside))}")
        if why.takes != kind:
            raise InputError(f"{why.name} reads {why.takes}s and no {kind}s")
        return why

    def named(self, name: str) -> Pipeline:
        if name not in self.models:
            raise UnknownNameError(f"no model {name!r} here; {nearest(name, self.models)}")
        return self.models[name]

    def read(
        self, why: Pipeline, content: Any, title: str, beside: Mapping[str, Any] | None = None
    ) -> KeptRecording:
        """The kept reading of this very input, or a new one: the oldest makes room for it."""
        beside = beside or {}
        key = key_of(why.source, content, beside)
        reading = self.find(key)
        if reading is None:
            self._make_room()
            reading = self._readings[key] = KeptRecording(key, title, why.record(content, **beside))
        reading.title = title
        return reading

    @property
    def bytes(self) -> int:
        return sum(r.recorded.bytes + len(r.picture) for r in self._readings.values())

    def _make_room(self) -> None:
        """For one more, before it is read: what is kept and what is read never add up to more."""
        while len(self._readings) >= self._keep or self.bytes > self._most_bytes:
            self._readings.popitem(last=False)

    def find(self, key: str) -> KeptRecording | None:
        if key in self._readings:
            self._readings.move_to_end(key)
        return self._readings.get(key)


def key_of(model: str, content: Any, beside: Mapping[str, Any] | None = None) -> str:
    """The same for the same model and input; only who has the input can know it."""
    digest = hashlib.sha256(model.encode() + b"\0")
    parts = content if isinstance(content, tuple) else (content,)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        digest.update(f"{type(part).__name__} {len(data)}\0".encode() + data)
    if beside:
        told = {k: key_of("", v) if isinstance(v, bytes) else v for k, v in beside.items()}
        digest.update(json.dumps(told, sort_keys=True).encode())
    return digest.hexdigest()
