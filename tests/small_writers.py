"""Tiny models that write from a source, with tokenizers trained on a few sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from small_sounds import save
from small_texts import stir

SENTENCES = [
    "the house is small and the garden is large",
    "a large dog runs through the small garden",
    "das Haus ist klein und der Garten ist gross",
    "ein grosser Hund rennt durch den kleinen Garten",
]
SIZES: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
}  # fmt: skip
T5: dict[str, Any] = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
MARKS: dict[str, Any] = {
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}  # fmt: skip
#: the class of transformers, its configuration's, and the sizes
WRITERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "bart": ("BartForConditionalGeneration", "BartConfig", SIZES),
    "marian": ("MarianMTModel", "MarianConfig", SIZES),
    "mbart": ("MBartForConditionalGeneration", "MBartConfig", SIZES),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", SIZES),
}


def save_tokenizer(folder: Path) -> int:
    """A real tokenizer of the sentences' words and letters: how many pieces it has."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    words = Tokenizer(models.BPE(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    words.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False
    )
    words.train_from_iterator(SENTENCES, trainer)
    words.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)
    return words.get_vocab_size()


def save_writer(folder: Path, family: str = "t5") -> Path:
    model, config, sizes = WRITERS[family]
    settings = {**sizes, **MARKS, "vocab_size": save_tokenizer(folder)}
    torch.manual_seed(3)
    made = getattr(transformers, model)(getattr(transformers, config)(**settings))
    stir(made)
    limit(made, tokens=6)
    made.save_pretrained(folder)
    return folder


def save_whisper(folder: Path) -> Path:
    """A Whisper that reads two seconds."""
    settings = {**SIZES, **MARKS, "vocab_size": save_tokenizer(folder), "num_mel_bins": 16}
    settings |= {"max_source_positions": 100, "max_target_positions": 40}
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**settings))
    limit(model, tokens=5)
    model.generation_config.is_multilingual = False
    model.generation_config.no_timestamps_token_id = 2
    return save(
        folder, model, transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=2)
    )


def limit(model: Any, tokens: int) -> None:
    """Short answers of words, and no end before them."""
    model.generation_config.suppress_tokens = [0, 2]
    model.generation_config.max_new_tokens = tokens
    model.generation_config.min_new_tokens = tokens
    model.generation_config.max_length = None
    for key, value in MARKS.items():
        setattr(model.generation_config, key, value)
