"""Every head that transformers offers, tiny and random, with inputs to ask it about.

    python benchmarks/families.py           builds and runs every case
    python benchmarks/families.py REGEX     only the cases whose names match

Each case is built in a process of its own. A line says `ok` or why the case does not run.
"""

from __future__ import annotations

import os

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import contextlib
import multiprocessing
import re
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
import transformers
from family_inputs import Inputs, parse, tiny_config
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

SEED = 0
SECONDS = 60
KINDS = {
    "text": """SEQUENCE_CLASSIFICATION TOKEN_CLASSIFICATION QUESTION_ANSWERING MASKED_LM CAUSAL_LM
        NEXT_SENTENCE_PREDICTION DOCUMENT_QUESTION_ANSWERING TABLE_QUESTION_ANSWERING""",
    "choices": "MULTIPLE_CHOICE",
    "sequences": "SEQ_TO_SEQ_CAUSAL_LM",
    "speech": "SPEECH_SEQ_2_SEQ",
    "towers": "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "pair": "VISUAL_QUESTION_ANSWERING",
    "queries": "ZERO_SHOT_OBJECT_DETECTION",
    "chat": "VISION_LANGUAGE",
    "video": "VIDEO_CLASSIFICATION",
    "audio": "AUDIO_CLASSIFICATION AUDIO_FRAME_CLASSIFICATION AUDIO_XVECTOR CTC",
    "series": "TIME_SERIES_CLASSIFICATION TIME_SERIES_REGRESSION",
    "image": """IMAGE_CLASSIFICATION OBJECT_DETECTION SEMANTIC_SEGMENTATION INSTANCE_SEGMENTATION
        UNIVERSAL_SEGMENTATION MASKED_IMAGE_MODELING""",
}
TASKS = {task: kind for kind, tasks in KINDS.items() for task in tasks.split()}
LABELLED = re.compile(
    r"(SEQUENCE|TOKEN|IMAGE|VIDEO|AUDIO|FRAME|SERIES)_CLASSIFICATION|VISUAL|SEMANTIC|OBJ"
)
CHAT_FAMILIES = """llava qwen2_vl qwen2_5_vl qwen3_vl paligemma idefics3 smolvlm internvl gemma3
    blip-2 git kosmos-2 mllama florence2""".split()
# The fields that hold an answer, the more telling ones first.
ANSWERS = """mc_logits start_logits class_queries_logits logits_per_image logits_per_audio
    logits_per_video question_answering_score prediction_logits prediction_outputs
    regression_outputs reconstruction action_preds multimodal_embeddings logits
    last_hidden_state""".split()
# Rows of these families' outputs depend on the other samples of the batch.
MIXED = ("nystromformer", "videoprism")
# The own forward of these families, or their own backward, leaves no gradient.
CUT = ("reformer", "clipseg")
OPTIONS = "length choices texts regions decoder_length left global_first experts kind".split()
# Cases beyond the automatic mappings, and what a case needs beyond its family's configuration.
EXTRAS = dict(
    parse("""
SEQUENCE_CLASSIFICATION:bert:BertForSequenceClassification:relu: hidden_act='relu'
SEQUENCE_CLASSIFICATION:big_bird:BigBirdForSequenceClassification:block sparse: length=64
SEQUENCE_CLASSIFICATION:t5:T5ForSequenceClassification:gated gelu: feed_forward_proj='gated-gelu'
SEQUENCE_CLASSIFICATION:nystromformer:NystromformerForSequenceClassification:landmarks = tokens:
    num_landmarks=12
SEQUENCE_CLASSIFICATION:longformer:LongformerForSequenceClassification:global cls: global_first=True
SEQUENCE_CLASSIFICATION:reformer:ReformerForSequenceClassification:local only:
    attn_layers=['local','local']
SEQUENCE_CLASSIFICATION:reformer:ReformerForSequenceClassification:one chunk:
    attn_layers=['local','local'] local_attn_chunk_length=16 local_num_chunks_before=0
SEQUENCE_CLASSIFICATION:gpt2:GPT2ForSequenceClassification:gelu: activation_function='gelu'
SEQUENCE_CLASSIFICATION:funnel:FunnelForSequenceClassification:one block: block_sizes=[2]
SEQUENCE_CLASSIFICATION:mixtral:MixtralForSequenceClassification:eager experts: experts='eager'
SEQUENCE_CLASSIFICATION:qwen3_moe:Qwen3MoeForSequenceClassification:eager experts: experts='eager'
SEQUENCE_CLASSIFICATION:mixtral:MixtralForSequenceClassification:batched experts:
    experts='batched_mm'
SEQUENCE_CLASSIFICATION:deberta-v2:DebertaV2ForSequenceClassification:absolute positions:
    relative_attention=False position_biased_input=True
SEQUENCE_CLASSIFICATION:gpt2:GPT2DoubleHeadsModel: choices=3
SEQUENCE_CLASSIFICATION:decision_transformer:DecisionTransformerModel: kind='episodes'
SEQUENCE_CLASSIFICATION:dpr:DPRReader
SEQUENCE_CLASSIFICATION:llama:LlamaForSequenceClassification:left padding: left=True
SEQUENCE_CLASSIFICATION:bloom:BloomForSequenceClassification:left padding: left=True
TOKEN_CLASSIFICATION:funnel:FunnelForTokenClassification:one block: block_sizes=[2]
TOKEN_CLASSIFICATION:t5:T5ForTokenClassification:encoder
QUESTION_ANSWERING:dpr:DPRReader
QUESTION_ANSWERING:longformer:LongformerForQuestionAnswering: global_first=True
QUESTION_ANSWERING:lxmert:LxmertForQuestionAnswering: kind='regions'
MULTIPLE_CHOICE:bert:BertForMultipleChoice:four choices: choices=4
MULTIPLE_CHOICE:longformer:LongformerForMultipleChoice: global_first=True
CAUSAL_LM:gpt2:GPT2LMHeadModel:left padding: left=True
CAUSAL_LM:llama:LlamaForCausalLM:left padding: left=True
SEQ_TO_SEQ_CAUSAL_LM:t5:T5ForConditionalGeneration:equal lengths: decoder_length=9
SEQ_TO_SEQ_CAUSAL_LM:bart:BartForConditionalGeneration:equal lengths: decoder_length=9
SEQ_TO_SEQ_CAUSAL_LM:marian:MarianMTModel:equal lengths: decoder_length=9
SEQ_TO_SEQ_CAUSAL_LM:m2m_100:M2M100ForConditionalGeneration:equal lengths: decoder_length=9
ZERO_SHOT_IMAGE_CLASSIFICATION:clip:CLIPModel:2 images, 2 texts: texts=2
ZERO_SHOT_IMAGE_CLASSIFICATION:siglip:SiglipModel:2 images, 2 texts: texts=2
ZERO_SHOT_IMAGE_CLASSIFICATION:clip:CLIPModel:2 images, 2 texts, equal lengths: texts=2 length=17
ZERO_SHOT_IMAGE_CLASSIFICATION:groupvit:GroupViTModel
ZERO_SHOT_IMAGE_CLASSIFICATION:xclip:XCLIPModel
ZERO_SHOT_IMAGE_CLASSIFICATION:flava:FlavaModel
ZERO_SHOT_IMAGE_CLASSIFICATION:bridgetower:BridgeTowerForImageAndTextRetrieval
ZERO_SHOT_IMAGE_CLASSIFICATION:vilt:ViltForImageAndTextRetrieval
ZERO_SHOT_IMAGE_CLASSIFICATION:clap:ClapModel
VISUAL_QUESTION_ANSWERING:vilt:ViltForQuestionAnswering:few patches: image_size=16
VISUAL_QUESTION_ANSWERING:vilt:ViltForQuestionAnswering:many patches: image_size=64
VISUAL_QUESTION_ANSWERING:vilt:ViltForTokenClassification
VISUAL_QUESTION_ANSWERING:lxmert:LxmertForQuestionAnswering
VISUAL_QUESTION_ANSWERING:lxmert:LxmertForQuestionAnswering:equal lengths: regions=9
VISUAL_QUESTION_ANSWERING:visual_bert:VisualBertForQuestionAnswering
VISUAL_QUESTION_ANSWERING:visual_bert:VisualBertForQuestionAnswering:many regions: regions=20
VISUAL_QUESTION_ANSWERING:visual_bert:VisualBertForVisualReasoning: num_labels=2
VISUAL_QUESTION_ANSWERING:visual_bert:VisualBertForMultipleChoice: choices=3
VIDEO_CLASSIFICATION:timesformer:TimesformerForVideoClassification:joint:
    attention_type='joint_space_time'
VIDEO_CLASSIFICATION:timesformer:TimesformerForVideoClassification:space only:
    attention_type='space_only' num_frames=1
IMAGE_CLASSIFICATION:deit:DeiTForImageClassificationWithTeacher
IMAGE_CLASSIFICATION:perceiver:PerceiverForImageClassificationFourier:fourier:
    num_cross_attention_heads=1
IMAGE_CLASSIFICATION:perceiver:PerceiverForImageClassificationConvProcessing:conv:
    num_cross_attention_heads=1
IMAGE_CLASSIFICATION:perceiver:PerceiverForImageClassificationLearned:16 latents: num_latents=16
IMAGE_CLASSIFICATION:beit:BeitForImageClassification:relative position:
    use_relative_position_bias=True
IMAGE_CLASSIFICATION:dinov2:Dinov2ForImageClassification:swiglu: use_swiglu_ffn=True
IMAGE_CLASSIFICATION:swin:SwinForImageClassification:one window, one stage: image_size=16
    patch_size=4 embed_dim=32 depths=[2] num_heads=[4] window_size=4
IMAGE_CLASSIFICATION:swin:SwinForImageClassification:one stage: patch_size=4 embed_dim=32
    depths=[2] num_heads=[4] window_size=4
IMAGE_CLASSIFICATION:dinov3_vit:DINOv3ViTModel:no head
IMAGE_CLASSIFICATION:mlcd_vision_model:MLCDVisionModel:no head
IMAGE_CLASSIFICATION:aimv2_vision_model:Aimv2VisionModel:no head
IMAGE_CLASSIFICATION:vit_mae:ViTMAEModel:no head
IMAGE_CLASSIFICATION:clip_vision_model:CLIPVisionModel:no head
IMAGE_CLASSIFICATION:siglip_vision_model:SiglipVisionModel:no head
IMAGE_CLASSIFICATION:sam_vision_model:SamVisionModel:no head
SEMANTIC_SEGMENTATION:vitdet:VitDetModel
SEMANTIC_SEGMENTATION:beit:BeitForSemanticSegmentation: num_hidden_layers=4 out_indices=[1,2,3,4]
SEMANTIC_SEGMENTATION:data2vec-vision:Data2VecVisionForSemanticSegmentation: num_hidden_layers=4
    out_indices=[1,2,3,4]
UNIVERSAL_SEGMENTATION:clipseg:CLIPSegForImageSegmentation: extract_layers=[0,1] reduce_dim=32
    kind='pair'
UNIVERSAL_SEGMENTATION:detr:DetrForSegmentation: encoder_attention_heads=8 decoder_attention_heads=8
UNIVERSAL_SEGMENTATION:videomt:VideomtForUniversalSegmentation: kind='video'
VISUAL_QUESTION_ANSWERING:blip-2:Blip2ForConditionalGeneration: kind='chat'
IMAGE_CLASSIFICATION:shieldgemma2:ShieldGemma2ForImageClassification: kind='chat'
MASKED_IMAGE_MODELING:vit_mae:ViTMAEForPreTraining
""")
)


@dataclass
class Built:
    """A model, two samples, and two questions about its answer to each."""

    model: nn.Module
    inputs: dict[str, Any]
    output: str | None
    targets: tuple[tuple[int, ...], tuple[int, ...]]
    shared: frozenset[str] = frozenset()

    def sample(self, i: int) -> dict[str, Any]:
        """The inputs of one sample; what the batch shares stays."""
        return {
            name: value.chunk(2)[i]
            if isinstance(value, Tensor) and name not in self.shared and value.shape[0] % 2 == 0
            else value
            for name, value in self.inputs.items()
        }

    def answer(self, inputs: dict[str, Any]) -> Tensor:
        """The model's output field that the targets index.

        torch's fused kernel for CPUs misreads masks in float32 beside queries in float64.
        """
        with sdpa_kernel(SDPBackend.MATH):
            return self.model(**inputs)[self.output or "logits"]


@dataclass(frozen=True)
class Case:
    """One head of one family."""

    task: str
    family: str
    class_name: str
    variant: str = ""

    @property
    def name(self) -> str:
        """The case in a line."""
        parts = (self.task, self.family, self.class_name, self.variant)
        return ":".join(filter(None, parts))

    def config(self) -> transformers.PreTrainedConfig:
        """The tiny configuration of the class."""
        given = {k: v for k, v in EXTRAS.get(self.name, {}).items() if k not in OPTIONS}
        if LABELLED.search(self.task) and self.family not in ("lxmert", "shieldgemma2"):
            given = {"num_labels": 3} | given
        if self.task == "CAUSAL_LM":
            given["is_decoder"] = True
        if "SEQ" in self.task.split("_"):
            given["decoder_start_token_id"] = 2
        config = tiny_config(self.family, given)
        wanted = getattr(transformers, self.class_name).config_class
        parts = (
            getattr(config, name, None) for name in ("text_config", "decoder", "thinker_config")
        )
        if isinstance(wanted, type) and not isinstance(config, wanted):
            return next((part for part in parts if isinstance(part, wanted)), config)
        return config

    def build(self, attention: str = "sdpa") -> Built:
        """The model and its questions, the same ones in every process."""
        torch.manual_seed(SEED)
        options = {k: v for k, v in EXTRAS.get(self.name, {}).items() if k in OPTIONS}
        model = instantiate(self.class_name, self.config(), attention, options.get("experts"))
        inputs = Inputs(options.get("kind", TASKS[self.task]), model, options).make()
        model, inputs, outputs = run(calibrate(perturb(model), inputs), inputs)
        field = next(name for name in ANSWERS if isinstance(outputs.get(name), Tensor))
        if self.name == "SEQUENCE_CLASSIFICATION:dpr:DPRReader":
            field = "relevance_logits"
        shape = outputs[field].shape[1:]
        texts = {"input_ids", "attention_mask"} if field.startswith("logits_per_") else ()
        return Built(
            model,
            inputs,
            None if field == "logits" else field,
            targets(self.task, shape, inputs.get("attention_mask")),
            frozenset(texts),
        )


def floating(value: Any) -> bool:
    """Whether a value is a tensor of real numbers."""
    return isinstance(value, Tensor) and value.is_floating_point()


def cases(pattern: str = "") -> list[Case]:
    """All cases whose names match."""
    found = {}
    for task in TASKS:
        mapping = "IMAGE_TEXT_TO_TEXT" if task == "VISION_LANGUAGE" else task
        names = getattr(modeling_auto, f"MODEL_FOR_{mapping}_MAPPING_NAMES")
        listed = [Case(task, f, c if isinstance(c, str) else c[0]) for f, c in names.items()]
        if task == "VISION_LANGUAGE":
            listed = [case for case in listed if case.family in CHAT_FAMILIES]
        listed += [Case(*name.split(":")) for name in EXTRAS if name.startswith(task + ":")]
        found |= {
            case.name: case
            for case in listed
            if case.family in CONFIG_MAPPING_NAMES and hasattr(transformers, case.class_name)
        }
    return [case for name, case in found.items() if re.search(pattern, name)]


def instantiate(class_name: str, config: Any, attention: str, experts: str | None) -> nn.Module:
    """The model with the asked attention; SDPA is what a family takes where it can."""
    cls = getattr(transformers, class_name)
    for part in (config, *(getattr(config, name, None) for name in config.sub_configs)):
        if hasattr(part, "use_cache"):
            part.use_cache = False
    if experts:
        config._experts_implementation = experts
    chosen = {} if attention == "sdpa" else {"attn_implementation": attention}
    return cls._from_config(config, **chosen)


def perturb(model: nn.Module) -> nn.Module:
    """Noise on all weights, so that no head is zero and no attention uniform."""
    generator = torch.Generator().manual_seed(SEED + 1)
    with torch.no_grad():
        for weight in model.parameters():
            scale = 0.15 if weight.ndim > 1 else 0.1
            if weight.ndim > 2:
                scale = max(scale, weight[0].numel() ** -0.5)
            weight += scale * torch.randn(weight.shape, generator=generator)
    return model


def calibrate(model: nn.Module, inputs: dict[str, Any]) -> nn.Module:
    """Batch norms that have seen the inputs, as they have in a trained model."""
    norms = [m for m in model.eval().modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.train().momentum = 1.0
    if norms:
        with torch.no_grad():
            model(**inputs)
    return model.eval()


def run(model: nn.Module, inputs: dict[str, Any]) -> tuple[nn.Module, dict[str, Any], Any]:
    """The model, its inputs and outputs in float64, or in float32 where it knows no other."""

    def attempt(dtype: torch.dtype) -> tuple[nn.Module, dict[str, Any], Any]:
        cast = {k: v.to(dtype) if floating(v) else v for k, v in inputs.items()}
        with torch.no_grad():
            return model.to(dtype), cast, model.to(dtype)(**cast)

    with contextlib.suppress(Exception):
        found = attempt(torch.float64)
        if not any(floating(value) and value.isnan().any() for value in found[2].values()):
            return found
    return attempt(torch.float32)


def targets(
    task: str, shape: torch.Size, mask: Tensor | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two places of one sample's answer that are worth asking about."""
    first, second = (7, 11) if shape and shape[-1] > 20 else (1, 0)
    if not shape:
        return (), ()
    if len(shape) == 1:
        if task.endswith("QUESTION_ANSWERING") and task != "VISUAL_QUESTION_ANSWERING":
            first, second = min(3, shape[0] - 1), min(2, shape[0] - 2)
        return (first % shape[0],), (second,)
    if len(shape) == 3:
        classes, height, width = shape
        return (1 % classes, height // 2, width // 2), (0, height // 3, width // 2)
    place = 3 % shape[0]
    if task in ("CAUSAL_LM", "VISION_LANGUAGE") and mask is not None:
        place = int((mask * torch.arange(mask.shape[1])).amax(1).min()) + shape[0] - mask.shape[1]
    if shape[1] == 1:
        return (place, 0), ((place + 1) % shape[0], 0)
    return (place, first), (place, second)


def embedded(model: nn.Module) -> list[Tensor]:
    """The outputs of the model's embeddings, filled while it runs."""
    leaves: list[Tensor] = []

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        words = output[0] if isinstance(output, tuple) else output
        leaves.append(words.detach().requires_grad_())
        return (leaves[-1] * 1, *output[1:]) if isinstance(output, tuple) else leaves[-1] * 1

    for module in model.modules():
        if isinstance(module, nn.Embedding) or type(module).__name__ == "QuantEmbedding":
            module.register_forward_hook(hook)
    return leaves


def problems(built: Built, family: str) -> Iterator[str]:
    """What is wrong with a case."""
    first, second = built.targets
    with torch.no_grad():
        whole = built.answer(built.inputs)
        parts = [built.answer(built.sample(i)) for i in range(2)]
    if len(whole) != 2 or not whole.is_floating_point():
        yield f"the answer is {tuple(whole.shape)} {whole.dtype}"
    for target in built.targets:
        values = whole[(slice(None), *target)]
        if not values.isfinite().all():
            yield f"the answer at {target} is {values.tolist()}"
        elif (values[0] - values[1]).abs() < 1e-9:
            yield f"the answer at {target} is {values[0]} for both samples"
    if first == second and whole[0].numel() > 1:
        yield f"there is one target only, {first}"
    tolerance = 1e-6 if whole.dtype is torch.float64 else 1e-4
    for i, part in enumerate([] if family in MIXED else parts):
        finite = whole[i].isfinite()
        error = (part[0] - whole[i])[finite].abs().max() / whole[i][finite].abs().max()
        if error > tolerance:
            yield f"sample {i} alone differs by {error:.0e}"
    if family in CUT:
        return
    leaves = embedded(built.model)
    inputs = {k: v.requires_grad_() if floating(v) else v for k, v in built.inputs.items()}
    answer = built.answer(inputs)
    leaves += filter(floating, inputs.values())
    for target in {first, second}:
        gradients = torch.autograd.grad(
            answer[0][target], leaves, retain_graph=True, allow_unused=True
        )
        total = sum(g.abs().sum() for g in gradients if g is not None)
        if not 0 < total < float("inf"):
            yield f"the gradient of the answer at {target} is {float(total)}"


def check(case: Case, pipe: Connection) -> None:
    """Send what is wrong with a case."""
    warnings.simplefilter("ignore")
    try:
        built = case.build()
        kind = next(built.model.parameters()).dtype
        found = list(problems(built, case.family))
        pipe.send("; ".join(found) or ("ok" if kind is torch.float64 else "ok (float32)"))
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        pipe.send(f"{type(error).__name__}: {lines[0][:150]}")


def verdict(case: Case) -> str:
    """What a child process says about a case within the time limit."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=check, args=(case, there))
    child.start()
    there.close()
    try:
        return here.recv() if here.poll(SECONDS) else f"no answer within {SECONDS} seconds"
    except EOFError:
        return "the process died"
    finally:
        child.kill()
        child.join()


def main() -> None:
    """Build and run the cases, one line each."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    started, fine = time.time(), 0
    listed = cases(*sys.argv[1:2])
    for case in listed:
        said = verdict(case)
        fine += said.startswith("ok")
        print(f"{case.name}: {said}", flush=True)
    print(f"{fine} of {len(listed)} cases run, {time.time() - started:.0f} seconds")


if __name__ == "__main__":
    main()
