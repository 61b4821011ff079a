"""A fast tokenizer of whole words, for the small languages of the embedded models."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

BEGIN, END, PAD, UNKNOWN = "<s>", "</s>", "<pad>", "<unk>"


def learn_words(words: Sequence[str], template: str, longest: int) -> PreTrainedTokenizerFast:
    """``template`` tells where begin and end go around the words ``$A``: "<s> $A"."""
    special = [PAD, UNKNOWN, BEGIN, END]
    numbers = {word: number for number, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(WordLevel(numbers, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(cleanup=True)
    marks = [(mark, numbers[mark]) for mark in (BEGIN, END)]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=marks)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END, pad_token=PAD,
        unk_token=UNKNOWN, model_max_length=longest, padding_side="right",
    )  # fmt: skip
