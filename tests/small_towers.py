"""Tiny models of two towers with their preprocessing, written to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from small_images import write
from small_texts import stir
from zoo import TEXT, VISION

CAPTIONS = [
    "a photo of a cat",
    "a photo of a dog asleep on the floor",
    "a cup of coffee on a table",
]
ANSWERS = ["yes", "no", "a film"]
LONGEST = 16
SIDE = 32


def save_clip(folder: Path) -> Path:
    """CLIP, with a byte-level tokenizer learnt from the captions."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    start, end = "<|startoftext|>", "<|endoftext|>"
    words = Tokenizer(models.BPE(unk_token=end, end_of_word_suffix="</w>"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.decoder = decoders.BPEDecoder()
    trainer = trainers.BpeTrainer(
        vocab_size=120, special_tokens=[start, end], end_of_word_suffix="</w>"
    )
    words.train_from_iterator(CAPTIONS, trainer)
    words.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=[(start, 0), (end, 1)]
    )
    save_tokenizer(folder, words, start, end)
    text = {**TEXT, **positions(), "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = transformers.CLIPConfig(
        text_config=text, vision_config={**VISION, "image_size": SIDE}, projection_dim=16
    )
    save_model(folder, "CLIPModel", config)
    processor(folder, "CLIPImageProcessor", do_center_crop=True, crop_size=square())
    return folder


def save_siglip(folder: Path) -> Path:
    """SigLIP, with a unigram tokenizer that gives no mask."""
    save_unigram(folder)
    text = {**TEXT, **positions(), "pad_token_id": 1, "projection_size": 32}
    config = transformers.SiglipConfig(
        text_config=text, vision_config={**VISION, "image_size": SIDE}
    )
    save_model(folder, "SiglipModel", config)
    processor(folder, "SiglipImageProcessor")
    return folder


def save_unigram(folder: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    words = Tokenizer(models.Unigram())
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=100, special_tokens=["<unk>", "</s>"], unk_token="<unk>"
    )
    words.train_from_iterator(CAPTIONS, trainer)
    words.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, model_input_names=["input_ids"], unk_token="<unk>",
        eos_token="</s>", pad_token="</s>", model_max_length=LONGEST,
    ).save_pretrained(folder)  # fmt: skip


def save_align(folder: Path) -> Path:
    """ALIGN: an EfficientNet without any attention beside a BERT."""
    from small_texts import save_bert

    save_bert(folder, kind="BertModel")
    vision = {
        "image_size": SIDE, "width_coefficient": 0.2, "depth_coefficient": 0.2, "hidden_dim": 32,
        "num_channels": 3,
    }  # fmt: skip
    text = {**TEXT, "vocab_size": 120, "max_position_embeddings": 40}
    config = transformers.AlignConfig(text_config=text, vision_config=vision, projection_dim=64)
    save_model(folder, "AlignModel", config)
    processor(folder, "EfficientNetImageProcessor")
    return folder


def save_vilt(folder: Path, kind: str = "ViltForQuestionAnswering") -> Path:
    """ViLT: an image and a text in one stream."""
    from small_texts import save_bert

    save_bert(folder, kind="BertModel")
    config = transformers.ViltConfig(
        **{**TEXT, "vocab_size": 120, "max_position_embeddings": 40},
        image_size=32, patch_size=8, id2label=dict(enumerate(ANSWERS)),
        label2id={name: i for i, name in enumerate(ANSWERS)},
    )  # fmt: skip
    save_model(folder, kind, config)
    size = {"size": {"shortest_edge": 32}, "size_divisor": 8, "do_pad": True}
    processor(folder, "ViltImageProcessor", **size)
    return folder


def positions() -> dict[str, Any]:
    return {"vocab_size": 120, "max_position_embeddings": LONGEST}


def square() -> dict[str, int]:
    return {"height": SIDE, "width": SIDE}


def save_tokenizer(folder: Path, words: Any, start: str, end: str) -> None:
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, model_input_names=["input_ids", "attention_mask"],
        bos_token=start, eos_token=end, pad_token=end, unk_token=end, model_max_length=LONGEST,
    ).save_pretrained(folder)  # fmt: skip


def save_model(folder: Path, kind: str, config: Any) -> None:
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config)
    stir(model)
    model.save_pretrained(folder)


def processor(folder: Path, kind: str, **settings: Any) -> None:
    known = {
        "image_processor_type": kind, "do_resize": True, "size": square(), "resample": 2,
        "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
        "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
    }  # fmt: skip
    write(folder / "preprocessor_config.json", {**known, **settings})
