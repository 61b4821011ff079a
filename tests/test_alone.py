"""A sample alone is as it is in its batch: patterns of real models in which it was not so."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import whyformer
from probe import close, draw, engine_table, every_table, relevances

PRESETS = ("stable", "paper", "epsilon")
WIDTH = 8


class Reader(nn.Module):
    """A block of attention, then a part in which samples meet or are held apart, then the mean."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3)

    def attend(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        return x + nn.functional.scaled_dot_product_attention(q, k, v, mask)

    def part(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.part(self.attend(x)).mean(1))


class Experts(Reader):
    """A loop over experts, each of which adds its rows: which comes first depends on the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 16)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(16))

    def part(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, WIDTH)
        weights, chosen = self.router(rows).softmax(-1).topk(2)
        mixed = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            if len(token):
                mixed.index_add_(0, token, expert(rows[token]) * weights[token, place, None])
        return x + mixed.view_as(x)


class Split(Reader):
    """All samples' patches in one sequence, cut at the samples' ends for attention."""

    def part(self, x: Tensor) -> Tensor:
        rows = x.reshape(1, -1, WIDTH)
        q, k, v = self.qkv(rows).chunk(3, -1)
        lengths = [x.shape[1]] * len(x)
        parts = zip(*(t.unsqueeze(1).split(lengths, 2) for t in (q, k, v)), strict=True)
        mixed = [nn.functional.scaled_dot_product_attention(*part) for part in parts]
        return (rows + torch.cat(mixed, 2).squeeze(1)).view_as(x)


class Packed(Reader):
    """All samples' patches in one sequence, held apart by a mask."""

    def part(self, x: Tensor) -> Tensor:
        whose = torch.arange(len(x)).repeat_interleave(x.shape[1])
        mask = (whose[:, None] == whose)[None]
        return self.attend(x.reshape(1, -1, WIDTH), mask).view_as(x)


PATTERNS = [Experts, Split, Packed]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.__name__)
def test_a_sample_alone_is_as_in_its_batch(pattern: type[Reader], preset: str) -> None:
    model = pattern().double().eval()
    x = draw(3, 6, WIDTH)
    explainer = whyformer.Explainer(model)
    together = explainer(x, 1, preset=preset).relevance
    assert together.any()
    for i in range(len(x)):
        close(explainer(x[i : i + 1], 1, preset=preset).relevance[0], together[i], 1e-10)


class Prompted(Reader):
    """Texts of their own number that attend to each sample's patches, then are compared with it."""

    def forward(self, pixel_values: Tensor, inputs_embeds: Tensor) -> Tensor:
        seen = self.attend(pixel_values)
        texts = self.attend(inputs_embeds).mean(1).expand(len(seen), -1, -1)
        q, k, v = (self.qkv(t).chunk(3, -1)[i] for i, t in enumerate((texts, seen, seen)))
        texts = texts + nn.functional.scaled_dot_product_attention(q, k, v)
        return torch.einsum("bd,bkd->bk", seen.mean(1), texts)


def test_texts_that_attend_to_each_image_are_as_alone() -> None:
    model = Prompted().double().eval()
    images, texts = draw(2, 6, WIDTH), draw(3, 4, WIDTH)
    explainer = whyformer.Explainer(model)
    together = explainer({"pixel_values": images, "inputs_embeds": texts}, 1)
    assert together.logits.shape == (2, 3)
    for i in range(2):
        alone = explainer({"pixel_values": images[i : i + 1], "inputs_embeds": texts}, 1)
        for part, other in zip(alone.parts, together.parts, strict=True):
            close(part.relevance[0], other.relevance[i], 1e-10)


class Towers(Reader):
    """Patches in rows, as SigLIP 2 takes them: the images are fewer than the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, WIDTH)

    def forward(self, pixel_values: Tensor, input_ids: Tensor) -> dict[str, Tensor]:
        images = self.attend(pixel_values).mean(1)
        texts = self.attend(self.words(input_ids)).mean(1)
        return {"logits_per_image": images @ texts.mT}


def test_the_output_says_which_inputs_are_the_samples() -> None:
    model = Towers().double().eval()
    images, ids = draw(2, 6, WIDTH), torch.randint(1, 20, (3, 5))
    explainer = whyformer.Explainer(model)
    together = explainer({"pixel_values": images, "input_ids": ids}, 2)
    assert together.logits.shape == (2, 3)
    assert [part.name for part in together.parts] == ["pixel_values", "input_ids"]
    for i in range(2):
        alone = explainer({"pixel_values": images[i : i + 1], "input_ids": ids}, 2)
        close(alone.relevance[0], together.relevance[i], 1e-10)
    with pytest.raises(whyformer.ModelError, match="6 rows for a batch of 3"):
        whyformer.Explainer(model, output=lambda out: out["logits_per_image"].new_ones(6, 8))(
            {"pixel_values": images, "input_ids": ids}, 2
        )


# -- the operations themselves


@every_table
def test_rows_that_are_laid_onto_zeros_keep_all_of_their_relevance(preset: str, table: str) -> None:
    """Eq. 6 with a summand of zero: no division, and the gradient is that of a sum."""
    x, relevance = draw(2, 4, 3), draw(2, 4, 3)

    def part(x: Tensor) -> Tensor:
        first = torch.zeros_like(x[0]).index_add(0, torch.tensor([2, 0]), x[0, [2, 0]])
        whole = first.index_add(0, torch.tensor([3, 1]), x[0, [3, 1]])
        return torch.stack([whole, x[1]])

    (found,) = relevances(part, (x,), relevance, engine_table(preset, table))
    assert torch.equal(found, relevance)


@every_table
def test_a_shift_by_the_highest_value_passes_relevance_on(preset: str, table: str) -> None:
    x, relevance = draw(2, 3, 4), draw(2, 3, 4)
    for lowered in (
        lambda x: x - x.amax(-1, keepdim=True),
        lambda x: x - x.max(dim=-1, keepdim=True).values,
        lambda x: x - x.max(),
    ):
        (found,) = relevances(lowered, (x,), relevance, engine_table(preset, table))
        assert torch.equal(found, relevance)


@every_table
def test_a_mask_on_logits_takes_no_relevance(preset: str, table: str) -> None:
    x, relevance = draw(2, 3, 5), draw(2, 3, 5)
    padded = torch.where(draw(2, 3, 5) > 0, 0.0, -1e4).double()
    for mask in (padded, torch.zeros_like(padded)):
        (found,) = relevances(
            lambda x, mask=mask: x + mask, (x,), relevance, engine_table(preset, table)
        )
        assert torch.equal(found, relevance)


@pytest.mark.parametrize("preset", ["stable", "paper"])
@pytest.mark.parametrize("lowest", [torch.finfo(torch.float64).min, -1e4, float("-inf")])
def test_a_mask_that_depends_on_the_input_is_one_mask_in_two_spellings(
    preset: str, lowest: float
) -> None:
    class Masked(Reader):
        fused = True

        def part(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x).chunk(3, -1)
            gate = x.mean(-1).tanh().unsqueeze(1).expand(-1, x.shape[1], -1)
            mask = gate.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1) > 0, lowest)
            if self.fused:
                return x + nn.functional.scaled_dot_product_attention(q, k, v, mask)
            return x + (q @ k.mT * WIDTH**-0.5 + mask).softmax(-1) @ v

    model = Masked().double().eval()
    x = draw(2, 5, WIDTH)
    maps = []
    for model.fused in (True, False):
        found = whyformer.Explainer(model)(x, 1, preset=preset, keep_blocks=True)
        assert found.blocks is not None
        assert found.blocks.relevance is not None
        maps.append((found.relevance, found.logits))
    for fused, eager in zip(*maps, strict=True):
        close(fused, eager, 1e-10)
