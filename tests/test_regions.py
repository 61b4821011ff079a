"""Words beside the regions that another model found in an image: VisualBERT, LXMERT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import whyformer
from small_texts import save_bert, stir
from whyformer.errors import ModelError
from zoo import TEXT

LENGTHS, REGIONS, WIDTH = (6, 4), 5, 20
SIZE = {**TEXT, "max_position_embeddings": 40}


def visual_bert() -> Any:
    torch.manual_seed(0)
    config = transformers.VisualBertConfig(**SIZE, visual_embedding_dim=WIDTH)
    model = transformers.VisualBertForQuestionAnswering(config).eval()
    stir(model)
    return model


def vilt() -> Any:
    torch.manual_seed(0)
    config = transformers.ViltConfig(**SIZE, image_size=32, patch_size=8)
    model = transformers.ViltForQuestionAnswering(config).eval()
    stir(model)
    return model


def questions() -> dict[str, Tensor]:
    """Two questions, the second one padded."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 60, (2, LENGTHS[0]), generator=generator)
    mask = torch.ones_like(ids)
    ids[1, LENGTHS[1] :] = mask[1, LENGTHS[1] :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def regions() -> dict[str, Tensor]:
    found = torch.randn(2, REGIONS, WIDTH, generator=torch.Generator().manual_seed(2))
    return {"visual_embeds": found}


def pixels() -> dict[str, Tensor]:
    seen = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    return {"pixel_values": seen, "pixel_mask": torch.ones(2, 32, 32, dtype=torch.long)}


MODELS = {
    "visual_bert": (visual_bert, regions, {"input_ids": (2, 6), "visual_embeds": (2, REGIONS)}),
    # beside its patches, the image's own class token, and no word
    "vilt": (vilt, pixels, {"pixel_values": (2, 17), "input_ids": (2, 6)}),
}
METHODS = [
    ("transformer_attribution", {}),
    ("gradient_x_input", {"gradient": "libra"}),
    ("witness", {}),
    ("rollout", {}),
]


@pytest.mark.parametrize(("method", "options"), METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_both_parts_of_one_question(name: str, method: str, options: dict[str, str]) -> None:
    make, beside, shapes = MODELS[name]
    inputs, why = {**questions(), **beside()}, whyformer.Explainer(make())
    target = None if method == "rollout" else 1
    found = why(inputs, target=target, method=method, **options)
    assert {part.name: tuple(part.relevance.shape) for part in found.parts} == shapes
    assert found.notes == ()
    for part in found.parts:
        assert bool(part.relevance[part.content].abs().sum() > 0)
        assert part.content[0].sum() == {"input_ids": 6, "pixel_values": 16}.get(part.name, REGIONS)
    for sample, length in enumerate(LENGTHS):
        words = {key: value[sample : sample + 1, :length] for key, value in questions().items()}
        seen = {key: value[sample : sample + 1] for key, value in beside().items()}
        alone = why({**words, **seen}, target=target, method=method, **options)
        for part in alone.parts:
            together = found.part(part.name).relevance[sample, : part.relevance.shape[1]]
            torch.testing.assert_close(together, part.relevance[0], atol=1e-5, rtol=1e-3)


def test_no_word_counts_as_a_region() -> None:
    """Gradient x input by the definition, from autograd itself."""
    model, given = visual_bert(), regions()["visual_embeds"].requires_grad_()
    model(**questions(), visual_embeds=given).logits[:, 1].sum().backward()
    assert given.grad is not None
    expected = (given * given.grad).sum(-1).detach()
    inputs = {**questions(), **regions()}
    found = whyformer.Explainer(model)(
        inputs, target=1, method="gradient_x_input", gradient="gradient"
    )
    torch.testing.assert_close(found.part("visual_embeds").relevance, expected)


def test_a_mask_of_words_hides_no_region() -> None:
    """As many regions as words: the words' mask is theirs alone, and the regions have their own."""
    seen = torch.randn(2, LENGTHS[0], WIDTH, generator=torch.Generator().manual_seed(5))
    inputs = {**questions(), "visual_embeds": seen}
    why = whyformer.Explainer(visual_bert())
    assert bool(why(inputs, target=1).part("visual_embeds").content.all())
    inputs["visual_attention_mask"] = torch.tensor([[1] * 6, [1] * 3 + [0] * 3])
    assert why(inputs, target=1).part("visual_embeds").content.sum(1).tolist() == [6, 3]


def test_a_long_question() -> None:
    """More words than a model has special tokens: the regions' part is theirs all the same."""
    ids = torch.randint(5, 60, (1, 24), generator=torch.Generator().manual_seed(4))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    inputs["visual_embeds"] = regions()["visual_embeds"][:1]
    found = whyformer.Explainer(visual_bert())(inputs, method="rollout")
    words, seen = found.parts
    assert (words.relevance.shape, seen.relevance.shape) == ((1, 24), (1, REGIONS))
    # rows of I + A sum to two, over two blocks, less the identity of the row that is read
    assert float(words.relevance.sum() + seen.relevance.sum()) == pytest.approx(3, abs=1e-4)


@pytest.mark.parametrize("kind", ["VisualBert", "Lxmert"])
def test_the_refusal_names_what_works(kind: str, tmp_path: Path) -> None:
    save_bert(tmp_path, kind="BertModel")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    size = {**SIZE, "vocab_size": 120}
    if kind == "VisualBert":
        config: Any = transformers.VisualBertConfig(**size, visual_embedding_dim=WIDTH)
    else:
        layers = {"l_layers": 1, "x_layers": 1, "r_layers": 1, "num_qa_labels": 3}
        config = transformers.LxmertConfig(**size, **layers, visual_feat_dim=WIDTH)
    model = getattr(transformers, f"{kind}ForQuestionAnswering")(config).eval()
    config.architectures = [type(model).__name__]
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    with pytest.raises(ModelError, match="no pixels but regions that another model found") as said:
        whyformer.load(tmp_path)
    _, _, code = str(said.value).partition(" and ask ")
    known = {"visual_embeds": torch.randn(1, REGIONS, WIDTH)}
    known |= {"visual_feats": known["visual_embeds"], "visual_pos": torch.rand(1, REGIONS, 4)}
    names = {"whyformer": whyformer, "model": model, "tokenizer": tokenizer, "text": "a warm film"}
    found = eval(code, {**names, **known})
    assert found.parts[0].name == "input_ids"
    assert {part.relevance.shape[1] for part in found.parts[1:]} == {REGIONS}
