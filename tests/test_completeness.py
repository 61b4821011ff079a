"""Under ``libra`` nothing is lost: the inputs' terms and the biases' sum to the logit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as T
from torch import Tensor, nn

from whyformer.engine import GRADIENT, GRADIENTS, Table, Trace, record

TEXT = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 64, "num_labels": 3, "pad_token_id": 0,
}  # fmt: skip
IMAGE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "image_size": 32, "patch_size": 8, "num_labels": 5,
}  # fmt: skip
CODER = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 99,
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip


def image(model: nn.Module) -> tuple[nn.Module, dict[str, Tensor]]:
    return model, {"pixel_values": torch.randn(2, 3, 32, 32).double()}


def text(model: nn.Module) -> tuple[nn.Module, dict[str, Tensor]]:
    return model, {"input_ids": torch.randint(5, 90, (2, 9))}


def bart() -> tuple[nn.Module, dict[str, Tensor]]:
    model, inputs = text(T.BartForConditionalGeneration(T.BartConfig(**CODER)))
    return model, inputs | {"decoder_input_ids": torch.randint(5, 90, (2, 5))}


def whisper() -> tuple[nn.Module, dict[str, Tensor]]:
    config = T.WhisperConfig(
        **CODER, num_mel_bins=8, max_source_positions=20, max_target_positions=20,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return T.WhisperForConditionalGeneration(config), {
        "input_features": torch.randn(2, 8, 40).double(),
        "decoder_input_ids": torch.randint(5, 90, (2, 5)),
    }


def swin() -> nn.Module:
    config = T.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
        window_size=4, num_labels=3,
    )  # fmt: skip
    return T.SwinForImageClassification(config)


def gpt2() -> nn.Module:
    config = T.GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return T.GPT2LMHeadModel(config)


MODELS: dict[str, Callable[[], tuple[nn.Module, dict[str, Tensor]]]] = {
    "ViT": lambda: image(T.ViTForImageClassification(T.ViTConfig(**IMAGE))),
    "BERT": lambda: text(T.BertForSequenceClassification(T.BertConfig(**TEXT))),
    "GPT-2": lambda: text(gpt2()),
    "Llama": lambda: text(T.LlamaForCausalLM(T.LlamaConfig(**TEXT))),
    "BART": bart,
    "Swin": lambda: image(swin()),
    "Whisper": whisper,
}


def noised(model: nn.Module) -> nn.Module:
    """Fresh weights have biases of zero and norms of one; these have none such."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
    return model.double().eval()


def one_logit_each(output: Tensor) -> Tensor:
    """A different class of each sample; of a sequence, that of its last token."""
    seed = torch.zeros_like(output)
    for sample, target in enumerate((1, 2)):
        place = (sample, -1) if output.ndim == 3 else (sample,)
        seed[(*place, target)] = 1
    return seed


def terms(trace: Trace, table: Table, seed: Tensor, class_token: Tensor | None = None) -> Tensor:
    """The sum of inputs times their gradients and of constants times theirs.

    A class token is a constant that enters by a concatenation, which is no operation: it is
    counted where the first block begins. The position embedding that was added to it there is a
    constant of that sum, and counted as such.
    """
    leaves = [root.leaf for root in trace.seen.roots]
    wanted = [*leaves, trace.seen.blocks[0].entry]
    constants: list[Tensor] = []
    *slots, entry = trace.backward(
        table,
        [(trace.output, seed)],
        wanted,
        constants=lambda operation, term: constants.append(term.sum()),
    )
    found = [(leaf.detach() * slot).sum() for leaf, slot in zip(leaves, slots, strict=True)]
    if class_token is not None:
        found.append((class_token.detach() * entry[:, :1]).sum())
    finite = [term for term in constants if bool(term.isfinite())]  # 1/sqrt(x) has none at zero
    return torch.stack([*found, *finite]).sum()


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs() / expected.abs())


@pytest.mark.parametrize("maps", [True, False], ids=["maps", "fused"])
@pytest.mark.parametrize("name", MODELS)
def test_libra_is_complete(name: str, maps: bool) -> None:
    """Every activation is x c + f(0), every norm (x - mean) c + b, every map of attention a c."""
    model, inputs = MODELS[name]()
    trace = record(noised(model), inputs, maps=maps)
    assert not trace.seen.fallbacks
    assert not trace.foreign
    seed = one_logit_each(trace.output)
    logits = (trace.output.detach() * seed).sum()
    token: Any = model.vit.embeddings.cls_token if name == "ViT" else None
    assert relative_error(terms(trace, GRADIENTS["libra"], seed, token), logits) < 1e-9
    assert relative_error(terms(trace, GRADIENT, seed, token), logits) > 1e-2
    if token is not None:
        assert relative_error(terms(trace, GRADIENTS["libra"], seed), logits) > 1e-3
