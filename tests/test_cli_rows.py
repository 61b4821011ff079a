"""``whyformer explain`` of data sets: tables of texts and images, streamed into a folder."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from command_line import Run, results, rows_of
from whyformer.demo.scenes import draw_scene

datasets: Any = pytest.importorskip("datasets")

FILMS = ["a warm film", "a joyless film", "fine", "dull and slow", "superb"]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    datasets.disable_progress_bars()
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def films(**more: list[Any]) -> Any:
    classes = datasets.ClassLabel(names=["negative", "positive"])
    rows = datasets.Dataset.from_dict({"text": FILMS, "label": [1, 0, 1, 0, 1], **more})
    return rows.cast_column("label", classes)


def scenes() -> Any:
    """Three images; the second has its file's name, the third is damaged."""
    data = []
    for seed in range(3):
        buffer = io.BytesIO()
        draw_scene(seed, 1).image.save(buffer, "png")
        data.append({"bytes": buffer.getvalue(), "path": None})
    data[1]["path"] = "deep/a nice/scene.png"
    data[2]["bytes"] = b"no image"
    features = datasets.Features({"img": datasets.Image(), "caption": datasets.Value("string")})
    return datasets.Dataset.from_dict({"img": data, "caption": FILMS[:3]}, features)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    films().to_parquet(tmp_path / "films.parquet")
    return tmp_path / "films.parquet"


def test_texts_of_a_table(run: Run, table: Path, tmp_path: Path) -> None:
    out, lines = tmp_path / "maps", tmp_path / "lines.txt"
    code, told, _ = run("explain", table, "--out", out, "--format", "json", "--parquet")
    assert code == 0
    assert "5 explained, 0 already there, 0 failed" in told
    assert results(out) == [f"{i:07d}.json" for i in range(5)] + ["results.parquet"]
    found = rows_of(out)
    assert [row["text"] for row in found] == FILMS
    assert [row["true"] for row in found] == ["positive", "negative"] * 2 + ["positive"]
    lines.write_text("\n".join(FILMS))
    run("explain", "--lines", lines, "--out", tmp_path / "lined", "--format", "json")
    for i in range(5):
        one, other = (
            json.loads((tmp_path / name).read_text())["views"]
            for name in (f"maps/{i:07d}.json", f"lined/{i + 1:05d}.json")
        )
        assert one == other


def test_only_what_is_missing_or_changed_is_done_again(
    run: Run,
    table: Path,
    tmp_path: Path,
) -> None:
    command = ["explain", table, "--out", tmp_path / "maps", "--format", "json"]
    assert "2 explained, 0 already there" in run(*command, "--limit", 2)[1]
    assert "3 explained, 2 already there" in run(*command)[1]
    assert "0 explained, 5 already there" in run(*command)[1]
    (tmp_path / "maps" / "0000001.json").unlink()
    films(text=[*FILMS[:3], "another film", FILMS[4]]).to_parquet(table)
    assert "2 explained, 3 already there" in run(*command)[1]
    assert rows_of(tmp_path / "maps")[3]["text"] == "another film"


def test_the_newest_record_counts_whichever_process_wrote_it(
    run: Run,
    table: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "maps"
    command = ["explain", table, "--out", out, "--format", "json"]
    run(*command)
    (out / ".whyformer-records-0.jsonl").rename(out / ".whyformer-records-1.jsonl")
    films(text=["another film", *FILMS[1:]]).to_parquet(table)
    assert "1 explained, 4 already there" in run(*command)[1]
    assert rows_of(out)[0]["text"] == "another film"
    assert "0 explained, 5 already there" in run(*command)[1]


@pytest.mark.parametrize("kind", ["parquet", "saved", "folder"])
def test_images(run: Run, tmp_path: Path, kind: str) -> None:
    data, out = tmp_path / "data", tmp_path / "maps"
    if kind == "saved":
        scenes().save_to_disk(data)
    else:
        scenes().to_parquet(data / "scenes.parquet")
    given = data / "scenes.parquet" if kind == "parquet" else data
    code, told, errors = run("explain", given, "--out", out)
    assert code == 2
    assert "2 explained, 0 already there, 1 failed" in told
    assert "row 2" in errors
    assert "not an image" in errors
    assert results(out) == ["0000000.png", "0000001-scene.png"]
    assert [row["file"] for row in rows_of(out)] == ["0000000", "scene.png"]
    draw_scene(1, 1).image.save(tmp_path / "scene.png")
    run("explain", tmp_path / "scene.png", "--dpi", 96, "--out", tmp_path / "alone.png")
    with (
        Image.open(out / "0000001-scene.png") as one,
        Image.open(tmp_path / "alone.png") as alone,
    ):
        assert one.tobytes() == alone.tobytes()


def test_a_model_of_texts_reads_the_texts(run: Run, tmp_path: Path) -> None:
    scenes().to_parquet(tmp_path / "scenes.parquet")
    command = ["explain", tmp_path / "scenes.parquet", "--format", "json"]
    run(*command, "--out", tmp_path / "a", "--model", "demo-text")
    run(*command, "--out", tmp_path / "b", "--column", "caption")
    assert [row["text"] for row in rows_of(tmp_path / "a")] == FILMS[:3]
    assert rows_of(tmp_path / "b") == rows_of(tmp_path / "a")


def test_processes_share_rows_by_their_number(table: Path) -> None:
    import argparse

    from whyformer.cli.rows import Rows

    saved = table.parent / "saved"
    films().save_to_disk(saved)
    for place in (table, saved):
        options = argparse.Namespace(out=None, split=None, column=None, offline=True, limit=4)
        rows = Rows(str(place), options)
        shares = [[entry.content for entry in rows.share(None, rank, 3)] for rank in range(3)]
        assert shares == [[FILMS[0], FILMS[3]], [FILMS[1]], [FILMS[2]]]
        assert rows.count() == (4 if place == saved else None)


def test_empty_rows_and_lines_of_json(run: Run, tmp_path: Path) -> None:
    """Their columns are known by their first row only."""
    lines = [json.dumps({"text": text}) for text in ("warm", " ", None, "dull")]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.jsonl").write_text("\n".join(lines))
    given = f"datasets:{tmp_path / 'data'}"
    code, told, errors = run("explain", given, "--out", tmp_path / "maps", "--format", "json")
    assert code == 2
    assert "2 explained, 0 already there, 2 failed" in told
    assert "row 1: the row is empty" in errors
    assert "row 2: the row is empty" in errors


class TestRefusals:
    """One true sentence each, before anything is written."""

    def refused(self, run: Run, out: Path, *words: object) -> str:
        code, _, errors = run("explain", *words, "--out", out)
        assert code == 2
        assert not (out / ".whyformer-settings").exists()
        assert errors.count("\n") == 1
        return errors

    def test_columns(self, run: Run, table: Path, tmp_path: Path) -> None:
        out = tmp_path / "maps"
        said = self.refused(run, out, table, "--column", "title")
        assert "has no column 'title' of images or texts" in said
        assert "it has text (string), label (int64)" in said
        said = self.refused(run, out, table, "--model", "demo-vision")
        assert "has no single column of images; choose with --column; it has text" in said
        rows = datasets.Dataset.from_dict({"a": ["x"], "b": ["y"]})
        rows.to_parquet(table)
        said = self.refused(run, out, table)
        assert "no single column of images or texts" in said
        assert "a (string), b (string)" in said

    def test_splits(self, run: Run, tmp_path: Path) -> None:
        data = tmp_path / "data"
        datasets.DatasetDict(train=films(), test=films().select([4])).save_to_disk(data)
        said = self.refused(run, tmp_path / "maps", data)
        assert "has the splits train, test; choose with --split" in said
        run("explain", data, "--split", "test", "--out", tmp_path / "maps", "--format", "json")
        assert [row["text"] for row in rows_of(tmp_path / "maps")] == ["superb"]
        _, _, errors = run("explain", data, "--split", "train", "--out", tmp_path / "maps")
        assert "another" in errors

    def test_names(
        self,
        run: Run,
        table: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        out = tmp_path / "maps"
        assert "no such file: no.parquet" in self.refused(run, out, "no.parquet")
        said = self.refused(run, out, "datasets:nobody/nothing", "--offline")
        assert "'nobody/nothing' cannot be had" in said
        table.write_bytes(b"no table")
        assert "cannot be read" in self.refused(run, out, table)
        assert "--split goes with one data set" in self.refused(run, out, "x", "--split", "a")
        monkeypatch.setitem(sys.modules, "datasets", None)
        said = self.refused(run, out, "datasets:imdb")
        assert "needs datasets; install it with: pip install" in said

    def test_the_table_is_never_written_over(
        self,
        run: Run,
        table: Path,
        tmp_path: Path,
    ) -> None:
        said = self.refused(run, tmp_path, table, "--parquet")
        assert "holds the inputs; choose another folder" in said
        out = tmp_path / "maps"
        out.mkdir()
        (out / "0000002.json").write_text("mine")
        code, _, errors = run("explain", table, "--out", out, "--format", "json")
        assert code == 2
        assert "0000002.json exists and is no result of these settings" in errors
        assert (out / "0000002.json").read_text() == "mine"


def test_a_folder_of_images_stays_one_beside_a_table(
    run: Run,
    table: Path,
    tmp_path: Path,
) -> None:
    draw_scene(1, 1).image.save(table.parent / "scene.png")
    run("explain", table.parent, "--out", tmp_path / "maps", "--format", "json")
    assert results(tmp_path / "maps") == ["scene.json"]


def test_the_index_of_records() -> None:
    """The newest counts; names may be what no encoding knows."""
    from whyformer.cli.kept import Index, Kept

    index, odd = Index(), "b\udcff"
    newest = Kept(Path(odd), 7, f"{odd} 12", 5)
    for kept in (Kept(Path("x"), 1, "old", 4), newest, Kept(Path("x"), 9, "older", 3)):
        index.add(odd, kept)
    index.add("a", Kept(Path("x"), 0, "a", 9))
    assert index.get(odd) == newest
    assert "c" not in index
    assert [kept.start for kept in index] == [0, 7]
