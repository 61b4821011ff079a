"""Hugging Face data sets: written, read back, and mismatched."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from data_sets import NUMBERS, labels_of, refused
from whyformer.errors import InputError
from whyformer.evaluation.data.documents import open_documents
from whyformer.evaluation.data.hub_data import is_validation, match_classes
from whyformer.evaluation.data.samples import open_images

SENTIMENT = ["negative", "positive"]


def pictures(names: list[str] | None, **more: Any) -> Any:
    """Two images with the classes 1 and 0."""
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=names) if names else datasets.Value("int64")
    features = datasets.Features({"img": datasets.Image(), "label": label})
    images = [Image.new("RGB", (5, 4), colour) for colour in ("red", "blue")]
    return datasets.Dataset.from_dict({"img": images, "label": [1, 0], **more}, features)


def texts(labels: list[Any], kind: Any, column: str = "text") -> Any:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({column: datasets.Value("string"), "label": kind})
    rows = {column: ["so  warm"] * len(labels), "label": labels}
    return datasets.Dataset.from_dict(rows, features)


@pytest.fixture
def quiet() -> None:
    pytest.importorskip("datasets").disable_progress_bars()


@pytest.mark.usefixtures("quiet")
class TestHub:
    def test_images_by_the_names_of_their_classes(self, tmp_path: Path) -> None:
        pictures(["Cat", "golden_retriever"]).save_to_disk(tmp_path)
        model = ["golden retriever, a dog", "tabby", "cat"]
        samples = open_images(str(tmp_path), 1, model)
        assert labels_of(samples) == [0, 2]
        assert np.asarray(samples[1].image)[0, 0].tolist() == [0, 0, 255]
        assert samples.keys == ["0", "1"]
        assert samples.notes == ()
        assert samples.benchmark is None

    def test_images_by_index_where_there_are_no_names(self, tmp_path: Path) -> None:
        for kind, (names, model) in {
            "data": (None, ["cat", "dog"]),
            "model": (["cat", "dog"], None),
            "both": (["cat", "dog"], ["LABEL_0", "LABEL_1"]),
        }.items():
            pictures(names).save_to_disk(tmp_path / kind)
            samples = open_images(str(tmp_path / kind), 1, model, limit=2)
            assert labels_of(samples) == [1, 0]
            assert "no names" in samples.notes[0]

    def test_imagenets_numbers(self, tmp_path: Path) -> None:
        pictures(list(NUMBERS[1:])).save_to_disk(tmp_path)
        samples = open_images(str(tmp_path), 1, ["tench", "goldfish"])
        assert labels_of(samples) == [999, 1]
        assert samples.benchmark is None

    def test_the_papers_data_are_all_of_imagenets_validation_set(self) -> None:
        numbers = [f"n{i:08}" for i in range(1000)]
        assert is_validation(numbers, 50_000)
        assert is_validation(["tench, Tinca tinca", *numbers[1:]], 50_000)
        assert not is_validation(numbers[:10], 50_000)  # imagenette
        assert not is_validation(numbers, 50_889)  # ImageNet-Sketch
        assert not is_validation(numbers, 1_281_167)  # the training set
        assert not is_validation(["cat", *numbers[1:]], 50_000)

    def test_other_names_are_refused_though_the_counts_are_equal(self, tmp_path: Path) -> None:
        pictures(["cat", "dog"]).save_to_disk(tmp_path)
        refused(tmp_path, "2 of its classes .*'cat'; the model has 'ham'", ["ham", "egg"])
        refused(tmp_path, "1 of its classes", ["cat", "catamaran"])
        refused(tmp_path, "2 classes, and the model 3", ["LABEL_0", "LABEL_1", "LABEL_2"])

    def test_names_that_two_classes_share(self) -> None:
        def none(*_: Any) -> None:
            return None

        names = ["crane", "maillot", "maillot, tank suit", "crane"]
        short = [name.split(",")[0] for name in names]
        for data, model in ((names, names), (short, names), (names, short)):
            assert match_classes(data, model, none, "x") == [0, 1, 2, 3]
        with pytest.raises(InputError, match="1 of its classes"):
            match_classes(["crane"], names, none, "x")
        with pytest.raises(InputError, match="two of its classes are the same"):
            match_classes(["cat", "Cat"], ["cat", "dog"], none, "x")

    def test_texts(self, tmp_path: Path) -> None:
        datasets = pytest.importorskip("datasets")
        kinds = {
            "short": texts([0, 1], datasets.ClassLabel(names=["neg", "pos"]), "sentence"),
            "strings": texts(["NEGATIVE", "positive"], datasets.Value("string"), "review"),
            "numbers": texts([0, 1], datasets.Value("int32"), "content"),
        }
        for name, rows in kinds.items():
            rows.save_to_disk(tmp_path / name)
            samples = open_documents(str(tmp_path / name), "test", SENTIMENT, None)
            assert labels_of(samples) == [0, 1]
            assert samples[0].tokens == ["so", "warm"]
            assert samples[0].evidence == frozenset()

    def test_splits(self, tmp_path: Path) -> None:
        datasets = pytest.importorskip("datasets")
        rows = texts([0, 1], datasets.Value("int32"))
        datasets.DatasetDict(train=rows, validation=rows.select([1])).save_to_disk(tmp_path)
        samples = open_documents(f"datasets:{tmp_path}", "validation", SENTIMENT, None)
        assert labels_of(samples) == [1]
        assert samples.name == f"{tmp_path.name}, validation"
        with pytest.raises(InputError, match="no split 'test', only train, validation"):
            open_documents(str(tmp_path), "test", SENTIMENT, None)

    def test_local_files_by_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
        data = tmp_path / "films"
        data.mkdir()
        (data / "test.csv").write_text("text,label\na warm film,1\n")
        samples = open_documents(f"datasets:{data}", "test", SENTIMENT, None)
        assert samples[0].tokens == ["a", "warm", "film"]
        with pytest.raises(InputError, match=r"train.*test.*--split \(train\)"):
            open_documents(f"datasets:{data}", "train", SENTIMENT, None)
        (data / "test.csv").write_text("")
        with pytest.raises(InputError, match="cannot be read"):
            open_documents(f"datasets:{data}", "test", SENTIMENT, None)

    def test_a_name_that_cannot_be_had(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a network the answer comes at once, and nothing is left changed."""
        datasets = pytest.importorskip("datasets")
        monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", "http://127.0.0.1:9")
        before, start = datasets.config.HF_HUB_OFFLINE, time.monotonic()
        for place in ("nobody/nothing", "nothing@config"):
            refused(f"datasets:{place}", "cannot be had: the hub cannot be reached")
        with pytest.raises(InputError, match="cannot be had"):
            open_documents("datasets:nobody/nothing", "test", SENTIMENT, None)
        assert time.monotonic() - start < 10
        assert before == datasets.config.HF_HUB_OFFLINE
        refused("datasets:", "expected datasets:OWNER/NAME")
        refused("datasets:a/b/c", "no data set 'a/b/c'")

    def test_columns_that_are_missing(self, tmp_path: Path) -> None:
        datasets = pytest.importorskip("datasets")
        pictures(["cat", "dog"]).remove_columns("label").save_to_disk(tmp_path / "a")
        refused(tmp_path / "a", r"no column of classes: .* found img \(")
        texts([0], datasets.Value("int32")).save_to_disk(tmp_path / "b")
        refused(tmp_path / "b", r"no column of images: .* text \(string\), label \(int32\)")
        texts([0], datasets.Value("int32"), "words").save_to_disk(tmp_path / "c")
        with pytest.raises(InputError, match="no column of texts: expected text or sentence"):
            open_documents(str(tmp_path / "c"), "test", SENTIMENT, None)

    def test_bad_samples(self, tmp_path: Path) -> None:
        datasets = pytest.importorskip("datasets")
        broken = [{"bytes": b"no image", "path": None}, None]
        rows = pictures(["cat", "dog"], img=broken)
        rows.save_to_disk(tmp_path / "a")
        samples = open_images(str(tmp_path / "a"), 1, ["cat", "dog"])
        for i, said in enumerate(("not an image", "has no image")):
            with pytest.raises(InputError, match=said):
                samples[i]
        kind = datasets.ClassLabel(names=["neg", "pos"])
        texts([-1, None], kind).save_to_disk(tmp_path / "b")
        documents = open_documents(str(tmp_path / "b"), "test", SENTIMENT, None)
        for i in range(2):
            with pytest.raises(InputError, match="no label"):
                documents[i]
        words = texts(["mixed", "neg"], datasets.Value("string"))
        words.save_to_disk(tmp_path / "c")
        documents = open_documents(str(tmp_path / "c"), "test", SENTIMENT, None)
        with pytest.raises(InputError, match="'mixed'"):
            documents[0]
        assert documents[1].label == 0

    def test_bad_folders(self, tmp_path: Path) -> None:
        pictures(["cat", "dog"]).save_to_disk(tmp_path / "a")
        (tmp_path / "a" / "state.json").write_text("{")
        refused(tmp_path / "a", "is empty or damaged")
        pictures(["cat", "dog"]).select([]).save_to_disk(tmp_path / "b")
        refused(tmp_path / "b", "is empty or damaged")

    def test_the_fingerprint_follows_the_rows(self, tmp_path: Path) -> None:
        rows = pictures(["cat", "dog"])
        rows.save_to_disk(tmp_path / "x" / "a")
        rows.map(lambda row: {"label": 0}).save_to_disk(tmp_path / "y" / "a")
        first, again, other = (
            open_images(str(tmp_path / folder / "a"), 1, ["cat", "dog"]).fingerprint
            for folder in ("x", "x", "y")
        )
        assert first == again != other

    def test_without_datasets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "datasets", None)
        refused("datasets:cifar10", r"needs datasets; install it with: pip install")
