"""Small random models of every kind that must be explained without per-model code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """How to build a model and its inputs, and what its explanation must look like."""

    name: str
    build: Callable[[], tuple[nn.Module, Any]]
    tokens: int
    grid: tuple[int, int] | None = None
    rows: tuple[int, ...] = (0,)
    fallbacks: tuple[str, ...] = ()

    def make(self) -> tuple[nn.Module, Any]:
        torch.manual_seed(0)
        model, inputs = self.build()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
        return model.eval(), inputs


def quick(method: str) -> dict[str, Any]:
    """Options by which a method shows no progress and takes few steps."""
    import whyformer

    few = {"progress": False, "steps": 2, "samples": 2}
    return {key: few[key] for key in whyformer.methods()[method].options if key in few}


def pixels(height: int = 32, width: int = 32, batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, height, width)


def text(length: int = 9, batch: int = 2) -> dict[str, Tensor]:
    ids = torch.randint(5, 60, (batch, length))
    mask = torch.ones_like(ids)
    mask[-1, length - 3 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 5,
}
TEXT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "num_labels": 3,
}


def hugging_face(
    kind: str, inputs: Callable[[], Any], call: dict[str, Any] | None = None, **config: Any
) -> Callable[[], tuple[nn.Module, Any]]:
    """A randomly initialised Hugging Face classifier; ``call`` goes to its forward."""

    def build() -> tuple[nn.Module, Any]:
        import transformers

        prefix, head = kind.split(":")
        settings = getattr(transformers, f"{prefix}Config")(**config)
        model = getattr(transformers, f"{prefix}For{head}")(settings)
        given = inputs()
        if call:
            given = {"pixel_values": given, **call}
        return model, given

    return build


class Block(nn.Module):
    """Pre-norm block whose attention is written out: softmax, then a product."""

    def __init__(self, width: int, heads: int, style: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.heads, self.style = heads, style

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if self.style == "einsum":
            scores = torch.einsum("bhid,bhjd->bhij", q, k) / (width // self.heads) ** 0.5
            mixed = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
        elif self.style == "bmm":
            q, k, v = (t.reshape(-1, length, width // self.heads) for t in (q, k, v))
            weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5, dim=-1)
            mixed = torch.bmm(weights, v).view(batch, self.heads, length, -1)
        else:
            weights = ((q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5).softmax(dim=-1)
            mixed = torch.nn.functional.dropout(weights, 0.1, self.training) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class HandWritten(nn.Module):
    """A ViT by hand; the class token, or the mean of all tokens, is classified."""

    def __init__(self, style: str = "matmul", mean: bool = False, grid: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.cls = nn.Parameter(torch.randn(1, 1, 32))
        self.position = nn.Parameter(torch.randn(1, grid * grid + (not mean), 32) * 0.1)
        self.blocks = nn.Sequential(*(Block(32, 4, style) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 5)
        self.mean = mean

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        if not self.mean:
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        x = self.norm(self.blocks(x + self.position))
        return self.head(x.mean(dim=1) if self.mean else x[:, 0])


class Encoder(nn.Module):
    """A text classifier on ``nn.TransformerEncoder``."""

    def __init__(self, batch_first: bool = True, norm_first: bool = False) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, batch_first=batch_first, norm_first=norm_first, activation="gelu"
        )
        self.words, self.places = nn.Embedding(64, 32), nn.Embedding(64, 32)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 3)
        self.batch_first = batch_first

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        padding = None if attention_mask is None else attention_mask == 0
        if self.batch_first:
            return self.head(self.encoder(x, src_key_padding_mask=padding)[:, 0])
        return self.head(self.encoder(x.transpose(0, 1), src_key_padding_mask=padding)[0])


class MaskedMean(nn.Module):
    """Sentence-transformers style: BERT, mean over the real tokens, linear head."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        self.bert = BertModel(BertConfig(**TEXT), add_pooling_layer=False)
        self.head = nn.Linear(32, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.bert(input_ids, attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return self.head((hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9))


BEIT = {**VISION, "use_relative_position_bias": True, "use_mean_pooling": True}
ALL_16 = tuple(range(16))

CASES = [
    Case("ViT", hugging_face("ViT:ImageClassification", pixels, **VISION), 17, (4, 4)),
    Case(
        "ViT, rectangular and interpolated",
        hugging_face(
            "ViT:ImageClassification",
            lambda: pixels(40, 64),
            {"interpolate_pos_encoding": True},
            **VISION,
        ),
        41,
        (5, 8),
    ),
    Case("DeiT", hugging_face("DeiT:ImageClassification", pixels, **VISION), 18, (4, 4)),
    Case(
        "distilled DeiT",
        hugging_face("DeiT:ImageClassificationWithTeacher", pixels, **VISION),
        18,
        (4, 4),
        rows=(0, 1),
    ),
    Case(
        "BEiT",
        hugging_face("Beit:ImageClassification", pixels, **BEIT),
        17,
        (4, 4),
        rows=tuple(range(1, 17)),
    ),
    Case(
        "DINOv2",
        hugging_face("Dinov2:ImageClassification", pixels, **VISION),
        17,
        (4, 4),
        rows=tuple(range(17)),
    ),
    Case(
        "DINOv2 with registers",
        hugging_face("Dinov2WithRegisters:ImageClassification", pixels, **VISION),
        21,
        (4, 4),
        rows=(0, *range(5, 21)),
    ),
    Case("BERT", hugging_face("Bert:SequenceClassification", text, **TEXT), 9),
    Case("RoBERTa", hugging_face("Roberta:SequenceClassification", text, **TEXT), 9),
    Case(
        "DistilBERT",
        hugging_face(
            "DistilBert:SequenceClassification",
            text,
            vocab_size=64,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            max_position_embeddings=64,
            num_labels=3,
        ),
        9,
    ),
    Case(
        "ELECTRA",
        hugging_face("Electra:SequenceClassification", text, embedding_size=16, **TEXT),
        9,
    ),
    Case(
        "ALBERT", hugging_face("Albert:SequenceClassification", text, embedding_size=16, **TEXT), 9
    ),
    Case("by hand, matmul", lambda: (HandWritten("matmul"), pixels()), 17, (4, 4)),
    Case("by hand, einsum", lambda: (HandWritten("einsum"), pixels()), 17, (4, 4)),
    Case("by hand, bmm", lambda: (HandWritten("bmm"), pixels()), 17, (4, 4)),
    Case("by hand, mean-pooled", lambda: (HandWritten(mean=True), pixels()), 16, (4, 4), ALL_16),
    Case("nn.TransformerEncoder", lambda: (Encoder(), text()), 9),
    Case("nn.TransformerEncoder, pre-norm", lambda: (Encoder(norm_first=True), text()), 9),
    Case("nn.TransformerEncoder, sequence first", lambda: (Encoder(batch_first=False), text()), 9),
    Case("BERT, masked mean", lambda: (MaskedMean(), text()), 9, rows=tuple(range(9))),
]


def timm_model(name: str, **settings: Any) -> Callable[[], tuple[nn.Module, Any]]:
    def build() -> tuple[nn.Module, Any]:
        import timm

        size = settings.get("img_size", 32)
        height, width = (size, size) if isinstance(size, int) else size
        model = timm.create_model(
            name, pretrained=False, num_classes=5, embed_dim=32, depth=2, num_heads=4,
            patch_size=8, **{"img_size": 32, **settings},
        )  # fmt: skip
        return model, pixels(height, width)

    return build


def torchvision_vit() -> tuple[nn.Module, Any]:
    from torchvision.models.vision_transformer import VisionTransformer

    return VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=5), pixels()


def torchvision_vit_b_16() -> tuple[nn.Module, Any]:
    from torchvision.models import vit_b_16

    return vit_b_16(weights=None, num_classes=5), pixels(224, 224, 1)


class ClipClassifier(nn.Module):
    """open_clip's visual tower with a linear head."""

    def __init__(self) -> None:
        super().__init__()
        from open_clip.transformer import VisionTransformer

        self.tower = VisionTransformer(
            image_size=32, patch_size=8, width=32, layers=2, heads=4, mlp_ratio=2, output_dim=16
        )
        self.head = nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.tower(image))


VISION_CASES = [
    Case("timm ViT", timm_model("vit_tiny_patch16_224"), 17, (4, 4)),
    Case("timm DeiT", timm_model("deit_tiny_patch16_224"), 17, (4, 4)),
    Case(
        "timm distilled DeiT",
        timm_model("deit_tiny_distilled_patch16_224"),
        18,
        (4, 4),
        rows=(0, 1),
    ),
    Case(
        "timm ViT, rectangular",
        timm_model("vit_tiny_patch16_224", img_size=(40, 64)),
        41,
        (5, 8),
    ),
    Case(
        "timm ViT, mean-pooled",
        timm_model("vit_tiny_patch16_224", global_pool="avg", class_token=False, fc_norm=True),
        16,
        (4, 4),
        ALL_16,
    ),
    Case("torchvision ViT", torchvision_vit, 17, (4, 4)),
    Case("torchvision ViT-B/16", torchvision_vit_b_16, 197, (14, 14)),
    Case("open_clip", lambda: (ClipClassifier(), pixels()), 17, (4, 4)),
]
