"""Tiny models that hear, with their feature extractors, and sounds for them."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from small_texts import stir

RATE = 16000
SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
}  # fmt: skip
BEEPS: dict[str, Any] = {
    "num_labels": 3,
    "id2label": {0: "low", 1: "middle", 2: "high"},
    "label2id": {"low": 0, "middle": 1, "high": 2},
}
CONVOLUTIONS: dict[str, Any] = {
    "conv_dim": (16, 16, 16), "conv_stride": (5, 8, 8), "conv_kernel": (10, 8, 8),
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 16,
    "num_feat_extract_layers": 3,
}  # fmt: skip


def beeps(seconds: float = 1.0, rate: int = RATE) -> np.ndarray:
    """A low tone, silence, a high tone."""
    time = np.arange(round(seconds * rate)) / rate
    tone = np.where(time < 0.4 * seconds, np.sin(2 * np.pi * 300 * time), 0.0)
    tone += np.where(time > 0.6 * seconds, np.sin(2 * np.pi * 3000 * time), 0.0)
    return (0.5 * tone).astype(np.float32)


def write_wav(
    path: Path, samples: np.ndarray, rate: int = RATE, width: int = 2, channels: int = 1
) -> Path:
    """Samples from -1 to 1 as a file; the same in every channel."""
    top = 2 ** (8 * width - 1) - 1
    whole = np.repeat((samples * top).round().astype("<i8"), channels) + (128 if width == 1 else 0)
    raw = whole.view(np.uint8).reshape(-1, 8)[:, :width]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(raw.tobytes())
    return path


def save_wav2vec2(folder: Path, kind: str = "Wav2Vec2") -> Path:
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SMALL, **BEEPS, **CONVOLUTIONS)
    return save(
        folder,
        getattr(transformers, f"{kind}ForSequenceClassification")(config),
        transformers.Wav2Vec2FeatureExtractor(),
    )


def save_ast(folder: Path) -> Path:
    torch.manual_seed(0)
    config = transformers.ASTConfig(**SMALL, **BEEPS, max_length=256)
    return save(
        folder,
        transformers.ASTForAudioClassification(config),
        transformers.ASTFeatureExtractor(max_length=256),
    )


def save(folder: Path, model: Any, extractor: Any) -> Path:
    stir(model)
    model.save_pretrained(folder)
    extractor.save_pretrained(folder)
    return folder
