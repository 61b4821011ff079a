"""Bad input gets one clear sentence, and no traceback from deep inside."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from whyformer import InputError, ModelError, NumericalError, TargetError, UnknownNameError
from whyformer.methods.question import Answer, Question
from zoo import CASES, HandWritten, pixels, text

CASE = {case.name: case for case in CASES}


def refused(kind: type[Exception], model: nn.Module, inputs: Any, **how: Any) -> str:
    """The message of the expected error, which must be one sentence without a hidden cause."""
    with pytest.raises(kind) as caught:
        whyformer.Explainer(model)(inputs, **how)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def vit() -> nn.Module:
    return CASE["ViT"].make()[0]


def test_a_model_without_attention() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 5))
    message = refused(ModelError, model, pixels())
    assert "no self-attention" in message
    assert "whyformer explains Transformers" in message
    assert message.endswith("gradient_x_input needs none")


def test_a_head_of_zeros(vit: nn.Module) -> None:
    """As timm and torchvision make it before training."""
    nn.init.zeros_(vit.classifier.weight)
    message = refused(ModelError, vit, pixels())
    assert "depends on no token of sample 0" in message
    assert "weights are zero" in message


class Changed(nn.Module):
    """One block, whose attention map does not meet the values as the softmax made it."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.qkv, self.head, self.change = nn.Linear(8, 24), nn.Linear(8, 2), change

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        attention = self.change((q @ k.transpose(1, 2)).softmax(-1))
        return self.head((x + attention @ v).mean(1))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a.detach(), r"detach \(test_errors.py:\d+\) cuts the graph"),
        (lambda a: a**2, r"a softmax of shape \(1, 3, 3\) was seen, but its result is changed"),
    ],
)
def test_attention_that_is_not_recognised_says_why(
    change: Callable[[Tensor], Tensor], said: str
) -> None:
    assert re.search(said, refused(ModelError, Changed(change), torch.randn(1, 3, 8)))


def test_not_a_model() -> None:
    with pytest.raises(ModelError, match=r"takes an nn\.Module, not str"):
        whyformer.Explainer("vit")


class Cut(HandWritten):
    how = "detach"

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        x = self.norm(self.blocks(x + self.position))
        if self.how == "detach":
            x = x.detach()
        elif self.how == "no_grad":
            with torch.no_grad():
                x = self.norm(x)
        elif self.how == "numpy":
            x = torch.from_numpy(x.detach().numpy())
        return self.head(x[:, 0])


class Reversible(torch.autograd.Function):
    """A part of a forward that autograd does not see, with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.tanh()

    @staticmethod
    def backward(ctx: Any, slot: Tensor) -> Tensor:
        raise AssertionError("only in training")


@pytest.mark.parametrize("method", ["transformer_attribution", "gradient_x_input"])
def test_an_autograd_function_that_refuses_its_backward(method: str) -> None:
    class Hidden(HandWritten):
        def forward(self, image: Tensor) -> Tensor:
            return self.head(Reversible.apply(super().forward(image)) @ self.head.weight)

    message = refused(ModelError, Hidden().eval(), pixels(), target=1, method=method)
    assert "in Reversible, an autograd.Function of its own" in message
    assert "AssertionError at test_errors.py" in message
    assert "only in training" not in message
    assert "replace it" in message


@pytest.mark.parametrize(
    ("how", "named"), [("detach", "detach"), ("no_grad", "no_grad"), ("numpy", "detach")]
)
def test_a_graph_that_is_cut_names_the_operation(how: str, named: str) -> None:
    model = Cut().eval()
    model.how = how
    message = refused(ModelError, model, pixels())
    assert named in message
    assert "test_errors.py" in message
    assert ("without torch.no_grad()" if how == "no_grad" else "remove it") in message


def test_a_graph_that_is_cut_between_the_blocks() -> None:
    class Model(HandWritten):
        def forward(self, image: Tensor) -> Tensor:
            x = self.patches(image).flatten(2).transpose(1, 2) + self.position[:, 1:]
            x = self.blocks[1](self.blocks[0](x).detach() + x)
            return self.head(x.mean(1))

    message = refused(ModelError, Model().eval(), pixels())
    assert "1 of the model's 2 attention maps" in message
    assert "detach" in message


def test_compiled_and_scripted_parts(vit: nn.Module) -> None:
    assert "compiled by torch.compile" in refused(ModelError, torch.compile(vit), pixels())
    model = HandWritten().eval()
    model.head.compile()
    assert "its submodule 'head' is compiled" in refused(ModelError, model, pixels())
    model = HandWritten().eval()
    model.head = torch.jit.script(nn.Linear(32, 5))
    message = refused(ModelError, model, pixels())
    assert "TorchScript" in message
    assert "'head'" in message


def test_a_wrong_input_shape(vit: nn.Module) -> None:
    message = refused(InputError, vit, torch.randn(2, 3, 50, 50))
    assert "(2, 3, 50, 50)" in message
    message = refused(InputError, vit, torch.randn(2, 7, 32, 32))
    assert "(2, 7, 32, 32)" in message


def test_inputs_of_a_wrong_kind(vit: nn.Module) -> None:
    assert "not str" in refused(InputError, vit, "cat.jpg")
    assert "no tensor" in refused(InputError, vit, {"pixel_values": [1, 2]})


def test_an_empty_batch(vit: nn.Module) -> None:
    assert "(0, 3, 32, 32) is empty" in refused(InputError, vit, torch.randn(0, 3, 32, 32))
    bert, _ = CASE["BERT"].make()
    ids = torch.zeros(1, 0, dtype=torch.long)
    assert "at least one token" in refused(InputError, bert, {"input_ids": ids})


@pytest.mark.parametrize("method", ["transformer_attribution", "gradcam", "rollout"])
def test_an_empty_text(method: str) -> None:
    bert, _ = CASE["BERT"].make()
    special = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0]])
    shown = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    ids = torch.tensor([[2, 9, 8, 3], [2, 3, 0, 0]])
    inputs = {"input_ids": ids, "attention_mask": shown, "special_tokens_mask": special}
    assert "sample 1 has no content" in refused(InputError, bert, inputs, method=method)


def test_an_image_in_whole_numbers(vit: nn.Module) -> None:
    image = torch.zeros(1, 3, 32, 32, dtype=torch.uint8)
    assert "an image of type uint8" in refused(InputError, vit, image)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_or_infinity_in_inputs_and_weights(vit: nn.Module, value: float) -> None:
    image = pixels()
    image[0, 0, 0, 0] = value
    assert "NaN or infinity" in refused(InputError, vit, image)
    name, parameter = next((n, p) for n, p in vit.named_parameters() if "classifier.weight" in n)
    with torch.no_grad():
        parameter[0, 0] = value
    assert repr(name) in refused(ModelError, vit, pixels())


@pytest.mark.parametrize(
    ("shape", "said"),
    [((3, 5), "3 rows for a batch of 2"), ((5,), "5 rows for a batch of 2")],
)
def test_logits_of_an_unexpected_shape(shape: tuple[int, ...], said: str) -> None:
    class Model(HandWritten):
        def forward(self, image: Tensor) -> Tensor:
            return super().forward(image).sum() * torch.ones(shape)

    assert said in refused(ModelError, Model().eval(), pixels())


def test_a_model_that_returns_no_logits() -> None:
    class Model(HandWritten):
        def forward(self, image: Tensor) -> Any:
            return "cat"

    assert "returned str" in refused(ModelError, Model().eval(), pixels())


def test_an_unknown_method_preset_or_option(vit: nn.Module) -> None:
    message = refused(UnknownNameError, vit, pixels(), method="transformer_atribution")
    assert "did you mean 'transformer_attribution'" in message
    assert "'stable'" in refused(UnknownNameError, vit, pixels(), preset="stabel")
    assert "colour" in refused(UnknownNameError, vit, pixels(), colour="red")
    assert "'gradient'" in refused(UnknownNameError, vit, pixels(), factor="gradients")
    assert "from -2 to 1" in refused(UnknownNameError, vit, pixels(), blocks=7)
    message = refused(UnknownNameError, vit, pixels(), method="lrp", rules="lpr")
    assert "'lrp'" in message


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (5, "from 0 to 4"),
        (-6, "from 0 to 4"),
        ("LABEL_9", "did you mean"),
        (1.5, "float"),
        ([], "empty"),
        ([0, 1, 2], "3 targets for a batch of 2"),
        ([[0, 1], [2]], "[2, 1]"),
        (lambda output: output.logits, "one value a sample"),
        (lambda output: output.logits[:, 0] * 0, "does not depend"),
        (lambda output: 3, "must return a tensor"),
        (lambda logits: logits[:, 0], "output.logits"),
        ((1, 2), "give 1 number"),
    ],
)
def test_a_target_out_of_range(vit: nn.Module, target: Any, said: str) -> None:
    assert said in refused(TargetError, vit, pixels(), target=target)


def test_a_label_of_a_model_without_labels() -> None:
    assert "has no labels" in refused(TargetError, HandWritten().eval(), pixels(), target="cat")


def test_a_label_that_names_several_classes() -> None:
    labels = ["crane, bird", "tabby, tabby cat", "crane", "dog", "Crane, machine"]
    explainer = whyformer.Explainer(HandWritten().eval(), labels=labels)
    assert explainer(pixels(), target="crane").target.tolist() == [2, 2]
    assert explainer(pixels(), target="tabby cat").target.tolist() == [1, 1]
    with pytest.raises(TargetError, match="names several classes: 0 'crane, bird', 2 'crane'"):
        explainer(pixels(), target="CRANE")


def test_a_map_with_nan_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a method computes: NaN is an error that says what to do, not a map."""
    model, pool = HandWritten().eval(), Question.pool

    def overflowing(question: Question, matrix: Tensor) -> Answer:
        return Answer(pool(question, matrix).relevance * float("nan"))

    monkeypatch.setattr(Question, "pool", overflowing)
    message = refused(NumericalError, model, pixels(), method="raw_attention")
    other = refused(NumericalError, model, pixels(), method="raw_attention", preset="paper")
    assert "overflowed in float32" in message
    assert message.endswith("infinity; run the model in float64")
    assert "use the 'stable' preset, or run the model in float64" in other


def test_wrong_content_and_pooling() -> None:
    model, inputs = CASE["BERT"].make()
    with pytest.raises(InputError, match="expected \\(batch, tokens\\) = \\(2, 9\\)"):
        whyformer.Explainer(model)(inputs, content=torch.ones(2, 4))
    with pytest.raises(InputError, match="unknown pooling 'max'"):
        whyformer.Explainer(model, pooling="max")(text())


def test_a_map_of_text_has_no_grid_and_words_need_an_encoding() -> None:
    model, inputs = CASE["BERT"].make()
    explanation = whyformer.Explainer(model)(inputs)
    with pytest.raises(InputError, match="only images"):
        explanation.image_map()
    with pytest.raises(InputError, match="tokenizer"):
        explanation.words()
