"""Train the embedded language model on stories with questions: `python training/writer.py`.

A small Llama learns to write the stories of `whyformer.demo.stories`, word by word. The words that
the story decides count more than the rest, which nobody could guess. At first stories are short.
Three of the four heads are taught where to look, less and less, so that a fact is read where it
stands, and not of some word on the way.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from loop import PACKAGE, fit, keep, saved
from whole_words import learn_words
from whyformer.demo.stories import KINDS, Ask, draw_story, tell, vocabulary

LONGEST = 128
TEST_SEED = 1_000_003
#: the share of the training in which stories have two facts each
SHORT = 0.4


def make_model(
    tokenizer: PreTrainedTokenizerFast, width: int = 64, depth: int = 2, heads: int = 2
) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width,
        num_hidden_layers=depth, num_attention_heads=heads, max_position_embeddings=LONGEST,
        tie_word_embeddings=True, initializer_range=width**-0.5,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return LlamaForCausalLM._from_config(config, attn_implementation="eager")


def make_tokenizer() -> PreTrainedTokenizerFast:
    return learn_words(vocabulary(), "<s> $A", LONGEST)


def train(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    steps: int,
    batch: int,
    rate: float,
    seed: int,
    again: bool = False,
) -> list[float]:
    """``again`` goes on with a trained model: long stories, and nothing taught."""
    short = 0.0 if again else SHORT
    number = tokenizer.get_vocab()

    def batches() -> Iterator[tuple[Tensor, Tensor, list[Look]]]:
        for step in range(steps):
            rng = np.random.default_rng([seed, step])
            most = 2 if step < short * steps else 4
            stories = [tell(rng, "train", most=most) for _ in range(batch)]
            longest = max(len(words) for words, _ in stories) + 2
            pieces = torch.full((batch, longest), tokenizer.pad_token_id)
            decided = torch.zeros(batch, longest, dtype=torch.bool)
            looks: list[Look] = []
            for row, (words, asks) in enumerate(stories):
                told = [tokenizer.bos_token, *words, tokenizer.eos_token]
                pieces[row, : len(told)] = torch.tensor([number[word] for word in told])
                decided[row, [ask.place + 1 for ask in asks]] = True
                looks += [(row, *look) for ask in asks for look in taught_looks(ask)]
            yield pieces, decided, looks

    def loss_of(drawn: tuple[Tensor, Tensor, list[Look]], progress: float) -> Tensor:
        pieces, decided, looks = drawn
        answer = model(input_ids=pieces, use_cache=False, output_attentions=not again)
        logits = answer.logits[:, :-1]
        told = F.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten(), reduction="none")
        real = pieces[:, 1:].flatten() != tokenizer.pad_token_id
        loss = 0.3 * told[real].mean() + told[decided[:, 1:].flatten()].mean()
        if again:
            return loss
        row, block, head, place, seen = torch.tensor(looks).T
        attention = torch.stack(answer.attentions)[block, row, head, place, seen]
        return loss - (1 - progress) * attention.clamp(min=1e-6).log().mean()

    return fit(model, batches(), steps, loss_of, rate=rate)


#: a story of the batch, a block, a head, the token that looks and the token it shall look at
Look = tuple[int, int, int, int, int]


def taught_looks(ask: Ask) -> list[tuple[int, int, int, int]]:
    """The later of a fact's two words looks at the earlier; the last word looks at what the
    question names and, a block later, at the fact; a verb's place looks at its noun."""
    if not ask.pointing:
        return [(1, 0, ask.place, 1 + ask.deciding)]
    first, later = (1 + place for place in sorted((ask.pointing[0], ask.deciding)))
    return [
        (0, 0, later, first), (0, 1, ask.place, 1 + ask.pointing[-1]), (1, 0, ask.place, later)
    ]  # fmt: skip


@torch.no_grad()
def accuracy(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    stories: int,
    split: str = "test",
    kind: str | None = None,
) -> float:
    """How often the likeliest next word is the story's answer."""
    right = 0
    for start in range(0, stories, 100):
        drawn = [
            draw_story([TEST_SEED, i], split, kind) for i in range(start, min(start + 100, stories))
        ]
        encoding = tokenizer([story.text for story in drawn], padding=True, return_tensors="pt")
        last = encoding["attention_mask"].sum(1) - 1
        logits = model(**encoding).logits[torch.arange(len(drawn)), last]
        answers = tokenizer.convert_tokens_to_ids([story.answer for story in drawn])
        right += int((logits.argmax(-1) == torch.tensor(answers)).sum())
    return right / stories


CARD = """# demo-writer

A Llama that writes short stories with questions and answers them. On {tested} stories that training
never told, the likeliest next word is the answer in **{accuracy:.2f} %**; by kind:
{kinds}.

- Model: `LlamaForCausalLM`, {parameters:,} parameters: {depth} blocks of {heads} heads, {width}
  wide, up to {longest} words. Stored in half precision. Its tokenizer knows the {words} words and
  marks of this language, and no others.
- Data: {stories:,} stories told by `whyformer.demo.stories`, which also tells the word that decides
  each answer.
- Command: {before}`python training/writer.py{again} --steps {steps} --batch {batch}
  --rate {rate} --seed {seed}`. For {short:.0%} of the first run stories have two facts. All the
  while three of the four heads are taught where to look, less and less.
- Use: to see why a language model writes a word, with the true reason known. It knows no other
  English, and words that are no answers, such as the box or bag behind a colour, it guesses.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=2200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, metavar="MODEL", help="go on with a trained model")
    parser.add_argument("--out", type=Path, default=PACKAGE / "writer")
    options = parser.parse_args()
    torch.manual_seed(options.seed)

    tokenizer = make_tokenizer()
    before, again = "", ""
    if options.again:
        model = LlamaForCausalLM.from_pretrained(options.again, dtype=torch.float32)
        before, again = "`python training/writer.py`, then ", " --again MODEL"
    else:
        model = make_model(tokenizer)
    train(
        model, tokenizer, options.steps, options.batch, options.rate, options.seed,
        again=options.again is not None,
    )  # fmt: skip
    tested = 2000
    measured = accuracy(model, tokenizer, tested)
    by_kind = {kind: accuracy(model, tokenizer, 300, kind=kind) for kind in [*KINDS, "number"]}
    kinds = ", ".join(f"{kind} {100 * value:.1f}" for kind, value in by_kind.items())
    print(f"accuracy on unseen stories {measured:.2%}; {kinds}")
    card = CARD.format(
        tested=tested, accuracy=100 * measured, kinds=kinds, words=len(vocabulary()),
        parameters=sum(p.numel() for p in model.parameters()), longest=LONGEST,
        depth=model.config.num_hidden_layers, width=model.config.hidden_size,
        stories=options.steps * options.batch, steps=options.steps, batch=options.batch,
        rate=options.rate, seed=options.seed, before=before, again=again,
        short=SHORT, heads=model.config.num_attention_heads,
    )  # fmt: skip
    keep({**saved(model, make_tokenizer()), "README.md": card}, options.out)


if __name__ == "__main__":
    main()
