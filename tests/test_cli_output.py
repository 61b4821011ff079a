"""The command line's output: files of every kind, the terminal, and pipes."""

from __future__ import annotations

import html.parser
import json
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import CONTROL, OWN, REVIEW, Run, start, targets
from whyformer.models.catalogue import EMBEDDED


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
