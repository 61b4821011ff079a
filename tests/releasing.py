"""The built package, and an empty environment with nothing but it and what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and its base dependencies, used away from the checkout."""

    environment: Path
    away: Path

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    def run(self, *command: object, code: int = 0) -> str:
        """What a command of the environment prints, errors included, without any network."""
        program = self.environment / "bin" / str(command[0])
        done = subprocess.run(
            [*without_network(), program, *map(str, command[1:])],
            cwd=self.away, env=self.surroundings(), capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def surroundings(self) -> dict[str, str]:
        """Nothing of the checkout's, no cache of models, and proxies that lead nowhere."""
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
        return {
            "PATH": f"{self.environment / 'bin'}:{os.defpath}",
            "HOME": str(self.away),
            "LANG": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            **proxies,
        }


def without_network() -> list[str]:
    """A name space without interfaces, where the kernel lets us have one."""
    prefix = ["unshare", "--map-root-user", "--net"]
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        allowed = False
    return prefix if allowed else []


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def pip(python: Path | str, *arguments: object) -> str:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(pattern: str) -> Path:
    """The one file of that pattern which ``make dist`` made."""
    found = list((ROOT / "dist").glob(pattern))
    assert len(found) == 1, f"dist/ holds {len(found)} of {pattern}; expected one: make dist"
    return found[0]


@pytest.fixture(scope="session")
def wheel() -> Path:
    return built("*.whl")


@pytest.fixture(scope="session")
def sdist() -> Path:
    return built("*.tar.gz")


@pytest.fixture(scope="session")
def committed() -> set[str]:
    """The files of the commit that ``make dist`` builds."""
    return set(git("ls-tree", "-r", "--name-only", "HEAD"))


@pytest.fixture(scope="session")
def wheel_of_sdist(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pip builds it for a user: with what the build system asks for and nothing else."""
    folder = tmp_path_factory.mktemp("wheel_of_sdist")
    pip(sys.executable, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, sdist)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("empty")
    away = folder / "away"
    away.mkdir()
    venv.create(folder / "environment", with_pip=True)
    result = Installed(folder / "environment", away)
    pip(result.python, "install", "--quiet", "--constraint", "constraints.txt", wheel)
    return result
