"""Tiny language models with tokenizers of their own, written to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from small_texts import stir

STORIES = [
    "Once upon a time, there was a little girl named Lily. She loved to play outside.",
    "Once upon a time, there was a little boy. He saw a big red ball in the sky.",
]
SPECIAL = ["<s>", "</s>", "<|user|>", "<|end|>"]
CHAT = (
    "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def save_language(
    folder: Path, kind: str = "Llama", positions: int = 64, start: bool = True, **tokenizing: Any
) -> Path:
    """A Llama or a GPT-2; ``start`` puts <s> before every text."""
    vocabulary = save_tokenizer(folder, start, **tokenizing)
    torch.manual_seed(0)
    model = (llama if kind == "Llama" else gpt2)(vocabulary, positions)
    stir(model)
    model.save_pretrained(folder)
    return folder


def llama(vocabulary: int, positions: int) -> Any:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=positions,
            bos_token_id=0, eos_token_id=1, pad_token_id=None,
        )
    )  # fmt: skip


def gpt2(vocabulary: int, positions: int) -> Any:
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=vocabulary, n_embd=32, n_layer=2, n_head=4, n_positions=positions,
            bos_token_id=0, eos_token_id=1,
        )
    )  # fmt: skip


def save_tokenizer(folder: Path, start: bool, **tokenizing: Any) -> int:
    """Byte-level pieces learnt from two stories: how many there are."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    words.train_from_iterator(STORIES, trainer)
    if start:
        words.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        bos_token="<s>",
        eos_token="</s>",
        extra_special_tokens=SPECIAL[2:],
        model_input_names=["input_ids", "attention_mask"],
        **tokenizing,
    )
    tokenizer.save_pretrained(folder)
    return len(tokenizer)
