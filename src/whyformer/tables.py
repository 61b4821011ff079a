"""Explanations as tables of other libraries."""

from __future__ import annotations

from typing import Any

from whyformer.errors import InputError, ModelError
from whyformer.explanation import Explanation
from whyformer.words import strongest, words_of


def to_pandas(explanation: Explanation) -> Any:
    """A row for each sample, target and word, or patch."""
    try:
        import pandas
    except ImportError as error:
        raise ModelError(f"to_pandas needs pandas: pip install pandas ({error})") from error
    if explanation.grid is None and explanation.pieces is None:
        raise InputError(
            "a table needs words or patches: pass what the tokenizer returned, or use "
            "whyformer.load"
        )
    rows = []
    for number, sample in enumerate(explanation):
        several = sample.relevance.ndim == 3
        relevances = sample.relevance[0] if several else sample.relevance
        asked = [None] * len(relevances)
        if sample.target is not None:
            asked = sample.target.reshape(-1).tolist()
        for index, scores in zip(asked, relevances, strict=True):
            label = None if index is None else sample.label(index)
            told = {"sample": number, "class": index, "label": label}
            rows += [{**told, **unit} for unit in _units(sample, scores)]
    return pandas.DataFrame(rows)


def _units(sample: Explanation, scores: Any) -> list[dict[str, Any]]:
    if sample.grid is not None:
        maps = sample.tokens.to_map(scores).tolist()
        return [
            {"row": r, "column": c, "score": score}
            for r, row in enumerate(maps)
            for c, score in enumerate(row)
        ]
    assert sample.pieces is not None
    values = scores.tolist()
    return [
        {"word": word.text, "score": strongest(values, word.pieces)}
        for word in words_of(sample.pieces[0])
    ]
