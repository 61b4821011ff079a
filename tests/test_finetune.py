"""Fine-tuning: what is read, what is learnt, and what the command says."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import whyformer
from command_line import Run
from conftest import shared
from small_texts import WORDS, save_bert
from tuning import FAST, record_of, sentences, write_eraser, write_tsv
from whyformer import ModelError, OutputError
from whyformer.finetuning import finetune
from whyformer.finetuning.callbacks import history_of
from whyformer.finetuning.classifier import encode, match_labels
from whyformer.finetuning.loop import ByLength
from whyformer.finetuning.texts import Part, evenly, read_data


class TestLearning:
    """What comes out is a model that knows the classes."""

    def test_sentences_of_a_folder(self, bert: Path, data: Path, tmp_path: Path) -> None:
        before = {path: path.read_bytes() for path in bert.iterdir()}
        result = finetune(bert, data, tmp_path / "out", **FAST)
        assert result is not None
        assert result.validation_accuracy == result.test_accuracy == 1
        assert not (tmp_path / "out" / "checkpoints").exists()
        why = whyformer.load(tmp_path / "out")
        assert why.labels == ["NEG", "POS"]
        assert why("the film is superb but a plot").logits[0].argmax() == 1
        assert why("film without a plot").logits[0].argmax() == 0
        assert {path: path.read_bytes() for path in bert.iterdir()} == before

    def test_an_eraser_directory(self, bert: Path, tmp_path: Path) -> None:
        data = write_eraser(tmp_path / "movies", train=sentences(60), val=sentences(20, 1))
        result = finetune(bert, data, tmp_path / "out", **FAST)
        assert result is not None
        assert (result.validation_accuracy, result.test_accuracy) == (1, None)

    def test_the_record_says_what_was_done(self, bert: Path, data: Path, tmp_path: Path) -> None:
        result = finetune(bert, data, tmp_path / "out", **{**FAST, "epochs": 2})
        record = record_of(tmp_path / "out")
        assert record["finished"]
        assert record["settings"]["learning_rate"] == 3e-3
        assert record["counts"] == {"train": 60, "validation": 20, "test": 20}
        assert [row["epoch"] for row in record["history"]] == [1, 2]
        assert [row["step"] for row in record["history"]] == [6, 12]
        best = max(row["validation_accuracy"] for row in record["history"])
        assert record["validation_accuracy"] == best
        assert {"torch", "transformers", "accelerate", "whyformer"} <= set(record["versions"])
        assert len({path.stat().st_mode for path in (tmp_path / "out").iterdir()}) == 1
        assert result is not None
        assert result.history == record["history"]

    def test_the_tokenizer_stays_as_it_was(self, bert: Path, data: Path, tmp_path: Path) -> None:
        finetune(bert, data, tmp_path / "out", longest=6, **{**FAST, "epochs": 1})
        given, kept = (
            json.loads((folder / "tokenizer.json").read_text())
            for folder in (bert, tmp_path / "out")
        )
        assert kept["truncation"] is None
        assert kept["padding"] is None
        assert kept["model"] == given["model"]

    def test_the_best_epoch_is_kept_and_early_stopping_stops(
        self, bert: Path, data: Path, tmp_path: Path
    ) -> None:
        """Nothing is learnt with so low a rate: the first epoch stays the best."""
        options = {**FAST, "epochs": 8, "learning_rate": 1e-12}
        result = finetune(bert, data, tmp_path / "out", patience=3, **options)
        assert result is not None
        assert len(result.history) == 4
        endless = finetune(bert, data, tmp_path / "endless", patience=0, **options)
        assert endless is not None
        assert len(endless.history) == 8

    def test_the_same_seed_gives_the_same_model(
        self, bert: Path, data: Path, tmp_path: Path
    ) -> None:
        for name, seed in (("a", 3), ("b", 3), ("c", 4)):
            torch.manual_seed(len(os.listdir(tmp_path)))
            finetune(bert, data, tmp_path / name, seed=seed, **{**FAST, "epochs": 1})
        a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
        assert a == b != c

    def test_accumulated_batches_are_one_large_batch(self, tmp_path: Path, data: Path) -> None:
        bert = save_bert(
            tmp_path / "calm", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        options = {**FAST, "epochs": 1, "learning_rate": 1e-4}
        finetune(bert, data, tmp_path / "a", batch_size=20, **options)
        finetune(bert, data, tmp_path / "b", batch_size=5, accumulate=4, **options)
        a, b = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
        assert all(torch.allclose(a[key], b[key], atol=1e-5) for key in a)


class TestHead:
    """A head that fits the data is kept; another one is replaced, and so said."""

    @pytest.mark.parametrize(
        ("labels", "known", "expected"),
        [
            (["NEG", "POS"], ["negative", "positive"], {"NEG": 0, "POS": 1}),
            (["NEG", "POS"], ["Positive", "Negative"], {"NEG": 1, "POS": 0}),
            (["0", "1"], ["NEG", "POS"], {"0": 0, "1": 1}),
            (["1", "2"], ["1 star", "2 stars"], {"1": 0, "2": 1}),
            (["1", "2"], ["NEG", "POS"], None),
            (["bad", "good"], ["NEG", "POS"], None),
            (["NEG", "POS"], ["NEG", "neutral", "POS"], None),
            (["no", "not"], ["no", "none"], None),
        ],
    )
    def test_labels_that_match(
        self, labels: list[str], known: list[str], expected: dict[str, int] | None
    ) -> None:
        assert match_labels(labels, known) == expected

    def test_kept_with_its_names(self, named: Path, data: Path, tmp_path: Path) -> None:
        finetune(named, data, tmp_path / "out", **{**FAST, "learning_rate": 1e-12, "epochs": 1})
        given, kept = (
            load_file(folder / "model.safetensors") for folder in (named, tmp_path / "out")
        )
        assert all(torch.allclose(given[key], kept[key], atol=1e-6) for key in given)
        assert whyformer.load(tmp_path / "out").labels == ["positive", "negative"]
        assert record_of(tmp_path / "out")["classes"] == {"NEG": "negative", "POS": "positive"}

    def test_replaced_even_where_the_sizes_agree(self, named: Path, tmp_path: Path) -> None:
        pairs = [(text, f"{len(label)}{label[0]}") for text, label in sentences(30)]
        write_tsv(tmp_path / "data.tsv", pairs)
        options = {**FAST, "learning_rate": 1e-12, "epochs": 1}
        finetune(named, tmp_path / "data.tsv", tmp_path / "out", **options)
        given, kept = (
            load_file(folder / "model.safetensors") for folder in (named, tmp_path / "out")
        )
        assert record_of(tmp_path / "out")["head"] == "new"
        for key in given:
            same = torch.allclose(given[key], kept[key], atol=1e-6)
            assert same != key.startswith("classifier"), key

    def test_an_encoder_without_a_head(self, bert: Path, data: Path, tmp_path: Path) -> None:
        """In float16, as such encoders are often stored; it is trained in float32."""
        import transformers

        encoder = transformers.BertModel.from_pretrained(bert, add_pooling_layer=False)
        encoder.half().save_pretrained(tmp_path / "encoder")
        for path in bert.glob("tokenizer*"):
            shutil.copy(path, tmp_path / "encoder")
        assert (
            load_file(tmp_path / "encoder" / "model.safetensors")[
                "embeddings.LayerNorm.weight"
            ].dtype
            == torch.float16
        )
        result = finetune(tmp_path / "encoder", data, tmp_path / "out", **FAST)
        assert result is not None
        assert result.validation_accuracy == 1
        weights = load_file(tmp_path / "out" / "model.safetensors")
        assert {value.dtype for value in weights.values()} == {torch.float32}
        assert whyformer.load(tmp_path / "out").labels == ["NEG", "POS"]

    def test_a_part_of_an_encoder_is_refused(self, bert: Path, data: Path, tmp_path: Path) -> None:
        shutil.copytree(bert, tmp_path / "part")
        weights = load_file(bert / "model.safetensors")
        del weights["bert.encoder.layer.1.output.dense.weight"]
        save_file(weights, tmp_path / "part" / "model.safetensors", {"format": "pt"})
        with pytest.raises(ModelError, match=r"lacks the weights of encoder\.layer\.1\.output"):
            finetune(tmp_path / "part", data, tmp_path / "out", **FAST)
        assert not (tmp_path / "out").exists()


class TestReading:
    """Which texts are read, and how much of each."""

    def test_a_header_is_recognised(self, tmp_path: Path) -> None:
        pairs = sentences(20)
        path = tmp_path / "a.tsv"
        plain = read_data(write_tsv(path, pairs), None, 0)
        assert read_data(write_tsv(path, pairs, header=True), None, 0) == plain

    def test_a_single_file_gives_a_tenth_to_validation(self, tmp_path: Path) -> None:
        path = write_tsv(tmp_path / "a.tsv", sentences(60))
        first, again, other = (read_data(path, None, seed) for seed in (0, 0, 1))
        assert (len(first.train.texts), len(first.validation.texts)) == (54, 6)
        assert first == again != other
        together = [*first.train.texts, *first.validation.texts]
        assert sorted(together) == sorted(text for text, _ in sentences(60))

    def test_windows_line_ends_and_a_mark_at_the_start(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tsv"
        path.write_bytes("\ufeffgüt\u2028film\tb\r\nbad\ta\r\n".encode() + b"x\ta\r\ny\tb\r\n" * 9)
        data = read_data(path, None, 0)
        texts = [*data.train.texts, *data.validation.texts]
        assert "güt\u2028film" in texts
        assert data.labels == ["a", "b"]

    def test_numbers_are_sorted_by_value(self, tmp_path: Path) -> None:
        path = write_tsv(tmp_path / "a.tsv", [(f"x {i}", str(i % 12)) for i in range(240)])
        assert read_data(path, None, 0).labels == [str(i) for i in range(12)]

    def test_a_limit_chooses_evenly_among_each_class(self, data: Path) -> None:
        assert evenly(list("abababab"), 4) == [0, 1, 4, 5]
        assert evenly(list("aaaaaabb"), 4) == [0, 2, 4, 6]
        assert evenly(list("bab"), 9) == evenly(list("bab"), None) == [0, 1, 2]
        few = read_data(data, 8, 0)
        assert [sorted(part.labels) for part in few.parts.values()] == [
            ["NEG"] * 4 + ["POS"] * 4
        ] * 3

    @pytest.mark.parametrize(("cut", "kept"), [("head", slice(0, 4)), ("tail", slice(-4, None))])
    def test_a_long_text_is_cut(self, bert: Path, cut: str, kept: slice) -> None:
        tokenizer = whyformer.load(bert).tokenizer  # type: ignore[attr-defined]
        part = Part("part", [" ".join(WORDS), "film"], ["a", "b"])
        long, short = encode(part, tokenizer, 6, cut, {"a": 0, "b": 1})
        pieces = tokenizer.convert_ids_to_tokens(long["input_ids"])
        assert pieces == ["[CLS]", *WORDS[kept], "[SEP]"]
        assert (len(short["input_ids"]), short["labels"]) == (3, 1)
        assert tokenizer.truncation_side == "right"

    def test_never_more_than_the_model_reads(self, bert: Path, tmp_path: Path) -> None:
        pairs = [(f"{text} {' '.join(WORDS * 9)}", label) for text, label in sentences(20)]
        write_tsv(tmp_path / "a.tsv", pairs)
        finetune(bert, tmp_path / "a.tsv", tmp_path / "out", **{**FAST, "epochs": 1})
        assert record_of(tmp_path / "out")["longest_read"] == 40

    def test_an_order_by_length(self) -> None:
        """Every text once, another order every epoch, neighbours alike, the rest at the end."""
        lengths = np.random.default_rng(0).integers(5, 500, 403).tolist()
        epoch = 0
        sampler = ByLength(lengths, 10, 0, lambda: epoch)
        first, again = list(sampler), list(sampler)
        epoch = 1
        assert first == again != list(sampler)
        assert sorted(first) == list(range(403))
        batches = [[lengths[i] for i in first[j : j + 10]] for j in range(0, 403, 10)]
        assert len(batches[-1]) == 3
        padded = sum(max(batch) * len(batch) for batch in batches) / sum(lengths)
        assert padded < 1.2
        longest = [max(batch) for batch in batches]
        assert longest != sorted(longest)

    def test_the_loss_of_an_epoch_is_over_all_its_steps(self) -> None:
        log = [
            {"loss": 1.0, "step": 4},
            {"loss": 4.0, "step": 6},
            {"eval_accuracy": 0.5, "eval_loss": 1, "epoch": 1.0, "step": 6},
            {"loss": 3.0, "step": 12},
            {"eval_accuracy": 0.6, "eval_loss": 1, "epoch": 2.0, "step": 12},
        ]
        assert [row["loss"] for row in history_of(log)] == [2.0, 3.0]


#: twelve steps to an epoch
class TestCommand:
    """``whyformer finetune``."""

    def test_it_trains_says_so_and_is_done(
        self, run: Run, named: Path, data: Path, tmp_path: Path
    ) -> None:
        command = (
            "finetune", "--model", named, "--data", data, "--out", tmp_path / "out",
            "--epochs", 2, "--learning-rate", 3e-3, "--device", "cpu",
        )  # fmt: skip
        code, output, errors = run(*command)
        assert code == 0
        assert "is kept: NEG is negative, POS is positive" in errors
        assert "reads up to 40 word pieces, not 512" in errors
        assert "epoch 2/2: loss 0." in errors
        assert output.startswith(f"{tmp_path / 'out'}: validation accuracy ")
        assert ", test accuracy " in output
        code, again, errors = run(*command)
        assert (code, errors) == (0, "")
        assert "finished before, nothing to do: validation accuracy" in again
        assert run("explain", "a superb film", "--model", tmp_path / "out", "--json")[0] == 0

    def test_quiet(self, run: Run, bert: Path, data: Path, tmp_path: Path) -> None:
        code, output, errors = run(
            "finetune", "--model", bert, "--data", data, "--out", tmp_path / "out",
            "--epochs", 1, "--limit", 10, "--device", "cpu", "-q",
        )  # fmt: skip
        assert (code, errors) == (0, "")
        assert len(output.splitlines()) == 1

    def test_errors_are_one_line(self, run: Run, bert: Path, tmp_path: Path) -> None:
        given = ("finetune", "--model", bert, "--data", tmp_path / "no", "--out", tmp_path / "out")
        code, output, errors = run(*given)
        assert (code, output) == (2, "")
        assert errors == f"whyformer: no such file or folder: {tmp_path / 'no'}\n"

    def test_help(self, run: Run) -> None:
        code, output, _ = run("finetune", "--help")
        assert code == 0
        assert "examples:" in output
        assert "--save-every STEPS" in output


def test_a_full_disk_is_said(
    bert: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("whyformer.finetuning.folder.move_in", full)
    with pytest.raises(OutputError, match=r"broke off: .*No space left .*the same command goes on"):
        finetune(bert, data, tmp_path / "out", **{**FAST, "epochs": 1})


@pytest.mark.slow
def test_two_processes(bert: Path, data: Path, tmp_path: Path) -> None:
    """Batches of five on two processes: as many steps as with batches of ten, one result."""
    import socket
    import subprocess

    from command_line import SOURCE

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
        "--master-port", str(port), "-m", "whyformer", "finetune", "--model", str(bert),
        "--data", str(data), "--out", str(tmp_path / "out"), "--epochs", "3", "--batch-size", "5",
        "--learning-rate", "3e-3", "--device", "cpu",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.count(b"validation accuracy") == 1
    record = record_of(tmp_path / "out")
    assert record["history"][-1]["step"] == 18
    assert record["validation_accuracy"] > 0.7


@pytest.mark.slow
def test_a_real_model_on_real_reviews(tmp_path: Path) -> None:
    """MiniLM keeps its head: SST-2's 0 and 1 are its NEG and POS."""
    model, sst2 = shared("data", "minilm_sentiment"), shared("data", "sst2")
    options = {**FAST, "epochs": 1, "learning_rate": 1e-5, "limit": 40, "longest": 32}
    result = finetune(model, sst2, tmp_path / "out", **options)
    assert result is not None
    assert result.validation_accuracy > 0.8
    assert record_of(tmp_path / "out")["classes"] == {"0": "NEG", "1": "POS"}
