"""What the documentation's commands work on: small models and data under the names it uses.

    python tests/stand_ins.py FOLDER

The formats are the real ones; the models are small and their weights random, so that every command
runs offline in seconds. Hub ids resolve in ``hub``, the hub's own cache.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from data_sets import NUMBERS, gtsegs
from small_images import save_detector, save_segformer, save_vit
from small_language import CHAT, save_language
from small_sounds import beeps, save_ast, save_wav2vec2, write_wav
from small_texts import save_bert, save_sentences
from small_towers import save_clip, save_vilt
from small_videos import ball, save_video, write_frames, write_gif
from small_writers import save_whisper, save_writer
from tuning import sentences, write_tsv
from whyformer.demo.scenes import draw_scene

SENTIMENT: dict[str, Any] = {
    "num_labels": 2,
    "id2label": {0: "negative", 1: "positive"},
    "label2id": {"negative": 0, "positive": 1},
}
NAMED = {0: "cat", 1: "dog", 242: "boxer", 281: "tabby, tabby cat"}
#: the names of the data that docs/results.md was measured with
MEASURED = {
    "deit_tiny_patch16_224_hf": "my-vit",
    "eraser_movies": "movies",
    "imagenet_samples": "imagenet/val",
    "minilm_sentiment": "my-bert",
    "pets_segmentation": "pets",
}
#: parts of a checkout that commands name
CHECKOUT = ("benchmarks", "examples", "training")
HUB = {
    "google/vit-base-patch16-224": "my-vit",
    "google-bert/bert-base-uncased": "my-encoder",
    "textattack/bert-base-uncased-imdb": "my-bert",
}


def furnish(folder: Path) -> Path:
    """Write everything into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    models(folder)
    hub(folder)
    texts(folder)
    images(folder)
    moving(folder)
    for name, source in MEASURED.items():
        (folder / name).symlink_to(source)
    for name in CHECKOUT:
        (folder / name).symlink_to(Path(__file__).resolve().parents[1] / name)
    return folder


def models(folder: Path) -> None:
    torch.manual_seed(0)
    labels = {i: NAMED.get(i, f"class {i}") for i in range(1000)}
    names = {"num_labels": 1000, "id2label": labels, "label2id": {v: k for k, v in labels.items()}}
    save_vit(folder / "my-vit", side=224, patch_size=16, **names)
    save_bert(folder / "my-bert", positions=512, **SENTIMENT)
    save_bert(folder / "my-encoder", kind="BertModel", positions=512)
    save_detector(folder / "my-detector")
    save_segformer(folder / "my-segformer")
    save_ast(folder / "my-ast")
    save_wav2vec2(folder / "my-wav2vec2")
    save_whisper(folder / "my-whisper")
    save_writer(folder / "my-t5")
    save_video(folder / "my-videomae")
    tags: dict[str, Any] = {"id2label": {0: "O", 1: "B-PER", 2: "B-LOC"}, "label2id": {}}
    save_bert(folder / "my-tagger", kind="BertForTokenClassification", **tags)
    save_bert(folder / "my-reader", kind="BertForQuestionAnswering", num_labels=2)
    save_bert(folder / "my-chooser", kind="BertForMultipleChoice")
    save_bert(folder / "my-masked", kind="BertForMaskedLM")
    save_language(folder / "stories15M", positions=256, chat_template=CHAT)
    save_clip(folder / "my-clip")
    save_vilt(folder / "my-vilt")
    save_sentences(folder / "my-sentences", pooling_mode_mean_tokens=True)
    save_vit(folder / "my-features", "ViTModel")


def hub(folder: Path) -> None:
    """The layout in which huggingface_hub keeps what it downloaded."""
    for name, source in HUB.items():
        kept = folder / "hub" / f"models--{name.replace('/', '--')}"
        (kept / "refs").mkdir(parents=True)
        (kept / "refs" / "main").write_text("0" * 40)
        shutil.copytree(folder / source, kept / "snapshots" / ("0" * 40))


def moving(folder: Path) -> None:
    """What goes on in time: sounds and videos."""
    write_wav(folder / "beeps.wav", beeps(1.5, 44100), rate=44100, channels=2)
    write_wav(folder / "speech.wav", beeps(1.5))
    write_frames(folder / "frames", ball(12))
    write_gif(folder / "clip.gif", ball(12))


def texts(folder: Path) -> None:
    review = "A warm, witty film: the plot is thin, but the acting is superb."
    (folder / "review.txt").write_text(review + "\n")
    lines = ["a joyless film", "a warm film", "superb acting, thin plot", "nobody laughed"]
    (folder / "sentences.txt").write_text("\n".join(lines) + "\n")
    write_tsv(folder / "reviews.tsv", sentences(60))
    documents = folder / "movies" / "docs"
    documents.mkdir(parents=True)
    for split, count in (("train", 20), ("val", 8), ("test", 6)):
        entries = []
        for i, (text, label) in enumerate(sentences(count, seed=count)):
            key = f"{split}{i}.txt"
            (documents / key).write_text(text + " .\nthe end .")
            entries.append(json.dumps(annotation(key, text, label)))
        (folder / "movies" / f"{split}.jsonl").write_text("\n".join(entries) + "\n")


def annotation(key: str, text: str, label: str) -> dict[str, Any]:
    """An entry of ERASER's lists, whose evidence is the word that tells the class."""
    telling = "superb" if label == "POS" else "without"
    start = text.split().index(telling)
    evidence = {
        "docid": key, "text": telling, "start_token": start, "end_token": start + 1,
        "start_sentence": 0, "end_sentence": 1,
    }  # fmt: skip
    query = "What is the sentiment of this review?"
    return {
        "annotation_id": key, "classification": label, "query": query,
        "evidences": [[evidence]], "docids": None,
    }  # fmt: skip


def images(folder: Path) -> None:
    draw_scene(7, labels=(3, 8)).image.save(folder / "scene.png")
    photo(0).save(folder / "photo.jpg")
    (folder / "photos").mkdir()
    for i in range(4):
        photo(i).save(folder / "photos" / f"{i}.jpg")
    for place, number in enumerate(NUMBERS):
        kept = folder / "imagenet" / "val" / number
        kept.mkdir(parents=True)
        photo(place).save(kept / f"ILSVRC2012_val_{place + 1:08d}.JPEG")
    masked = [draw_scene(seed, labels=(3,)) for seed in range(3)]
    for name in ("images", "masks"):
        (folder / "pets" / name).mkdir(parents=True)
    index = []
    for i, scene in enumerate(masked):
        scene.image.save(folder / "pets" / "images" / f"{i}.png")
        Image.fromarray(scene.masks[0]).save(folder / "pets" / "masks" / f"{i}.png")
        label = "dog" if i % 2 else "cat"
        index.append({"image": f"images/{i}.png", "mask": f"masks/{i}.png", "label": label})
    (folder / "pets" / "index.jsonl").write_text("".join(json.dumps(e) + "\n" for e in index))
    pairs = [(np.asarray(s.image), s.masks[0].astype(np.uint8)) for s in masked]
    gtsegs(folder / "gtsegs_ijcv.mat", pairs)


def photo(seed: int) -> Image.Image:
    """Soft shapes in soft colours, of a photo's size."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(coarse).resize((320, 240), Image.Resampling.BICUBIC)


if __name__ == "__main__":
    furnish(Path(sys.argv[1]))
