"""Data sets of the evaluation: every format is written, read back, and damaged."""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from whyformer.errors import InputError
from whyformer.evaluation.classes import imagenet_numbers
from whyformer.evaluation.documents import open_documents
from whyformer.evaluation.hub_data import match_classes
from whyformer.evaluation.samples import Some, open_images

SENTIMENT = ["negative", "positive"]
NUMBERS = ("n01440764", "n01443537", "n15075141")


def validation(folder: Path, count: int = 3) -> Path:
    """Images named as ImageNet's validation images are."""
    folder.mkdir(parents=True)
    for i in range(1, count + 1):
        name = f"ILSVRC2012_val_{i:08d}.JPEG"
        Image.new("RGB", (8, 6), (i, 0, 0)).save(folder / name)
    return folder


def meta(path: Path, numbers: dict[int, str]) -> None:
    """A struct array as the devkit's meta.mat holds it."""
    fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O")]
    rows = np.array([[(np.array([[i]]), wnid, "a word")] for i, wnid in numbers.items()], fields)
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"synsets": rows})


def labels_of(samples: Any) -> list[int]:
    return [samples[i].label for i in range(len(samples))]


def refused(data: Path | str, said: str, labels: list[str] | None = None) -> None:
    with pytest.raises(InputError, match=said):
        open_images(str(data), 1, labels)


class TestImageNet:
    def test_names_with_indices(self, tmp_path: Path) -> None:
        folder = validation(tmp_path / "val")
        lines = [f"ILSVRC2012_val_{i:08d}.JPEG {c}\n" for i, c in ((2, 970), (1, 65), (3, 0))]
        (folder / "val.txt").write_text("".join(lines))
        samples = open_images(str(folder), 1, None)
        assert labels_of(samples) == [65, 970, 0]
        assert samples.benchmark == "imagenet"
        assert samples[0].key == "ILSVRC2012_val_00000001.JPEG"
        assert samples[0].image.size == (8, 6)

    def test_names_with_numbers_in_any_text_file_beside_the_folder(self, tmp_path: Path) -> None:
        folder = validation(tmp_path / "val")
        (tmp_path / "synset_words.txt").write_text("n01440764 tench, Tinca tinca\n")
        (tmp_path / "truth.txt").write_text(
            "".join(f"val/ILSVRC2012_val_{i:08d} {w}\n" for i, w in enumerate(NUMBERS, 1))
        )
        assert labels_of(open_images(str(folder), 1, None)) == [0, 1, 999]

    def test_kaggle(self, tmp_path: Path) -> None:
        folder = validation(tmp_path / "val")
        rows = [
            f"ILSVRC2012_val_{i:08d},{w} 1 2 3 4 {w} 5 6 7 8 " for i, w in enumerate(NUMBERS, 1)
        ]
        text = "\n".join(["ImageId,PredictionString", *reversed(rows)])
        (tmp_path / "LOC_val_solution.csv").write_text(text)
        samples = open_images(str(folder), 1, None)
        assert labels_of(samples) == [0, 1, 999]
        assert samples.name == "val"

    @pytest.mark.parametrize("place", [".", "data", "ILSVRC2012_devkit_t12/data"])
    def test_the_devkit_counts_in_its_own_order(self, tmp_path: Path, place: str) -> None:
        folder = validation(tmp_path / "val")
        ids = {490: NUMBERS[0], 361: NUMBERS[1], 171: NUMBERS[2], 1001: "n00001740"}
        meta(tmp_path / place / "meta.mat", ids)
        beside = tmp_path if place == "data" else tmp_path / place
        (beside / "ILSVRC2012_validation_ground_truth.txt").write_text("490\n361\n171\n")
        assert labels_of(open_images(str(folder), 1, None)) == [0, 1, 999]

    def test_the_devkit_by_the_order_of_other_names(self, tmp_path: Path) -> None:
        folder = validation(tmp_path / "val", 2)
        for i, path in enumerate(sorted(folder.iterdir())):
            path.rename(folder / f"{i}.JPEG")
        meta(tmp_path / "meta.mat", {7: NUMBERS[1], 9: NUMBERS[0]})
        truth = tmp_path / "ILSVRC2012_validation_ground_truth.txt"
        truth.write_text("9\n7\n")
        assert labels_of(open_images(str(folder), 1, None)) == [0, 1]
        truth.write_text("9\n7\n9\n")
        refused(folder, "3 lines for 2 images")

    def test_the_devkit_without_its_order_is_refused(self, tmp_path: Path) -> None:
        folder = validation(tmp_path / "val")
        truth = tmp_path / "ILSVRC2012_validation_ground_truth.txt"
        truth.write_text("490\n361\n171\n")
        refused(folder, r"own order, which only meta\.mat explains")
        (tmp_path / "meta.mat").write_bytes(b"no mat file")
        refused(folder, "not the devkit's")
        meta(tmp_path / "meta.mat", {490: NUMBERS[0], 361: NUMBERS[1]})
        refused(folder, "line 3: '171'")

    @pytest.mark.parametrize("devkit", [False, True])
    def test_some_of_the_images(self, tmp_path: Path, devkit: bool) -> None:
        folder = validation(tmp_path / "val")
        if devkit:
            meta(tmp_path / "meta.mat", dict(enumerate(NUMBERS, 1)))
            (tmp_path / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n2\n3\n")
        else:
            lines = [f"ILSVRC2012_val_{i:08d}.JPEG {w}" for i, w in enumerate(NUMBERS, 1)]
            (tmp_path / "val.txt").write_text("\n".join(lines))
        (folder / "ILSVRC2012_val_00000002.JPEG").unlink()
        samples = open_images(str(folder), 1, None)
        assert labels_of(samples) == [0, 999]
        assert samples.name == "val, 2 of 3"
        assert "00000002" in samples.notes[0]

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("", "is empty"),
            ("ILSVRC2012_val_00000001.JPEG 1", "no class for 2 of 3 images .*00000002"),
            ("ILSVRC2012_val_00000001.JPEG 1\nILSVRC2012_val_00000001.JPEG 2", "twice"),
            ("ILSVRC2012_val_00000001.JPEG", "line 1: .* expected NAME CLASS"),
            ("1.JPEG 1000\n2.JPEG 1\n3.JPEG 1", "the class 1000: expected 0 to 999"),
            ("1.JPEG n01440764\n2.JPEG n01440764\n3.JPEG n01440764", "the model has 2 classes"),
            ("1.JPEG unicorn\n2.JPEG cat\n3.JPEG cat", "'unicorn' is no class"),
            ("1 1\n2 2\n3 3", "only counts the images"),
        ],
    )
    def test_lists_that_do_not_fit(self, tmp_path: Path, content: str, said: str) -> None:
        folder = validation(tmp_path / "val")
        lines = [
            f"ILSVRC2012_val_0000000{line}" if line[:1].isdigit() else line
            for line in content.split("\n")
        ]
        (folder / "val.txt").write_text("\n".join(lines) if content else "")
        refused(folder, said, ["cat", "dog"])

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("id,class\n", "expected the header"),
            ("ImageId,PredictionString\nILSVRC2012_val_00000001,\n", "line 2"),
            ("ImageId,PredictionString\nILSVRC2012_val_00000001,cat 1 2 3 4\n", "line 2"),
            ("ImageId,PredictionString\n", "is empty"),
        ],
    )
    def test_tables_that_do_not_fit(self, tmp_path: Path, content: str, said: str) -> None:
        folder = validation(tmp_path / "val")
        (folder / "LOC_val_solution.csv").write_text(content)
        refused(folder, said)

    def test_no_list_and_several(self, tmp_path: Path) -> None:
        folder = validation(tmp_path / "val")
        refused(folder, "without their classes: expected val.txt")
        for name in ("a.txt", "b.txt"):
            (folder / name).write_text("ILSVRC2012_val_00000001.JPEG 1\n")
        refused(folder, r"several lists .* a\.txt, b\.txt")
        (folder / "val.txt").write_bytes(b"\xff\xfe\xff")
        refused(folder, "no text in UTF-8")

    def test_a_damaged_image_is_one_bad_sample(self, tmp_path: Path) -> None:
        folder = validation(tmp_path / "val", 1)
        (folder / "ILSVRC2012_val_00000001.JPEG").write_bytes(b"\xff\xd8 no more")
        (folder / "val.txt").write_text("ILSVRC2012_val_00000001.JPEG 1\n")
        samples = open_images(str(folder), 1, None)
        with pytest.raises(InputError, match="not an image"):
            samples[0]

    def test_which_benchmark_it_is(self, tmp_path: Path) -> None:
        """Folders of ImageNet's numbers may hold anything; the validation images have names."""
        for kind, image in (("val", "ILSVRC2012_val_00000293.JPEG"), ("other", "a.png")):
            for name in NUMBERS[:2]:
                (tmp_path / kind / name).mkdir(parents=True)
                Image.new("RGB", (8, 8)).save(tmp_path / kind / name / image)
        assert open_images(str(tmp_path / "val"), 1, None, limit=1).benchmark == "imagenet"
        assert open_images(str(tmp_path / "other"), 1, None).benchmark is None
        assert open_images(None, 1, None).benchmark is None

    def test_the_fingerprint_follows_the_classes(self, tmp_path: Path) -> None:
        folder = validation(tmp_path / "val", 2)
        found = []
        for classes in ((1, 2), (2, 1), (1, 2)):
            lines = [f"ILSVRC2012_val_{i:08d}.JPEG {c}" for i, c in enumerate(classes, 1)]
            (folder / "val.txt").write_text("\n".join(lines))
            samples = open_images(str(folder), 1, None)
            assert Some(samples, 2).fingerprint == samples.fingerprint
            found.append(samples.fingerprint)
        assert found[0] == found[2] != found[1]


def gtsegs(path: Path, pairs: list[tuple[np.ndarray, np.ndarray]]) -> Path:
    """The structure of gtsegs_ijcv.mat: arrays with their axes reversed, behind references."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        kept = file.create_group("#refs#")
        shape = (len(pairs), 1)
        images = file.create_dataset("value/img", shape, h5py.ref_dtype)
        masks = file.create_dataset("value/gt", shape, h5py.ref_dtype)
        for i, (image, mask) in enumerate(pairs):
            images[i, 0] = kept.create_dataset(f"img{i}", data=image.transpose(2, 1, 0)).ref
            cell = kept.create_dataset(f"cell{i}", (1, 1), h5py.ref_dtype)
            cell[0, 0] = kept.create_dataset(f"gt{i}", data=mask.transpose(1, 0)).ref
            masks[i, 0] = cell.ref
    return path


def pairs(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(0)
    return [
        (
            random.integers(0, 256, (5 + i, 7, 3), np.uint8),
            random.integers(0, 2, (5 + i, 7), np.uint8),
        )
        for i in range(count)
    ]


class TestImageNetSegmentation:
    def test_images_and_masks(self, tmp_path: Path) -> None:
        written = pairs(3)
        path = gtsegs(tmp_path / "gtsegs_ijcv.mat", written)
        samples = open_images(str(path), 1, None)
        assert len(samples) == 3
        assert samples.benchmark == "imagenet-segmentation"
        assert open_images(str(path), 1, None, limit=2).benchmark == "imagenet-segmentation"
        for i, (image, mask) in enumerate(written):
            sample = samples[i]
            assert sample.label is None
            assert np.array_equal(np.asarray(sample.image), image)
            assert np.array_equal(sample.foreground, mask != 0)

    def test_threads_and_forked_processes_read_it(self, tmp_path: Path) -> None:
        written = pairs(8)
        samples = open_images(str(gtsegs(tmp_path / "a.mat", written)), 1, None)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(samples.__getitem__, list(range(8)) * 4))
        assert all(
            np.array_equal(np.asarray(sample.image), image)
            for sample, (image, _) in zip(found, written * 4, strict=True)
        )
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(np.asarray(samples[2].image), written[2][0]) else 1)
        assert os.waitpid(child, 0)[1] == 0

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        h5py = pytest.importorskip("h5py")
        path = tmp_path / "a.mat"
        path.write_bytes(b"")
        refused(path, "no MATLAB 7.3")
        savemat(path, {"value": 1})
        refused(path, "no MATLAB 7.3")
        gtsegs(path, pairs(2))
        path.write_bytes(path.read_bytes()[:3000])
        refused(path, "or damaged")
        with h5py.File(path, "w") as file:
            file["value/img"] = np.zeros((2, 1))
        refused(path, "lacks /value/img")
        with h5py.File(gtsegs(path, pairs(2)), "a") as file:
            del file["value/gt"]
        refused(path, "lacks /value/gt")
        refused(gtsegs(path, []), "no samples")
        refused(tmp_path / "missing.mat", "no such folder")
        (tmp_path / "a.txt").write_text("")
        refused(tmp_path / "a.txt", r"is a file; expected a folder, or gtsegs_ijcv\.mat")

    def test_a_bad_pair_is_one_bad_sample(self, tmp_path: Path) -> None:
        (image, mask), good = pairs(2)
        path = gtsegs(tmp_path / "a.mat", [(image, mask[1:]), good, (image[..., :2], mask)])
        samples = open_images(str(path), 1, None)
        with pytest.raises(InputError, match="expected"):
            samples[0]
        assert samples[1].foreground is not None
        with pytest.raises(InputError, match=r"shape \(2, 7, 5\)"):
            samples[2]
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "a") as file:
            file["value/img"][1, 0] = h5py.Reference()
        with pytest.raises(InputError, match="damaged"):
            samples[1]

    def test_the_fingerprint_follows_the_size(self, tmp_path: Path) -> None:
        first = open_images(str(gtsegs(tmp_path / "a.mat", pairs(2))), 1, None)
        other = [(np.tile(image, (9, 9, 1)), np.tile(mask, (9, 9))) for image, mask in pairs(2)]
        second = open_images(str(gtsegs(tmp_path / "a.mat", other)), 1, None)
        assert first.keys == second.keys
        assert first.fingerprint != second.fingerprint

    def test_without_h5py(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = gtsegs(tmp_path / "a.mat", pairs(1))
        monkeypatch.setitem(sys.modules, "h5py", None)
        refused(path, r"needs h5py; install it with: pip install 'whyformer\[evaluation\]'")


def drawn(path: Path, values: np.ndarray, palette: list[int] | None = None) -> None:
    image = Image.fromarray(values.astype(np.uint8))
    if palette is not None:
        image.putpalette(palette)
    image.save(path)


class TestIndexedImages:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        Image.new("RGB", (4, 2), "red").save(tmp_path / "a.png")
        drawn(tmp_path / "left.png", np.array([[255, 255, 0, 0]] * 2))
        drawn(tmp_path / "right.png", np.array([[0, 0, 0, 255]] * 2))
        return tmp_path

    @staticmethod
    def opened(folder: Path, *entries: Any, labels: list[str] | None = None) -> Any:
        lines = [e if isinstance(e, str) else json.dumps(e) for e in entries]
        (folder / "index.jsonl").write_text("\n".join(lines))
        return open_images(str(folder), 1, labels)

    def test_a_mask_for_each_class(self, folder: Path) -> None:
        entry = {"image": "a.png", "label": "dog", "masks": {"Cat": "left.png", "0": "right.png"}}
        sample = self.opened(folder, entry, labels=["dog", "cat"])[0]
        assert sample.label == 0
        assert {c: m[0].astype(int).tolist() for c, m in sample.masks.items()} == {
            1: [1, 1, 0, 0], 0: [0, 0, 0, 1],
        }  # fmt: skip
        assert sample.foreground[0].tolist() == [True, True, False, True]
        entry["mask"] = "left.png"
        sample = self.opened(folder, entry, labels=["dog", "cat"])[0]
        assert sample.foreground[0].tolist() == [True, True, False, False]

    def test_palette_masks_have_classes_and_void(self, folder: Path) -> None:
        colours = [0, 0, 0, 128, 0, 0, 0, 128, 0] + [9, 9, 9] * 252 + [224, 224, 192]
        drawn(folder / "voc.png", np.array([[0, 1, 2, 255]] * 2), colours)
        sample = self.opened(folder, {"image": "a.png", "mask": "voc.png"})[0]
        assert sample.foreground[0].tolist() == [False, True, True, False]

    @pytest.mark.parametrize("white", [0, 1, 255])
    def test_a_palette_of_black_and_white_is_a_drawing(self, folder: Path, white: int) -> None:
        colours = [0, 0, 0] * 256
        colours[3 * white : 3 * white + 3] = [255, 255, 255]
        black = 5
        drawn(folder / "bw.png", np.array([[white, black, black, white]] * 2), colours)
        sample = self.opened(folder, {"image": "a.png", "mask": "bw.png"})[0]
        assert sample.foreground[0].tolist() == [True, False, False, True]

    def test_class_numbers_without_a_palette_are_refused(self, folder: Path) -> None:
        drawn(folder / "m.png", np.array([[0, 15, 15, 255]] * 2))
        with pytest.raises(InputError, match="no mask of black and white"):
            self.opened(folder, {"image": "a.png", "mask": "m.png"})[0]
        Image.new("RGBA", (4, 2), (255, 255, 255, 0)).save(folder / "clear.png")
        with pytest.raises(InputError, match=r"clear\.png is no plain mask: .*transparent"):
            self.opened(folder, {"image": "a.png", "mask": "clear.png"})[0]

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ({"masks": {"unicorn": "left.png"}}, "'unicorn' is no class"),
            ({"masks": {"7": "left.png"}}, "class 7 of a model with 2"),
            ({"masks": {"cat": "left.png", "1": "right.png"}}, "two masks for the class 1"),
            ({"masks": {"cat": "nowhere.png"}}, "no such file"),
            ({"masks": {"cat": "small.png"}}, "3 x 3, and its image 4 x 2"),
            ({"mask": "small.png"}, "3 x 3, and its image 4 x 2"),
            ({"mask": "broken.png"}, "not an image"),
            ({"mask": "cut.png"}, "truncated or damaged"),
            ({"mask": "folder"}, "is a folder"),
            ({"label": 1.5}, "label 1.5"),
            ({"label": "unicorn"}, "'unicorn' is no class"),
        ],
    )
    def test_bad_samples(self, folder: Path, entry: Any, said: str) -> None:
        drawn(folder / "small.png", np.zeros((3, 3)), [0] * 768)
        (folder / "broken.png").write_bytes(b"no image")
        (folder / "folder").mkdir()
        drawn(folder / "cut.png", np.random.default_rng(0).integers(0, 9, (99, 99)), [3] * 768)
        (folder / "cut.png").write_bytes((folder / "cut.png").read_bytes()[:-2000])
        samples = self.opened(folder, {"image": "a.png", **entry}, labels=["dog", "cat"])
        with pytest.raises(InputError, match=said):
            samples[0]

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ('{"image": "a.png", "mask": 3}', 'line 2: "mask" is 3'),
            ('{"image": "a.png", "masks": ["left.png"]}', 'line 2: expected "masks"'),
            ('{"image": "a.png", "masks": {"1": 3}}', 'line 2: expected "masks"'),
            ("[1, 2]", "line 2"),
            ('{"image": "b.png"}', r"lists 'b\.png' twice"),
        ],
    )
    def test_bad_lines(self, folder: Path, entry: str, said: str) -> None:
        with pytest.raises(InputError, match=said):
            self.opened(folder, {"image": "b.png"}, entry)

    def test_a_file_that_is_no_text(self, folder: Path) -> None:
        (folder / "index.jsonl").write_bytes(b"\xff\xfe\x00")
        refused(folder, "no text in UTF-8")

    def test_the_fingerprint_follows_the_index(self, folder: Path) -> None:
        first = self.opened(folder, {"image": "a.png", "label": 1}).fingerprint
        assert self.opened(folder, {"image": "a.png", "label": 2}).fingerprint != first


def eraser(folder: Path, *entries: Any) -> Path:
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    (folder / "docs" / "a.txt").write_text("a dull film .\nbut warm at heart .")
    (folder / "docs" / "empty.txt").write_text("\n")
    whole = {"annotation_id": "a.txt", "classification": "POS", "evidences": []}
    lines = [json.dumps({**whole, **entry}) for entry in entries]
    (folder / "test.jsonl").write_text("\n".join(lines))
    return folder


class TestEraser:
    def test_a_query_is_the_documents(self, tmp_path: Path) -> None:
        asked = [{"annotation_id": str(i), "docids": ["a.txt"], "query": f"{i} ?"} for i in (1, 2)]
        samples = open_documents(str(eraser(tmp_path, *asked)), "test", SENTIMENT, None)
        assert [samples[i].query for i in range(2)] == ["1 ?", "2 ?"]
        assert samples[0].tokens[:2] == ["a", "dull"]
        assert samples[0].evidence == frozenset()
        assert samples[0].docid == "a.txt"

    def test_a_line_ends_only_where_the_file_says_so(self, tmp_path: Path) -> None:
        folder = eraser(tmp_path, {"query": "one\u2028line"})
        path = folder / "test.jsonl"
        path.write_text(path.read_text().replace("\\u2028", "\u2028"), encoding="utf-8")
        assert len(open_documents(str(folder), "test", SENTIMENT, None)) == 1

    def test_a_query_that_all_share_is_the_task(self, tmp_path: Path) -> None:
        asked = [{"annotation_id": str(i), "docids": ["a.txt"], "query": "Why?"} for i in (1, 2)]
        samples = open_documents(str(eraser(tmp_path, *asked)), "test", SENTIMENT, None)
        assert samples[0].query is None

    @pytest.mark.parametrize("docids", [None, [], ["a.txt"]])
    def test_documents_without_evidence(self, tmp_path: Path, docids: Any) -> None:
        folder = eraser(tmp_path, {"docids": docids})
        assert len(open_documents(str(folder), "test", SENTIMENT, 1)[0].tokens) == 9

    def test_an_empty_span_marks_nothing(self, tmp_path: Path) -> None:
        """The movie reviews have such a span."""
        spans = [{"docid": "a.txt", "start_token": s, "end_token": 3} for s in (3, 2)]
        folder = eraser(tmp_path, {"evidences": [[spans[0]], [spans[1]]]})
        assert open_documents(str(folder), "test", SENTIMENT, 1)[0].evidence == {2}

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ({"docids": ["a.txt", "b.txt"]}, "2 documents"),
            ({"docids": "a.txt"}, "docids are 'a.txt'"),
            ({"docids": ["empty.txt"]}, "is empty"),
            ({"docids": [".."]}, "no such file"),
            ({"evidences": {"docid": "a.txt"}}, "no list of lists"),
            ({"evidences": [{"docid": "a.txt"}]}, "no list of lists"),
            ({"evidences": [["a.txt"]]}, "lacks docid, start_token, end_token"),
            ({"evidences": [[{"docid": "a.txt", "start_token": 1}]]}, "lacks end_token"),
            (
                {"evidences": [[{"docid": "a.txt", "start_token": 1.5, "end_token": 2}]]},
                "1.5 to 2: expected two whole numbers",
            ),
            (
                {"evidences": [[{"docid": "a.txt", "start_token": -1, "end_token": 2}]]},
                "from token -1 to 2",
            ),
        ],
    )
    def test_bad_samples(self, tmp_path: Path, entry: Any, said: str) -> None:
        samples = open_documents(str(eraser(tmp_path, entry)), "test", SENTIMENT, None)
        with pytest.raises(InputError, match=said):
            samples[0]

    def test_bad_directories(self, tmp_path: Path) -> None:
        folder = str(eraser(tmp_path, {}, {}))
        with pytest.raises(InputError, match=r"lists 'a\.txt' twice"):
            open_documents(folder, "test", SENTIMENT, None)
        with pytest.raises(InputError, match="it has the splits test"):
            open_documents(folder, "val", SENTIMENT, None)
        eraser(tmp_path)
        with pytest.raises(InputError, match="no samples"):
            open_documents(folder, "test", SENTIMENT, None)
        (tmp_path / "test.jsonl").write_text('{"annotation_id": "a"}')
        with pytest.raises(InputError, match="line 1: 'classification' is missing"):
            open_documents(folder, "test", SENTIMENT, None)

    def test_the_fingerprint_follows_the_entries(self, tmp_path: Path) -> None:
        found = []
        for verdict in ("POS", "NEG"):
            folder = str(eraser(tmp_path, {"classification": verdict}))
            found.append(open_documents(folder, "test", SENTIMENT, 1).fingerprint)
        assert found[0] != found[1]


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
        assert samples.benchmark == "imagenet"

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


def test_a_thousand_numbers_are_in_the_order_of_the_classes() -> None:
    assert [imagenet_numbers().index(number) for number in NUMBERS] == [0, 1, 999]
