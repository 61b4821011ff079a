"""The gallery of a folder's results: its table, its page, and what the inputs of a class share."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import GALLERY, Run, draw, results, rows_of
from galleries import RECORDS, TEXTS, document
from whyformer.evaluation.data.classes import class_of_folder, imagenet_numbers


class TestTable:
    def test_true_classes_are_the_folders(self, run: Run, digits: Path, tmp_path: Path) -> None:
        out = tmp_path / "maps"
        run("explain", digits, "--out", out, "--format", "json")
        rows = rows_of(out)
        told = [(row["file"], row["predicted"], row["true"], row["right"]) for row in rows]
        assert told == [
            ("3/a.png", "3", "3", "True"),
            ("3/b.png", "1", "3", "False"),
            ("8/a.png", "8", "8", "True"),
            ("8/b.png", "8", "8", "True"),
        ]
        for row in rows:
            saved = json.loads((out / row["result"]).read_text())
            best, view = saved["classes"][0], saved["views"][0]
            assert row["asked"] == row["predicted"] == best["label"] == view["label"]
            assert float(row["predicted_probability"]) == pytest.approx(best["probability"], 1e-5)
            place = int(np.argmax(view["scores"]))
            columns = saved["image"]["grid"][1]
            assert row["strongest"] == f"row {place // columns + 1}, column {place % columns + 1}"

    def test_several_classes_have_columns_of_their_own(
        self, run: Run, sentences: Path, tmp_path: Path
    ) -> None:
        targets = ["--target", "negative", "--target", "positive"]
        run("explain", "--lines", sentences, *targets, "--out", tmp_path / "texts")
        rows = rows_of(tmp_path / "texts")
        assert [row["text"] for row in rows] == TEXTS
        for row in rows:
            assert (row["file"], row["true"], row["right"]) == (row["result"][:5], "", "")
            assert (row["asked"], row["asked_2"]) == ("negative", "positive")
            both = float(row["asked_probability"]), float(row["asked_probability_2"])
            assert sum(both) == pytest.approx(1, abs=1e-4)
            assert max(both) == pytest.approx(float(row["predicted_probability"]))
        assert rows[3]["strongest"] in ("joyless", "dull")

    def test_photos_without_folders_have_no_true_class(
        self, run: Run, digits: Path, tmp_path: Path
    ) -> None:
        run("explain", digits / "3", "--out", tmp_path / "maps")
        assert [row["true"] for row in rows_of(tmp_path / "maps")] == ["", ""]
        assert all(card["right"] is None for card in document(tmp_path / "maps")["cards"])

    def test_names_of_folders(self) -> None:
        names = ("tabby, tabby cat", "crane", "crane", "Golden Retriever")
        assert class_of_folder("tabby", names) == 0
        assert class_of_folder("golden_retriever", names) == 3
        for unclear in ("crane", "03", "2", "n02123045", "holiday"):
            assert class_of_folder(unclear, names) is None
        thousand = tuple(f"class {i}" for i in range(1000))
        assert class_of_folder(imagenet_numbers()[281], thousand) == 281
        assert class_of_folder("n99999999", thousand) is None


def test_a_page_of_too_many_says_so_and_the_table_has_them_all(
    run: Run, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyformer.render.gallery.MOST_CARDS", 3)
    monkeypatch.setattr("whyformer.render.gallery.MOST_PICTURES", 2)
    run("explain", digits, "--out", tmp_path / "maps", "--format", "json")
    page = document(tmp_path / "maps")
    assert ["thumbnail" in card for card in page["cards"]] == [True, True, False]
    first, second = page["notes"]
    assert first == "the first 3 of 4 inputs are here; results.csv has them all"
    assert second == "only the first 2 have a picture on this page"
    assert len(rows_of(tmp_path / "maps")) == 4


class TestResumed:
    """The page shows all that is in the folder, each input once."""

    def test_all_inputs_of_several_runs(self, run: Run, digits: Path, tmp_path: Path) -> None:
        out = tmp_path / "maps"
        arguments = ["explain", digits, "--out", out]
        run(*arguments)
        draw(digits / "3" / "c.png", 1)
        with open(out / RECORDS, "a") as file:
            file.write('{"name": "3/c", "sta')  # what a killed process leaves
        (out / "8" / "a.png").unlink()
        draw(digits / "8" / "b.png", 2)  # changed since
        assert "3 explained, 2 already there" in run(*arguments)[1]
        names = ["3/a.png", "3/b.png", "3/c.png", "8/a.png", "8/b.png"]
        assert [row["file"] for row in rows_of(out)] == names
        assert [card["file"] for card in document(out)["cards"]] == names
        assert sum(mean["images"] for mean in document(out)["classes"]) <= 5

    def test_a_gallery_that_was_removed(self, run: Run, digits: Path, tmp_path: Path) -> None:
        out = tmp_path / "maps"
        run("explain", digits, "--out", out)
        before = (out / "index.html").read_bytes()
        (out / "index.html").unlink()
        assert "4 already there" in run("explain", digits, "--out", out)[1]
        assert (out / "index.html").read_bytes() == before

    def test_a_result_without_a_record_cannot_be(
        self, run: Run, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The process ends before the second result is written: it is explained again."""
        from whyformer.cli import steps

        out, usual = tmp_path / "maps", steps.present

        def end(sheet: Any, options: Any) -> None:
            if results(out):
                raise KeyboardInterrupt
            usual(sheet, options)

        monkeypatch.setattr(steps, "present", end)
        assert run("explain", digits, "--out", out)[0] == 130
        assert [row["file"] for row in rows_of(out)] == ["3/a.png"]
        monkeypatch.undo()
        assert "3 explained, 1 already there" in run("explain", digits, "--out", out)[1]
        assert len(rows_of(out)) == 4

    def test_damaged_records(self, run: Run, digits: Path, tmp_path: Path) -> None:
        out = tmp_path / "maps"
        run("explain", digits, "--out", out)
        (out / RECORDS).write_text("nothing\n" + (out / RECORDS).read_text())
        code, _, errors = run("explain", digits, "--out", out)
        assert code == 2
        assert ", line 1 is damaged; delete this line" in errors
        assert "choose another folder, or --overwrite" in errors
        assert "4 explained" in run("explain", digits, "--out", out, "--overwrite")[1]
        assert len(rows_of(out)) == 4

    def test_overwritten(self, run: Run, digits: Path, tmp_path: Path) -> None:
        out = tmp_path / "maps"
        run("explain", digits, "--out", out)
        run("explain", digits / "3", "--target", "4", "--out", out, "--overwrite")
        told = [(row["file"], row["asked"]) for row in rows_of(out)]
        assert told == [("a.png", "4"), ("b.png", "4")]

    @pytest.mark.parametrize("name", GALLERY)
    def test_strangers_stay(self, run: Run, digits: Path, tmp_path: Path, name: str) -> None:
        out = tmp_path / "maps"
        out.mkdir()
        (out / name).write_text("mine")
        code, _, errors = run("explain", digits, "--out", out)
        assert code == 2
        assert f"{out / name} exists and is no result of these settings" in errors
        assert (out / name).read_text() == "mine"

    def test_an_input_called_index(self, run: Run, tmp_path: Path) -> None:
        draw(tmp_path / "photos" / "index.png", 1)
        out = tmp_path / "maps"
        run("explain", tmp_path / "photos", "--out", out, "--format", "html")
        assert results(out) == ["index-2.html"]
        assert document(out)["cards"][0]["href"] == "./index-2.html"


def test_the_page_holds_no_place_of_this_machine(run: Run, digits: Path, tmp_path: Path) -> None:
    run("explain", digits, "--out", tmp_path / "maps")
    for name in GALLERY:
        assert str(tmp_path) not in (tmp_path / "maps" / name).read_text()


def test_the_page_allows_nothing_but_itself(run: Run, sentences: Path, tmp_path: Path) -> None:
    run("explain", "--lines", sentences, "--out", tmp_path / "texts")
    page = (tmp_path / "texts" / "index.html").read_text()
    policy = html.unescape(re.search(r'Policy" content="([^"]+)"', page)[1])
    assert policy.startswith("default-src 'none'; img-src data:")
    assert "unsafe" not in policy
    assert page.count("</script>") == 2
    assert not re.search(r"(src|href)=\"?https?:", page)


class TestParquet:
    """The table with every score."""

    def test_the_rows_are_what_json_files_tell(
        self, run: Run, digits: Path, tmp_path: Path
    ) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        out = tmp_path / "maps"
        arguments = ["explain", digits, "-t", "3", "-t", "8", "--out", out, "--format", "json"]
        run(*arguments)
        assert run(*arguments, "--parquet")[0] == 0  # from the records alone
        rows = parquet.read_table(out / "results.parquet").to_pylist()
        assert len(rows) == 2 * 4
        for row in rows:
            told = json.loads((out / row["result"]).read_text())
            (view,) = (view for view in told["views"] if view["label"] == row["asked"])
            assert row["relevance"] == pytest.approx(view["scores"], rel=1e-6)
            assert row["grid"] == told["image"]["grid"]
            assert row["predicted"] == told["classes"][0]["label"]
        assert not list(out.glob(".whyformer-results*"))

    def test_without_pyarrow(
        self, run: Run, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        code, _, errors = run("explain", digits, "--out", tmp_path / "maps", "--parquet")
        assert code == 2
        assert "--parquet needs pyarrow, which comes with: pip install" in errors

    def test_one_input(self, run: Run, scene: Path) -> None:
        assert "--parquet is for many inputs" in run("explain", scene, "--parquet")[2]
