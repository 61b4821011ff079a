"""What the project says of itself agrees: version, date, extras, bounds and the table of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import whyformer

ROOT = Path(__file__).resolve().parents[1]
EXTRA = re.compile(r"whyformer\[([\w,]+)\]")
HEADING = re.compile(r"^## \[?([^\]\s]+)\]?(?: - (\d{4}-\d\d-\d\d))?$", re.MULTILINE)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def requirements(lines: list[str]) -> dict[str, Requirement]:
    return {canonicalize_name(r.name): r for r in map(Requirement, lines)}


def pins(name: str) -> dict[str, Version]:
    lines = (ROOT / name).read_text("utf-8").split()
    pairs = (line.split("==") for line in lines)
    return {canonicalize_name(package): Version(version) for package, version in pairs}


def lowest(requirement: Requirement) -> Version | None:
    """None where there is no bound; an upper bound is a mistake."""
    bounds = list(requirement.specifier)
    assert [bound.operator for bound in bounds] in ([], [">="]), requirement
    return Version(bounds[0].version) if bounds else None


def told(cell: str) -> Version | None:
    return None if cell == "-" else Version(cell)


def test_changelog_begins_with_this_version(citation: dict[str, Any]) -> None:
    headings = HEADING.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))
    released = [(version, date) for version, date in headings if version != "Unreleased"]
    assert released[0] == (whyformer.__version__, citation["date-released"])
    assert released == sorted(released, key=lambda entry: Version(entry[0]), reverse=True)


def test_citation_names_this_version_and_the_paper(citation: dict[str, Any]) -> None:
    assert citation["version"] == whyformer.__version__
    paper = citation["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Chefer", "Gur", "Wolf"]
    assert (paper["year"], paper["start"], paper["end"]) == (2021, 782, 791)
    assert "2012.09838" in paper["url"]


def test_extras_that_are_named_exist(project: dict[str, Any]) -> None:
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/whyformer/**/*.py")]
    named = {
        extra
        for path in paths
        for group in EXTRA.findall(path.read_text("utf-8"))
        for extra in group.split(",")
    }
    assert {"captum", "evaluation", "serve", "vision"} <= named
    assert named <= set(project["optional-dependencies"])


def test_lowest_versions_are_the_ones_tested(project: dict[str, Any]) -> None:
    """torch's is not pinned: see LOWEST_TORCH in the Makefile."""
    promised = {name: lowest(need) for name, need in requirements(project["dependencies"]).items()}
    del promised["torch"]
    assert promised == pins("constraints-lowest.txt")


def test_pinned_versions_keep_to_the_bounds(project: dict[str, Any]) -> None:
    pinned = pins("constraints.txt")
    everything = [project["dependencies"], *project["optional-dependencies"].values()]
    for lines in everything:
        for name, need in requirements(lines).items():
            if name in pinned:
                assert pinned[name] in need.specifier, need


def test_the_table_of_versions_is_true(project: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "reference" / "versions.md").read_text("utf-8")
    rows = re.findall(r"^\| `?([\w.-]+)`? \| ([^|]+) \| ([^|]+) \| ([^|]+) \|", page, re.MULTILINE)
    table = {canonicalize_name(row[0]): [cell.strip() for cell in row[1:]] for row in rows}
    newest = pins("constraints.txt")
    extras = project["optional-dependencies"]
    optional = [*extras["vision"], *extras["evaluation"], *extras["serve"], *extras["captum"]]
    for name, need in requirements(project["dependencies"] + optional).items():
        assert told(table[name][0]) == lowest(need), name
        assert told(table[name][2]) == newest[name], name
    for name, version in pins("constraints-lowest.txt").items():
        assert told(table[name][1]) == version, name


def test_pythons_that_are_named_were_tested(project: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "reference" / "versions.md").read_text("utf-8")
    prefix = "Programming Language :: Python :: 3."
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if line.startswith(prefix)]
    (row,) = re.findall(r"^\| Python \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    assert project["requires-python"] == f">={row[0]}"
    assert (named[0], named[-1]) == (row[0], row[2])
