"""DAVE (Wrobel et al. 2026): a balanced gradient, averaged over copies of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.errors import InputError
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.varying import at_least, count_at_least, extent, noise

if TYPE_CHECKING:
    from torch import Tensor


@register(
    "dave",
    "the input times its balanced gradient, averaged over noisy, mirrored and shifted copies "
    "(Wrobel et al. 2026)",
    maps=False,
    on_request=True,
    facts=Facts(
        "Wrobel et al.",
        2026,
        "51 F 50 B",
        "gradients of moved and noisy copies",
        signed=True,
        works="any model",
    ),
)
def dave(
    question: Question,
    *,
    samples: int = 50,
    spread: float = 0.1,
    shift: int = 8,
    kept: float = 0.995,
    gradient: str = "libra",
    progress: bool = True,
) -> Answer:
    """The mean over copies of x g, moved back to where the pixels were.

    Each copy has noise of ``spread`` times the input's range; every second copy of an image is
    mirrored, and each is shifted by up to ``shift`` pixels, around the edge. The pixels of a copy
    whose size is above that of the share ``kept`` are outliers and have no part in the mean. This
    is a reading of the paper's averages; it filters no frequencies. A text or a sequence has noise
    alone.
    """
    import torch
    from tqdm.auto import tqdm

    count_at_least("samples", samples, 1)
    at_least("spread", spread, 0)
    count_at_least("shift", shift, 0)
    if not 0 < kept <= 1:
        raise InputError(f"kept is {kept}; expected at most 1 and more than 0")
    root = question.input
    scale, image = spread * extent(question, root), root.ndim > 3
    totals: list[Tensor] = []
    counts: list[Tensor] = []
    for number in tqdm(range(samples), desc="dave", unit="copy", disable=not progress):
        move = Move(number, shift if image else 0, image)
        there = question.at(move.there(root + scale * noise(root, number)))
        products = [value * slope for value, slope in there.input_gradients(gradient)]
        masks = [torch.ones_like(product) for product in products]
        if image:
            masks[0] = inliers(products[0], kept)
        products[0], masks[0] = move.back(products[0] * masks[0]), move.back(masks[0])
        for i, (product, mask) in enumerate(zip(products, masks, strict=True)):
            if number == 0:
                totals.append(torch.zeros_like(product))
                counts.append(torch.zeros_like(product))
            totals[i] += product * mask
            counts[i] += mask
    means = [total / count.clamp(min=1) for total, count in zip(totals, counts, strict=True)]
    return question.at_input(*means)


class Move:
    """A copy's mirroring and shift, by its number, and the way back."""

    def __init__(self, number: int, shift: int, image: bool) -> None:
        import numpy as np

        drawn = np.random.default_rng([number, 1]).integers(-shift, shift + 1, 2)
        self._shift = [int(step) for step in drawn]
        self._flip = image and number % 2 == 1

    def there(self, pixels: Tensor) -> Tensor:
        moved = pixels.flip(-1) if self._flip else pixels
        return moved.roll(self._shift, (-2, -1)) if any(self._shift) else moved

    def back(self, pixels: Tensor) -> Tensor:
        steps = [-step for step in self._shift]
        moved = pixels.roll(steps, (-2, -1)) if any(steps) else pixels
        return moved.flip(-1) if self._flip else moved


def inliers(product: Tensor, kept: float) -> Tensor:
    """One where a pixel's value, summed over its channels, is no outlier of its image; or zero."""
    sizes = product.sum(product.ndim - 3, keepdim=True).abs()
    ranked = sizes.flatten(1).sort(1).values
    place = max(int(kept * ranked.shape[1] + 0.5), 1) - 1
    bound = ranked[:, place].view(-1, *[1] * (product.ndim - 1))
    return (sizes <= bound).to(product).expand_as(product)
