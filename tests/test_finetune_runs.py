"""Fine-tuning: a killed run ends as one left in peace, and what cannot be is refused."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import whyformer
from command_line import start
from tuning import FAST, record_of, sentences, write_eraser, write_tsv
from whyformer import InputError, ModelError, OutputError
from whyformer.finetuning import finetune
from whyformer.finetuning.loop import last_checkpoint

LONG: dict[str, Any] = {**FAST, "epochs": 3, "batch_size": 5, "save_every": 5}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_tsv(folder / "train.tsv", sentences(60))
    write_tsv(folder / "dev.tsv", sentences(20, 1))
    return folder


@pytest.fixture(scope="module")
def whole(bert: Path, lasting: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody ended."""
    out = tmp_path_factory.mktemp("whole") / "out"
    finetune(bert, lasting, out, **LONG)
    return out


class TestGoingOn:
    """A run that was ended anywhere gives the model that it would have given."""

    @pytest.mark.parametrize(
        ("ending", "step", "last"),
        [
            ("step", 3, None),
            ("step", 7, "checkpoint-5"),
            ("step", 12, "checkpoint-12"),
            ("step", 19, "checkpoint-15"),
            ("step", 26, "checkpoint-25"),
            ("save", 24, "checkpoint-20"),
            ("measure", 0, "checkpoint-36"),
            ("move", 0, "checkpoint-36"),
        ],
    )
    def test_anywhere(
        self,
        bert: Path,
        lasting: Path,
        whole: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        ending: str,
        step: int,
        last: str | None,
    ) -> None:
        out = tmp_path / "out"
        with monkeypatch.context() as patch:
            end(patch, ending, step)
            with pytest.raises(KeyboardInterrupt):
                finetune(bert, lasting, out, **LONG)
        assert not record_of(out)["finished"]
        assert not (out / "config.json").exists()
        found = last_checkpoint(out / "checkpoints")
        assert (found and found.name) == last
        torch.rand(7)
        finetune(bert, lasting, out, **LONG)
        assert sorted(os.listdir(out)) == sorted(os.listdir(whole))
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            assert (out / name).read_bytes() == (whole / name).read_bytes(), name
        again, before = (record_of(folder)["history"] for folder in (out, whole))
        for row, other in zip(again, before, strict=True):
            assert row == pytest.approx(other, rel=1e-5)

    def test_a_run_that_stopped_early_gets_no_further_epoch(
        self, bert: Path, lasting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = {**FAST, "epochs": 8, "learning_rate": 1e-12, "patience": 1}
        with monkeypatch.context() as patch:
            end(patch, "measure", 0)
            with pytest.raises(KeyboardInterrupt):
                finetune(bert, lasting, tmp_path / "out", **options)
        result = finetune(bert, lasting, tmp_path / "out", **options)
        assert result is not None
        assert len(result.history) == 2

    def test_patience_is_remembered(
        self, bert: Path, lasting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = {**FAST, "epochs": 8, "learning_rate": 1e-12, "patience": 2}
        with monkeypatch.context() as patch:
            end(patch, "step", 14)
            with pytest.raises(KeyboardInterrupt):
                finetune(bert, lasting, tmp_path / "out", **options)
        result = finetune(bert, lasting, tmp_path / "out", **options)
        assert result is not None
        assert len(result.history) == 3

    def test_a_folder_that_was_moved(
        self,
        bert: Path,
        lasting: Path,
        whole: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with monkeypatch.context() as patch:
            end(patch, "measure", 0)
            with pytest.raises(KeyboardInterrupt):
                finetune(bert, lasting, tmp_path / "a", **LONG)
        (tmp_path / "a").rename(tmp_path / "b")
        finetune(bert, lasting, tmp_path / "b", **LONG)
        name = "model.safetensors"
        assert (tmp_path / "b" / name).read_bytes() == (whole / name).read_bytes()

    @pytest.mark.slow
    def test_killed(self, bert: Path, tmp_path: Path) -> None:
        write_tsv(tmp_path / "data" / "train.tsv", sentences(200))
        write_tsv(tmp_path / "data" / "dev.tsv", sentences(20, 1))
        command = (
            "finetune", "--model", bert, "--data", tmp_path / "data", "--epochs", 3,
            "--batch-size", 4, "--save-every", 20, "--learning-rate", 1e-4, "--device", "cpu",
            "--patience", 0,
        )  # fmt: skip
        whole = start(*command, "--out", tmp_path / "whole")
        assert whole.wait() == 0
        killed = start(*command, "--out", tmp_path / "out")
        deadline = time.monotonic() + 120
        while last_checkpoint(tmp_path / "out" / "checkpoints") is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        assert not record_of(tmp_path / "out")["finished"]
        again = start(*command, "--out", tmp_path / "out")
        output, errors = again.communicate()
        assert again.returncode == 0, errors
        assert b"validation accuracy" in output
        name = "model.safetensors"
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def end(patch: pytest.MonkeyPatch, where: str, step: int) -> None:
    """End the next run: at a step, while a checkpoint or the model is written, or before that."""
    from transformers import Trainer

    save = Trainer._save_rng_state

    def at_step(self: Any, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == step:
            raise KeyboardInterrupt

    def in_checkpoint(self: Any, folder: str) -> None:
        if folder.endswith(f"-{step}"):
            raise KeyboardInterrupt
        save(self, folder)

    def in_move(source: Path, target: Path) -> None:
        if target.name == "config.json":
            raise KeyboardInterrupt
        source.rename(target)

    def at_once(*_: Any) -> None:
        raise KeyboardInterrupt

    if where == "step":
        patch.setattr("whyformer.finetuning.callbacks.Watch.on_step_begin", at_step)
    elif where == "save":
        patch.setattr(Trainer, "_save_rng_state", in_checkpoint)
    elif where == "measure":
        patch.setattr("whyformer.finetuning.measure", at_once)
    else:
        patch.setattr("whyformer.finetuning.folder.move_in", in_move)


def run_of(bert: Path, data: Path, tmp_path: Path) -> Path:
    """A finished run of one epoch."""
    finetune(bert, data, tmp_path / "run", **{**FAST, "epochs": 1})
    return tmp_path / "run"


class TestRefusals:
    """What cannot be is said in one sentence, before anything is written."""

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("seed", 1),
            ("epochs", 3),
            ("batch_size", 5),
            ("learning_rate", 1e-3),
            ("longest", 9),
            ("cut", "tail"),
            ("patience", 9),
            ("accumulate", 2),
            ("limit", 30),
        ],
    )
    def test_another_setting_in_the_same_folder(
        self, bert: Path, data: Path, tmp_path: Path, option: str, value: Any
    ) -> None:
        out = tmp_path / "out"
        shutil.copytree(run_of(bert, data, tmp_path), out)
        before = {path: path.read_bytes() for path in out.iterdir()}
        with pytest.raises(InputError, match=rf"holds a run with another {option} \("):
            finetune(bert, data, out, **{**FAST, "epochs": 1, option: value})
        assert {path: path.read_bytes() for path in out.iterdir()} == before

    def test_other_data_and_another_model(
        self, bert: Path, named: Path, data: Path, tmp_path: Path
    ) -> None:
        out = run_of(bert, data, tmp_path)
        with pytest.raises(InputError, match="another model"):
            finetune(named, data, out, **{**FAST, "epochs": 1})
        write_tsv(data / "train.tsv", sentences(61))
        with pytest.raises(InputError, match="another samples"):
            finetune(bert, data, out, **{**FAST, "epochs": 1})

    def test_a_finished_run_is_left_alone(self, bert: Path, data: Path, tmp_path: Path) -> None:
        out = run_of(bert, data, tmp_path)

        def files() -> dict[Path, tuple[int, int]]:
            return {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in out.iterdir()}

        before = files()
        (out / "checkpoints" / "checkpoint-6").mkdir(parents=True)
        result = finetune(bert, data, out, **{**FAST, "epochs": 1})
        assert result is not None
        assert result.before
        assert files() == before

    def test_a_folder_with_something_else(self, bert: Path, data: Path, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis.tex").write_text("work of years")
        for out in (tmp_path / "out", data):
            with pytest.raises(InputError, match=r"holds something else \("):
                finetune(bert, data, out, **FAST)
        model = shutil.copytree(bert, tmp_path / "model")
        with pytest.raises(InputError, match=r"holds something else \(config.json\)"):
            finetune(model, data, model, **FAST)
        with pytest.raises(InputError, match="is a file; the model goes to a folder"):
            finetune(bert, data, data / "train.tsv", **FAST)
        assert os.listdir(tmp_path / "out") == ["thesis.tex"]

    def test_a_folder_that_cannot_be_written(self, bert: Path, data: Path) -> None:
        with pytest.raises(OutputError, match=r"cannot write .*is not a folder"):
            finetune(bert, data, data / "train.tsv" / "deeper", **FAST)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("", "is empty; expected lines of sentence TAB label"),
            ("sentence\tlabel\n", "is empty; expected lines of sentence TAB label"),
            ("good film\tPOS\na film\n", "line 2: no tab; expected sentence TAB label"),
            ("good\tfilm\tPOS\n", "line 1: 2 tabs; expected sentence TAB label"),
            ("good film\t\n", "line 1: the label is empty"),
            ("\tPOS\n", "line 1: the sentence is empty"),
            ("good film\tPOS\n" * 20, "only the class 'POS' in 18 texts to learn from"),
        ],
    )
    def test_bad_lines(self, bert: Path, tmp_path: Path, content: str, said: str) -> None:
        (tmp_path / "data.tsv").write_text(content)
        with pytest.raises(InputError, match=said):
            finetune(bert, tmp_path / "data.tsv", tmp_path / "out", **FAST)
        assert not (tmp_path / "out").exists()

    def test_bad_bytes(self, bert: Path, tmp_path: Path) -> None:
        (tmp_path / "data.tsv").write_bytes(b"\xff\xfe\t1\n")
        with pytest.raises(InputError, match="is not UTF-8 text"):
            finetune(bert, tmp_path / "data.tsv", tmp_path / "out", **FAST)

    def test_missing_data(self, bert: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file or folder"):
            finetune(bert, tmp_path / "nothing", tmp_path / "out", **FAST)
        (tmp_path / "empty").mkdir()
        with pytest.raises(InputError, match=r"neither train\.jsonl .* nor train\.tsv"):
            finetune(bert, tmp_path / "empty", tmp_path / "out", **FAST)
        movies = write_eraser(tmp_path / "movies", train=sentences(4))
        with pytest.raises(InputError, match=r"expected docs/ and val\.jsonl"):
            finetune(bert, movies, tmp_path / "out", **FAST)
        (movies / "docs" / "train-2.txt").unlink()
        with pytest.raises(InputError, match=r"train\.jsonl, train-2\.txt: no such file"):
            finetune(bert, movies, tmp_path / "out", **FAST)

    def test_a_class_that_was_never_learnt(self, bert: Path, data: Path, tmp_path: Path) -> None:
        write_tsv(data / "test.tsv", [("a film", "-1")])
        with pytest.raises(InputError, match=r"test\.tsv has the class '-1', which train\.tsv has"):
            finetune(bert, data, tmp_path / "out", **FAST)

    def test_models_that_read_no_texts(self, data: Path, tmp_path: Path) -> None:
        vit = {"model_type": "vit", "architectures": ["ViTForImageClassification"]}
        (tmp_path / "vit").mkdir()
        (tmp_path / "vit" / "config.json").write_text(json.dumps(vit))
        with pytest.raises(ModelError, match="is ViTForImageClassification, which is no text"):
            finetune(tmp_path / "vit", data, tmp_path / "out", **FAST)
        for name in ("demo-vision", "timm/vit_tiny_patch16_224"):
            with pytest.raises(ModelError, match="reads images"):
                finetune(name, data, tmp_path / "out", **FAST)
        with pytest.raises(whyformer.UnknownNameError, match="no such directory, and no hub id"):
            finetune("nothing", data, tmp_path / "out", **FAST)
        with pytest.raises(ModelError, match="not in the local cache, and offline was asked for"):
            finetune("owner/nothing", data, tmp_path / "out", offline=True, **FAST)

    def test_a_model_without_a_tokenizer_claims_no_folder(
        self, bert: Path, data: Path, tmp_path: Path
    ) -> None:
        shutil.copytree(bert, tmp_path / "bare", ignore=shutil.ignore_patterns("tokenizer*"))
        with pytest.raises(ModelError, match="has no tokenizer"):
            finetune(tmp_path / "bare", data, tmp_path / "out", **FAST)
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("option", "value", "said"),
        [
            ("epochs", 0, "epochs is 0; expected at least 1"),
            ("limit", 0, "limit is 0; expected at least 1"),
            ("learning_rate", float("nan"), "learning_rate is nan; expected a number above 0"),
            ("patience", -1, "patience is -1; expected 0 or more"),
            ("longest", 2, "longest is 2; expected more than the 2 special tokens"),
            ("cut", "middle", "unknown cut 'middle'"),
            ("device", "cuda:3", "set CUDA_VISIBLE_DEVICES=3"),
            ("device", "abacus", "device 'abacus' cannot be used"),
        ],
    )
    def test_options(
        self, bert: Path, data: Path, tmp_path: Path, option: str, value: Any, said: str
    ) -> None:
        with pytest.raises(whyformer.WhyformerError, match=said):
            finetune(bert, data, tmp_path / "out", **{**FAST, option: value})
        assert not (tmp_path / "out").exists()

    def test_a_loss_that_is_no_number(self, bert: Path, data: Path, tmp_path: Path) -> None:
        with pytest.raises(whyformer.NumericalError, match="choose a lower learning rate"):
            finetune(bert, data, tmp_path / "out", **{**FAST, "learning_rate": 1e38})

    def test_accelerate_is_missing(
        self, bert: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "accelerate", None)
        with pytest.raises(ModelError, match=r"pip install 'whyformer\[evaluation\]'"):
            finetune(bert, data, tmp_path / "out", **FAST)
