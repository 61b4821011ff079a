"""Train the embedded text model for sentiment: `python training/text.py DATA`.

DATA holds `sst2/` (train.tsv, dev.tsv, test.tsv: sentence TAB label) and `eraser_movies/`
(train.jsonl, val.jsonl, docs/). Word pieces are learnt from the training text. The model
learns to tell sentiment from SST-2's sentences, from the passages that people marked as evidence
in the reviews, and from stretches of whole reviews.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import BertWordPieceTokenizer
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from loop import PACKAGE, fit, keep, saved

LABELS = ["negative", "positive"]
LONGEST = 256

Labelled = list[tuple[str, int]]


def read_tsv(path: Path) -> Labelled:
    pairs = (line.rsplit("\t", 1) for line in path.read_text().splitlines())
    return [(sentence, int(label)) for sentence, label in pairs]


def read_reviews(folder: Path, part: str) -> tuple[Labelled, Labelled]:
    """Whole reviews, and the passages marked in them."""
    reviews, passages = [], []
    for line in (folder / f"{part}.jsonl").read_text().splitlines():
        entry = json.loads(line)
        label = int(entry["classification"] == "POS")
        review = (folder / "docs" / entry["annotation_id"]).read_text()
        reviews.append((" ".join(review.split()), label))
        passages += [(span["text"], label) for group in entry["evidences"] for span in group]
    return reviews, passages


def learn_pieces(texts: Sequence[str], size: int) -> BertTokenizerFast:
    learner = BertWordPieceTokenizer(lowercase=True)
    learner.train_from_iterator(texts, vocab_size=size, min_frequency=2, show_progress=False)
    return BertTokenizerFast(tokenizer_object=learner._tokenizer, model_max_length=LONGEST)


def make_model(
    tokenizer: BertTokenizerFast, width: int = 128, depth: int = 4
) -> BertForSequenceClassification:
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=depth,
        num_attention_heads=4, intermediate_size=2 * width, max_position_embeddings=LONGEST,
        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, classifier_dropout=0.3,
        id2label=dict(enumerate(LABELS)), label2id={name: i for i, name in enumerate(LABELS)},
    )  # fmt: skip
    return BertForSequenceClassification(config)


def train(
    model: BertForSequenceClassification,
    tokenizer: BertTokenizerFast,
    short: Labelled,
    reviews: Labelled,
    epochs: int,
    batch: int,
    rate: float,
    seed: int,
) -> list[float]:
    """Sentences and passages, and one stretch of every review an epoch; pieces drop out."""
    chance = random.Random(seed)
    encoded = [(tokenizer(text)["input_ids"][:LONGEST], label) for text, label in short]
    long = [(tokenizer(text, verbose=False)["input_ids"][1:-1], label) for text, label in reviews]

    def stretch(pieces: list[int]) -> list[int]:
        length = chance.choice([64, 128, LONGEST - 2])
        start = chance.randrange(max(1, len(pieces) - length))
        return [tokenizer.cls_token_id, *pieces[start : start + length], tokenizer.sep_token_id]

    def batches() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for _ in range(epochs):
            drawn = encoded + [(stretch(pieces), label) for pieces, label in long]
            drawn.sort(key=lambda item: len(item[0]) + chance.random() * 8)
            groups = [drawn[i : i + batch] for i in range(0, len(drawn), batch)]
            chance.shuffle(groups)
            for group in groups:
                padded = tokenizer.pad({"input_ids": [p for p, _ in group]}, return_tensors="pt")
                labels = torch.tensor([label for _, label in group])
                yield padded["input_ids"], padded["attention_mask"], labels

    def loss_of(drawn: tuple[Tensor, Tensor, Tensor], progress: float) -> Tensor:
        pieces, mask, labels = drawn
        dropped = (torch.rand(pieces.shape) < 0.1) & mask.bool()
        dropped[:, 0] = False
        shown = pieces.masked_fill(dropped, tokenizer.mask_token_id)
        logits = model(shown, attention_mask=mask).logits
        return F.cross_entropy(logits, labels, label_smoothing=0.05)

    steps = epochs * -(-(len(encoded) + len(long)) // batch)
    return fit(model, batches(), steps, loss_of, rate=rate)


@torch.no_grad()
def accuracy(
    model: BertForSequenceClassification, tokenizer: BertTokenizerFast, labelled: Labelled
) -> float:
    right = 0
    for i in range(0, len(labelled), 64):
        texts, labels = zip(*labelled[i : i + 64], strict=True)
        encoding = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        right += int((model(**encoding).logits.argmax(-1) == torch.tensor(labels)).sum())
    return right / len(labelled)


CARD = """# demo-text

A BERT that tells whether a sentence or a film review speaks well of its film. Accuracy on SST-2's
{dev_size} development sentences: **{dev:.2f} %**; on its {test_size} test sentences {test:.2f} %;
on {reviews} validation reviews of ERASER's Movie Reviews, their first {longest} pieces,
{review:.2f} %.

- Model: `BertForSequenceClassification`, {parameters:,} parameters: {depth} blocks, {width} wide,
  4 heads, up to {longest} pieces. Stored in half precision.
- Data: SST-2's training sentences (Socher et al. 2013), ERASER's Movie Reviews (Zaidan and Eisner
  2008; DeYoung et al. 2020) and the passages marked as evidence in them. {pieces} word pieces,
  lower case, learnt from the same text.
- Command: `python training/text.py DATA --epochs {epochs} --seed {seed}`.
- Use: to see what whyformer does without a download. It is a small model of film reviews, and easy
  to fool.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pieces", type=int, default=8000)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--out", type=Path, default=PACKAGE / "text")
    options = parser.parse_args()
    torch.manual_seed(options.seed)

    sentences = read_tsv(options.data / "sst2" / "train.tsv")
    reviews, passages = read_reviews(options.data / "eraser_movies", "train")
    dev = read_tsv(options.data / "sst2" / "dev.tsv")
    test = read_tsv(options.data / "sst2" / "test.tsv")
    unseen, _ = read_reviews(options.data / "eraser_movies", "val")
    texts = [text for text, _ in sentences + reviews]
    tokenizer = learn_pieces(texts, options.pieces)
    model = make_model(tokenizer)
    short = sentences * 2 + passages
    train(model, tokenizer, short, reviews, options.epochs, 32, options.rate, options.seed)

    measured = {
        name: 100 * accuracy(model, tokenizer, labelled)
        for name, labelled in (("dev", dev), ("test", test), ("review", unseen))
    }
    print(", ".join(f"{name} {value:.2f} %" for name, value in measured.items()))
    card = CARD.format(
        **measured, dev_size=len(dev), test_size=len(test), reviews=len(unseen), longest=LONGEST,
        parameters=sum(p.numel() for p in model.parameters()), pieces=len(tokenizer),
        depth=model.config.num_hidden_layers, width=model.config.hidden_size,
        epochs=options.epochs, seed=options.seed,
    )  # fmt: skip
    keep({**saved(model, tokenizer), "README.md": card}, options.out)


if __name__ == "__main__":
    main()
