"""The command line: one input, all methods side by side, and what there is to list."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import whyformer
from command_line import REVIEW, SOURCE, Run, typed
from whyformer.cli import main
from whyformer.errors import ModelError
from whyformer.methods import absent_methods
from whyformer.models.catalogue import EMBEDDED


class TestSmallMends:
    """What people stumbled over."""

    def test_a_class_twice_is_one_class(self, run: Run, scene: Path) -> None:
        code, output, errors = run("explain", scene, "-t", "3", "-t", "3", "--json")
        assert (code, errors) == (0, "")
        assert [view["target"] for view in json.loads(output)["views"]] == [3]
        code, output, _ = run("explain", "a film", "-t", "positive", "-t", "1", "--json")
        assert [view["label"] for view in json.loads(output)["views"]] == ["positive"]

    def test_quiet_says_nothing_of_the_model(self, run: Run, scene: Path) -> None:
        assert "no --model was given" in run("explain", scene)[1]
        assert "note:" not in run("explain", scene, "-q")[1]

    def test_an_address_is_no_file(self, run: Run) -> None:
        for given in ("https://example.com/cat.jpg", "https://example.com/"):
            code, _, errors = run("explain", given)
            assert code == 2
            assert f"{given} is an address on the internet" in errors
        assert run("explain", "see https://example.com for a warm film")[0] == 0

    def test_pages_do_not_tell_folders(self, run: Run, scene: Path, tmp_path: Path) -> None:
        for out in ("why.html", "why.json"):
            assert run("explain", scene, "-o", tmp_path / out)[0] == 0
            assert str(tmp_path) not in (tmp_path / out).read_text()

    def test_a_small_probability_keeps_a_digit(self) -> None:
        from whyformer.render.sheet import ClassScore

        shares = [0.984, 0.051, 0.005, 0.00449, 0.001, 3.2e-7, 0.0]
        shown = [ClassScore(0, "a", 1.0, share).number for share in shares]
        assert shown == ["0.98", "0.05", "0.01", "0.004", "0.001", "3e-07", "0"]

    def test_options_that_would_be_ignored(self, run: Run) -> None:
        for option in (["--contour", "0.5"], ["--patches"]):
            code, _, errors = run("compare", "a film", *option)
            assert code == 2
            assert f"{option[0]} goes with images, and the input is a text" in errors

    def test_a_full_disk(self, scene: Path) -> None:
        if not os.path.exists("/dev/full"):
            pytest.skip("no /dev/full here")
        with open("/dev/full", "wb") as full:
            process = subprocess.run(
                [sys.executable, "-m", "whyformer", "methods"],
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                stdout=full, stderr=subprocess.PIPE, check=False,
            )  # fmt: skip
        assert process.returncode == 2
        said = b"whyformer: cannot write the output: No space left on device\n"
        assert process.stderr == said

    def test_threads(self, run: Run, scene: Path) -> None:
        import torch

        before = torch.get_num_threads()
        try:
            assert run("explain", scene, "--threads", "1", "-q")[0] == 0
            assert torch.get_num_threads() == 1
        finally:
            torch.set_num_threads(before)

    def test_classes_are_read_without_the_weights(self, run: Run, tmp_path: Path) -> None:
        from small_images import save_vit

        model = save_vit(tmp_path / "my-vit")
        listed = run("classes", model)[1]
        (model / "model.safetensors").unlink()
        assert run("classes", model) == (0, listed, "")
        assert listed.splitlines()[0].split()[0] == "0"


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
        assert data["title"] == "review"
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


class TestCompare:
    """``compare``: several methods side by side."""

    def test_all_methods_but_those_on_request(self, run: Run, scene: Path) -> None:
        data = json.loads(run("compare", scene, "-t", "3", "-t", "8", "--json")[1])
        shown = {view["method"] for view in data["views"]}
        on_request = {m.name for m in whyformer.methods().values() if m.on_request}
        assert "attention_flow" in on_request
        assert shown == set(whyformer.methods()) - on_request
        specific = [view for view in data["views"] if view["class_specific"]]
        assert len(specific) == 2 * len({view["method"] for view in specific})

    def test_chosen_methods_to_a_file(self, run: Run, scene: Path, tmp_path: Path) -> None:
        path = tmp_path / "figure.json"
        methods = ["--method", "rollout", "--method", "gradcam"]
        assert run("compare", scene, *methods, "-o", path)[0] == 0
        shown = [view["method"] for view in json.loads(path.read_text())["views"]]
        assert shown == ["rollout", "gradcam"]

    def test_the_slow_ones_as_well(self, run: Run) -> None:
        code, output, errors = run("compare", "good film", "--methods", "all", "--json", "--quiet")
        assert (code, errors) == (0, "")
        data = json.loads(output)
        assert {view["method"] for view in data["views"]} == set(whyformer.methods())


def test_loading_looks_for_no_garbage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a model and its library bring stays."""
    looked: list[str] = []

    def many(*_: object, **__: object) -> None:
        assert len([[] for _ in range(100_000)]) == 100_000
        raise ModelError("no more than that")

    def look(*_: object) -> None:
        looked.extend(frame.name for frame in traceback.extract_stack())

    monkeypatch.setattr("whyformer.models.loading.load", many)
    gc.callbacks.append(look)
    try:
        assert run("classes", "anything")[0] == 2
        assert gc.isenabled()
        assert "many" not in looked
        with pytest.raises(ModelError):
            many()
        assert "many" in looked
    finally:
        gc.callbacks.remove(look)


class TestListing:
    """``methods``, ``models``, ``classes`` and help."""

    def test_methods(self, run: Run) -> None:
        _, output, _ = run("methods")
        lines = {line.split()[0]: line for line in output.splitlines()}
        absent = {name for name, line in lines.items() if "pip install 'whyformer[" in line}
        assert list(lines) == sorted(lines)
        assert lines.keys() - absent == whyformer.methods().keys()
        assert absent == absent_methods().keys()
        entries = {entry["name"]: entry for entry in json.loads(run("methods", "--json")[1])}
        assert list(entries) == list(lines)
        assert {name for name, entry in entries.items() if entry["install"]} == absent
        assert entries["witness"]["reads"] == "attention, streams, gradient"
        assert entries["rollout"]["paper"] == "Abnar and Zuidema"
        assert "[best: it measured best]" in lines["witness"]
        assert "[the default]" in lines["transformer_attribution"]
        assert sum("[best" in line or "[the default" in line for line in lines.values()) == 2

    def test_the_best_method_is_named(self, run: Run) -> None:
        _, output, _ = run("explain", "a lifeless film", "--method", "best:presence=1")
        assert "note: best is witness:presence=1, the method that measured best" in output
        assert "the method that measured best" not in run("explain", "a lifeless film")[1]

    def test_models(self, run: Run) -> None:
        _, output, _ = run("models")
        assert all(name in output for name in EMBEDDED)
        entries = json.loads(run("models", "--json")[1])
        assert {entry["name"]: entry["reads"] for entry in entries} == {
            "demo-vision": "image",
            "demo-text": "text",
            "demo-writer": "language",
            "demo-clip": "towers",
            "demo-detector": "detection",
            "demo-swin": "image",
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
            "heavy = 'torch transformers numpy PIL scipy fastapi'.split()\n"
            "print(sorted(set(heavy) & set(sys.modules)), file=sys.stderr)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout
        assert done.stderr == "[]\n"
