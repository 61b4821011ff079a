"""Let a language model write, and explain every token that it wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from whyformer.engine.rules import get_preset
from whyformer.errors import InputError, ModelError, first_line
from whyformer.methods import get_method
from whyformer.models.hugging_face import quiet_transformers
from whyformer.models.prompts import Prompt, sink_notes
from whyformer.models.room import check_room
from whyformer.models.written import Written
from whyformer.words import unknown_note

if TYPE_CHECKING:
    from whyformer.models.language import LanguagePipeline

#: how much of its largest logit a causal model's row may change when the text goes on
SAME = 1e-3


def write(
    why: LanguagePipeline,
    start: Prompt,
    tokens: int,
    method: str,
    preset: str,
    options: dict[str, Any],
    *,
    progress: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Written:
    """``check`` is called before each word is explained, and may raise to end it."""
    chosen = get_method(method)
    get_preset(preset)
    if not chosen.class_specific:
        raise InputError(
            f"{chosen.name} gives the same map for every word; choose a method that is "
            "class-specific (see `whyformer methods`)"
        )
    check_length(why, start, tokens)
    check_room(why.model, chosen, len(start) + tokens)
    whole = start.followed_by(continuation(why, start, tokens, options), why.vocabulary)
    places = range(len(start) - 1, len(whole) - 1)
    recording = why.rows(whole, places, chosen.maps)
    logits = recording.logits[0]
    check_causal(why, start, logits[0])
    relevance: list[Tensor] = []
    notes = unknown_note([start.pieces])
    for row, place in enumerate(tqdm(places, "explaining", unit="word", disable=not progress)):
        check()
        answer = recording.explain((row, int(whole.ids[0, place + 1])), method, preset)
        relevance.append(answer.relevance[0].cpu())
        notes += answer.notes
    found = torch.stack(relevance)
    return Written(
        model=why.name,
        method=chosen.name,
        preset=preset,
        prompt=start.text,
        text=whole.text,
        ids=whole.ids[0].tolist(),
        pieces=whole.pieces,
        start=len(start),
        relevance=found,
        logits=logits.cpu(),
        content=whole.content[0],
        labels=why.vocabulary.names,
        notes=tuple(dict.fromkeys([*notes, *sink_notes(whole, found)])),
    )


def check_length(why: LanguagePipeline, prompt: Prompt, tokens: int) -> None:
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise InputError(f"tokens is {tokens!r}; expected how many to write, at least 1")
    if why.longest is not None and len(prompt) + tokens > why.longest:
        raise InputError(
            f"the prompt has {len(prompt)} pieces and {tokens} more were asked for; {why.name} "
            f"takes {why.longest} together: ask for at most {why.longest - len(prompt)}"
        )


def continuation(
    why: LanguagePipeline, prompt: Prompt, tokens: int, options: dict[str, Any]
) -> Tensor:
    """What the model writes behind a prompt, (1, tokens)."""
    model: Any = why.model
    ids = prompt.ids.to(next(model.parameters()).device)
    filling = why.tokenizer.pad_token_id
    settings = {
        "do_sample": False,
        "max_new_tokens": tokens,
        "pad_token_id": 0 if filling is None else filling,
        **options,
    }
    try:
        with torch.no_grad(), quiet_transformers():
            found = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    except (TypeError, ValueError) as error:
        raise InputError(f"{why.name} cannot write like this: {first_line(error)}") from error
    if not isinstance(found, Tensor) or len(found) != 1:
        raise InputError("one text is explained at a time; leave options that ask for more out")
    if found.shape[1] == ids.shape[1]:
        raise ModelError(f"{why.name} wrote nothing behind this prompt")
    return found[:, ids.shape[1] :].cpu()


def check_causal(why: LanguagePipeline, prompt: Prompt, logits: Tensor) -> None:
    """One forward explains all words only where later ones change nothing about earlier ones."""
    alone = why.rows(prompt, [len(prompt) - 1], maps=False).logits[0, 0]
    if float((alone - logits).abs().max()) > SAME * float(alone.abs().max()):
        raise ModelError(
            f"{why.name} is not causal: what it writes later changes what it said before; explain "
            "one word at a time, by why(text)"
        )
