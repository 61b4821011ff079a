"""Which kind of model an architecture is, by its name's end and its family, and who loads it.

Nothing here loads torch: what stands in a configuration is told at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from whyformer.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from whyformer.explainer import Explainer
    from whyformer.models.pipeline import Pipeline


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    ``auto`` is the class of transformers that loads it, ``maker`` the function that adds the
    preprocessing, as "module:function"; ``output`` is what is asked about. A kind that is not
    ``labelled`` has its classes' names elsewhere than in its configuration.
    """

    name: str
    auto: str
    maker: str
    output: Any = "logits"
    labelled: bool = True
    #: starts of the names of weights that may be missing, because nothing asks for them
    optional: tuple[str, ...] = ()

    def make(self, folder: Path, name: str, explainer: Explainer) -> Pipeline:
        """The pipeline of a model whose directory is ``folder``."""
        module, function = self.maker.split(":")
        made = attrgetter(function)(import_module(f"whyformer.models.{module}"))
        return made(folder, name, explainer)


def span_logits(output: Any) -> Any:
    """(batch, first piece, last piece): the sum of the logits of an answer's start and end."""
    return output.start_logits.unsqueeze(2) + output.end_logits.unsqueeze(1)


LANGUAGE = Kind("language", "AutoModelForCausalLM", "language:language_pipeline", labelled=False)
SOUND = Kind("sound", "AutoModelForAudioClassification", "hearing:sound_pipeline")
SPEECH = Kind("speech", "AutoModelForSpeechSeq2Seq", "answering:speech_pipeline", labelled=False)
TRANSLATION = Kind(
    "translation", "AutoModelForSeq2SeqLM", "answering:translation_pipeline", labelled=False
)
TOWERS = Kind("towers", "AutoModel", "towers:towers_pipeline", "logits_per_image", labelled=False)
ENCODER = Kind(
    "encoder", "AutoModel", "encoders:encoder_pipeline", None, labelled=False, optional=("pooler.",)
)

#: the end of an architecture's name, and its kind
KINDS = {
    "ForImageClassification": Kind(
        "image", "AutoModelForImageClassification", "hugging_face:image_pipeline"
    ),
    "ForSequenceClassification": Kind(
        "text", "AutoModelForSequenceClassification", "hugging_face:text_pipeline"
    ),
    "ForTokenClassification": Kind(
        "tags", "AutoModelForTokenClassification", "tags:TagsPipeline.load"
    ),
    "ForQuestionAnswering": Kind(
        "answers", "AutoModelForQuestionAnswering", "spans:SpansPipeline.load", span_logits
    ),
    "ForMultipleChoice": Kind(
        "choices", "AutoModelForMultipleChoice", "choices:ChoicesPipeline.load"
    ),
    "ForMaskedLM": Kind(
        "blanks", "AutoModelForMaskedLM", "blanks:BlanksPipeline.load", labelled=False
    ),
    "ForObjectDetection": Kind(
        "detection", "AutoModelForObjectDetection", "detection:load_detection", None
    ),
    "ForSemanticSegmentation": Kind(
        "regions", "AutoModelForSemanticSegmentation", "regions:load_regions", None
    ),
    "ForCausalLM": LANGUAGE,
    "LMHeadModel": LANGUAGE,
    "ForAudioClassification": SOUND,
    "ForVideoClassification": Kind(
        "video", "AutoModelForVideoClassification", "videos:video_pipeline"
    ),
    "MarianMTModel": TRANSLATION,
    "CLIPModel": TOWERS,
    "SiglipModel": TOWERS,
    "AlignModel": TOWERS,
    "VisionTextDualEncoderModel": TOWERS,
    "ViltForQuestionAnswering": Kind(
        "picture questions", "ViltForQuestionAnswering", "both:both_pipeline"
    ),
    "ViltForImageAndTextRetrieval": Kind(
        "picture questions", "ViltForImageAndTextRetrieval", "both:both_pipeline", labelled=False
    ),
    "Model": ENCODER,
}

#: names that end as another kind's do, or that only some families' may have: the end, the model
#: types and the kind
FAMILIES = [
    (
        "ForSequenceClassification",
        "data2vec-audio hubert sew sew-d unispeech unispeech-sat wav2vec2 wav2vec2-bert "
        "wav2vec2-conformer wavlm".split(),
        SOUND,
    ),
    ("ForConditionalGeneration", "moonshine speech_to_text whisper".split(), SPEECH),
    (
        "ForConditionalGeneration",
        "bart bigbird_pegasus blenderbot blenderbot-small led longt5 m2m_100 mbart mt5 mvp "
        "nllb-moe pegasus pegasus_x plbart switch_transformers t5 umt5".split(),
        TRANSLATION,
    ),
]


#: model types that read no pixels but what another model found in them, and under which names
READ_REGIONS = {"visual_bert": ["visual_embeds"], "lxmert": ["visual_feats", "visual_pos"]}


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """The settings of a model directory, or a sentence that says why there are none."""
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(
            f"{name} has no config.json: it is not a model directory in Hugging Face's layout "
            "(config.json, model.safetensors, and a processor or tokenizer)"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path} describes no model: expected an object with settings")
    if "auto_map" in config:
        raise ModelError(
            f"{name} needs code from its own repository, which whyformer never runs; if you trust "
            "it, load the model yourself and use whyformer.Explainer(model)"
        )
    return config


def kind_of(config: dict[str, Any], name: str) -> Kind:
    regions = READ_REGIONS.get(config.get("model_type", ""))
    if regions is not None:
        given = [
            "**tokenizer(text, return_tensors='pt')",
            *(f"'{each}': {each}" for each in regions),
        ]
        raise ModelError(
            f"{name} reads no pixels but regions that another model found in an image; find them, "
            f"and ask whyformer.Explainer(model)({{{', '.join(given)}}})"
        )
    stated = config.get("architectures") or []
    architectures = [str(item) for item in (stated if isinstance(stated, list) else [stated])]
    for architecture in architectures:
        for ending, families, kind in FAMILIES:
            if architecture.endswith(ending) and config.get("model_type") in families:
                return kind
        endings = [ending for ending in KINDS if architecture.endswith(ending)]
        longest = max(endings, key=len, default="")
        if endings and not (longest == "Model" and "Head" in architecture):
            return KINDS[longest]
    raise ModelError(
        f"{name} is {' and '.join(architectures) or 'of unknown architecture'}, which whyformer "
        f"does not load by name; expected an architecture that ends in {' or '.join(KINDS)}; any "
        "other model is explained by whyformer.Explainer(model)"
    )
