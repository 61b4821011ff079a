"""A ViT that reads the mean of its patches: another's weights, a head fitted on labelled photos.

    python training/mean_pooling.py deit_tiny_patch16_224_hf pets_segmentation --out mean_pooled

BEiT without relative positions computes what ViT does (the bias of its keys, which BEiT lacks, adds
the same to all scores of a query), but for the classifier, which reads the mean of all patches.
Every second photo fits the head, by logistic regression on features of the photo and of its mirror
image. The others, with the head's own class numbers, are listed in OUT-held-out/index.jsonl for
`whyformer evaluate`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import (
    AutoImageProcessor,
    BeitConfig,
    BeitForImageClassification,
    ViTForImageClassification,
)

from whyformer.files import write_whole

#: how much the head's weights are kept small, beside the mean cross-entropy
PENALTY = 1e-3
SHAPE = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "image_size", "patch_size", "num_channels", "layer_norm_eps",
)  # fmt: skip


def mean_pooled(vit: ViTForImageClassification, names: list[str]) -> BeitForImageClassification:
    """The same blocks below a classifier of their mean, whose weights are not yet fitted."""
    config = BeitConfig(
        **{name: getattr(vit.config, name) for name in SHAPE},
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
        use_mean_pooling=True,
        use_absolute_position_embeddings=True,
        layer_scale_init_value=0.0,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        drop_path_rate=0.0,
    )
    model = BeitForImageClassification(config).eval()
    own = vit.state_dict()
    taken = {}
    for name in model.state_dict():
        source = name.replace("beit.pooler.layernorm", "vit.layernorm").replace("beit.", "vit.")
        if source in own and not name.startswith("classifier"):
            taken[name] = own[source]
    missing, _ = model.load_state_dict(taken, strict=False)
    if any(not name.startswith("classifier") for name in missing):
        raise SystemExit(f"the weights of {', '.join(missing)} are not in the given model")
    return model


def features(model: BeitForImageClassification, pixels: Tensor) -> Tensor:
    """What the classifier reads."""
    return model.beit(pixels).pooler_output


def fit(head: nn.Linear, read: Tensor, labels: Tensor) -> None:
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        found = nn.functional.cross_entropy(head(read), labels)
        found = found + PENALTY * head.weight.square().sum()
        found.backward()
        return found

    optimizer.step(loss)


def main(source: Path, data: Path, out: Path) -> None:
    lines = (data / "index.jsonl").read_text(encoding="utf-8").splitlines()
    photos: list[dict[str, Any]] = [json.loads(line) for line in lines]
    named = {photo["label"]: str(photo.get("breed", photo["label"])) for photo in photos}
    numbers = {label: number for number, label in enumerate(sorted(named))}
    model = mean_pooled(
        ViTForImageClassification.from_pretrained(source), [named[label] for label in numbers]
    )
    processor = AutoImageProcessor.from_pretrained(source)
    read = []
    with torch.no_grad():
        for photo in tqdm(photos, desc="features", unit="photo"):
            image = Image.open(data / photo["image"]).convert("RGB")
            pixels = processor(image, return_tensors="pt").pixel_values
            read.append(features(model, torch.cat([pixels, pixels.flip(-1)])))
    both, labels = torch.stack(read), torch.tensor([numbers[photo["label"]] for photo in photos])
    fit(model.classifier, both[::2].flatten(0, 1), labels[::2].repeat_interleave(2))
    with torch.no_grad():
        right = (model.classifier(both[1::2, 0]).argmax(-1) == labels[1::2]).double().mean()
    print(f"right in {100 * float(right):.1f} % of the {len(photos) // 2} photos held out")
    model.save_pretrained(out)
    processor.save_pretrained(out)
    held_out = out.with_name(f"{out.name}-held-out")
    held_out.mkdir(parents=True, exist_ok=True)
    to_data = Path(os.path.relpath(data.absolute(), held_out.absolute()))
    listed = [
        {
            "image": str(to_data / photo["image"]),
            "mask": str(to_data / photo["mask"]),
            "label": numbers[photo["label"]],
        }
        for photo in photos[1::2]
    ]
    text = "".join(json.dumps(line) + "\n" for line in listed)
    write_whole(held_out / "index.jsonl", text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path, help="a ViTForImageClassification")
    parser.add_argument("data", type=Path, help="a folder with index.jsonl: image, mask, label")
    parser.add_argument("--out", type=Path, required=True, help="where the model goes")
    given = parser.parse_args()
    main(given.source, given.data, given.out)
