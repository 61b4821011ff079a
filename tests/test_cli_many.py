"""Many inputs into a folder: going on after a bad one, and after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from command_line import GALLERY, Run, draw, results, rows_of, start, targets, typed
from whyformer.forked import can_fork

needs_forks = pytest.mark.skipif(not can_fork(), reason="this system does not fork")


class TestMany:
    """Folders, lists and lines into a folder."""

    def test_a_folder(self, run: Run, photos: Path, tmp_path: Path) -> None:
        out = tmp_path / "maps"
        code, output, errors = run("explain", photos, "-t", "3", "--out", out)
        assert code == 0
        told = f"{out}: 3 explained, 0 already there, 0 failed\n"
        assert output == f"{told}{out / 'index.html'} shows them\n"
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
            (out / ".whyformer-settings").write_text(content)
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
        assert results(tmp_path / "maps") == ["00001.json", "00004.json"]
        second = json.loads((tmp_path / "maps" / "00004.json").read_text())
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
            assert run(*arguments)[0] == 0
            data = json.loads((tmp_path / "maps" / "00001.json").read_text())
            assert data["views"][0]["words"][1]["text"] == word

    def test_every_line_gets_its_pair(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "sentences.txt"
        path.write_text("a good film\n")
        code, output, _ = run("explain", "--lines", path, "--pair", "a bad one", "--json")
        assert code == 0
        words = [word["text"] for word in json.loads(output)["views"][0]["words"]]
        assert words == ["a", "good", "film", "a", "bad", "one"]


class TestTheSameFolder:
    """Results of other weights, or of two processes, are never mixed."""

    def test_weights_that_changed(self, run: Run, photos: Path, tmp_path: Path) -> None:
        """The command, the model's name and the inputs are the same; the model is not."""
        from safetensors.torch import load_file, save_file

        from small_images import save_vit

        model = save_vit(tmp_path / "my-vit")
        arguments = ["explain", photos, "--model", model, "--out", tmp_path / "maps"]
        assert "3 explained" in run(*arguments)[1]
        assert "3 already there" in run(*arguments)[1]
        weights = load_file(model / "model.safetensors")
        name = next(name for name in weights if name.endswith("classifier.weight"))
        weights[name] = weights[name] + 1
        save_file(weights, model / "model.safetensors", {"format": "pt"})
        code, output, errors = run(*arguments)
        assert (code, output) == (2, "")
        assert "holds results made with other weights of the model" in errors
        assert "3 explained" in run(*arguments, "--overwrite")[1]

    def test_preprocessing_that_changed(self, run: Run, photos: Path, tmp_path: Path) -> None:
        from small_images import save_vit

        model = save_vit(tmp_path / "my-vit")
        arguments = ["explain", photos, "--model", model, "--out", tmp_path / "maps"]
        assert "3 explained" in run(*arguments)[1]
        path = model / "preprocessor_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "image_mean": [0, 0, 0]}))
        code, _, errors = run(*arguments)
        assert code == 2
        assert "another configuration, label list or preprocessing" in errors

    def test_two_processes_at_once(self, run: Run, photos: Path, tmp_path: Path) -> None:
        """The second finds the folder taken, or finds the first's settings there."""
        from whyformer.cli.results import LOCK
        from whyformer.files import lock

        with lock(tmp_path / "maps" / LOCK):
            code, _, errors = run("explain", photos, "-t", "3", "--out", tmp_path / "maps")
        assert code == 2
        assert "is being written by another process" in errors
        assert results(tmp_path / "maps") == []

    def test_settings_that_came_while_it_worked(
        self, run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from whyformer.cli import results as marked

        usual = marked.lock

        def late(path: Path) -> object:
            (tmp_path / "maps" / marked.SETTINGS).parent.mkdir(exist_ok=True)
            (tmp_path / "maps" / marked.SETTINGS).write_text('{"target": ["8"]}')
            return usual(path)

        monkeypatch.setattr(marked, "lock", late)
        code, _, errors = run("explain", photos, "-t", "3", "--out", tmp_path / "maps")
        assert code == 2
        assert "holds results made with another" in errors
        assert results(tmp_path / "maps") == []

    def test_lines_of_several_files_are_counted_on(self, run: Run, tmp_path: Path) -> None:
        first, second = tmp_path / "a.txt", tmp_path / "b.txt"
        first.write_text("a good film\n\nanother\n")
        second.write_text("\none\x0bmore\n")
        run("explain", "--lines", first, second, "--out", tmp_path / "maps", "--format", "json")
        assert results(tmp_path / "maps") == ["00001.json", "00003.json", "00005.json"]


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

    @pytest.mark.parametrize("cores", [1, pytest.param(2, marks=needs_forks)])
    def test_interrupted_and_resumed(self, run: Run, tmp_path: Path, cores: int) -> None:
        photos, out = tmp_path / "photos", tmp_path / "maps"
        for i in range(40):
            draw(photos / f"{i:02d}.png", i)
        arguments = ["explain", photos, "--out", out, "--format", "html"]
        process = start(*arguments, cores=cores, start_new_session=True)
        until = time.monotonic() + 120
        while len(list(out.glob("[0-9]*.html"))) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to all its processes
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"whyformer: interrupted" in errors
        assert b"Traceback" not in errors
        done = results(out)
        assert 2 <= len(done) < 40
        ranks = range(1 if cores == 1 else 1 + cores)
        records = [f".whyformer-records-{rank}.jsonl" for rank in ranks]
        kept = [".whyformer-lock", *records, ".whyformer-settings"]
        assert sorted(os.listdir(out)) == [*kept, *done, *GALLERY]
        assert len(rows_of(out)) == len(done)
        for name in done:
            assert (out / name).read_text().rstrip().endswith("</html>")
        code, output, _ = run(*arguments)
        assert code == 0
        assert f"{40 - len(done)} explained, {len(done)} already there, 0 failed" in output
        assert len(results(out)) == 40
        assert [row["result"] for row in rows_of(out)] == results(out)

    @needs_forks
    def test_a_fork_that_is_killed_loses_nothing(self, run: Run, tmp_path: Path) -> None:
        """As the system does where memory lacks."""
        photos, out = tmp_path / "photos", tmp_path / "maps"
        for i in range(200):
            draw(photos / f"{i:03d}.png", i)
        arguments = ["explain", photos, "--out", out, "--format", "json"]
        process = start(*arguments, cores=2)
        until = time.monotonic() + 120
        while len(list(out.glob("[0-9]*.json"))) < 4 and time.monotonic() < until:
            time.sleep(0.02)
        psutil.Process(process.pid).children()[-1].kill()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 2
        (said,) = [line for line in errors.decode().splitlines() if line[:10] == "whyformer:"]
        assert said.startswith("whyformer: a process that explained was killed, perhaps for want")
        assert b"Traceback" not in errors
        done = results(out)
        assert 4 <= len(done) < 200
        code, output, _ = run(*arguments)
        assert (code, len(results(out))) == (0, 200)
        assert f"{200 - len(done)} explained, {len(done)} already there, 0 failed" in output
