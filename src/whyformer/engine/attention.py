"""Fused attention taken apart into Q K^T, softmax and A V, so that A exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.graph import origin
from whyformer.engine.local import Scale, Softmax
from whyformer.engine.matrices import Product
from whyformer.engine.mixing import MASKED
from whyformer.engine.operations import Operation, Saved, Slots
from whyformer.engine.products import by_sample
from whyformer.engine.rules.balanced import ConstantAttention, Derivative
from whyformer.engine.rules.mass import ByLayer
from whyformer.errors import ModelError

if TYPE_CHECKING:
    from whyformer.engine.recorder import Recorder
    from whyformer.engine.rules.tables import Rule

#: bytes of attention weights that are made again at a time
CHUNK = 64 * 2**20


def scaled_dot_product(
    rec: Recorder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    keep: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``torch.nn.functional.scaled_dot_product_attention``: A V, and A where it is kept.

    ``keep``: the caller needs A, whether a method reads it or not.
    """
    if scale is None:
        scale = query.shape[-1] ** -0.5
    groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    depends = attn_mask is not None and rec.is_activation(attn_mask)
    if (
        not (rec.maps or keep)
        and not depends
        and dropout_p == 0
        and all(rec.is_activation(t) for t in (query, key, value))
    ):
        fused = Fused(additive(attn_mask, query.dtype), is_causal, scale, groups)
        rec.seen.fused += 1
        return rec.step(fused, query, key, value), None
    if groups > 1:
        with rec:
            key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    if is_causal:
        attn_mask = causal(query, key)
    scores = scores_of(rec, query, key, scale)
    if attn_mask is not None and depends:
        with rec:
            scores = scores + attn_mask
        hides = bool((attn_mask.detach() < MASKED).any())
        mask = scores.new_zeros(()).detach() if hides else None
    else:
        mask = additive(attn_mask, query.dtype)
        for product in rec.scores(scores) if rec.is_activation(scores) else ():
            if mask is not None:
                product.attend(mask, scores.shape)

    def normalise(scores: Tensor) -> Tensor:
        return scores.softmax(-1) if mask is None else torch._safe_softmax(scores + mask, -1)

    if not rec.is_activation(scores):
        with rec:
            fixed = normalise(scores)
            return fixed @ value, fixed
    again = None
    if isinstance(made := origin(scores), Product) and not depends:
        shape = scores.shape
        again = lambda: made.output.view(shape)  # noqa: E731
    weights, back = by_sample(rec, rec.step(Softmax(normalise, -1, again), scores))
    mixing = back(weights)
    if dropout_p > 0:
        mixing = rec.step(Scale("dropout", lambda a: F.dropout(a, dropout_p)), mixing)
    if not rec.is_activation(value):
        with rec:
            return mixing @ value, back(weights)
    mix = Product()
    out = rec.step(mix, mixing, value)
    rec.saw_attention(weights, mix, out, 0, back)
    return out, back(weights)


def scores_of(rec: Recorder, query: Tensor, key: Tensor, scale: float) -> Tensor:
    if rec.is_activation(query) and rec.is_activation(key):
        with rec:
            turned = key.mT
        scores: Tensor = rec.step(Product(scale, kept=False), query, turned)
        return scores
    with rec:
        return (query @ key.mT) * scale


def causal(query: Tensor, key: Tensor) -> Tensor:
    shape = query.shape[-2], key.shape[-2]
    return torch.ones(shape, dtype=torch.bool, device=query.device).tril()


def additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A boolean mask (True: attend) as one that is added to the scores."""
    if mask is None:
        return None
    if mask.dtype is torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, float("-inf"))
    return mask.to(dtype)


class Fused(Operation):
    """Attention whose map is not stored: the backward makes it again, some rows at a time."""

    kind = "product"
    name = "attention"
    attends = True
    weights = None

    def __init__(self, mask: Tensor | None, is_causal: bool, scale: float, groups: int) -> None:
        self.mask, self.is_causal, self.scale, self.groups = mask, is_causal, scale, groups

    def run(self, *operands: Tensor) -> Tensor:
        q, k, v = operands
        self._saved = tuple(map(Saved, operands))
        return F.scaled_dot_product_attention(
            q, k, v, self.mask, is_causal=self.is_causal, scale=self.scale,
            enable_gqa=self.groups > 1,
        )  # fmt: skip

    def back(self, rule: Rule, *slots: Tensor | None) -> Slots:
        if isinstance(rule, ByLayer):
            return None, None, None
        table = self.current.table
        if not isinstance(rule, Derivative) or table is None:
            raise ModelError(
                "this recording keeps no attention maps, which the method needs: record the input "
                "for a method that reads them"
            )
        (slot,) = slots
        assert slot is not None
        return self.derivative(slot * rule.factor, isinstance(table.softmax, ConstantAttention),
                               rule.factor)  # fmt: skip

    def derivative(self, slot: Tensor, constant: bool, factor: float) -> Slots:
        """dV = A^T dO; unless A is held constant, dQ and dK too."""
        q, k, v = (saved.get() for saved in self._saved)
        if self.groups > 1:
            k, v = (t.repeat_interleave(self.groups, -3) for t in (k, v))
        lead = torch.broadcast_shapes(*(t.shape[:-2] for t in (q, k, v)))
        q, k, v = (t.expand(*lead, *t.shape[-2:]) for t in (q, k, v))
        dq = None if constant else torch.empty_like(q)
        dk = None if constant else torch.zeros_like(k)
        dv = torch.zeros_like(v)
        length = q.shape[-2]
        rows = max(1, CHUNK // (q.shape[:-2].numel() * k.shape[-2] * q.element_size()))
        for first in range(0, length, rows):
            part = slice(first, min(first + rows, length))
            weights = self.rows(q[..., part, :], k, part)
            given = slot[..., part, :]
            dv += weights.mT @ given
            if dq is not None and dk is not None:
                by_weight = given @ v.mT
                scores = torch._softmax_backward_data(by_weight, weights, -1, slot.dtype)
                scores.mul_(self.scale * factor)
                dq[..., part, :] = scores @ k
                dk += scores.mT @ q[..., part, :]
        return tuple(
            None if g is None else g.unflatten(-3, (-1, self.groups)).sum(-3)
            if self.groups > 1 and g is not dq else g
            for g in (dq, dk, dv)
        )  # fmt: skip

    def rows(self, q: Tensor, k: Tensor, part: slice) -> Tensor:
        """Some rows of A."""
        scores = (q * self.scale) @ k.mT
        if self.is_causal:
            here = torch.arange(part.start, part.stop, device=q.device).unsqueeze(1)
            scores.masked_fill_(torch.arange(k.shape[-2], device=q.device) > here, float("-inf"))
        if self.mask is not None:
            mask = self.mask
            scores += mask[..., part, :] if mask.ndim > 1 and mask.shape[-2] > 1 else mask
            return torch._safe_softmax(scores, -1)
        return scores.softmax(-1)


def multi_head(
    rec: Recorder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``torch.nn.functional.multi_head_attention_forward``: sequence first, packed or not."""
    if static_k is not None or static_v is not None or bias_k is not None or add_zero_attn:
        raise ModelError(
            "nn.MultiheadAttention with add_bias_kv, add_zero_attn or static keys has attention to "
            "tokens that are not in the input; build it without them to have it explained"
        )
    batched = query.ndim == 3
    if not batched:
        query, key, value = (t.unsqueeze(1) for t in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    if use_separate_proj_weight:
        weights: Any = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        assert in_proj_weight is not None
        weights = in_proj_weight.detach().chunk(3)
    biases: Any = (None, None, None) if in_proj_bias is None else in_proj_bias.detach().chunk(3)

    with rec:
        q, k, v = (
            F.linear(x, w, b)
            .reshape(x.shape[0], batch, num_heads, width // num_heads)
            .permute(1, 2, 0, 3)
            for x, w, b in zip((query, key, value), weights, biases, strict=True)
        )
    with rec:
        mask = merged_mask(attn_mask, key_padding_mask, batch, num_heads, q.dtype)
    causal = is_causal and attn_mask is None
    dropped = dropout_p if training else 0.0
    out, attention = scaled_dot_product(rec, q, k, v, mask, dropped, causal, keep=need_weights)
    with rec:
        out = out.permute(2, 0, 1, 3).reshape(length, batch, width)
        out = F.linear(out, out_proj_weight, out_proj_bias)
    if not batched:
        out = out.squeeze(1)
        attention = None if attention is None else attention.squeeze(0)
    if not need_weights or attention is None:
        return out, None
    with rec:
        return out, attention.mean(-3) if average_attn_weights else attention


def merged_mask(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    batch: int,
    heads: int,
    dtype: torch.dtype,
) -> Tensor | None:
    """Both masks of ``nn.MultiheadAttention`` (True: do not attend) as one that is added."""
    parts = []
    if attn_mask is not None:
        inverted = ~attn_mask if attn_mask.dtype is torch.bool else attn_mask
        part = additive(inverted, dtype)
        assert part is not None
        parts.append(part.unflatten(0, (batch, heads)) if part.ndim == 3 else part)
    if key_padding_mask is not None:
        boolean = key_padding_mask.dtype is torch.bool
        part = additive(~key_padding_mask if boolean else key_padding_mask, dtype)
        assert part is not None
        parts.append(part[:, None, None, :])
    return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]
