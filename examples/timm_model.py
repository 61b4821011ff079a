"""A timm ViT, explained as it is.

    python examples/timm_model.py PHOTO OUT [--model NAME] [--weights FILE.safetensors]

Without `--weights` timm downloads its own. Preprocessing and labels are timm's.
Needs `pip install 'whyformer[vision]'`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import whyformer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photo", type=Path)
    parser.add_argument("out", type=Path, help="why.png, why.html, ...")
    parser.add_argument("--model", default="deit_tiny_patch16_224")
    parser.add_argument("--weights", type=Path)
    options = parser.parse_args()
    why = whyformer.load(f"timm/{options.model}", weights=options.weights)
    recording = why.record(options.photo)
    best = recording.logits[0].topk(2).indices.tolist()
    explanation = recording.explain([best])
    for index in best:
        chance = float(recording.logits.softmax(-1)[0, index])
        print(f"{chance:.2f} {explanation.label(index)}")
    print(explanation.save(options.out))


if __name__ == "__main__":
    main()
