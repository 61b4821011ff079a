"""Tiny models of many families, with the processors that transformers itself writes beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from small_texts import stir

PETS: dict[str, Any] = {
    "num_labels": 3,
    "id2label": {0: "cat", 1: "dog", 2: "cup"},
    "label2id": {"cat": 0, "dog": 1, "cup": 2},
}
SQUARE = {"height": 64, "width": 64}
SWIN: dict[str, Any] = {
    "image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4],
    "window_size": 4,
}  # fmt: skip
DETR: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "num_queries": 5,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32, "use_timm_backbone": False, "use_pretrained_backbone": False,
}  # fmt: skip


def detr() -> dict[str, Any]:
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
    )
    return {**DETR, "backbone_config": backbone}


def rt_detr() -> dict[str, Any]:
    backbone = transformers.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    return {
        "backbone_config": backbone, "use_timm_backbone": False, "d_model": 32,
        "encoder_hidden_dim": 32, "encoder_in_channels": [16, 24, 32], "encoder_ffn_dim": 32,
        "encoder_attention_heads": 4, "decoder_in_channels": [32, 32, 32], "decoder_ffn_dim": 32,
        "decoder_layers": 2, "decoder_attention_heads": 4, "num_queries": 8, "num_denoising": 0,
        "decoder_n_points": 2, "anchor_image_size": None,
    }  # fmt: skip


#: the model's class, its configuration's class and settings, its image processor and its settings
FAMILIES: dict[str, tuple[str, str, Callable[[], dict[str, Any]], str, dict[str, Any]]] = {
    "swin": ("SwinForImageClassification", "SwinConfig", lambda: SWIN, "ViT", {"size": SQUARE}),
    "swinv2": (
        "Swinv2ForImageClassification", "Swinv2Config", lambda: SWIN, "ViT", {"size": SQUARE}
    ),
    "pvt": (
        "PvtForImageClassification", "PvtConfig",
        lambda: {
            "image_size": 64, "num_encoder_blocks": 2, "depths": [1, 1], "hidden_sizes": [16, 32],
            "sequence_reduction_ratios": [4, 1], "patch_sizes": [4, 2], "strides": [4, 2],
            "num_attention_heads": [1, 2], "mlp_ratios": [2, 2],
        },
        "Pvt", {"size": SQUARE},
    ),
    "pvtv2": (
        "PvtV2ForImageClassification", "PvtV2Config",
        lambda: {
            "image_size": 64, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32],
            "num_attention_heads": [1, 2, 2, 4], "mlp_ratios": [2, 2, 2, 2],
        },
        "Pvt", {"size": SQUARE},
    ),
    "hiera": (
        "HieraForImageClassification", "HieraConfig",
        lambda: {
            "image_size": [64, 64], "embed_dim": 16, "depths": [1, 2], "num_heads": [1, 2],
            "masked_unit_size": [8, 8], "patch_size": [7, 7], "patch_stride": [4, 4],
            "patch_padding": [3, 3], "query_stride": [2, 2], "num_query_pool": 1,
        },
        "Bit", {"size": {"shortest_edge": 64}, "crop_size": SQUARE},
    ),
    "segformer": (
        "SegformerForImageClassification", "SegformerConfig",
        lambda: {
            "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1],
            "hidden_sizes": [16, 32], "patch_sizes": [7, 3], "strides": [4, 2],
            "num_attention_heads": [2, 4], "mlp_ratios": [2, 2], "decoder_hidden_size": 16,
        },
        "Segformer", {"size": SQUARE},
    ),
    "segmenter": (
        "SegformerForSemanticSegmentation", "SegformerConfig",
        lambda: FAMILIES["segformer"][2](), "Segformer", {"size": SQUARE},
    ),
    "dinov2": (
        "Dinov2Model", "Dinov2Config",
        lambda: {
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 64,
            "patch_size": 16,
        },
        "Bit", {"size": {"shortest_edge": 64}, "crop_size": SQUARE},
    ),
    "detr": ("DetrForObjectDetection", "DetrConfig", detr, "Detr", {"size": SQUARE}),
    "rt-detr": ("RTDetrForObjectDetection", "RTDetrConfig", rt_detr, "RTDetr", {"size": SQUARE}),
    "yolos": (
        "YolosForObjectDetection", "YolosConfig",
        lambda: {
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 64, "image_size": [64, 64], "patch_size": 8,
            "num_detection_tokens": 5,
        },
        "Yolos", {"size": SQUARE},
    ),
}  # fmt: skip


def save_family(folder: Path, name: str) -> Path:
    """A model and its image processor, both by their own ``save_pretrained``."""
    kind, config, settings, processor, sizes = FAMILIES[name]
    torch.manual_seed(0)
    named = {} if kind.endswith("Model") else PETS
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings(), **named))
    stir(model)
    model.save_pretrained(folder)
    try:
        prepares = getattr(transformers, f"{processor}ImageProcessorPil")(**sizes)
    except (AttributeError, ImportError):
        pytest.skip(f"this transformers prepares {processor}'s images with torchvision alone")
    prepares.save_pretrained(folder)
    return folder
