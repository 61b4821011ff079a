"""Tables: one rule for every kind of operation. A backward is a table; so is the gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whyformer.engine.rules.balanced import (
    ConstantAttention,
    ConstantDeviation,
    ConstantGate,
    ConstantWeights,
    Derivative,
    HalfEach,
    OneConstant,
)
from whyformer.engine.rules.division import GUARDED, Division, Offset, Signed, Stabilised
from whyformer.engine.rules.learned import (
    BoundedInput,
    Epsilon,
    Gamma,
    PositiveActivations,
    PositivePairs,
    PositivePairsFast,
    SeparateSigns,
)
from whyformer.engine.rules.relevance import (
    ByDerivative,
    Halves,
    MatrixProduct,
    NormalisedShares,
    NormalisedTerms,
    PassOn,
    ReferenceShares,
    Shares,
    Taylor,
    Terms,
    Wholes,
)
from whyformer.errors import InputError, UnknownNameError, nearest

if TYPE_CHECKING:
    from whyformer.engine.operations import Operation

#: (operation, *slots of its outputs) -> a slot for each operand; None is nothing
Rule = Callable[..., tuple[Any, ...]]


def reads_pixels(op: Operation) -> bool:
    """The place of the learned map that reads the image itself."""
    return op.reads_pixels


def weighs_values(op: Operation) -> bool:
    """The place of A V; every other product has two sides that are alike."""
    return op.attends and op.kind == "product"


def weighs_by_changed(op: Operation) -> bool:
    """The place of A V where A was changed behind its softmax."""
    return op.changed is not None


@dataclass(frozen=True)
class Table:
    """A rule for each kind of operation; ``places`` come first: (does it apply here, rule)."""

    learned: Rule
    sum: Rule
    product: Rule
    softmax: Rule
    normalisation: Rule
    activation: Rule
    gate: Rule
    reduction: Rule
    scale: Rule
    generic: Rule
    places: tuple[tuple[Callable[[Operation], bool], Rule], ...] = ()

    def rule(self, op: Operation) -> Rule:
        for applies, rule in self.places:
            if applies(op):
                return rule
        found: Rule = getattr(self, op.kind)
        return found


def gradients(**other: Any) -> Table:
    """The table of derivatives, with other rules for some kinds or places."""
    kinds = [name for name in Table.__dataclass_fields__ if name != "places"]
    rules: dict[str, Any] = dict.fromkeys(kinds, Derivative())
    return Table(**{**rules, **other})


ATTENTION_CONSTANT = ((weighs_values, Derivative()), (weighs_by_changed, ConstantWeights()))
GRADIENT = gradients()
CP = gradients(
    product=Derivative(0.5),
    softmax=ConstantAttention(),
    normalisation=ConstantDeviation(),
    gate=OneConstant(),
    places=ATTENTION_CONSTANT,
)
LIBRA = gradients(
    product=Derivative(0.5),
    softmax=ConstantAttention(),
    normalisation=ConstantDeviation(),
    activation=ConstantGate(),
    gate=HalfEach(),
    places=ATTENTION_CONSTANT,
)
ATTNLRP = gradients(
    product=Derivative(0.5),
    normalisation=ConstantDeviation(),
    activation=ConstantGate(),
    gate=HalfEach(),
)

#: the tables of gradients by name
GRADIENTS = {"gradient": GRADIENT, "cp": CP, "libra": LIBRA, "attnlrp": ATTNLRP}


PASS_ON, HALVES, BOUNDED_INPUT = PassOn(), Halves(), BoundedInput()


def relevance(
    *,
    learned: Rule,
    sum: Rule,
    reduction: Rule,
    product: Rule,
    generic: Rule,
    gate: Rule = HALVES,
    softmax: Rule = PASS_ON,
    pixels: Rule = BOUNDED_INPUT,
) -> Table:
    """A table of relevance: what is not named passes it on unchanged."""
    return Table(
        learned, sum, product, softmax, PASS_ON, PASS_ON, gate, reduction, PASS_ON, generic,
        places=((reads_pixels, pixels),),
    )  # fmt: skip


@dataclass(frozen=True)
class Conventions:
    """What a preset means for methods beside its tables.

    ``skip_first_block``: images leave out the block next to the input. ``normalise_attribution``:
    the kinds of input whose rows are divided by their sums in the paper's method;
    ``normalise_rollout``: whether they are in rollout. ``scaled_gradcam``: GradCAM's weights for
    text are of the whole map, its map scaled to [0, 1]. ``last_block_for_rationales``: rationales
    are read off the last block alone.
    """

    skip_first_block: bool = False
    normalise_attribution: tuple[str, ...] = ()
    normalise_rollout: bool = False
    scaled_gradcam: bool = False
    last_block_for_rationales: bool = False


PLAIN = Conventions()


@dataclass(frozen=True)
class Preset:
    """Two tables, the paper's own rules and those of its LRP baseline, and the conventions."""

    name: str
    attribution: Table
    lrp: Table
    conventions: Conventions = PLAIN


def divided(
    divide: Division,
    learned: Rule,
    sum: Rule | None = None,
    reduction: Rule | None = None,
    share: float = 0.5,
    **other: Rule,
) -> Table:
    """Relevance whose rules divide alike; a product gives a ``share`` of it to each side."""
    return relevance(
        learned=learned,
        sum=sum or Shares(divide),
        reduction=reduction or Terms(divide),
        product=MatrixProduct(divide, share),
        generic=ByDerivative(divide),
        **other,
    )


STABILISED, OFFSET = Stabilised(), Offset()
STABLE = Preset(
    "stable",
    attribution=divided(
        STABILISED,
        PositivePairsFast(),
        NormalisedShares(STABILISED, Stabilised(1e-6)),
        NormalisedTerms(STABILISED),
    ),
    lrp=divided(STABILISED, PositiveActivations(), share=1.0, gate=Wholes()),
)
PAPER = Preset(
    "paper",
    attribution=divided(GUARDED, PositivePairs(), NormalisedShares(), NormalisedTerms()),
    lrp=divided(GUARDED, PositiveActivations(), share=1.0, gate=Wholes()),
)
REFERENCE = Preset(
    "reference",
    attribution=divided(
        OFFSET, PositivePairs(OFFSET), ReferenceShares(OFFSET), pixels=BoundedInput(OFFSET)
    ),
    lrp=divided(OFFSET, SeparateSigns(OFFSET), pixels=BoundedInput(OFFSET)),
    conventions=Conventions(
        skip_first_block=True,
        normalise_attribution=("text", "sequence"),
        normalise_rollout=True,
        scaled_gradcam=True,
        last_block_for_rationales=True,
    ),
)


def lrp_preset(name: str, learned: Rule, softmax: Rule, epsilon: float = 1e-6) -> Preset:
    """One table for both uses: a rule for learned maps, the epsilon rule for all that is summed."""
    table = divided(Signed(epsilon), learned, softmax=softmax, pixels=learned)
    return Preset(name, table, table)


EPSILON = lrp_preset("epsilon", Epsilon(), PassOn())
GAMMA = lrp_preset("gamma", Gamma(), PassOn())
ATTNLRP_RELEVANCE = lrp_preset("attnlrp", Epsilon(), Taylor())

BUILT_IN = (STABLE, PAPER, REFERENCE, EPSILON, GAMMA, ATTNLRP_RELEVANCE)
PRESETS: dict[str, Preset] = {preset.name: preset for preset in BUILT_IN}


DEFAULT_PRESET = STABLE.name


def get_preset(name: str) -> Preset:
    if name not in PRESETS:
        raise UnknownNameError(f"unknown preset {name!r}; {nearest(name, PRESETS)}")
    return PRESETS[name]


def register_preset(preset: Preset) -> Preset:
    """Add a preset of one's own, to be asked for by its name."""
    if any(preset.name == known.name for known in BUILT_IN):
        raise InputError(f"{preset.name!r} is a preset of whyformer; choose another name")
    PRESETS[preset.name] = preset
    return preset
