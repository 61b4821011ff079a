"""Tiny image models with their preprocessing, written to a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zoo import VISION


def save_vit(
    folder: Path, kind: str = "ViTForImageClassification", side: int = 32, **config: Any
) -> Path:
    import transformers

    settings = transformers.ViTConfig(**{**VISION, "image_size": side, **config})
    getattr(transformers, kind)(settings).save_pretrained(folder)
    preprocessor = {
        "image_processor_type": "ViTImageProcessor",
        "do_normalize": True, "do_rescale": True, "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
        "resample": 2, "rescale_factor": 1 / 255, "size": {"height": side, "width": side},
    }  # fmt: skip
    write(folder / "preprocessor_config.json", preprocessor)
    return folder


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


def save_detector(folder: Path, family: str = "Yolos") -> Path:
    """YOLOS, whose classes share a softmax with "no object", or RT-DETR, whose classes do not."""
    import transformers

    sizes: dict[str, Any] = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "image_size": [48, 64], "patch_size": 8,
        "num_detection_tokens": 5, "num_labels": 3,
    }  # fmt: skip
    names = {"id2label": {0: "cat", 1: "dog", 2: "cup"}, "label2id": {"cat": 0, "dog": 1, "cup": 2}}
    if family == "ConditionalDetr":
        backbone = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
        )
        sizes = {
            "d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "num_queries": 5,
            "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32, "backbone_config": backbone, "use_timm_backbone": False,
        }  # fmt: skip
    config = getattr(transformers, f"{family}Config")(**sizes, **names)
    getattr(transformers, f"{family}ForObjectDetection")(config).save_pretrained(folder)
    preprocessor = {
        "image_processor_type": f"{family}ImageProcessor",
        "do_normalize": True, "do_rescale": True, "do_resize": True, "do_pad": False,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "format": "coco_detection",
        "resample": 2, "rescale_factor": 1 / 255, "size": {"height": 48, "width": 64},
    }  # fmt: skip
    write(folder / "preprocessor_config.json", preprocessor)
    return folder


def save_segformer(folder: Path) -> Path:
    import transformers

    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32],
        patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[2, 4], mlp_ratios=[2, 2],
        decoder_hidden_size=16, id2label={0: "sky", 1: "road", 2: "car"},
        label2id={"sky": 0, "road": 1, "car": 2},
    )  # fmt: skip
    transformers.SegformerForSemanticSegmentation(config).save_pretrained(folder)
    preprocessor = {
        "image_processor_type": "SegformerImageProcessor",
        "do_normalize": True, "do_rescale": True, "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
        "resample": 2, "rescale_factor": 1 / 255, "size": {"height": 64, "width": 64},
    }  # fmt: skip
    write(folder / "preprocessor_config.json", preprocessor)
    return folder
