"""Nothing is silently wrong: other ways to write a model agree, or are named."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import whyformer
from zoo import CASES, HandWritten, pixels, text

CASE = {case.name: case for case in CASES}


class TwoBlocks(nn.Module):
    """Single-head attention over a sequence, twice; ``style`` says how A meets V."""

    def __init__(self, style: str = "plain") -> None:
        super().__init__()
        torch.manual_seed(2)
        self.qkv = nn.ModuleList(nn.Linear(8, 24) for _ in range(2))
        self.head = nn.Linear(8, 3)
        self.style = style

    def mix(self, scores: Tensor, v: Tensor) -> Tensor:
        weights = scores.softmax(-1)
        if self.style == "right operand":
            return (v.mT @ weights.mT).mT
        if self.style == "einsum":
            return torch.einsum("bij,bjd->bid", weights, v)
        if self.style == "einsum, key first":
            return torch.einsum("bji,bjd->bid", scores.mT.softmax(-2), v)
        if self.style == "einsum, value first":
            return torch.einsum("bjd,bij->bid", v, weights)
        if self.style == "by terms":
            return (weights.unsqueeze(-1) * v.unsqueeze(1)).sum(2)
        return weights @ v

    def forward(self, x: Tensor) -> Tensor:
        for qkv in self.qkv:
            q, k, v = qkv(x).chunk(3, -1)
            x = x + self.mix(q @ k.mT * 8**-0.5, v)
        return self.head(x[:, 0])


@pytest.mark.parametrize(
    "style", ["right operand", "einsum", "einsum, key first", "einsum, value first"]
)
def test_attention_is_found_however_it_is_written(style: str) -> None:
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    expected, found = (
        whyformer.Explainer(TwoBlocks(s).double().eval())(x, 1, preset="paper", keep_blocks=True)
        for s in ("plain", style)
    )
    assert torch.allclose(found.logits, expected.logits)
    for kind in ("attention", "gradient", "relevance"):
        for a, b in zip(getattr(found.blocks, kind), getattr(expected.blocks, kind), strict=True):
            assert torch.allclose(a, b), kind
    assert torch.allclose(found.relevance, expected.relevance)
    assert found.notes == ()


def test_attention_that_is_not_found_is_named() -> None:
    class Half(TwoBlocks):
        def mix(self, scores: Tensor, v: Tensor) -> Tensor:
            self.style = "plain" if self.style == "by terms" else "by terms"
            return super().mix(scores, v)

    x = torch.randn(2, 5, 8)
    notes = whyformer.Explainer(Half("plain").eval())(x, 1).notes
    assert any("softmax of shape (2, 5, 5) was not recognised as attention" in n for n in notes)


def test_a_cut_that_leaves_the_maps_connected_is_named() -> None:
    class Cut(TwoBlocks):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv[0](x).chunk(3, -1)
            return self.head((x.detach() * 2 + (q @ k.mT).softmax(-1) @ v)[:, 0])

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.body = nn.Linear(8, 8), Cut()

        def forward(self, x: Tensor) -> Tensor:
            return self.body(self.embed(x))

    notes = whyformer.Explainer(Model().eval())(torch.randn(2, 5, 8), 1).notes
    assert any(note.startswith("detach (test_honesty.py") for note in notes)


def test_weights_that_changed_since_the_recording() -> None:
    model, image = CASE["ViT"].make()
    recording = whyformer.Explainer(model).record(image)
    with torch.no_grad():
        model.classifier.weight.mul_(-1)
    with pytest.raises(whyformer.ModelError, match="record it again"):
        recording.explain(1)


def test_a_class_token_behind_the_patches() -> None:
    class Last(HandWritten):
        last = False

        def forward(self, image: Tensor) -> Tensor:
            x = self.patches(image).flatten(2).transpose(1, 2)
            cls = self.cls.expand(len(x), -1, -1)
            x = torch.cat([x, cls] if self.last else [cls, x], dim=1)
            return self.head(self.norm(self.blocks(x))[:, -1 if self.last else 0])

    model, image = Last().double().eval(), pixels().double()
    first = whyformer.Explainer(model)(image, 1)
    model.last = True
    last = whyformer.Explainer(model)(image, 1)
    assert last.tokens.prefix == 0
    assert not last.content[:, -1].any()
    assert torch.allclose(last.image_map(), first.image_map())
    assert (whyformer.Explainer(model)(image, 1, "lrp").relevance[:, -1] == 0).all()


def test_windows_are_rolled_out_each_by_itself() -> None:
    """Three windows of two tokens, mean-pooled: each token gathers from its window alone."""

    class Windows(TwoBlocks):
        def forward(self, x: Tensor) -> Tensor:
            windows = self.qkv[0](x).unflatten(1, (3, 2)).flatten(0, 1).unsqueeze(1)
            q, k, v = windows.chunk(3, -1)
            return self.head(self.mix(q @ k.mT, v).reshape(len(x), 6, 8).mean(1))

    x = torch.randn(2, 6, 8, dtype=torch.float64)
    found = whyformer.Explainer(Windows().double().eval())(
        x, 1, "generic_attention", keep_blocks=True
    )
    (attention,), (gradient,) = found.blocks.attention, found.blocks.gradient
    assert attention.shape == (6, 1, 2, 2)
    by_hand = (attention * gradient).clamp(min=0).sum((1, 2)).reshape(2, 6) / 6
    assert torch.allclose(found.relevance, by_hand)
    assert found.notes == ()


def test_dropped_tokens_are_rolled_out() -> None:
    """The second block reads four of six tokens; the others still spoke in the first."""

    class Shorter(TwoBlocks):
        def forward(self, x: Tensor) -> Tensor:
            for qkv in self.qkv:
                q, k, v = qkv(x).chunk(3, -1)
                x = (x + self.mix(q @ k.mT, v))[:, :4]
            return self.head(x[:, 0])

    x = torch.randn(2, 6, 8, dtype=torch.float64)
    found = whyformer.Explainer(Shorter().double().eval())(
        x, 1, "generic_attention", keep_blocks=True
    )
    first, second = (
        (a * g).clamp(min=0).mean(1)
        for a, g in zip(found.blocks.attention, found.blocks.gradient, strict=True)
    )
    row = torch.eye(4, dtype=x.dtype)[0] + second[:, 0]
    by_hand = torch.nn.functional.pad(row, (0, 2)) + (row.unsqueeze(1) @ first[:, :4]).squeeze(1)
    own = torch.eye(6, dtype=x.dtype)[0]
    assert torch.allclose(found.relevance, by_hand - own)


def test_a_four_dimensional_mask_is_not_an_image() -> None:
    model, inputs = CASE["BERT"].make()
    explainer = whyformer.Explainer(model)
    expected = explainer(inputs, 1)
    hidden = (1 - inputs["attention_mask"])[:, None, None, :].float()
    mask = (hidden * torch.finfo(torch.float32).min).expand(2, 1, 9, 9)
    found = explainer({"input_ids": inputs["input_ids"], "attention_mask": mask}, 1)
    assert found.tokens.kind == "text"
    assert torch.allclose(found.relevance, expected.relevance, atol=1e-6)


def test_the_last_token_of_a_causal_model_is_content() -> None:
    from transformers import GPT2Config, GPT2ForSequenceClassification

    config = GPT2Config(
        vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, num_labels=3, pad_token_id=0
    )
    torch.manual_seed(0)
    model = GPT2ForSequenceClassification(config).eval()
    explanation = whyformer.Explainer(model)({"input_ids": text()["input_ids"]}, 1)
    assert explanation.content.all()
    rows = whyformer.Explainer(model).record({"input_ids": text()["input_ids"]}).rows(1)
    assert rows.argmax(1).tolist() == [8, 8]
    assert explanation.relevance[:, :-1].abs().sum() > 0


def test_ordinary_spellings() -> None:
    class Spelled(TwoBlocks):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv[0](x).chunk(3, -1)
            scores = q @ k.mT
            shown = torch.ones(5, 5, dtype=torch.bool).tril()
            scores = scores.where(shown, torch.tensor(float("-inf")))
            x = x + torch.softmax(input=scores, dim=-1) @ v
            return self.head(torch.nn.functional.gelu(input=x).mean(axis=1))

    recording = whyformer.Explainer(Spelled().eval()).record(torch.randn(2, 5, 8))
    assert recording.explain(1, "gradient_x_input").notes == ()
    assert recording.explain(1, "lrp").notes == ()
    assert recording.rows(1).allclose(torch.full((2, 5), 0.2))


def test_explaining_inside_autocast() -> None:
    model, image = CASE["ViT"].make()
    expected = whyformer.Explainer(model)(image, 1).relevance
    with torch.autocast("cpu", torch.bfloat16):
        found = whyformer.Explainer(model)(image, 1).relevance
    assert torch.allclose(found, expected)


def test_one_tensor_of_targets_keeps_the_rank_of_a_last_small_batch() -> None:
    model, image = CASE["ViT"].make()
    explainer = whyformer.Explainer(model)
    assert explainer(image[:1], torch.tensor([1])).relevance.shape == (1, 17)
    assert explainer(image, torch.tensor([1, 2])).relevance.shape == (2, 17)
