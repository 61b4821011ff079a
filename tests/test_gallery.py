"""The gallery of a folder's results: its table, its page, and what the inputs of a class share."""

from __future__ import annotations

import base64
import html
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import GALLERY, Run, draw, results, rows_of
from whyformer.demo.scenes import draw_scene
from whyformer.evaluation.data.classes import class_of_folder, imagenet_numbers
from whyformer.render.averages import Averages, Sums
from whyformer.render.records import map_of

RECORDS = ".whyformer-records-0.jsonl"
HOSTILE = '"><img src=x onerror=alert(1)> #?%41\u2028.png'
SCRIPT = "<script>alert(1)</script> a joyless film"
TEXTS = ["a warm film", "A warm and superb story", SCRIPT, "a joyless, dull story"]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """Scenes in a folder for each class; a one lies among the threes."""
    folder = tmp_path / "digits"
    for place, digit in (("3/a", 3), ("3/b", 1), ("8/a", 8), ("8/b", 8)):
        path = folder / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_scene(ord(place[-1]), labels=(digit,)).image.save(path)
    return folder


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def document(folder: Path) -> dict[str, Any]:
    """What the page holds."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    found = re.search(r'id="why-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


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
        names = ["tabby, tabby cat", "crane", "crane", "Golden Retriever"]
        assert class_of_folder("tabby", names) == 0
        assert class_of_folder("golden_retriever", names) == 3
        for unclear in ("crane", "03", "2", "n02123045", "holiday"):
            assert class_of_folder(unclear, names) is None
        thousand = [f"class {i}" for i in range(1000)]
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
        from whyformer.cli import explaining

        out, usual = tmp_path / "maps", explaining.present

        def end(sheet: Any, options: Any) -> None:
            if results(out):
                raise KeyboardInterrupt
            usual(sheet, options)

        monkeypatch.setattr(explaining, "present", end)
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


class TestMeans:
    def test_words(self) -> None:
        averages = Averages()
        for words in (
            [("Good", 3.0), ("film", 1.0)],
            [("good", 1.0), ("good", 1.0), ("plot", 2.0)],
        ):
            averages.add(text_record(words))
        averages.add(text_record([("alone", 1.0)], label="other"))
        (only,) = averages.entries()
        assert (only["name"], only["texts"]) == ("good", 2)
        assert only["words"] == [
            {"text": "Good", "share": (3 / 4 + 2 / 4) / 2, "texts": 2},
            {"text": "plot", "share": 0.5, "texts": 1},
            {"text": "film", "share": 0.25, "texts": 1},
        ]

    def test_words_against_and_sinks(self) -> None:
        averages = Averages()
        for _ in range(2):
            words = [("for", 3.0), ("against", -1.0), ("sink", None)]
            averages.add(text_record(words, signed=True))
            averages.add(text_record(words, label="unsigned"))
        signed, unsigned = averages.entries()
        shares = [{word["text"]: word["share"] for word in e["words"]} for e in (signed, unsigned)]
        assert shares == [{"for": 0.75, "against": -0.25}, {"for": 1.0, "against": 0.0}]

    def test_maps(self, run: Run, digits: Path, tmp_path: Path) -> None:
        """The mean of the records' maps is the mean of the results', each on its own scale."""
        from whyformer.render.sheet import View

        out = tmp_path / "maps"
        run("explain", digits, "--target", "8", "--out", out, "--format", "npz")
        sums, expected = Sums("8"), []
        for line in (out / RECORDS).read_text().splitlines():
            record = json.loads(line)
            sums.add_map(record["views"][0])
            scores = np.load(out / record["result"])["scores"][0]
            expected.append(View("", None, scores).strength)
            assert np.abs(map_of(record["views"][0]) - expected[-1]).max() < 0.5 / 127 + 1e-9
        assert sums.map is not None
        assert np.abs(sums.map / 4 - np.mean(expected, 0)).max() < 0.5 / 127 + 1e-9
        (shown,) = document(out)["classes"]
        assert (shown["name"], shown["images"]) == ("8", 4)
        assert shown["map"].startswith("data:image/jpeg;base64,")

    def test_maps_of_another_grid_are_stretched(self) -> None:
        sums = Sums("a")
        for size in (4, 8):
            grid = np.zeros((size, size))
            grid[: size // 2] = 1
            sums.add_map(map_record(grid))
        assert sums.map is not None
        assert sums.map.shape == (4, 4)
        assert sums.map[0].min() == 2
        assert sums.map[3].max() == 0


def text_record(
    words: list[tuple[str, float | None]], label: str = "good", signed: bool = False
) -> dict[str, Any]:
    asked = {"index": 1, "label": label, "logit": 1.0, "probability": 0.5}
    view = {"asked": asked, "signed": signed, "words": [[" ", *word] for word in words]}
    return {"kind": "text", "predicted": asked, "views": [view]}


def map_record(grid: np.ndarray) -> dict[str, Any]:
    packed = base64.b64encode((grid * 127).astype(np.int8).tobytes()).decode()
    return {"signed": False, "grid": list(grid.shape), "map": packed}


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


Open = Callable[..., Any]


@pytest.fixture
def open_gallery(tab: tuple[Any, list[str]]) -> Open:
    """Open a folder's page; nothing may be fetched, logged, thrown or popped up."""
    page, events = tab

    def show(folder: Path, width: int = 1100, scheme: str = "light") -> Any:
        events.clear()
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.goto((folder / "index.html").as_uri())
        fetched = [event for event in events if not event.startswith("request: data:")]
        assert fetched == [f"request: {(folder / 'index.html').as_uri()}"]
        return page

    return show


def shown(page: Any) -> list[str]:
    return page.locator(".why-card .why-file").all_inner_texts()


class TestPage:
    def test_filters(self, run: Run, digits: Path, tmp_path: Path, open_gallery: Open) -> None:
        run("explain", digits, "--out", tmp_path / "maps")
        page = open_gallery(tmp_path / "maps")
        assert "3 of 4 right (75.0\u00a0%)" in page.locator(".why-meta").inner_text()
        every = ["3/a.png", "3/b.png", "8/a.png", "8/b.png"]
        assert shown(page) == every
        assert page.locator(".why-mean figcaption").all_inner_texts() == ["8 2\u00a0images"]
        page.get_by_label("Mistakes only").check()
        assert shown(page) == ["3/b.png"]
        card = page.locator(".why-card")
        assert card.locator(".why-mark").get_attribute("aria-label") == "mistake"
        assert "true: 3" in card.inner_text()
        assert page.get_by_role("status").inner_text() == "1 of 4\u00a0inputs"
        page.get_by_label("Mistakes only").uncheck()
        page.get_by_label("Predicted").select_option(label="8 (2)")
        assert shown(page) == every[2:]
        page.get_by_label("Predicted").select_option(label="all")
        page.get_by_label("True class").select_option(label="3 (2)")
        assert shown(page) == every[:2]
        page.get_by_label("True class").select_option(label="all")
        page.get_by_label("Search names").fill("B.PNG")
        assert shown(page) == ["3/b.png", "8/b.png"]
        page.get_by_label("Search names").fill("")
        rows = sorted(rows_of(tmp_path / "maps"), key=lambda r: float(r["predicted_probability"]))
        page.get_by_label("Sort by").select_option(label="least sure first")
        assert shown(page) == [row["file"] for row in rows]
        page.get_by_label("Sort by").select_option(label="surest first")
        assert shown(page) == [row["file"] for row in reversed(rows)]

    def test_by_keyboard(self, run: Run, digits: Path, tmp_path: Path, open_gallery: Open) -> None:
        run("explain", digits, "--out", tmp_path / "maps", "--format", "html")
        page = open_gallery(tmp_path / "maps")
        page.get_by_label("Search names").focus()
        for _ in range(4):
            page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert shown(page) == ["3/b.png"]
        page.keyboard.press("Tab")
        outline = page.locator(":focus").evaluate("(node) => getComputedStyle(node).outlineStyle")
        assert outline == "solid"
        page.keyboard.press("Enter")
        page.wait_for_url((tmp_path / "maps" / "3" / "b.html").as_uri())

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_narrow(
        self, run: Run, sentences: Path, tmp_path: Path, open_gallery: Open, scheme: str
    ) -> None:
        run("explain", "--lines", sentences, "--out", tmp_path / "texts")
        page = open_gallery(tmp_path / "texts", 390, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 20, 26)")
        strongest = page.locator(".why-unit", has_text="joyless").first
        colour = strongest.evaluate("(node) => getComputedStyle(node).backgroundColor")
        assert colour not in ("rgba(0, 0, 0, 0)", ground)
        assert page.get_by_text("Mistakes only").count() == 0

    def test_hostile_names_and_texts(
        self, run: Run, sentences: Path, tmp_path: Path, open_gallery: Open
    ) -> None:
        for name in (HOSTILE, "javascript:alert(1).png"):
            draw(tmp_path / "photos" / name, 1)
        for given, out in ((["--lines", sentences], "texts"), ([tmp_path / "photos"], "<b>maps")):
            assert run("explain", *given, "--out", tmp_path / out, "--format", "html")[0] == 0
        page = open_gallery(tmp_path / "<b>maps")
        assert page.locator("h1").inner_text() == "<b>maps"
        assert page.locator(".why-file").first.text_content() == HOSTILE
        assert page.locator("script").count() == 2
        assert page.locator(".why-file *, h1 *").count() == 0
        for number in (0, 1):
            page.locator(".why-card a").nth(number).click()
            page.locator(".why-stage").first.wait_for()
            assert page.locator(".why-viewer").count() == 1
            page.go_back()
        page = open_gallery(tmp_path / "texts")
        written = page.locator(".why-stage-text").nth(2).text_content()
        assert written.replace("[UNK]", "") == SCRIPT
        page.get_by_label("Search names and texts").fill("<SCRIPT>")
        assert shown(page) == ["00003"]

    def test_many_inputs_come_as_they_are_reached(
        self, run: Run, digits: Path, tmp_path: Path, open_gallery: Open
    ) -> None:
        from whyformer.render.gallery import write_gallery

        run("explain", digits, "--out", tmp_path / "maps")
        lines = (tmp_path / "maps" / RECORDS).read_text().splitlines()
        some = [json.loads(line) for line in lines]
        many = [{**some[i % 4], "file": f"{i:04d}"} for i in range(600)]
        write_gallery(tmp_path / "maps", lambda: many)
        page = open_gallery(tmp_path / "maps")
        assert page.locator(".why-card").count() < 600
        before = page.locator(".why-card").count()
        page.locator(".why-further").scroll_into_view_if_needed()
        page.locator(".why-card").nth(before).wait_for()
        page.get_by_label("Search names").fill("0599")
        assert shown(page) == ["0599"]
        assert page.get_by_role("button", name="Show more").is_hidden()


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
