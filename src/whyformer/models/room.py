"""How much a language model takes, and how much the machine has for it."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from whyformer.errors import InputError
from whyformer.methods import Method

#: names under which configurations say how many tokens a model takes
LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length", "max_seq_len")
#: what a question takes, in sizes of all attention maps: they, their gradients, their relevance
#: and what stands between; measured with 2,280 pieces, beside a method that keeps no maps
MAPS_AT_ONCE = 4


def text_config(model: nn.Module) -> Any:
    """The configuration of the part that reads text."""
    config: Any = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def longest_prompt(model: nn.Module) -> int | None:
    """The most tokens that the model was made for; None where it has no limit."""
    config = text_config(model)
    stated = [getattr(config, name, None) for name in LENGTHS]
    return next((int(length) for length in stated if isinstance(length, int) and length > 0), None)


def check_room(model: nn.Module, method: Method, pieces: int) -> None:
    """Refuse a method whose maps of so long a text do not fit into the machine."""
    config = text_config(model)
    blocks = getattr(config, "num_hidden_layers", None) or 0
    heads = getattr(config, "num_attention_heads", None) or 0
    needed = MAPS_AT_ONCE * 4 * blocks * heads * pieces**2
    room = memory_of(next(model.parameters()).device)
    if method.maps and room is not None and needed > room:
        raise InputError(
            f"{method.name} keeps the attention between all {pieces} pieces, about "
            f"{needed / 2**30:.0f} GB, and this machine has {room / 2**30:.0f}; fullgrad, "
            "gradient_x_input and witness keep none: choose one of them, or a shorter text"
        )


def memory_of(device: torch.device) -> int | None:
    """All bytes of a device, where they can be known."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
