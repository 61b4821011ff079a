"""Fused attention taken apart into Q K^T, softmax and A V, so that A exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.local import Identity
from whyformer.engine.mixing import Product
from whyformer.errors import ModelError

if TYPE_CHECKING:
    from whyformer.engine.recorder import Recorder


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
) -> tuple[Tensor, Tensor]:
    """``torch.nn.functional.scaled_dot_product_attention``: A V, and A."""
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    if scale is None:
        scale = query.shape[-1] ** -0.5
    if is_causal:
        attn_mask = torch.ones(
            query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device
        ).tril()
    mask = additive(attn_mask, query.dtype)

    def normalise(scores: Tensor) -> Tensor:
        if mask is None:
            return scores.softmax(-1)
        return torch._safe_softmax(scores + mask, -1)

    if rec.is_activation(query) and rec.is_activation(key):
        product = Product(scale)
        scores = rec.step(product, query, key.mT)
        if mask is not None:
            product.attend(mask, scores.shape)
    else:
        with rec:
            scores = (query @ key.mT) * scale
    weights: Tensor = rec.step(Identity("softmax", normalise), scores)
    rec.saw_attention(weights)
    mixing = weights
    if dropout_p > 0:
        dropout = Identity("dropout", lambda a: F.dropout(a, dropout_p), transparent=True)
        mixing = rec.step(dropout, weights)
    return rec.step(Product(), mixing, value), weights


def additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A boolean mask (True: attend) as one that is added to the scores."""
    if mask is None:
        return None
    mask = mask.detach()
    if mask.dtype is torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, float("-inf"))
    return mask.to(dtype)


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
    mask = merged_mask(attn_mask, key_padding_mask, batch, num_heads, q.dtype)
    causal = is_causal and attn_mask is None
    out, attention = scaled_dot_product(rec, q, k, v, mask, dropout_p if training else 0.0, causal)
    with rec:
        out = out.permute(2, 0, 1, 3).reshape(length, batch, width)
        out = F.linear(out, out_proj_weight, out_proj_bias)
    if not batched:
        out, attention = out.squeeze(1), attention.squeeze(0)
    if not need_weights:
        return out, None
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
