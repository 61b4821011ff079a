"""The documentation does what it says: every block runs, every link leads somewhere."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
import torch

import whyformer
from forking import forked, forks
from pages import INDENTED, PAGES, ROOT, Block, blocks_of, environment_of
from whyformer.cli import make_parser
from whyformer.engine.rules import GRADIENTS, PRESETS, balanced, division, learned, mass, relevance

TESTS = Path(__file__).parent
#: languages whose blocks are only shown
SHOWN = {"text", "json", "toml", "yaml", "bibtex"}


def marked(page: Path) -> object:
    name = environment_of(page.read_text(encoding="utf-8"))
    marks = [getattr(pytest.mark, name)] if name else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow, *marks])


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stand-ins")
    command = [sys.executable, str(TESTS / "stand_ins.py"), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def surroundings(
    furnished: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """What a reader's commands find: stand-ins of a hub, and imports that are made already."""
    offline = {
        **os.environ,
        "HF_HUB_CACHE": str(furnished / "hub"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(furnished / "datasets"),
        "MPLBACKEND": "Agg",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
        "PIP_NO_INDEX": "1",
    }
    with forks(tmp_path_factory.mktemp("forks"), offline) as inside:
        yield inside


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_every_block_runs(
    page: Path, furnished: Path, surroundings: dict[str, str], tmp_path: Path
) -> None:
    shutil.copytree(furnished, tmp_path, symlinks=True, dirs_exist_ok=True)
    done = subprocess.run(
        forked(TESTS / "pages.py", page),
        cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.slow
def test_examples_in_docstrings(furnished: Path, tmp_path: Path, monkeypatch: Any) -> None:
    shutil.copytree(furnished, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    package = Path(whyformer.__file__).parent
    modules = [
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in package.rglob("*.py")
        if ">>> " in path.read_text(encoding="utf-8")
    ]
    assert len(modules) >= 3
    for name in modules:
        module = importlib.import_module(name)
        names = {**vars(module), "whyformer": whyformer, "torch": torch}
        assert doctest.testmod(module, globs=names).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nothing_hides_from_the_runner(page: Path) -> None:
    """Every block is of a language that is run or known to be shown, and none is indented."""
    markdown = page.read_text(encoding="utf-8")
    languages = {block.language for block in blocks_of(markdown) if block.title is None}
    assert languages - SHOWN <= {"python", "sh"}
    assert not INDENTED.search(re.sub(r"```.*?```", "", markdown, flags=re.DOTALL))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "benchmarks/README.md"])
def test_links_of_the_repository_resolve(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    inside = [link for link in links if not link.startswith("http")]
    assert [link for link in inside if not (page.parent / urldefrag(link)[0]).exists()] == []


def inline_commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for command in re.findall(r"`((?:whyformer|make) [^`]+)`", prose):
            yield page.name, " ".join(command.split())


def test_commands_in_sentences_exist() -> None:
    """What stands between single backticks: its words must be a command's, its options known."""
    parser = make_parser()
    [commands] = [action.choices for action in parser._actions if action.dest == "==SUPPRESS=="]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page, command in inline_commands():
        program, name, *words = shlex.split(command)
        if program == "make":
            assert name in targets, f"{page}: {command}"
            continue
        if name.startswith("-") or name.isupper():
            continue
        assert name in commands, f"{page}: {command}"
        known = {option for action in commands[name]._actions for option in action.option_strings}
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert used <= known, f"{page}: {command}"


class Addresses(HTMLParser):
    """What a page links to, what it needs, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.needed: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value is None:
                continue
            if name == "id":
                self.places.add(value)
            elif name == "href" and tag == "a":
                self.links.add(value)
            elif name in ("href", "src"):
                self.needed.add(value)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly; whatever the build has to say fails it."""
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install 'whyformer[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.mark.slow
def test_links_resolve_and_nothing_is_fetched(site: Path) -> None:
    pages = {path: Addresses(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 20
    broken = []
    for path, found in pages.items():
        if path.name == "404.html":
            continue
        for address in found.links | found.needed:
            outside = re.match(r"(https?:)?//", address)
            if outside and address in found.needed:
                broken.append(f"{path.name} fetches {address}")
            if outside or address.startswith(("mailto:", "data:")):
                continue
            file, place = urldefrag(address)
            target = (path.parent / unquote(file)).resolve() if file else path
            if not target.is_file():
                broken.append(f"{path.name} -> {address}")
            elif place and target in pages and unquote(place) not in pages[target].places:
                broken.append(f"{path.name} -> {address}: no such place")
    assert broken == []


@pytest.mark.slow
def test_formulas_are_drawn(site: Path) -> None:
    page = (site / "explanation" / "mathematics.html").read_text(encoding="utf-8")
    assert page.count("<math") > 20
    assert "arithmatex" not in page


def test_every_rule_has_its_equation_in_the_docs() -> None:
    page = (ROOT / "docs" / "explanation" / "mathematics.md").read_text(encoding="utf-8")
    told = {
        f"{module.__name__}.{name}"
        for module in (balanced, division, learned, mass, relevance)
        for name, value in vars(module).items()
        if isinstance(value, type)
        and dataclasses.is_dataclass(value)
        and value.__module__ == module.__name__
    }
    assert len(told) >= 30
    assert {name for name in told if f"`][{name}]" not in page} == set()


def test_every_module_of_the_engine_is_on_the_map() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [places] = re.findall(r"```text\n(src/whyformer/.*?)```", page, re.DOTALL)
    package = Path(whyformer.__file__).parent
    modules = [path.stem for path in (package / "engine").rglob("*.py")]
    modules += [path.name for path in package.glob("*.py")]
    known = set(re.findall(r"[a-z_]+(?:\.py)?", places))
    assert {name for name in modules if not name.startswith("__")} - known == set()


def test_every_table_is_listed() -> None:
    page = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
    assert {name for name in (*GRADIENTS, *PRESETS) if f'["{name}"]' not in page} == set()


class TestBlocks:
    """The runner itself: what it would miss, nobody would notice."""

    def test_kinds(self) -> None:
        page = (
            "<!-- setup\na = 1\n-->\n\n```python\nprint(a)\n```\n\n```text\n1\n```\n\nThen\n\n"
            '```python title="mine.py"\nb = 2\n```\n\n```text\nfree\n```\n'
            "- item\n\n    ```sh\n    ls \\\n      -l\n    ```\n"
        )
        assert blocks_of(page) == [
            Block("python", None, "a = 1\n", 2),
            Block("python", None, "print(a)\n", 6, "1\n"),
            Block("python", "mine.py", "b = 2\n", 16, "free\n"),
            Block("sh", None, "ls \\\n  -l\n", 25),
        ]

    @pytest.mark.parametrize(
        ("page", "message"),
        [
            ("```python\n1 / 0\n```", "ZeroDivisionError"),
            ("```python\nprint(1)\n```\n```text\n2\n```", "prints\n1\n\nnot\n2"),
            ("```sh\nfalse\ntrue\n```", "failed"),
            ("```sh\nwhyformer explain\n```", "the following arguments are required"),
            ("```sh\nmake no-such-target\n```", "CalledProcessError"),
        ],
    )
    def test_failures_are_noticed(self, tmp_path: Path, page: str, message: str) -> None:
        (tmp_path / "page.md").write_text(page)
        done = subprocess.run(
            [sys.executable, str(TESTS / "pages.py"), "page.md"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert message in done.stderr
