"""Every way to name a target, and every kind of classification head."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from whyformer import TargetError
from whyformer.targets import class_index, from_word
from zoo import CASES, HandWritten, pixels, text

CASE = {case.name: case for case in CASES}


@pytest.fixture(scope="module")
def explainer() -> whyformer.Explainer:
    model, _ = CASE["ViT"].make()
    return whyformer.Explainer(model.double(), labels=["ant", "bee", "cat, tabby", "dog", "emu"])


def test_every_form_of_one_target(explainer: whyformer.Explainer) -> None:
    image = pixels().double()
    expected = explainer(image, target=2)
    assert expected.target.tolist() == [2, 2]
    forms: list[Any] = [
        -3, "cat, tabby", "tabby", "CAT", [2, 2], (2,), [(2,), "tabby"], torch.tensor([2, 2]),
        torch.tensor(2), ["tabby", 2], lambda output: output.logits[:, 2],
    ]  # fmt: skip
    for form in forms:
        assert torch.allclose(explainer(image, target=form).relevance, expected.relevance), form


def test_none_is_the_predicted_class(explainer: whyformer.Explainer) -> None:
    image = pixels().double()
    explanation = explainer(image)
    assert torch.equal(explanation.target, explanation.logits.argmax(-1))


def test_one_for_each_sample_and_several_for_each(explainer: whyformer.Explainer) -> None:
    image = pixels().double()
    mixed = explainer(image, target=[0, "dog"])
    assert mixed.target.tolist() == [0, 3]
    assert torch.allclose(mixed.relevance[1], explainer(image, target=3).relevance[1])
    several = explainer(image[:1], target=[[0, "dog", 4]])
    assert several.relevance.shape == (1, 3, 17)
    assert several.image_map().shape == (1, 3, 32, 32)
    assert torch.allclose(several.relevance[0, 1], explainer(image[:1], target=3).relevance[0])
    nested = explainer(image, target=torch.tensor([[0, 1], [2, 3]]), method="lrp", keep_blocks=True)
    assert nested.target.tolist() == [[0, 1], [2, 3]]
    assert nested.input_relevance.shape == (2, 2, 32, 32)
    assert nested.blocks.gradient[0].shape == (2, 2, 4, 17, 17)


@pytest.mark.parametrize("same", [(2, "tabby"), (None, None), ((3,), "dog")])
def test_nothing_is_asked_rather_than_itself(explainer: whyformer.Explainer, same: Any) -> None:
    with pytest.raises(TargetError, match="one and the same; name another"):
        explainer(pixels().double(), target=whyformer.contrast(*same))


def test_a_function_of_the_logits(explainer: whyformer.Explainer) -> None:
    """Regression, one-logit binary and multi-label heads, and the opposite of a class."""
    image = pixels().double()
    against = explainer(image, target=lambda out: -out.logits[:, 2]).relevance
    towards = explainer(image, target=2).relevance
    assert not torch.allclose(against[:, 1:], towards[:, 1:])
    both = explainer(image, target=lambda out: out.logits[:, 2] + out.logits[:, 3])
    assert both.target is None
    contrast = explainer(image, target=lambda out: out.logits[:, 2] - out.logits[:, 3]).relevance
    assert contrast.isfinite().all()
    probability = explainer(image, target=lambda out: out.logits.softmax(-1)[:, 2]).relevance
    assert probability[:, 1:].abs().sum() > 0


@pytest.mark.parametrize("squeeze", [False, True])
def test_a_head_with_one_logit(squeeze: bool) -> None:
    class Regression(HandWritten):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(32, 1)

        def forward(self, image: Tensor) -> Tensor:
            out = super().forward(image)
            return out.squeeze(-1) if squeeze else out

    explainer = whyformer.Explainer(Regression().eval())
    up = explainer(pixels(), target=0)
    down = explainer(pixels(), target=lambda y: -y[:, 0])
    assert up.logits.shape == (2, 1)
    assert not torch.allclose(up.relevance[:, 1:], down.relevance[:, 1:])


def test_inputs_as_tensor_tuple_and_mapping() -> None:
    model, inputs = CASE["BERT"].make()
    explainer = whyformer.Explainer(model)
    expected = explainer(inputs, target=1).relevance
    positional = (inputs["input_ids"], inputs["attention_mask"])
    assert torch.equal(explainer(positional, target=1).relevance, expected)
    whole = {"input_ids": inputs["input_ids"], "attention_mask": torch.ones(2, 9, dtype=torch.long)}
    assert torch.allclose(
        explainer(inputs["input_ids"], target=1).relevance,
        explainer(whole, target=1).relevance,
        atol=1e-6,
    )


def test_embeddings_as_inputs() -> None:
    model, inputs = CASE["BERT"].make()
    explainer = whyformer.Explainer(model)
    embeds = model.get_input_embeddings()(inputs["input_ids"]).detach()
    given = {"inputs_embeds": embeds, "attention_mask": inputs["attention_mask"]}
    assert torch.allclose(
        explainer(given, target=1).relevance, explainer(inputs, target=1).relevance, atol=1e-6
    )


def test_attribute_is_the_bare_content() -> None:
    model, image = CASE["ViT"].make()
    explainer = whyformer.Explainer(model)
    assert torch.equal(explainer.attribute(image, 1), explainer(image, 1).relevance[:, 1:])
    model, inputs = CASE["BERT"].make()
    found = whyformer.Explainer(model).attribute(inputs, 1)
    assert found.shape == (2, 9)
    assert (found[:, 0] == 0).all()
    assert (found[1, 6:] == 0).all()


def test_pooling_can_be_overruled() -> None:
    model, image = CASE["ViT"].make()
    row = whyformer.Explainer(model, pooling=3)(image, 1, matrix=True)
    assert torch.allclose(row.rows[:, 3], torch.ones(2))
    mean = whyformer.Explainer(model, pooling="mean").record(image)
    assert torch.allclose(mean.rows(1)[:, 1:], torch.full((2, 16), 1 / 16))
    first = whyformer.Explainer(model, pooling=lambda content: (~content).float())(image, 1)
    assert torch.equal(first.relevance, whyformer.Explainer(model)(image, 1).relevance)


def test_words_come_from_the_tokenizers_encoding() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "joy", "##less", "film", "!"]
    raw = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]")
    )
    raw.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]")
    inputs = tokenizer(["a joyless film!", "a film"], return_tensors="pt", padding=True)
    inputs.pop("token_type_ids", None)
    model, _ = CASE["BERT"].make()
    explanation = whyformer.Explainer(model)(inputs, target=1)
    assert explanation.content.tolist() == [
        [False, True, True, True, True, True, False],
        [False, True, True, False, False, False, False],
    ]
    first, second = explanation.words()
    assert [word for word, _ in first] == ["a", "joyless", "film", "!"]
    assert [word for word, _ in second] == ["a", "film"]
    assert first[1][1] == pytest.approx(explanation.relevance[0, 2:4].max().item())


def test_special_tokens_can_be_given() -> None:
    model, _ = CASE["BERT"].make()
    inputs = text()
    special = torch.zeros(2, 9, dtype=torch.long)
    special[:, [0, 5]] = 1
    explanation = whyformer.Explainer(model)({**inputs, "special_tokens_mask": special})
    assert not explanation.content[:, [0, 5]].any()
    assert explanation.content[0].sum() == 7
    chosen = torch.zeros(2, 9, dtype=torch.bool)
    chosen[:, 2] = True
    assert torch.equal(whyformer.Explainer(model)(inputs, content=chosen).content, chosen)


IMAGENET = ["tench", "crate", "oxcart", "tabby, tabby cat", "tiger cat", "Egyptian cat", "castle"]


def test_labels_that_hold_the_word_come_first() -> None:
    with pytest.raises(TargetError) as caught:
        class_index("cat", len(IMAGENET), IMAGENET)
    assert str(caught.value) == (
        "no label 'cat'; did you mean 'tabby, tabby cat' or 'tiger cat' or 'Egyptian cat'?"
    )
    many = [f"{name} dog" for name in "abcdefg"]
    with pytest.raises(TargetError, match=r"'a dog' or .* or 'e dog', or 2 more\?"):
        class_index("DOG", len(many), many)
    with pytest.raises(TargetError, match="did you mean 'tench'"):
        class_index("tnech", len(IMAGENET), IMAGENET)


@pytest.mark.parametrize("word", ["catt", "Catt"])
def test_a_misspelt_word_inside_a_label_is_found(word: str) -> None:
    with pytest.raises(TargetError) as caught:
        class_index(word, len(IMAGENET), IMAGENET)
    assert str(caught.value) == (
        f"no label {word!r}; did you mean 'tabby, tabby cat' or 'tiger cat' or 'Egyptian cat'?"
    )


def test_typed_classes_are_counted_from_zero() -> None:
    assert from_word("5", None) == 5
    assert from_word("-5", ["-5", "x"]) == "-5"
    with pytest.raises(TargetError, match="class -5: classes are counted from 0"):
        from_word("-5", ["a", "b"])
