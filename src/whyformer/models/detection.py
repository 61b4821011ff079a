"""Detectors: what was found where, then why this class and why this edge of its box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.errors import InputError, TargetError, nearest
from whyformer.explanation import MULTI_LABEL, SINGLE_LABEL, Explanation
from whyformer.models.hugging_face import image_pipeline
from whyformer.models.image_files import ImageInput
from whyformer.models.images import ImagePipeline
from whyformer.models.recorded import Ask, RecordedInput, Show
from whyformer.targets import Contrast, class_index

if TYPE_CHECKING:
    from pathlib import Path

    from whyformer.explainer import Explainer
    from whyformer.recording import Recording

#: what detectors with a softmax say where nothing is
NOTHING = "no object"
#: findings that a note lists
MOST_NAMED = 8
#: an edge of a box (centre x, centre y, width, height), as a function of it
EDGES: dict[str, Callable[[Tensor], Tensor]] = {
    "left": lambda box: box[:, 0] - box[:, 2] / 2,
    "top": lambda box: box[:, 1] - box[:, 3] / 2,
    "right": lambda box: box[:, 0] + box[:, 2] / 2,
    "bottom": lambda box: box[:, 1] + box[:, 3] / 2,
}


def load_detection(folder: Path, name: str, explainer: Explainer) -> DetectionPipeline:
    return DetectionPipeline.like(image_pipeline(folder, name, explainer))


@dataclass(frozen=True)
class Detection:
    """Something that was found: its class, how sure the model is, and its box.

    ``box`` is left, top, right, bottom in shares of the picture; ``query`` is the model's row for
    it.
    """

    label: str
    probability: float
    box: tuple[float, float, float, float]
    query: int


class DetectionPipeline(ImagePipeline):
    """A detector with its own preprocessing.

    ``why.detections(photo)`` lists what was found, the surest first. ``target`` is a class, and the
    model's surest finding of it is explained; ``position`` counts on from there. ``edge`` asks
    about the box: why is its "left", "top", "right" or "bottom" edge no further to the left or up?

    Examples:
        >>> why = whyformer.load("./my-detector")
        >>> why("photo.jpg", target="dog", position=1).save("why.png")
        PosixPath('why.png')
        >>> why("photo.jpg", target="dog", edge="left", method="fullgrad").asked
        ('the left edge of dog',)
    """

    kind, takes = "detection", "image"
    together = False

    def detections(self, image: ImageInput, threshold: float = 0.5) -> list[Detection]:
        """What was found with at least this probability, the surest first."""
        return self.record(image).detections(threshold)

    def record(self, inputs: Any, *, progress: bool = False) -> RecordedDetections:
        return RecordedDetections(self, *self.record_one(inputs))


class RecordedDetections(RecordedInput):
    """An image in which a model has found things. ``logits`` are those of the surest finding."""

    def __init__(
        self, pipeline: DetectionPipeline, recording: Recording, notes: list[str], show: Show
    ) -> None:
        found = recording.logits
        names = pipeline.labels or [str(i) for i in range(found.shape[-1])]
        softmax = found.shape[-1] == len(names) + 1
        self._labels = [*names, NOTHING] if softmax else names
        self._problem = SINGLE_LABEL if softmax else MULTI_LABEL
        #: (queries, classes), without the class for nothing
        self._shares = (found.softmax(-1)[..., :-1] if softmax else found.sigmoid())[0]
        boxes = getattr(recording.trace.returned, "pred_boxes", None)
        if not isinstance(boxes, Tensor):
            raise InputError(f"{pipeline.name} returned no pred_boxes: it is no detector of boxes")
        self._boxes = boxes.detach()
        best = int(self._shares.amax(-1).argmax())
        super().__init__(pipeline, recording, notes, show, logits=found[:, best])

    def detections(self, threshold: float = 0.5) -> list[Detection]:
        """What was found with at least this probability, the surest first."""
        shares, classes = self._shares.max(-1)
        ranked = [q for q in shares.argsort(descending=True).tolist() if shares[q] >= threshold]
        return [
            Detection(self._labels[int(classes[q])], float(shares[q]), self._corners(q), q)
            for q in ranked
        ]

    @property
    def places(self) -> list[str]:
        found = self.detections() or self.detections(0)[:1]
        return [f"{finding.label} ({finding.probability:.2f})" for finding in found]

    def likeliest(self, count: int, position: Any = None) -> list[int]:
        """The classes of what was found; at a position the finding itself says its class."""
        if position is not None:
            return []
        found = self.detections() or self.detections(0)[:1]
        names = list(dict.fromkeys(finding.label for finding in found))[:count]
        return [self._labels.index(name) for name in names]

    def _corners(self, query: int) -> tuple[float, float, float, float]:
        left, top, right, bottom = (float(edge(self._boxes[:, query])) for edge in EDGES.values())
        return left, top, right, bottom

    def _explain(
        self, target: Any, ask: Ask, position: int = 0, edge: str | None = None
    ) -> Explanation:
        if isinstance(target, Contrast):
            query, index = self._find(target.a, position)
            other = class_index(target.b, len(self._labels), self._labels)
            asked: Any = Contrast((query, index), (query, other))
            words = f"{self._labels[index]} rather than {self._labels[other]}"
            return self._answer(ask, asked, [query], words=(words,))
        if edge is not None:
            query, index = self._find(target, position)
            words = f"the {edge} edge of {self._labels[index]}"
            return self._answer(ask, edge_of(edge, query), [query], words=(words,))
        if isinstance(target, list) and not isinstance(target[0] if target else None, list):
            if len(target) != 1:
                raise TargetError(
                    f"{len(target)} targets were given for one image; several of one are [[a, b]]"
                )
            target = target[0]
        several = isinstance(target, list)
        places = [self._find(item, position) for item in (target[0] if several else [target])]
        chosen = torch.tensor([[index for _, index in places]])
        chosen = chosen if several else chosen[0]
        queries = [query for query, _ in places]
        asked = [places] if several else places[0]
        return self._answer(ask, asked, queries, chosen)

    def _find(self, item: Any, position: Any) -> tuple[int, int]:
        """The row and the class of a finding: the surest of its class, or the one after it."""
        number = position if isinstance(position, int) else -1
        if item is None:
            shares, classes = self._shares.max(-1)
        else:
            index = class_index(item, self._shares.shape[-1], self._labels)
            shares, classes = self._shares[:, index], torch.full((len(self._shares),), index)
        if not 0 <= number < len(shares):
            raise TargetError(
                f"finding {position} of a model that has rows for {len(shares)}; count from 0, the "
                "surest"
            )
        query = int(shares.argsort(descending=True)[number])
        return query, int(classes[query])

    def _found(self) -> str:
        """The list of what was found, for every picture and page."""
        count = len(self.detections())
        if not count:
            return "found: nothing with a probability of at least 0.5"
        named = ", ".join(self.places[:MOST_NAMED])
        return f"found, the surest first: {named}" + (" and more" if count > MOST_NAMED else "")

    def _answer(
        self,
        ask: Ask,
        asked: Any,
        queries: list[int],
        chosen: Tensor | None = None,
        words: tuple[str, ...] = (),
    ) -> Explanation:
        found = self._show(ask(self._recording, asked))
        return replace(
            found,
            target=None if found.target is None else chosen,
            position=torch.tensor([queries]),
            asked=words,
            labels=self._labels,
            problem=self._problem,
            boxes=torch.tensor([[self._corners(query) for query in queries]]),
            notes=(*self._notes, self._found(), *found.notes),
        )


def edge_of(name: str, query: int) -> Callable[[Any], Tensor]:
    """An edge of a row's box, as a function of what the model returned."""
    if name not in EDGES:
        raise TargetError(f"a box has no edge {name!r}; {nearest(name, EDGES)}")
    return lambda output: EDGES[name](output.pred_boxes[:, query])
