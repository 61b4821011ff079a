"""An explanation as an object: samples of a batch, tables, files that are read again, crops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import whyformer
from small_images import save_vit
from small_texts import save_bert
from whyformer import Explanation, InputError
from whyformer.models.cropping import crop_of
from whyformer.render import make_sheet


@pytest.fixture(scope="module")
def vision() -> Any:
    return whyformer.load("demo-vision")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return whyformer.load(save_bert(tmp_path_factory.mktemp("bert")))


def noise(seed: int, width: int = 50, height: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def same(one: Explanation, other: Explanation) -> None:
    for name in ("relevance", "logits", "target", "matrix", "rows", "picture"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            torch.testing.assert_close(a, b, msg=name)
    assert one.pieces == other.pieces


class TestBatches:
    @pytest.mark.parametrize("target", [3, [[3, 8]]])
    def test_a_sample_of_a_batch_is_that_sample_alone(self, vision: Any, target: Any) -> None:
        images = [noise(i) for i in range(3)]
        batch = vision(images, target=target, keep_blocks=True)
        assert len(batch) == 3
        for one, image in zip(batch, images, strict=True):
            same(one, vision(image, target=target, keep_blocks=True))
        assert batch[-1].blocks.attention[0].shape[0] == 1
        assert batch[1].parts[0].relevance.equal(batch[1].relevance)
        with pytest.raises(IndexError, match="sample 3 of a batch of 3"):
            batch[3]

    def test_texts(self, bert: Any) -> None:
        batch = bert(["a warm film", "the acting"], target=1)
        assert [[word for word, _ in each.words()[0]] for each in batch] == [
            ["a", "warm", "film"],
            ["the", "acting"],
        ]

    def test_a_batch_says_which_sample_is_shown(self, vision: Any, tmp_path: Path) -> None:
        batch = vision([noise(i) for i in range(3)])
        assert make_sheet(batch, 1).notes[-1] == "sample 2 of 3"
        assert make_sheet(batch[1]).notes == list(batch.notes)
        assert "sample 1 of 3" in (batch._repr_html_() or "")
        saved = json.loads(batch.save(tmp_path / "x.json", sample=2).read_text())
        assert saved["notes"][-1] == "sample 3 of 3"

    def test_all_samples_into_a_folder_or_by_a_pattern(self, vision: Any, tmp_path: Path) -> None:
        batch = vision([noise(i) for i in range(2)])
        (tmp_path / "maps").mkdir()
        assert batch.save(tmp_path / "maps") == tmp_path / "maps"
        assert batch.save(f"{tmp_path}/new/") == tmp_path / "new"
        batch.save(tmp_path / "why-{}.json")
        batch.save(tmp_path / "why-{:03d}.json")
        found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
        assert found == [
            "maps/00001.png", "maps/00002.png", "new/00001.png", "new/00002.png",
            "why-001.json", "why-002.json", "why-1.json", "why-2.json",
        ]  # fmt: skip
        second = Explanation.load(tmp_path / "why-2.json")
        torch.testing.assert_close(
            second.image_map(), batch[1].image_map().double(), check_dtype=False
        )


class TestReading:
    def test_top(self, vision: Any, bert: Any) -> None:
        explanation = vision([noise(0), noise(1)], target=3)
        for each, scores in zip(explanation.top(2), explanation.relevance, strict=True):
            (place, best), (_, second) = each
            patches = explanation.tokens.to_map(scores)
            assert best == pytest.approx(float(patches.max()))
            assert patches[place] == patches.max()
            assert best >= second
        text = bert("a warm film", target=1)
        assert text.top(1) == [[max(text.words()[0], key=lambda word: word[1])]]
        with pytest.raises(InputError, match="one target"):
            vision(noise(0), target=[[1, 2]]).top()

    def test_to_pandas(self, vision: Any, bert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("pandas")
        table = vision([noise(0), noise(1)], target=[[3, 8], [1, 2]]).to_pandas()
        rows, columns = vision(noise(0)).grid
        assert list(table) == ["sample", "class", "label", "row", "column", "score"]
        assert len(table) == 2 * 2 * rows * columns
        words = bert("a warm film", target=1).to_pandas()
        assert words["word"].tolist() == ["a", "warm", "film"]
        monkeypatch.setitem(__import__("sys").modules, "pandas", None)
        with pytest.raises(whyformer.ModelError, match="pip install pandas"):
            bert("a warm film").to_pandas()

    @pytest.mark.parametrize("target", [3, [[3, 8]], None])
    @pytest.mark.parametrize("ending", ["json", "npz"])
    def test_an_image_comes_back(
        self, vision: Any, tmp_path: Path, target: Any, ending: str
    ) -> None:
        explanation = vision(noise(0), target=target)
        back = Explanation.load(explanation.save(tmp_path / f"why.{ending}"))
        torch.testing.assert_close(
            back.image_map(), explanation.image_map(), check_dtype=False, rtol=1e-5, atol=1e-9
        )
        torch.testing.assert_close(back.probabilities, explanation.probabilities, check_dtype=False)
        assert (back.target.tolist(), back.labels) == (
            explanation.target.tolist(), explanation.labels,
        )  # fmt: skip
        assert (back.method, back.preset, back.notes) == (
            explanation.method, explanation.preset, explanation.notes,
        )  # fmt: skip
        if ending == "npz":
            assert back.save(tmp_path / "again.png").stat().st_size > 1000

    @pytest.mark.parametrize("ending", ["json", "npz"])
    def test_a_text_comes_back(self, bert: Any, tmp_path: Path, ending: str) -> None:
        explanation = bert("A warm 😍 film, the acting", target=1)
        back = Explanation.load(explanation.save(tmp_path / f"why.{ending}"))
        assert back.pieces == explanation.pieces
        assert [word for word, _ in back.words()[0]] == [w for w, _ in explanation.words()[0]]
        assert back.notes == explanation.notes
        back.save(tmp_path / "again.html")

    def test_several_methods_in_one_file(self, vision: Any, tmp_path: Path) -> None:
        from whyformer.render import save

        path = tmp_path / "all.npz"
        both = vision.compare(noise(0), 3, ["rollout", "transformer_attribution"])
        save(both, path)
        with pytest.raises(InputError, match="holds 2 methods; choose one: method='rollout'"):
            Explanation.load(path)
        back = Explanation.load(path, "transformer_attribution")
        torch.testing.assert_close(
            back.image_map(), both[1].image_map(), check_dtype=False, rtol=1e-5, atol=1e-9
        )
        assert Explanation.load(path, "rollout").target is None

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("why.png", b"x", "cannot be loaded again; save it as .json or .npz"),
            ("none.json", None, "cannot read"),
            ("bad.json", b"{", "no explanation that whyformer saved"),
            ("list.json", b"[1]", "no explanation that whyformer saved"),
            ("other.json", b'{"a": 1}', "no explanation that whyformer saved"),
            ("bad.npz", b"PK\x03\x04", "no explanation that whyformer saved"),
            ("text.npz", b"hello", "no explanation that whyformer saved"),
        ],
    )
    def test_files_that_are_no_explanation(
        self, tmp_path: Path, name: str, content: bytes | None, said: str
    ) -> None:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=said):
            Explanation.load(tmp_path / name)

    def test_short_words_for_large_things(self, vision: Any) -> None:
        recorded = vision.record(noise(0))
        explanation = recorded.explain(keep_blocks=True)
        for thing in (explanation, explanation.tokens, explanation.blocks, recorded):
            assert len(repr(thing)) < 120
            assert "tensor" not in repr(thing)
            assert "0x" not in repr(thing)
        assert "Tokens(" in repr(recorded._recording)


def resized_and_cropped(side: int, edge: int) -> Callable[[Image.Image], torch.Tensor]:
    """The shorter side to ``edge``, then the middle, as most ImageNet models do."""

    def read(image: Image.Image) -> torch.Tensor:
        scale = edge / min(image.size)
        resized = image.resize((round(image.width * scale), round(image.height * scale)))
        left, top = (resized.width - side) // 2, (resized.height - side) // 2
        part = np.asarray(resized.crop((left, top, left + side, top + side)))
        return torch.from_numpy(part / 255.0).permute(2, 0, 1).unsqueeze(0)

    return read


class TestCrops:
    @pytest.mark.parametrize("size", [(512, 256), (256, 512), (300, 300), (3000, 2000), (97, 61)])
    def test_what_is_left_of_a_photo(self, size: tuple[int, int]) -> None:
        crop = crop_of(size, resized_and_cropped(224, 256))
        assert crop is not None
        width, height = size
        half = min(size) * 224 / 256 / 2
        expected = (height / 2 - half, width / 2 - half, height / 2 + half, width / 2 + half)
        assert crop.size == (height, width)
        slack = 1 + 0.005 * max(size)
        assert np.abs(np.subtract(crop.box, expected)).max() <= slack

    def test_a_crop_without_resizing_of_a_large_photo(self) -> None:
        def middle(image: Image.Image) -> torch.Tensor:
            left, top = image.width // 2 - 112, image.height // 2 - 112
            part = np.asarray(image.crop((left, top, left + 224, top + 224)))
            return torch.from_numpy(part / 255.0).permute(2, 0, 1).unsqueeze(0)

        crop = crop_of((2000, 1500), middle)
        assert crop is not None
        assert np.abs(np.subtract(crop.box, (638, 888, 862, 1112))).max() <= 12

    def test_what_is_no_plain_crop_is_not_guessed(self) -> None:
        def padded(image: Image.Image) -> torch.Tensor:
            square = Image.new("RGB", (max(image.size),) * 2)
            square.paste(image, (0, (square.height - image.height) // 2))
            part = np.asarray(square.resize((96, 96)))
            return torch.from_numpy(part / 255.0).permute(2, 0, 1).unsqueeze(0)

        assert crop_of((400, 200), padded) is None
        flipped = lambda image: resized_and_cropped(96, 96)(image).flip(-1)  # noqa: E731
        assert crop_of((100, 100), flipped) is None

    def test_a_photo_that_is_cut_says_so(self, tmp_path: Path) -> None:
        folder = save_vit(tmp_path / "vit")
        path = folder / "preprocessor_config.json"
        settings = json.loads(path.read_text())
        why = whyformer.load(folder)
        side = why.input_size[0]
        assert why(noise(0)).notes == ()
        cut = {"do_center_crop": True, "crop_size": {"height": side, "width": side}}
        cut |= {"image_processor_type": "DeiTImageProcessor"}
        cut |= {"size": {"height": 2 * side, "width": 2 * side}}
        path.write_text(json.dumps({**settings, **cut}))
        why = whyformer.load(folder)
        explanation = why(noise(0, 160, 80), target=1)
        (note,) = explanation.notes
        assert note == (
            "the model's preprocessing cuts the photo: it saw columns 40 to 120 of 160 and rows "
            "20 to 60 of 80; nothing is said about the rest"
        )
        whole = explanation.image_map(original=True)
        assert whole.shape == (1, 80, 160)
        seen = whole[0, 20:60, 40:120]
        assert not seen.isnan().any()
        assert int(whole.isnan().sum()) == 80 * 160 - 40 * 80
        assert seen.mean() == pytest.approx(float(explanation.image_map().mean()), rel=0.05)
        both = why([noise(0, 160, 80), noise(1, 80, 80)], target=[[0, 1]])
        assert "2 of 2 photos" in both.notes[0]
        with pytest.raises(InputError, match=r"explanation\[0\].image_map"):
            both.image_map(original=True)
        assert both[1].image_map(original=True).shape == (1, 2, 80, 80)

    def test_pixels_of_ones_own_have_no_photo(self, vision: Any) -> None:
        explanation = vision.explainer(torch.zeros(1, 3, 96, 96))
        with pytest.raises(InputError, match="not known where the map lies"):
            explanation.image_map(original=True)
