"""The logits without some patches or words, as a forward of one's own computes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import whyformer
from small_images import save_vit
from small_texts import save_bert
from stand_ins import photo
from whyformer.errors import InputError, ModelError

TEXT = "A warm, unwatchable film with an overlong ending."


def by_hand(why: Any, text: str, words: list[int]) -> Tensor:
    """The tokenizer, the embeddings and the model, without anything of whyformer."""
    encoding = why.tokenizer(text, return_tensors="pt")
    embeddings = why.model.get_input_embeddings()(encoding["input_ids"]).detach().clone()
    shown = [word for word in encoding.word_ids(0) if word is not None]
    for place, word in enumerate(encoding.word_ids(0)):
        if word is not None and sorted(set(shown)).index(word) in words:
            embeddings[:, place] = 0
    del encoding["input_ids"]
    with torch.no_grad():
        return why.model(inputs_embeds=embeddings, **encoding).logits


def test_a_patch_has_the_mean_colour(tmp_path: Path) -> None:
    """Patches are numbered row by row; a patch's pixels are zero after the normalisation."""
    why = whyformer.load(save_vit(tmp_path / "vit"))
    pixels, _ = why.pixels(photo(0), [])
    recorded = why.record(photo(0))
    side = why.model.config.patch_size
    columns = pixels.shape[-1] // side
    assert len(recorded.units) == columns * (pixels.shape[-2] // side)
    erased = pixels.clone()
    for patch in (0, 1, columns + 2):
        row, column = divmod(patch, columns)
        erased[..., row * side : (row + 1) * side, column * side : (column + 1) * side] = 0
    with torch.no_grad():
        expected = why.model(erased).logits
    found = recorded.without([0, 1, columns + 2, 1])
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, recorded.logits)
    torch.testing.assert_close(recorded.without([]), recorded.logits)


def test_a_word_goes_with_all_its_pieces(models: list[Any]) -> None:
    recorded = models[1].record(TEXT)
    texts = [word for word, _ in recorded.explain().words()[0]]
    assert len(texts) == len(recorded.units)
    assert max(map(len, recorded.units)) > 1
    chosen = [texts.index("unwatchable"), texts.index("film")]
    found = recorded.without(chosen)
    torch.testing.assert_close(found, by_hand(models[1], TEXT, chosen), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(found, recorded.logits, atol=1e-3)


def test_one_patch_is_what_occlusion_takes_away(models: list[Any]) -> None:
    from whyformer.app.examples import picture

    recorded = models[0].record(picture("two digits"))
    occluded = recorded.explain(8, "occlusion", progress=False)
    for patch in (40, 100):
        lost = recorded.logits[0, 8] - recorded.without([patch])[0, 8]
        score = occluded.relevance[0, occluded.tokens.patches][patch]
        assert float(lost) == pytest.approx(float(score), abs=1e-4)


def test_a_long_text_loses_a_word_in_all_its_windows(tmp_path: Path) -> None:
    """Windows of a text that repeats itself: their mean, each by hand."""
    why = whyformer.load(save_bert(tmp_path / "bert"))
    text = "the film is a warm story " * 12
    recorded = why.record(text)
    assert type(recorded).__name__ == "RecordedWindows"
    assert len(recorded.units) == 12 * 6
    words = range(0, 72, 5)
    pieces = why.tokenizer(text, add_special_tokens=False).word_ids()
    gone = {place for place, word in enumerate(pieces) if word in words}
    expected = []
    for inputs, places in recorded._windows.batches(1):
        embeddings = why.model.get_input_embeddings()(inputs.pop("input_ids")).detach().clone()
        embeddings[:, [int(p) in gone for p in places[0]]] = 0
        inputs.pop("special_tokens_mask")
        with torch.no_grad():
            expected.append(why.model(inputs_embeds=embeddings, **inputs).logits)
    assert len(expected) > 2
    found = recorded.without(words)
    torch.testing.assert_close(found, torch.cat(expected).mean(0, keepdim=True))
    assert not torch.allclose(found, recorded.logits, atol=1e-5)


def test_what_cannot_be_erased_says_so(models: list[Any], tmp_path: Path) -> None:
    recorded = models[1].record("A film")
    for unit in (-1, 2):
        with pytest.raises(InputError, match=f"unit {unit} of an input with 2 patches or words"):
            recorded.without([unit])
    several = models[1].record(["A film", "Another one"])
    detector = whyformer.load("demo-detector").record(photo(0))
    clip = whyformer.load("demo-clip").record(photo(0), text=["a one", "a two"])
    chooser = whyformer.load(save_bert(tmp_path / "bert", "BertForMultipleChoice"))
    choices = chooser.record("a warm film", text=["without plot", "is superb"])
    for other in (several, detector, clip, choices):
        assert other.units == []
        with pytest.raises(ModelError, match="no patches or words that can be taken away"):
            other.without([0])
