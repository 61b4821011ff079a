"""Image data sets: every format is written, read back, and damaged."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from data_sets import NUMBERS, gtsegs, labels_of, refused
from whyformer.errors import InputError
from whyformer.evaluation.data.classes import imagenet_numbers
from whyformer.evaluation.data.samples import Subset, open_images


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
            assert Subset(samples, 2).fingerprint == samples.fingerprint
            found.append(samples.fingerprint)
        assert found[0] == found[2] != found[1]


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
        refused(tmp_path / "missing.mat", "no such file or folder")
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


def test_a_thousand_numbers_are_in_the_order_of_the_classes() -> None:
    assert [imagenet_numbers().index(number) for number in NUMBERS] == [0, 1, 999]
