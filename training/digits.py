"""Write scikit-learn's handwritten digits into the package: `python training/digits.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

OUT = Path(__file__).parents[1] / "src" / "whyformer" / "demo" / "digits.npz"


def main() -> None:
    data = load_digits()
    np.savez_compressed(
        OUT, images=data.images.astype(np.uint8), labels=data.target.astype(np.uint8)
    )
    print(f"{OUT.name}: {len(data.target)} digits, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
