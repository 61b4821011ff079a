"""A transformers ``pipeline`` that is in use already, asked why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whyformer.errors import ModelError
from whyformer.explainer import Explainer
from whyformer.models.hugging_face import encoded_by, prepared_by
from whyformer.models.pipeline import Pipeline

#: how a pipeline may call its tokenizer without changing what the model reads of a short text
HARMLESS = {"truncation", "max_length", "padding"}


def load_pipeline(
    given: Any, weights: str | Path | None, device: str | None, options: dict[str, Any]
) -> Pipeline:
    """The pipeline's own model, processor or tokenizer, and device."""
    from transformers import (
        ImageClassificationPipeline,
        TextClassificationPipeline,
        TextGenerationPipeline,
    )
    from transformers import Pipeline as TransformersPipeline

    if not isinstance(given, TransformersPipeline):
        raise ModelError(
            f"whyformer.load takes a model's name, its directory or a transformers pipeline, not "
            f"{type(given).__name__}; for a model of your own use whyformer.Explainer(model)"
        )
    families = (ImageClassificationPipeline, TextClassificationPipeline, TextGenerationPipeline)
    family = next((family for family in families if isinstance(given, family)), None)
    if family is None:
        raise ModelError(
            f"the pipeline is for {given.task!r}; give one for 'image-classification', "
            "'text-classification' or 'text-generation'"
        )
    kind: Any = type(given)
    if kind.preprocess is not family.preprocess:
        raise ModelError(
            f"{kind.__name__} prepares its inputs with code of its own; prepare them with "
            "it and use whyformer.Explainer(pipe.model)"
        )
    for name, value in (("weights", weights), ("device", device)):
        if value is not None:
            raise ModelError(f"{name}= was given with a pipeline, which brings its own")
    explainer = Explainer(given.model, **{"output": "logits", **options})
    name = given.model.name_or_path or type(given.model).__name__
    settings = dict(getattr(given, "_preprocess_params", {}))
    if family is ImageClassificationPipeline:
        return prepared_by(given.image_processor, name, explainer)
    writes = family is TextGenerationPipeline
    other = sorted(set(settings) - (set() if writes else HARMLESS))
    if other:
        raise ModelError(
            f"the pipeline gives its tokenizer {other[0]}={settings[other[0]]!r}, which whyformer "
            "does not follow; encode the texts yourself and use whyformer.Explainer(pipe.model)"
        )
    if writes:
        from whyformer.models.language import written_by

        return written_by(given.tokenizer, name, explainer)
    why = encoded_by(given.tokenizer, name, explainer)
    return why.reading(min(settings.get("max_length") or why.longest, why.longest))
