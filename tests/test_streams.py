"""Models of several sequences: encoders with decoders, windows, pairs of images and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from zoo import TEXT, Block, pixels

METHODS = ["transformer_attribution", "generic_attention", "rollout", "lrp", "gradient_x_input"]
SMALL = {"vocab_size": 60, "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}


def noised(name: str, config: Any) -> nn.Module:
    """A model of the library with random weights, large enough that attention is not flat."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = getattr(transformers, name)(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    return model


def ask(model: nn.Module, inputs: Any, target: Any, method: str) -> whyformer.Explanation:
    specific = whyformer.methods()[method].class_specific
    return whyformer.Explainer(model)(inputs, target if specific else None, method)


# -- encoders with decoders


def bart(**more: Any) -> tuple[nn.Module, dict[str, Tensor]]:
    """Three encoder and two decoder layers; the second text is shorter, and padded."""
    transformers = pytest.importorskip("transformers")
    sizes = {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "num_labels": 3}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    widths = {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 32}
    config = transformers.BartConfig(
        **SMALL, **sizes, **heads, **widths, bos_token_id=1, forced_eos_token_id=2, **more
    )
    model = noised("BartForSequenceClassification", config)
    ids = torch.randint(5, 60, (2, 8))
    ids[0, 7], ids[1, 5], ids[1, 6:] = 2, 2, 0
    return model, {"input_ids": ids, "attention_mask": (ids != 0).long()}


def t5(**more: Any) -> tuple[nn.Module, dict[str, Tensor]]:
    transformers = pytest.importorskip("transformers")
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_heads": 2}
    config = transformers.T5Config(**SMALL, **sizes, num_layers=3, num_decoder_layers=2, **more)
    model = noised("T5ForConditionalGeneration", config)
    ids = torch.randint(5, 60, (2, 8))
    ids[1, 6:] = 0
    given = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    return model, {**given, "decoder_input_ids": torch.randint(5, 60, (2, 4))}


def roll(layers: Sequence[Tensor], row: Tensor, decoder: int, encoder: int) -> list[Tensor]:
    """A decoder's row, by hand: cross-attention hands it to the encoder, whose layers follow.

    ``layers`` are averaged over heads, in the order of the forward.
    """
    first, rest = list(layers[:encoder]), list(layers[encoder:])
    assert len(rest) == 2 * decoder
    below = row.new_zeros(len(row), first[0].shape[-1])
    own = row
    while rest:
        across, inside = rest.pop(), rest.pop()
        below = below + (row.unsqueeze(1) @ across).squeeze(1)
        row = row + (row.unsqueeze(1) @ inside).squeeze(1)
    for layer in reversed(first):
        below = below + (below.unsqueeze(1) @ layer).squeeze(1)
    return [below, row - own]


CASES = {
    # the classifier reads the decoder's last end-of-text token
    "BART": (bart, 1, torch.tensor([7, 5])),
    "T5": (t5, (3, 17), torch.tensor([3, 3])),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", METHODS)
def test_two_inputs_and_a_batch_is_its_samples(name: str, method: str) -> None:
    build, target, _ = CASES[name]
    model, inputs = build()
    together = ask(model, inputs, target, method)
    assert [part.name for part in together.parts] == ["input_ids", "decoder_input_ids"]
    assert together.notes == ()
    for i, length in enumerate((8, 6)):
        alone = {key: value[i : i + 1] for key, value in inputs.items()}
        for key in ("input_ids", "attention_mask"):
            alone[key] = alone[key][:, :length]
        found = ask(model, alone, target, method)
        for part, other in zip(found.parts, together.parts, strict=True):
            width = part.relevance.shape[1]
            assert torch.allclose(part.relevance[0], other.relevance[i, :width], atol=1e-8)
            assert not other.relevance[i, width:].any()
            assert part.relevance.any()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", ["rollout", "generic_attention"])
def test_roll_outs_through_cross_attention(name: str, method: str) -> None:
    build, target, rows = CASES[name]
    model, inputs = build(attn_implementation="eager")
    recording = whyformer.Explainer(model).record(inputs)
    weights = [attention.weights.detach() for attention in recording.trace.seen.attention]
    given = model(**inputs, output_attentions=True)
    pairs = zip(given.decoder_attentions, given.cross_attentions, strict=True)
    maps = [*given.encoder_attentions, *(a for pair in pairs for a in pair)]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(weights, maps, strict=True))
    layers = [a.mean(1) for a in weights]
    if method == "generic_attention":
        place = (slice(None), *(target if isinstance(target, tuple) else (target,)))
        slopes = torch.autograd.grad(given.logits[place].sum(), maps)
        layers = [(a * g).clamp(min=0).mean(1) for a, g in zip(maps, slopes, strict=True)]
    length = layers[-1].shape[1]
    start = torch.eye(length, dtype=torch.float64)[rows]
    expected = roll(layers, start, decoder=2, encoder=3)
    found = recording.explain(target if method == "generic_attention" else None, method)
    for part, by_hand in zip(found.parts, expected, strict=True):
        assert torch.allclose(part.relevance, by_hand, rtol=1e-5, atol=1e-8), part.name


@pytest.mark.parametrize("name", ["Bloom", "XLM", "Flaubert"])
def test_maps_and_gradients_are_those_of_the_models_own_attention(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    own = {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "n_words": 64}
    own = {"n_layer": 2, "n_head": 4} if name == "Bloom" else own
    config = getattr(transformers, f"{name}Config")(
        **{**TEXT, **own}, pad_token_id=0, attn_implementation="eager"
    )
    model = noised(f"{name}ForSequenceClassification", config)
    inputs = {"input_ids": torch.randint(5, 60, (2, 7)), "attention_mask": torch.ones(2, 7).long()}
    given = model(**inputs, output_attentions=True)
    slopes = torch.autograd.grad(given.logits[:, 1].sum(), given.attentions)
    found = whyformer.Explainer(model)(inputs, 1, keep_blocks=True)
    assert torch.allclose(found.logits, given.logits)
    for kind, expected in (("attention", given.attentions), ("gradient", slopes)):
        pairs = zip(getattr(found.blocks, kind), expected, strict=True)
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in pairs), kind
    assert not any("cuts the graph" in note for note in found.notes)


# -- sequences that come first, and rows that are folded


@pytest.mark.parametrize("layout", ["token by token", "sample by sample", "heads", "features"])
@pytest.mark.parametrize("preset", ["stable", "paper", "reference"])
def test_folded_rows_do_not_mix_samples(layout: str, preset: str) -> None:
    """A skip connection on (tokens x batch, width) rows is each sample's own."""

    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block(16, 2, "matmul") for _ in range(2))
            self.each, self.head = nn.Linear(16, 16), nn.Linear(16, 3)

        def forward(self, x: Tensor) -> Tensor:
            batch, length, width = x.shape
            for block in self.blocks:
                x = block(x)
                if layout == "token by token":
                    y = x.transpose(0, 1).reshape(length * batch, width)
                    x = (y + self.each(y)).view(length, batch, width).transpose(0, 1)
                elif layout == "sample by sample":
                    y = x.reshape(length * batch, width)
                    x = (y + self.each(y)).view(batch, length, width)
                elif layout == "heads":
                    y = x.view(batch, length, 4, 4).transpose(-3, -2)
                    x = (y + y.tanh()).transpose(1, 2).reshape(batch, length, width)
                else:
                    weight = self.each.weight.unsqueeze(-1)
                    x = (x.mT + nn.functional.conv1d(x.mT, weight)).mT
            return self.head(x[:, 0])

    explainer = whyformer.Explainer(Folded().double().eval())
    for batch, length in ((2, 3), (3, 2), (4, 4), (2, 8)):
        x = torch.randn(batch, length, 16, dtype=torch.float64)
        together = explainer(x, 1, preset=preset).relevance
        alone = torch.cat([explainer(one[None], 1, preset=preset).relevance for one in x])
        assert torch.allclose(together, alone, rtol=1e-8, atol=1e-14), (batch, length)


# -- windows


def swin() -> nn.Module:
    """Two stages of shifted windows on an 8 x 8 grid, merged to 4 x 4."""
    transformers = pytest.importorskip("transformers")
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=4,
        num_labels=3, attn_implementation="eager",
    )  # fmt: skip
    return noised("SwinForImageClassification", config)


@pytest.mark.parametrize("method", [*METHODS, "fullgrad"])
def test_windows_of_a_batch_are_those_of_its_samples(method: str) -> None:
    model, image = swin(), pixels(batch=3).double()
    together = ask(model, image, 1, method)
    assert together.grid == (8, 8)
    for i in range(3):
        alone = ask(model, image[i : i + 1], 1, method)
        assert torch.allclose(alone.relevance[0], together.relevance[i], atol=1e-10)
        assert alone.relevance.any()


def windowed(mass: Tensor, layer: Tensor, shift: int) -> Tensor:
    """Mass on a (batch, side, side) grid, through one layer of shifted 4 x 4 windows."""
    batch, side, _ = mass.shape
    parts = mass.roll((-shift, -shift), (1, 2)).view(batch, side // 4, 4, side // 4, 4)
    rows = parts.transpose(2, 3).reshape(-1, 1, 16) @ layer
    back = rows.view(batch, side // 4, side // 4, 4, 4).transpose(2, 3).reshape(batch, side, side)
    return back.roll((shift, shift), (1, 2))


@pytest.mark.parametrize("method", ["rollout", "generic_attention"])
def test_roll_outs_through_shifted_and_merged_windows(method: str) -> None:
    """By hand: the mean of the 4 x 4 grid, two layers, patches split in four, two layers."""
    model, image = swin(), pixels(batch=2).double()
    maps: list[Tensor] = []
    handles = [
        module.register_forward_hook(lambda _, __, out: maps.append(out[1]))
        for module in model.modules()
        if type(module).__name__ == "SwinAttention"
    ]
    logits = model(image).logits
    for handle in handles:
        handle.remove()
    slopes: Any = [1.0] * 4
    if method == "generic_attention":
        slopes = torch.autograd.grad(logits[:, 1].sum(), maps)
    layers = [(a * g).detach().clamp(min=0).mean(1) for a, g in zip(maps, slopes, strict=True)]
    found = ask(model, image, 1, method)
    mass = torch.full((2, 4, 4), 1 / 16, dtype=torch.float64)
    for layer in (layers[3], layers[2]):
        mass = mass + windowed(mass, layer, 0)
    mass = mass.repeat_interleave(2, 1).repeat_interleave(2, 2) / 4
    for layer, shift in ((layers[1], 2), (layers[0], 0)):
        mass = mass + windowed(mass, layer, shift)
    assert torch.allclose(found.relevance, mass.flatten(1) - 1 / 64, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("row", "column"), [(0, 0), (1, 6), (4, 3), (7, 5)])
def test_one_odd_patch_is_where_the_map_changes(row: int, column: int) -> None:
    """Only the odd patch of an empty image has a value; its merged neighbours share the rest."""
    model, empty = swin(), torch.zeros(1, 3, 32, 32, dtype=torch.float64)
    odd = empty.clone()
    odd[..., 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 1 + torch.rand(3, 4, 4).double()
    found = ask(model, odd, 1, "gradient_x_input").relevance[0].unflatten(0, (8, 8))
    assert found.nonzero().tolist() == [[row, column]]
    for method in ("rollout", "generic_attention", "transformer_attribution"):
        change = ask(model, odd, 1, method).relevance - ask(model, empty, 1, method).relevance
        place = divmod(int(change.abs().argmax()), 8)
        assert (place[0] // 2, place[1] // 2) == (row // 2, column // 2), method


# -- images beside texts


def clip() -> tuple[nn.Module, dict[str, Tensor]]:
    """Two images and three texts of different lengths."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    text = {"vocab_size": 60, "max_position_embeddings": 16, "eos_token_id": 59, "pad_token_id": 0}
    config = transformers.CLIPConfig(
        text_config={**sizes, **text, "bos_token_id": 1, "num_attention_heads": 4},
        vision_config={**sizes, "image_size": 32, "patch_size": 8, "num_attention_heads": 4},
        projection_dim=16,
    )
    ids = torch.randint(5, 58, (3, 6))
    for i, length in enumerate((6, 4, 5)):
        ids[i, length - 1], ids[i, length:] = 59, 0
    inputs = {"input_ids": ids, "attention_mask": (ids != 0).long(), "pixel_values": pixels()}
    return noised("CLIPModel", config), inputs


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("target", [1, [2, 0]])
def test_an_image_among_texts_is_as_it_is_alone(method: str, target: Any) -> None:
    model, inputs = clip()
    together = ask(model, inputs, target, method)
    assert [part.name for part in together.parts] == ["pixel_values", "input_ids"]
    assert together.logits.shape == (2, 3)
    assert together.part("input_ids").relevance.shape == (2, 18)
    for i in range(2):
        one = {**inputs, "pixel_values": inputs["pixel_values"][i : i + 1]}
        own = target[i] if isinstance(target, list) else target
        alone = ask(model, one, own, method)
        for part, other in zip(alone.parts, together.parts, strict=True):
            assert torch.allclose(part.relevance[0], other.relevance[i], atol=1e-9), part.name
        if method == "rollout":
            continue
        texts = alone.part("input_ids").relevance.view(3, 6)
        assert texts.any(1).tolist() == [text == own for text in range(3)]
        pair = {key: one[key][own : own + 1] for key in ("input_ids", "attention_mask")}
        pair = ask(model, {**one, **pair}, 0, method)
        assert torch.allclose(pair.relevance[0], together.relevance[i], atol=1e-9)
        assert torch.allclose(pair.part("input_ids").relevance[0], texts[own], atol=1e-9)


@pytest.mark.parametrize("part", ["pixel_values", "input_ids"])
def test_gradients_of_a_similarity_are_autograds(part: str) -> None:
    model, inputs = clip()
    inputs["pixel_values"] = inputs["pixel_values"].double().requires_grad_()
    words: list[Tensor] = []

    def keep(_: nn.Module, __: Any, out: Tensor) -> None:
        words.append(out)

    handle = model.text_model.embeddings.register_forward_hook(keep)
    scores = model(**inputs).logits_per_image
    handle.remove()
    leaf = inputs["pixel_values"] if part == "pixel_values" else words[0]
    found = whyformer.Explainer(model)(inputs, 1, "gradient_x_input", gradient="gradient")
    for i in range(2):
        (slope,) = torch.autograd.grad(scores[i, 1], leaf, retain_graph=True)
        product = (leaf * slope).detach()
        if part == "pixel_values":
            patches = nn.functional.avg_pool2d(product.sum(1), 8).flatten(1) * 64
            relevance = found.relevance[i][found.tokens.patches]
            assert torch.allclose(relevance, patches[i], atol=1e-9)
        else:
            relevance = found.part(part).relevance[i]
            assert torch.allclose(relevance, product.sum(-1).flatten(), atol=1e-9)
