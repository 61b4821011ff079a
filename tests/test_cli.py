"""The command line: what it prints, what it writes, and how it goes on after an interruption."""

from __future__ import annotations

import html.parser
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import whyformer
from whyformer.cli import main
from whyformer.models.catalogue import EMBEDDED

SOURCE = Path(whyformer.__file__).resolve().parents[1]
REVIEW = "A warm, witty film: naïve & superb!"
#: the only escape codes that we write: colours of a ground and a letter, and back
OWN = re.compile(r"\x1b\[(0|[34]8;2;\d+;\d+;\d+;[34]8;2;\d+;\d+;\d+)m")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process: its exit code, output and errors."""

    def command(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        output, errors = capsys.readouterr()
        return code, output, errors

    return command


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    return draw(tmp_path / "scene.png", 0)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three images, one of them deeper down."""
    folder = tmp_path / "photos"
    for seed, name in enumerate(("a.png", "b.JPG", "deeper/c.webp")):
        draw(folder / name, seed)
    (folder / "remarks.txt").write_text("no image")
    return folder


def draw(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    os.utime(path, (1e9, 1e9))
    return path


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.Popen(
        [sys.executable, "-m", "whyformer", *map(str, arguments)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def results(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(folder)) for path in files if path.name[0] != ".")


def targets(path: Path) -> list[Any]:
    return [view["target"] for view in json.loads(path.read_text())["views"]]


class TestOneInput:
    """``explain`` with an image, a text, a text file and standard input."""

    def test_an_image_to_the_terminal(self, run: Run, scene: Path) -> None:
        code, output, errors = run("explain", scene, "--target", "3", "--target", "8")
        assert (code, errors) == (0, "")
        assert "demo-vision says: " in output
        assert "why 3?" in output
        assert "why 8?" in output

    def test_a_text_to_the_terminal(self, run: Run) -> None:
        code, output, errors = run("explain", REVIEW, "--target", "negative")
        assert (code, errors) == (0, "")
        assert "demo-text says: " in output
        assert "why negative?" in output
        assert "naïve" in output

    def test_pieces_instead_of_words(self, run: Run) -> None:
        word = "unwatchableness"
        assert word in run("explain", f"an {word}")[1].split("\n\n")[1]
        assert word not in run("explain", f"an {word}", "--pieces")[1].split("\n\n")[1]

    def test_a_text_file(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "review"
        path.write_bytes(b"\xef\xbb\xbf" + REVIEW.encode())
        _, output, _ = run("explain", path, "--json")
        data = json.loads(output)
        assert data["title"] == str(path)
        assert data["pieces"][1]["text"] == "A"

    def test_standard_input(self, run: Run, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        typed(monkeypatch, scene.read_bytes())
        assert json.loads(run("explain", "-", "--json")[1])["kind"] == "image"
        typed(monkeypatch, REVIEW.encode())
        assert json.loads(run("explain", "-", "--json")[1])["kind"] == "text"

    def test_an_argument_is_the_same_as_a_file_and_a_call(
        self, run: Run, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = whyformer.load("demo-vision")(scene, target=4)
        typed(monkeypatch, scene.read_bytes())
        for given in (scene, "-"):
            data = json.loads(run("explain", given, "--target", "4", "--json")[1])
            expected = own.tokens.to_map(own.relevance[0]).flatten()
            assert np.allclose(data["views"][0]["scores"], expected, rtol=1e-5)

    @pytest.mark.parametrize("words", [20, 60, 1000])
    def test_a_text_of_any_length_as_an_argument(self, run: Run, words: int) -> None:
        code, output, errors = run("explain", "good film " * (words // 2), "--json", "-q")
        assert (code, errors) == (0, "")
        assert len(json.loads(output)["views"][0]["words"]) == words

    @pytest.mark.parametrize(
        "text",
        ["either/or film", "film?*[a]", "100% {good}", "C:\\films", "~", "https://a.b/c good"],
    )
    def test_a_text_that_looks_like_something_else(self, run: Run, text: str) -> None:
        code, output, _ = run("explain", text, "--json")
        assert code == 0
        assert json.loads(output)["kind"] == "text"

    def test_a_pair(self, run: Run) -> None:
        data = json.loads(run("explain", "a warm film", "--pair", "a cold one", "--json")[1])
        words = [word["text"] for word in data["views"][0]["words"]]
        assert words == ["a", "warm", "film", "a", "cold", "one"]

    def test_several_targets_by_name_and_number(self, run: Run) -> None:
        data = json.loads(run("explain", REVIEW, "-t", "positive", "-t", "0", "--json")[1])
        assert [view["label"] for view in data["views"]] == ["positive", "negative"]

    def test_a_named_pipe_is_read_once(self, run: Run) -> None:
        """As in ``whyformer explain <(echo good film)``."""
        reader, writer = os.pipe()
        os.write(writer, b"good film")
        os.close(writer)
        try:
            code, output, _ = run("explain", f"/dev/fd/{reader}", "--json")
        finally:
            os.close(reader)
        assert code == 0
        assert len(json.loads(output)["views"][0]["words"]) == 2

    def test_a_file_name_that_is_no_utf8(self, run: Run, scene: Path, tmp_path: Path) -> None:
        odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png")
        shutil.copy(scene, odd)
        assert run("explain", odd)[0] == 0
        assert run("explain", odd, "--json")[0] == 0
        assert run("explain", odd, "--out", tmp_path / "why.html")[0] == 0

    def test_an_output_that_knows_ascii_only(
        self, scene: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for arguments in (["explain", REVIEW], ["explain", REVIEW, "--json"]):
            raw = io.BytesIO()
            monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
            assert main(arguments) == 0
            sys.stdout.flush()
            assert b"warm" in raw.getvalue()


class TestOutput:
    """Files by their ending, JSON, colours, and quiet."""

    @pytest.mark.parametrize("given", ["image", "text"])
    @pytest.mark.parametrize("ending", ["png", "html", "json", "npz", "tex", "svg", "PNG"])
    def test_every_ending(
        self, run: Run, scene: Path, tmp_path: Path, given: str, ending: str
    ) -> None:
        path = tmp_path / "new folder" / f"why.{ending}"
        source = scene if given == "image" else REVIEW
        code, output, errors = run("explain", source, "-t", "0", "-t", "1", "--out", path)
        assert (code, errors) == (0, "")
        assert str(path) in output
        check_file(path, given)
        assert not [name for name in os.listdir(path.parent) if name.startswith(".")]

    @pytest.mark.parametrize(
        "option", [["--patches"], ["--contour", "0.5"], ["--opacity", "0"], ["--opacity", "1"]]
    )
    def test_the_look_changes_the_picture(
        self, run: Run, scene: Path, tmp_path: Path, option: list[str]
    ) -> None:
        run("explain", scene, "-o", tmp_path / "plain.png")
        assert run("explain", scene, "-o", tmp_path / "other.png", *option)[0] == 0
        plain, other = (
            np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB"))
            for name in ("plain", "other")
        )
        assert plain.shape == other.shape
        assert (plain != other).any()

    def test_json_and_nothing_else(self, run: Run, scene: Path, tmp_path: Path) -> None:
        for more in ([], ["--out", tmp_path / "why.png"], ["--quiet"]):
            code, output, errors = run("explain", scene, "--json", *more)
            assert (code, errors) == (0, "")
            data = json.loads(output)
            assert data["image"]["grid"] == [12, 12]
            assert len(data["views"][0]["scores"]) == 144

    def test_quiet(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "why.png"
        assert run("explain", REVIEW, "--out", path, "--quiet") == (0, "", "")
        assert path.is_file()

    def test_notes_are_shown(self, run: Run, tmp_path: Path) -> None:
        Image.new("RGBA", (50, 50), (9, 9, 9, 9)).save(tmp_path / "clear.png")
        assert "note: the image is partly" in run("explain", tmp_path / "clear.png")[1]

    @pytest.mark.parametrize("given", ["image", "text"])
    def test_colour_only_where_it_is_wanted(
        self, run: Run, scene: Path, monkeypatch: pytest.MonkeyPatch, given: str
    ) -> None:
        source = scene if given == "image" else REVIEW
        assert "\x1b" not in run("explain", source)[1]
        monkeypatch.setenv("FORCE_COLOR", "1")
        coloured = run("explain", source)[1]
        assert OWN.search(coloured)
        assert "\x1b" not in OWN.sub("", coloured)
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in run("explain", source)[1]

    @pytest.mark.parametrize("colour", ["", "1"])
    @pytest.mark.parametrize(
        "attack",
        ["\x1b[8mhidden\x1b[0m", "\x1b]0;title\x07", "\x9b2J", "\x1b[2J\x1b[H", "a\rb", "\x08\x08"],
    )
    def test_a_text_cannot_steer_the_terminal(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, colour: str, attack: str
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", colour)
        code, output, _ = run("explain", f"good {attack} film {attack}")
        assert code == 0
        assert not CONTROL.search(OWN.sub("", output))

    def test_names_cannot_steer_the_terminal(self, run: Run, tmp_path: Path) -> None:
        folder = relabelled(tmp_path / "model", ["\x1b[8mbad", "good\x07"])
        for command in (
            ["classes", folder],
            ["explain", "film", "--model", folder],
            ["explain", "film", "--model", folder, "--out", tmp_path / "why.png"],
            ["explain", "film", "--model", folder, "--target", "bda"],
            ["explain", "\x1b[8mnone.png"],
        ):
            _, output, errors = run(*command)
            assert not CONTROL.search(output + errors), command

    def test_a_reader_that_leaves_gets_no_traceback(self) -> None:
        for command in (["methods"], ["--help"], ["models", "--json"]):
            process = start(*command)
            assert process.stdout is not None
            process.stdout.close()
            _, errors = process.communicate(timeout=60)
            assert errors == b"", command


def relabelled(folder: Path, labels: list[str]) -> Path:
    """A copy of the embedded text model with other names for its classes."""
    shutil.copytree(EMBEDDED["demo-text"].path, folder)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {str(i): label for i, label in enumerate(labels)}
    config["label2id"] = {label: i for i, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def check_file(path: Path, given: str) -> None:
    ending = path.suffix.lower()
    if ending == ".png":
        with Image.open(path) as image:
            image.load()
            assert min(image.size) > 20
    elif ending == ".html":
        text = path.read_text(encoding="utf-8")
        html.parser.HTMLParser().feed(text)
        assert text.lower().startswith("<!doctype html>")
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", text), "the page is self-contained"
    elif ending == ".json":
        assert targets(path) == [0, 1]
    elif ending == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            assert arrays["target"].tolist() == [0, 1]
            shape = (2, 12, 12) if given == "image" else (2, len(arrays["pieces"]))
            assert arrays["scores"].shape == shape
    elif ending == ".tex":
        text = path.read_text(encoding="utf-8")
        assert text.startswith("\\documentclass")
        assert "\\end{document}" in text
        bare = re.sub(r"\\.", "", text)
        assert bare.count("{") == bare.count("}")
        assert given == "text" or path.with_name(f"{path.stem}-panels.png").is_file()
    else:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


class TestCompare:
    """``compare``: several methods side by side."""

    def test_all_methods_but_the_slow_one(self, run: Run, scene: Path) -> None:
        data = json.loads(run("compare", scene, "-t", "3", "-t", "8", "--json")[1])
        shown = {view["method"] for view in data["views"]}
        assert shown == set(whyformer.methods()) - {"attention_flow"}
        specific = [view for view in data["views"] if view["class_specific"]]
        assert len(specific) == 2 * len({view["method"] for view in specific})

    def test_chosen_methods_to_a_file(self, run: Run, scene: Path, tmp_path: Path) -> None:
        path = tmp_path / "figure.json"
        methods = ["--method", "rollout", "--method", "gradcam"]
        assert run("compare", scene, *methods, "-o", path)[0] == 0
        shown = [view["method"] for view in json.loads(path.read_text())["views"]]
        assert shown == ["rollout", "gradcam"]

    def test_the_slow_ones_as_well(self, run: Run) -> None:
        code, output, errors = run("compare", "good film", "--all", "--json", "--quiet")
        assert (code, errors) == (0, "")
        data = json.loads(output)
        assert {view["method"] for view in data["views"]} == set(whyformer.methods())


class TestListing:
    """``methods``, ``models``, ``classes`` and help."""

    def test_methods(self, run: Run) -> None:
        _, output, _ = run("methods")
        assert [line.split()[0] for line in output.splitlines()] == list(whyformer.methods())
        entries = json.loads(run("methods", "--json")[1])
        assert [entry["name"] for entry in entries] == list(whyformer.methods())

    def test_models(self, run: Run) -> None:
        _, output, _ = run("models")
        assert all(name in output for name in EMBEDDED)
        entries = json.loads(run("models", "--json")[1])
        assert {entry["name"]: entry["reads"] for entry in entries} == {
            "demo-vision": "image",
            "demo-text": "text",
        }

    def test_classes(self, run: Run) -> None:
        assert run("classes", "demo-text") == (0, "    0  negative\n    1  positive\n", "")
        assert run("classes", "demo-text", "--search", "POS")[1] == "    1  positive\n"
        assert run("classes", "--model", "demo-text")[1].count("\n") == 2
        found = json.loads(run("classes", "demo-text", "--search", "neg", "--json")[1])
        assert found == [{"index": 0, "label": "negative"}]

    @pytest.mark.parametrize(
        "command", [[], ["explain"], ["compare"], ["methods"], ["models"], ["classes"], ["demo"]]
    )
    def test_help_has_examples(self, run: Run, command: list[str]) -> None:
        code, output, _ = run(*command, "--help")
        assert code == 0
        assert re.search(r"examples?:\n  +whyformer ", output)

    def test_version_and_no_command(self, run: Run) -> None:
        assert run("--version")[1] == f"whyformer {whyformer.__version__}\n"
        assert run()[0] == 2

    @pytest.mark.parametrize(
        "command", [["--help"], ["explain", "--help"], ["methods"], ["models", "--json"]]
    )
    def test_listing_never_loads_torch(self, command: list[str]) -> None:
        script = (
            "import sys\nfrom whyformer.cli import main\n"
            f"try: main({command!r})\nexcept SystemExit: pass\n"
            "heavy = {'torch', 'transformers', 'numpy', 'PIL', 'scipy'} & set(sys.modules)\n"
            "print(sorted(heavy), file=sys.stderr)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout
        assert done.stderr == "[]\n"


class TestMany:
    """Folders, lists and lines into a folder."""

    def test_a_folder(self, run: Run, photos: Path, tmp_path: Path) -> None:
        out = tmp_path / "maps"
        code, output, errors = run("explain", photos, "-t", "3", "--out", out)
        assert code == 0
        assert output == f"{out}: 3 explained, 0 already there, 0 failed\n"
        assert "explaining" in errors
        assert "3/3" in errors
        assert results(out) == ["a.png", "b.png", "deeper/c.png"]

    def test_quietly(self, run: Run, photos: Path, tmp_path: Path) -> None:
        arguments = ["explain", photos, "--out", tmp_path / "maps", "--quiet", "--format", "json"]
        assert run(*arguments) == (0, "", "")
        assert len(results(tmp_path / "maps")) == 3

    def test_a_folder_to_the_terminal(self, run: Run, photos: Path) -> None:
        _, output, _ = run("explain", photos)
        assert output.count("demo-vision says") == 3
        _, output, _ = run("explain", photos, "--json")
        assert [json.loads(line)["kind"] for line in output.splitlines()] == ["image"] * 3

    def test_json_beside_a_folder_is_json_only(
        self, run: Run, photos: Path, tmp_path: Path
    ) -> None:
        _, output, _ = run("explain", photos, "--json", "--out", tmp_path / "maps")
        assert len([json.loads(line) for line in output.splitlines()]) == 3

    def test_a_bad_file_does_not_stop_the_others(
        self, run: Run, photos: Path, tmp_path: Path
    ) -> None:
        (photos / "aa.png").write_bytes(b"no image")
        (photos / "ab.png").mkdir()
        out = tmp_path / "maps"
        code, output, errors = run("explain", photos, "--out", out, "--format", "json")
        assert code == 2
        assert "3 explained" in output
        assert results(out) == ["a.json", "b.json", "deeper/c.json"]
        assert f"whyformer: {photos / 'aa.png'} is not an image" in errors
        assert "Traceback" not in errors

    def test_finished_ones_are_skipped(self, run: Run, photos: Path, tmp_path: Path) -> None:
        arguments = ["explain", photos, "--out", tmp_path / "maps", "--format", "json"]
        run(*arguments)
        (tmp_path / "maps" / "b.json").unlink()
        before = {name: (tmp_path / "maps" / name).stat().st_mtime_ns for name in ("a.json",)}
        assert "1 explained, 2 already there, 0 failed" in run(*arguments)[1]
        draw(photos / "d.png", 7)
        os.utime(photos / "deeper" / "c.webp")  # changed since
        os.utime(tmp_path / "maps" / "deeper" / "c.json", (1e9, 1e9))
        assert "2 explained, 2 already there" in run(*arguments)[1]
        assert before == {name: (tmp_path / "maps" / name).stat().st_mtime_ns for name in before}

    @pytest.mark.parametrize(
        ("option", "named"),
        [
            (["--target", "5"], "target"),
            (["--method", "gradcam"], "method"),
            (["--preset", "paper"], "preset"),
            (["--model", "demo-text"], "model"),
            (["--patches"], "look"),
        ],
    )
    def test_other_settings_are_refused(
        self, run: Run, photos: Path, tmp_path: Path, option: list[str], named: str
    ) -> None:
        arguments = ["explain", photos / "a.png", photos / "b.JPG", "--out", tmp_path / "maps"]
        run(*arguments)
        content = (tmp_path / "maps" / "a.png").read_bytes()
        code, output, errors = run(*arguments, *option)
        assert (code, output) == (2, "")
        assert f"another {named}" in errors
        assert "--overwrite" in errors
        assert (tmp_path / "maps" / "a.png").read_bytes() == content

    def test_overwrite(self, run: Run, photos: Path, tmp_path: Path) -> None:
        arguments = ["explain", photos, "--out", tmp_path / "maps", "--format", "json"]
        run(*arguments, "--target", "1")
        code, output, _ = run(*arguments, "--target", "2", "--overwrite")
        assert (code, "3 explained, 0 already there" in output) == (0, True)
        assert targets(tmp_path / "maps" / "a.json") == [2]
        assert "0 explained, 3 already there" in run(*arguments, "--target", "2")[1]

    def test_inputs_and_strangers_are_never_replaced(
        self, run: Run, photos: Path, tmp_path: Path
    ) -> None:
        files = sorted(file for file in photos.rglob("*") if file.is_file())
        before = {file: file.read_bytes() for file in files}
        for more in ([], ["--overwrite"]):
            code, _, errors = run("explain", *files, "--out", photos, *more)
            assert code == 2
            assert "is an input" in errors
        (tmp_path / "maps").mkdir()
        stranger = tmp_path / "maps" / f"{files[0].stem}.png"
        stranger.write_bytes(b"mine")
        code, _, errors = run("explain", *files, "--out", tmp_path / "maps")
        assert code == 2
        assert "no result of these settings" in errors
        assert stranger.read_bytes() == b"mine"
        assert {file: file.read_bytes() for file in files} == before

    def test_other_lines_are_other_inputs(self, run: Run, tmp_path: Path) -> None:
        for text in ("a good film", "a bad film"):
            path = tmp_path / f"{text}.txt"
            path.write_text(text)
            os.utime(path, (1e9, 1e9))
            run("explain", "--lines", path, "--out", tmp_path / "maps", "--format", "json")
            data = json.loads((tmp_path / "maps" / "00001.json").read_text())
            assert data["title"] == text

    def test_overwriting_that_failed_does_not_pass_for_done(
        self, run: Run, photos: Path, tmp_path: Path
    ) -> None:
        arguments = ["explain", photos, "--out", tmp_path / "maps", "--format", "json"]
        run(*arguments, "--target", "1")
        good = (photos / "a.png").read_bytes()
        (photos / "a.png").write_bytes(b"broken")
        assert run(*arguments, "--target", "2", "--overwrite")[0] == 2
        (photos / "a.png").write_bytes(good)
        os.utime(photos / "a.png", (1e9, 1e9))
        run(*arguments, "--target", "2")
        assert targets(tmp_path / "maps" / "a.json") == [2]

    def test_a_mistake_is_said_once_and_leaves_no_mark(
        self, run: Run, photos: Path, tmp_path: Path
    ) -> None:
        arguments = ["explain", photos, "--out", tmp_path / "maps"]
        for wrong in (["--model", "demo-visoin"], ["--preset", "stabel"], ["--target", "cat"]):
            code, _, errors = run(*arguments, *wrong)
            assert code == 2
            assert errors.count("did you mean") + errors.count("known:") == 1, errors
        assert run(*arguments)[0] == 0

    def test_a_damaged_mark(self, run: Run, photos: Path, tmp_path: Path) -> None:
        out = tmp_path / "maps"
        run("explain", photos, "--out", out)
        for content in ("{", "[]", ""):
            (out / ".whyformer.json").write_text(content)
            code, _, errors = run("explain", photos, "--out", out)
            assert code in (0, 2)
            assert "Traceback" not in errors

    def test_equal_names_do_not_overwrite_each_other(self, run: Run, tmp_path: Path) -> None:
        one, two = draw(tmp_path / "1" / "a.png", 1), draw(tmp_path / "2" / "a.png", 2)
        draw(tmp_path / "1" / "a.jpg", 3)
        out = tmp_path / "maps"
        run("explain", one, two, "--out", out, "--format", "json")
        assert len(results(out)) == 2
        out = tmp_path / "more"
        run("explain", tmp_path / "1", tmp_path / "2", "--out", out, "--format", "json")
        assert len(results(out)) == 3

    @pytest.mark.parametrize("where", ["maps", "."])
    def test_results_among_the_inputs_are_no_inputs(
        self, run: Run, photos: Path, where: str
    ) -> None:
        before = {path: path.read_bytes() for path in photos.rglob("*.*") if path.is_file()}
        for more in ([], [], ["--overwrite"]):
            run("explain", photos, "--out", photos / where, *more)
        assert all(path.read_bytes() == content for path, content in before.items())
        assert len(results(photos)) <= 7

    def test_the_input_is_never_overwritten(self, run: Run, scene: Path) -> None:
        before = scene.read_bytes()
        code, _, errors = run("explain", scene, "--out", scene)
        assert scene.read_bytes() == before
        assert code == 2
        assert errors.count("\n") == 1

    def test_lines(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "sentences.txt"
        path.write_text("a good film\n\n  \r\na bad film\n")
        arguments = ["explain", "--lines", path, "--out", tmp_path / "maps", "--format", "json"]
        assert "2 explained" in run(*arguments)[1]
        assert results(tmp_path / "maps") == ["00001.json", "00002.json"]
        second = json.loads((tmp_path / "maps" / "00002.json").read_text())
        assert [word["text"] for word in second["views"][0]["words"]] == ["a", "bad", "film"]
        assert "2 already there" in run(*arguments)[1]
        typed(monkeypatch, b"one film\ntwo films\n")
        _, output, _ = run("explain", "--lines", "-", "--json")
        assert len(output.splitlines()) == 2

    def test_lines_that_changed_are_done_again(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "sentences.txt"
        arguments = ["explain", "--lines", path, "--out", tmp_path / "maps", "--format", "json"]
        for word in ("good", "bad"):
            path.write_text(f"a {word} film\n")
            code, _, _ = run(*arguments)
            data = json.loads((tmp_path / "maps" / "00001.json").read_text())
            assert code == 2 or data["views"][0]["words"][1]["text"] == word

    def test_every_line_gets_its_pair(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "sentences.txt"
        path.write_text("a good film\n")
        code, output, _ = run("explain", "--lines", path, "--pair", "a bad one", "--json")
        assert code == 2 or len(json.loads(output)["views"][0]["words"]) == 6


@pytest.mark.slow
class TestProcesses:
    """What only a process of its own can show."""

    def test_through_pipes(self, scene: Path) -> None:
        process = start("explain", "-", "--json", stdin=subprocess.PIPE)
        output, errors = process.communicate(scene.read_bytes(), timeout=120)
        assert (process.returncode, errors) == (0, b"")
        assert json.loads(output)["kind"] == "image"

    def test_errors_are_one_sentence(self) -> None:
        process = start("explain", "none.png")
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, output) == (2, b"")
        assert errors == b"whyformer: no such file: none.png\n"

    def test_a_reader_that_leaves_during_the_work(self) -> None:
        process = start("explain", "good film " * 20)
        assert process.stdout is not None
        process.stdout.close()
        _, errors = process.communicate(timeout=120)
        assert errors == b""

    def test_interrupted_and_resumed(self, run: Run, tmp_path: Path) -> None:
        photos, out = tmp_path / "photos", tmp_path / "maps"
        for i in range(40):
            draw(photos / f"{i:02d}.png", i)
        arguments = ["explain", photos, "--out", out, "--format", "html"]
        process = start(*arguments)
        until = time.monotonic() + 120
        while len(list(out.glob("*.html"))) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"whyformer: interrupted" in errors
        assert b"Traceback" not in errors
        done = results(out)
        assert 2 <= len(done) < 40
        assert sorted(os.listdir(out)) == [".whyformer-done.tsv", ".whyformer.json", *done]
        for name in done:
            assert (out / name).read_text().rstrip().endswith("</html>")
        code, output, _ = run(*arguments)
        assert code == 0
        assert f"{40 - len(done)} explained, {len(done)} already there, 0 failed" in output
        assert len(results(out)) == 40
