"""A run that is killed, shared or out of disk ends with the figures of one left in peace."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import whyformer
from runs import TWO_RANKS, figures, finish, point, start
from whyformer.errors import OutputError
from whyformer.evaluation import evaluate
from whyformer.evaluation.data.samples import Scenes
from whyformer.evaluation.run.runner import read_records


@pytest.fixture(scope="module")
def why() -> Any:
    return whyformer.load("demo-vision")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A run left in peace, and how long it took."""
    folder = tmp_path_factory.mktemp("whole")
    began = time.monotonic()
    finish(folder)
    return folder, time.monotonic() - began


@pytest.mark.slow
class TestKilling:
    """``kill -9`` at random moments, five times over; the end is that of a run left in peace."""

    @pytest.mark.parametrize("launcher", [(), TWO_RANKS], ids=["one process", "two ranks"])
    def test_five_kills(
        self, whole: tuple[Path, float], tmp_path: Path, launcher: tuple[str, ...]
    ) -> None:
        expected, duration = whole
        moments = random.Random(len(launcher))
        for attempt in range(5):
            process = start(tmp_path, *launcher)
            try:
                process.wait(moments.uniform(0.3, 1.0) * duration)
            except subprocess.TimeoutExpired:
                family = psutil.Process(process.pid).children(recursive=True)
                workers = [p for p in family if p.name().startswith("python")]
                if workers and attempt % 2:
                    workers[-1].kill()  # one rank dies, and its launcher stops the others
                else:
                    process.kill()
                    for each in family:
                        each.kill()
                process.communicate(timeout=120)
                psutil.wait_procs(family, timeout=60)
        finish(tmp_path, *launcher)
        assert figures(tmp_path) == figures(expected)
        done = [(r["key"], r["method"]) for r in read_records(tmp_path)]
        assert len(done) == len(set(done)) == 80

    def test_two_ranks_equal_one(self, whole: tuple[Path, float], tmp_path: Path) -> None:
        finish(tmp_path, *TWO_RANKS)
        shards = sorted(tmp_path.glob("records-*.jsonl"))
        assert [len(shard.read_text().splitlines()) for shard in shards] == [40, 40]
        assert figures(tmp_path) == figures(whole[0])


class TestFullDisk:
    def test_a_full_disk_leaves_a_run_that_goes_on(self, why: Any, tmp_path: Path) -> None:
        """The file system takes no more bytes after a few records."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        point(why, tmp_path / "whole")
        size = (tmp_path / "whole" / "records-0.jsonl").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, hard))
        try:
            with pytest.raises(OutputError, match="what was done is kept"):
                point(why, tmp_path / "full")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        kept = (tmp_path / "full" / "records-0.jsonl").read_bytes()
        assert kept.endswith(b"\n")
        assert 0 < kept.count(b"\n") < 8
        point(why, tmp_path / "full")
        assert figures(tmp_path / "full") == figures(tmp_path / "whole")

    def test_an_unwritable_folder(self, why: Any, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        place = Path("/proc") if os.geteuid() == 0 else tmp_path  # root may write elsewhere
        with pytest.raises(OutputError, match="cannot write"):
            point(why, place / "run")

    def test_a_folder_that_is_a_file(self, why: Any, tmp_path: Path) -> None:
        (tmp_path / "run").write_text("")
        with pytest.raises(OutputError, match="cannot write"):
            point(why, tmp_path / "run")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_samples(why: Any, tmp_path: Path) -> None:
    """Ten times as many samples leave the process as it was; the benchmark does 10,000."""
    process = psutil.Process()
    sizes = []
    for count in (20, 200):
        evaluate(
            "segmentation", why, Scenes(1, count), methods=["raw_attention"],
            out=tmp_path / str(count), progress=False,
        )  # fmt: skip
        sizes.append(process.memory_info().rss)
    assert sizes[1] - sizes[0] < 30e6
