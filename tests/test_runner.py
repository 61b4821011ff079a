"""Runs: what is finished is kept, and what does not belong together is not mixed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import whyformer
from runs import FEW, figures, point
from whyformer import provenance
from whyformer.errors import InputError, OutputError
from whyformer.evaluation import evaluate
from whyformer.evaluation.data.samples import Scenes
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.run.runner import read_records
from whyformer.methods import registry
from whyformer.methods.question import Answer, Question
from whyformer.models.catalogue import EMBEDDED
from whyformer.provenance import digest_of
from whyformer.run_folder import Appender


@pytest.fixture(scope="module")
def why() -> Any:
    return whyformer.load("demo-vision")


@pytest.fixture(scope="module")
def pointed(why: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pointed")
    point(why, folder)
    return folder


@pytest.fixture
def finished(pointed: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, to go on with or to spoil."""
    return Path(shutil.copytree(pointed, tmp_path / "finished"))


class TestResuming:
    def test_a_finished_run_is_read_not_repeated(self, why: Any, finished: Path) -> None:
        first = figures(finished)
        before = (finished / "records-0.jsonl").read_bytes()
        point(why, finished)
        assert figures(finished) == first
        assert (finished / "records-0.jsonl").read_bytes() == before

    def test_half_a_line_counts_as_none(self, why: Any, finished: Path) -> None:
        whole = figures(finished)
        shard = finished / "records-0.jsonl"
        shard.write_bytes(shard.read_bytes()[:-40])
        assert len(list(read_records(finished))) == 7
        point(why, finished)
        assert figures(finished) == whole
        assert len(shard.read_text().splitlines()) == 8

    @pytest.mark.parametrize("damage", ["garbage{", "[1, 2]", '{"key": "a"}'])
    def test_a_damaged_line_is_named(self, why: Any, finished: Path, damage: str) -> None:
        whole = figures(finished)
        shard = finished / "records-0.jsonl"
        lines = shard.read_text().splitlines()
        shard.write_text("\n".join([*lines[:3], damage, *lines[4:], ""]))
        with pytest.raises(InputError, match=r"records-0.jsonl, line 4 is damaged; delete"):
            point(why, finished)
        shard.write_text("\n".join([*lines[:3], *lines[4:], ""]))
        point(why, finished)
        assert figures(finished) == whole

    def test_other_settings_are_not_mixed_in(self, why: Any, finished: Path) -> None:
        for change, said in (
            ({"preset": "paper"}, "another preset"),
            ({"limit": 3}, "other samples"),
        ):
            with pytest.raises(InputError, match=f"holds a run with {said}"):
                point(why, finished, **change)
        with pytest.raises(InputError, match="holds a run with another benchmark"):
            evaluate("segmentation", why, limit=4, out=finished, progress=False)

    def test_an_older_way_of_measuring_is_not_mixed_in(self, why: Any, finished: Path) -> None:
        """Runs from before ties were broken by chance know no protocol."""
        settings = json.loads((finished / "settings.json").read_text())
        del settings["protocol"]
        (finished / "settings.json").write_text(json.dumps(settings))
        with pytest.raises(InputError, match="holds a run with an older way of measuring"):
            point(why, finished)
        assert "protocol" not in figures(finished)

    def test_a_first_explanation_is_no_measure_of_cost(self, why: Any, tmp_path: Path) -> None:
        """It takes many times as long: memory, caches and code are got ready."""
        point(why, tmp_path, limit=2)
        timed = [record["method"] for record in read_records(tmp_path) if "forwards" in record]
        assert sorted(timed) == sorted(FEW)
        point(why, tmp_path, limit=2, methods="best")
        best = [record for record in read_records(tmp_path) if record["method"] == "witness"]
        assert ["forwards" in record for record in best] == [False, True]

    def test_a_method_joins_a_finished_run(self, why: Any, tmp_path: Path) -> None:
        """Nothing is measured twice, and all methods are compared on the same samples."""
        point(why, tmp_path / "later", methods=FEW[:1])
        before = (tmp_path / "later" / "records-0.jsonl").read_text()
        point(why, tmp_path / "later")
        after = (tmp_path / "later" / "records-0.jsonl").read_text()
        assert after.startswith(before)
        assert len(after.splitlines()) == 2 * len(before.splitlines())
        point(why, tmp_path / "at once")
        assert figures(tmp_path / "later") == figures(tmp_path / "at once")

    def test_a_rewritten_method_is_measured_again(self, why: Any, tmp_path: Path) -> None:
        @whyformer.register("mine", "first version")
        def first(question: Question) -> Answer:
            return question.pool(question.attention[-1][:, 0])

        try:
            point(why, tmp_path, methods=["mine"])
            old, code = figures(tmp_path), digest_of("mine")

            @whyformer.register("mine", "second version")
            def second(question: Question) -> Answer:
                return question.pool(question.attention[-1].amax(1))

            assert digest_of("mine") != code
            point(why, tmp_path, methods=["mine"])
            assert figures(tmp_path)["pointing"] != old["pointing"]
            assert len(list(read_records(tmp_path))) == 8
        finally:
            registry._METHODS.pop("mine")

    def test_a_damaged_folder_is_refused(self, why: Any, tmp_path: Path) -> None:
        (tmp_path / "settings.json").write_text("{")
        with pytest.raises(InputError, match=r"settings.json is damaged"):
            point(why, tmp_path)

    def test_two_writers_at_once_are_refused(self, why: Any, tmp_path: Path) -> None:
        point(why, tmp_path, limit=2)
        with (
            Appender(tmp_path / "records-0.jsonl"),
            pytest.raises(OutputError, match="is the same run still going"),
        ):
            point(why, tmp_path, limit=2)


class TestMixing:
    """What would change a number is never mixed into a run or taken from a cache."""

    def test_another_model_under_the_same_name(self, tmp_path: Path) -> None:
        for change in (swap_labels, shift_preprocessing, nudge_weights):
            folder = tmp_path / change.__name__
            point(whyformer.load("demo-vision"), folder, limit=1)
            with pytest.raises(InputError, match=r"run with (another configuration|other weights)"):
                point(change(whyformer.load("demo-vision")), folder, limit=1)

    def test_fewer_pieces_of_a_text(self, tmp_path: Path) -> None:
        text = whyformer.load("demo-text")
        given = {"methods": FEW, "limit": 1, "out": tmp_path, "progress": False}
        evaluate("rationales", text, longest=12, **given)
        assert figures(tmp_path)["longest"] == 12
        with pytest.raises(InputError, match="another longest"):
            evaluate("rationales", text, **given)

    def test_where_a_model_lies_is_nobodys_business(self, tmp_path: Path) -> None:
        shutil.copytree(EMBEDDED["demo-text"].path, tmp_path / "my-bert")
        text = whyformer.load(tmp_path / "my-bert")
        evaluate("rationales", text, methods=FEW, limit=1, out=tmp_path / "run", progress=False)
        written = (tmp_path / "run" / "results.json").read_text()
        assert figures(tmp_path / "run")["model"] == "my-bert"
        assert str(tmp_path) not in written + (tmp_path / "run" / "report.html").read_text()

    def test_a_tokenizer_that_was_used_is_the_same(self) -> None:
        text = whyformer.load("demo-text")
        before = text.preparation
        text.record("a long text " * 300)
        assert text.preparation == before
        assert text.reading(12).preparation != before

    def test_other_files_of_the_same_names(self, why: Any, tmp_path: Path) -> None:
        for i, kind in enumerate(("gauss", "shot")):
            folder = tmp_path / kind / "1" / "3"
            folder.mkdir(parents=True)
            Scenes(1, 2)[i].image.save(folder / "a.png")
        given = {"methods": FEW, "out": tmp_path / "run", "progress": False}
        evaluate("perturbation", why, tmp_path / "gauss" / "1", **given)
        with pytest.raises(InputError, match="another place"):
            evaluate("perturbation", why, tmp_path / "shot" / "1", **given)
        assert "place" not in figures(tmp_path / "run")

    def test_a_cache_knows_the_preprocessing(self, tmp_path: Path) -> None:
        found = []
        for i, change in enumerate((None, shift_preprocessing, None)):
            why = whyformer.load("demo-vision")
            evaluate(
                "segmentation", change(why) if change else why, limit=2, methods=FEW,
                out=tmp_path / str(i), cache=tmp_path / "cache", progress=False,
            )  # fmt: skip
            found.append(figures(tmp_path / str(i))["segmentation"])
        assert found[0] == found[2] != found[1]

    def test_every_process_checks_the_settings(self, why: Any, tmp_path: Path) -> None:
        """A node with an older copy stops instead of writing its own numbers beside the others'."""
        point(why, tmp_path, limit=2)
        other = nudge_weights(whyformer.load("demo-vision"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("whyformer.evaluation.run.runner.processes", lambda: (1, 2))
            with pytest.raises(InputError, match="other weights"):
                point(other, tmp_path, limit=2)

    def test_methods_made_from_others(self) -> None:
        def scaled(question: Question, factor: float = 1) -> Answer:
            return question.pool(question.attention[-1].mean(1) * factor)

        def make(factor: float) -> Callable[[Question], Answer]:
            return lambda question: scaled(question, factor)

        codes = set()
        try:
            for function in (
                partial(scaled, factor=2),
                partial(scaled, factor=3),
                make(2),
                make(3),
            ):
                whyformer.register("made", "made from another")(function)
                codes.add(digest_of("made"))
                assert digest_of("made") == digest_of("made")
        finally:
            registry._METHODS.pop("made")
        assert len(codes) == 4

    def test_built_in_methods_follow_what_they_are_built_from(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = {name: digest_of(name) for name in whyformer.methods()}
        read = provenance.of_module

        def rewritten(module: Any) -> str:
            return read(module) + "#" * module.__name__.endswith("transformer_attribution")

        monkeypatch.setattr(provenance, "of_module", rewritten)
        changed = {name for name in before if digest_of(name) != before[name]}
        assert changed == {
            "transformer_attribution", "ablation_no_gradient", "ablation_last_block",
            "ablation_second_block",
        }  # fmt: skip


def swap_labels(why: Any) -> Any:
    why.explainer.labels[0], why.explainer.labels[1] = why.labels[1], why.labels[0]
    return why


def shift_preprocessing(why: Any) -> Any:
    why._mean = [value + 0.25 for value in why._mean]
    prepare = why._prepare
    why._prepare = lambda images: prepare(images) - 0.5
    return why


def nudge_weights(why: Any) -> Any:
    with torch.no_grad():
        next(why.model.parameters()).mul_(1.01)
    return why


class TestCache:
    def test_another_run_asks_no_method_again(
        self, why: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        evaluate(
            "segmentation", why, methods=FEW, limit=2, out=tmp_path / "a", cache=tmp_path / "c",
            progress=False,
        )  # fmt: skip
        kept = {path: path.read_bytes() for path in (tmp_path / "c").rglob("*.npy")}
        assert len(kept) == 2 * (1 + len(FEW))
        monkeypatch.setattr(why.explainer, "record", _never)
        evaluate(
            "segmentation", why, methods=FEW, limit=2, out=tmp_path / "b", cache=tmp_path / "c",
            progress=False,
        )  # fmt: skip
        assert figures(tmp_path / "a")["segmentation"] == figures(tmp_path / "b")["segmentation"]

    def test_damage_is_made_again(self, tmp_path: Path) -> None:
        cache = Cache(tmp_path, "model")
        calls: list[int] = []
        make: Callable[[], Any] = lambda: calls.append(1) or np.arange(3)  # noqa: E731
        cache.remember("map", b"input", make)
        (path,) = tmp_path.rglob("*.npy")
        path.write_bytes(path.read_bytes()[:-5])
        assert cache.remember("map", b"input", make).tolist() == [0, 1, 2]
        assert cache.remember("map", b"input", make).tolist() == [0, 1, 2]
        assert len(calls) == 2

    def test_inputs_methods_and_models_are_told_apart(self, tmp_path: Path) -> None:
        Cache(tmp_path, "model").remember("map", b"input", lambda: np.zeros(1))
        for cache, name, given in (
            (Cache(tmp_path, "other"), "map", b"input"),
            (Cache(tmp_path, "model"), "other", b"input"),
            (Cache(tmp_path, "model"), "map", b"other"),
        ):
            assert cache.remember(name, given, lambda: np.ones(1)) == 1


def _never(*_: object) -> None:
    raise AssertionError("the model was asked again")
