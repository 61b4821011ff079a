"""Tiny text models with tokenizers of their own, written to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from small_images import write
from whyformer import InputError, Pipeline
from zoo import TEXT

SENTENCES = [
    "A warm, witty film: the plot is thin, but the acting is superb.",
    "a joyless film without wit; nobody laughed, and I left early!",
]
#: pieces that the tiny models take, special tokens included
LONGEST = 40
WORDS = "a warm witty film without plot but the acting is superb".split()


def save_bert(
    folder: Path,
    kind: str = "BertForSequenceClassification",
    positions: int = LONGEST,
    **config: Any,
) -> Path:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = sorted({letter for text in SENTENCES for letter in text.lower() if letter != " "})
    pieces = [
        *special,
        *letters,
        *(f"##{letter}" for letter in letters),
        *sorted(set(WORDS) - {"a"}),
    ]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    words = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = dict(zip("pad unk cls sep mask".split(), special, strict=True))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{key}_token": token for key, token in names.items()},
    ).save_pretrained(folder)
    sizes = {**TEXT, "vocab_size": 120, "max_position_embeddings": positions, **config}
    torch.manual_seed(0)
    model = getattr(transformers, kind)(transformers.BertConfig(**sizes))
    stir(model)
    model.save_pretrained(folder)
    return folder


def save_sentences(folder: Path, **pooling: bool) -> Path:
    """The layout of sentence-transformers."""
    save_bert(folder, kind="BertModel")
    names = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (path, name) in enumerate(names.items())
    ]
    write(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False, **pooling}
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, **modes})
    write(folder / "sentence_bert_config.json", {"max_seq_length": 24, "do_lower_case": False})
    return folder


def save_roberta(folder: Path, positions: int = LONGEST + 2) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    words.train_from_iterator(SENTENCES, trainer)
    words.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = dict(zip("bos pad eos unk mask".split(), special, strict=True))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        cls_token="<s>",
        sep_token="</s>",
        model_input_names=["input_ids", "attention_mask"],
        **{f"{key}_token": token for key, token in names.items()},
    ).save_pretrained(folder)
    sizes = {**TEXT, "vocab_size": 400, "max_position_embeddings": positions, "pad_token_id": 1}
    torch.manual_seed(0)
    model = transformers.RobertaForSequenceClassification(transformers.RobertaConfig(**sizes))
    stir(model)
    model.save_pretrained(folder)
    return folder


def stir(model: torch.nn.Module) -> None:
    """Larger weights, so that every input gets logits of its own."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


def words(count: int, shift: int = 0) -> str:
    """A text with exactly that many pieces: every word is one."""
    return " ".join(WORDS[(i * i + shift) % len(WORDS)] for i in range(count))


def refused(why: Pipeline, text: Any, **how: Any) -> str:
    with pytest.raises(InputError) as caught:
        why(text, **how)
    message = str(caught.value)
    assert "\n" not in message
    return message


def joined(explanation: Any, sample: int = 0) -> str:
    return "".join(p.gap + p.text for p in explanation.pieces[sample] if p.word is not None)
