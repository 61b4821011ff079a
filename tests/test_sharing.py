"""``torchrun -m whyformer explain FOLDER``: processes share a folder, and none is missed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from whyformer.cli import main
from whyformer.demo.scenes import draw_scene

SOURCE = str(Path(__file__).resolve().parents[1] / "src")
RECORDS = ".whyformer-records-{}.jsonl"
COUNT = 24

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes")
    for seed in range(COUNT):
        scene = draw_scene(seed, 1)
        (folder / str(scene.labels[0])).mkdir(exist_ok=True)
        scene.image.save(folder / str(scene.labels[0]) / f"{seed}.png")
    return folder


@pytest.fixture(scope="module")
def alone(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table that one process makes."""
    out = tmp_path_factory.mktemp("alone") / "maps"
    assert main(["explain", str(scenes), "--quiet", "--out", str(out)]) == 0
    return (out / "results.csv").read_text()


def start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "whyformer", "explain", *map(str, words)]
    inside = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=inside, stdout=pipe, stderr=pipe, text=True)


def lines(folder: Path, rank: int) -> int:
    path = folder / RECORDS.format(rank)
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_two_processes_equal_one(scenes: Path, alone: str, tmp_path: Path) -> None:
    running = start(scenes, "--out", tmp_path)
    told, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    assert f"{COUNT} explained, 0 already there, 0 failed" in told
    assert [lines(tmp_path, rank) for rank in (0, 1)] == [COUNT // 2, COUNT // 2]
    assert (tmp_path / "results.csv").read_text() == alone


def test_a_killed_process_loses_nothing(scenes: Path, alone: str, tmp_path: Path) -> None:
    running = start(scenes, "--out", tmp_path)
    deadline = time.monotonic() + 120
    while lines(tmp_path, 1) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    family = psutil.Process(running.pid).children(recursive=True)
    [p for p in family if p.name().startswith("python")][-1].kill()
    running.communicate(timeout=120)
    assert running.returncode != 0
    before = lines(tmp_path, 0) + lines(tmp_path, 1)
    assert before >= 2

    running = start(scenes, "--out", tmp_path)
    told, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    assert "0 failed" in told
    assert f"{COUNT} explained" not in told
    assert (tmp_path / "results.csv").read_text() == alone


def test_results_of_several_processes_need_a_folder(scenes: Path) -> None:
    running = start(scenes)
    _, errors = running.communicate(timeout=120)
    assert running.returncode != 0
    assert "several processes share a folder of results; name it with --out" in errors


@pytest.mark.parametrize(("grouped", "printed"), [(True, "done\n"), (False, "done\nlate\n")])
def test_one_of_a_group_ends_at_once_with_its_status(grouped: bool, printed: str) -> None:
    """What Python does at its end could abort it; what was printed is out all the same."""
    one = "store=distributed.HashStore(), rank=0, world_size=1"
    lines = [
        "import atexit; from torch import distributed; from whyformer.sharing import end",
        f"distributed.init_process_group('gloo', {one})" if grouped else "",
        "atexit.register(lambda: print('late'))",
        "print('done')",
        "end(3)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, printed), done.stderr
