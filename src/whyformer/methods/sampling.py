"""Samples of masked inputs, as Captum draws them: LIME and sampled Shapley values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from whyformer.methods.masking import ROWS_AT_ONCE, Masked, answer, counting
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.varying import count_at_least

if TYPE_CHECKING:
    from torch import Tensor

#: how fast a mask's weight falls with its distance from the whole input, as in LIME's texts
KERNEL_WIDTH = 0.25
#: of the ridge regression
PENALTY = 1e-3


@register(
    "lime",
    "a linear model of which tokens are there, fitted to masked inputs "
    "(Ribeiro et al. 2016; by Captum)",
    maps=False,
    on_request=True,
    needs="captum",
    facts=Facts(
        "Ribeiro et al.", 2016, "500 F", "forwards without tokens", signed=True, works="one input"
    ),
)
def lime(
    question: Question,
    *,
    samples: int = 500,
    baseline: float | Tensor = 0.0,
    seed: int = 0,
    progress: bool = True,
) -> Answer:
    """w of the ridge regression y(z) = w z + b over random masks z, weighted by exp(-d^2 / 0.25^2).

    d is the cosine distance between z and the whole input. A token's weight is noisy where there
    are few samples for each; masks that take half of an input away may be like nothing that the
    model was trained on.
    """
    from captum.attr import Lime

    count_at_least("samples", samples, 1)

    def weights(target: Callable[..., Tensor], given: dict[str, Any]) -> Tensor:
        found: Tensor = Lime(target, Ridge(), nearness).attribute(
            **given, n_samples=samples, return_input_shape=False
        )
        return found.flatten()

    return by_samples(question, "lime", weights, lambda count: samples, baseline, seed, progress)


@register(
    "shapley_sampling",
    "what a token adds to those before it, averaged over random orders "
    "(Castro et al. 2009; by Captum)",
    maps=False,
    on_request=True,
    needs="captum",
    facts=Facts(
        "Castro et al.",
        2009,
        "25 F a token",
        "forwards without tokens",
        signed=True,
        complete=True,
        works="one input",
    ),
)
def shapley_sampling(
    question: Question,
    *,
    samples: int = 25,
    baseline: float | Tensor = 0.0,
    seed: int = 0,
    progress: bool = True,
) -> Answer:
    """The mean over orders of y(with the token) - y(before it): sums to y(x) - y(baseline).

    Every order's sum is exact, but for Captum's single precision; a token's share gets better
    with every order.
    """
    from captum.attr import ShapleyValueSampling

    count_at_least("samples", samples, 1)

    def weights(target: Callable[..., Tensor], given: dict[str, Any]) -> Tensor:
        found: Tensor = ShapleyValueSampling(target).attribute(**given, n_samples=samples)
        features = given["feature_mask"].flatten()
        each = found.new_zeros(int(features.max()) + 1)
        return each.scatter_(0, features, found.flatten())

    return by_samples(
        question, "shapley_sampling", weights, lambda count: 1 + count * samples, baseline, seed,
        progress,
    )  # fmt: skip


def by_samples(
    question: Question,
    name: str,
    weights: Callable[[Callable[..., Tensor], dict[str, Any]], Tensor],
    cost: Callable[[int], int],
    baseline: float | Tensor,
    seed: int,
    progress: bool,
) -> Answer:
    """One of Captum's samplers for each sample by itself, from generators of its own."""
    import torch

    masked = Masked(question, name, baseline)
    total = sum(cost(int(row.sum())) for row in masked.content)
    with counting(name, total, progress) as bar:
        found = torch.zeros(masked.content.shape, device=masked.root.device).to(question.seed)

        def target(root: Tensor, *beside: Tensor) -> Tensor:
            bar.update(len(root))
            return masked.value(root, *beside)

        for number, shows in enumerate(masked.content):
            own = slice(number, number + 1)
            tokens = shows.nonzero().flatten()
            order = torch.zeros(len(shows), dtype=torch.long, device=tokens.device)
            order[tokens] = torch.arange(len(tokens), device=tokens.device)
            given = {
                "inputs": masked.root[own],
                "baselines": masked.baseline[own],
                "feature_mask": order.to(masked.places.device)[masked.places[own]],
                "additional_forward_args": tuple(
                    t[own] for t in (question.seed, *masked.forward.sides)
                ),
                "perturbations_per_eval": ROWS_AT_ONCE,
            }
            devices = [masked.root.device] if masked.root.device.type == "cuda" else []
            with torch.random.fork_rng(devices):
                torch.manual_seed(seed)
                found[number, tokens] = weights(target, given).to(found)[: len(tokens)]
    return answer(question, found)


def nearness(original: Tensor, perturbed: Tensor, mask: Tensor, **_: Any) -> Tensor:
    """exp(-d^2 / width^2), d = 1 - cos between the mask and all ones."""
    import torch

    distance = 1 - mask.double().mean().sqrt()
    return torch.exp(-distance.square() / KERNEL_WIDTH**2)


class Ridge:
    """Weighted ridge regression in closed form, as Captum's LIME asks for its linear model."""

    def fit(self, batches: Iterable[tuple[Tensor, Tensor, Tensor]], **_: Any) -> dict[str, float]:
        import torch

        masks, values, weights = (torch.cat(part).double() for part in zip(*batches, strict=True))
        root = weights.flatten().sqrt().unsqueeze(1)
        table = torch.cat([masks, torch.ones_like(masks[:, :1])], 1) * root
        penalty = torch.full_like(table[0], PENALTY)
        penalty[-1] = 0
        normal = table.T @ table + penalty.diag()
        aim = table.T @ (values.flatten().unsqueeze(1) * root)
        self._weights = torch.linalg.solve(normal, aim)[:-1, 0]
        return {}

    def representation(self) -> Tensor:
        return self._weights
