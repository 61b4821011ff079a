"""The terminal shows maps and words, and never what a text wants to do to it."""

from __future__ import annotations

import io
import re
import unicodedata

import numpy as np
import pytest
from PIL import Image

from sheets import CAT, DOG, image_sheet, one_hot, plain_text, text_sheet
from whyformer.render.colour import AGAINST, ink, scale
from whyformer.render.look import Look
from whyformer.render.sheet import ClassScore, Sheet, View
from whyformer.render.terminal import (
    SHADES,
    SHADES_AGAINST,
    half_blocks,
    has_colour,
    to_terminal,
)
from whyformer.words import Piece

#: what whyformer itself may write: true colours, and back to normal
OURS = re.compile(r"\x1b\[(?:0|(?:38|48);2;\d+;\d+;\d+(?:;(?:38|48);2;\d+;\d+;\d+)?)m")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
ATTACKS = [
    "\x1b[31m",
    "\x1b[8m",
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x1b]52;c;aGk=\x1b\\",
    "\x9b31m",
    "\x9d0;title\x9c",
    "\x07\x08\x08",
    "over\rwritten",
    "\x1bc",
    "\x1b\x1b[[31mm",
    "\x0e\x0f\x7f",
]


def cells(line: str) -> int:
    """How many columns a line takes."""
    shown = OURS.sub("", line)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in shown
    )


def two_classes(**changes: object) -> Sheet:
    views = [View("lrp", CAT, one_hot(2, 2, (0, 0))), View("lrp", DOG, one_hot(2, 2, (1, 1)))]
    return image_sheet(*views, size=(64, 64), **changes)


# --- what never reaches the terminal ---------------------------------------------------------


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("attack", ATTACKS)
def test_control_characters_of_a_text_are_not_passed_on(attack: str, colour: bool) -> None:
    label = ClassScore(0, f"x{attack}y", 1.0, 0.5)
    pieces = [Piece(f"a{attack}b", attack, 0), Piece(attack, f" {attack}", 1)]
    view = View("lrp", label, np.array([1.0, 0.0]))
    told = {"title": attack, "model": attack, "notes": [attack]}
    shown = to_terminal(text_sheet(pieces, view, **told), colour=colour)
    assert not CONTROL.search(OURS.sub("", shown))
    assert bool(OURS.search(shown)) == colour
    image = image_sheet(View("lrp", label, np.eye(2)), **told)
    assert not CONTROL.search(OURS.sub("", to_terminal(image, colour=colour)))


@pytest.mark.parametrize("pieces", [True, False])
def test_a_text_cannot_colour_itself(pieces: bool) -> None:
    """Even our own colours are ours only: black on black would hide a word."""
    hidden = "\x1b[48;2;0;0;0;38;2;0;0;0m"
    plain, hiding = (
        to_terminal(plain_text(f"{start}good film"), colour=True, pieces=pieces)
        for start in ("", hidden)
    )
    assert hidden not in hiding
    assert len(OURS.findall(plain)) == len(OURS.findall(hiding))


@pytest.mark.parametrize("sheet", [two_classes(), plain_text("a good film")])
def test_without_colour_there_is_no_escape(sheet: Sheet) -> None:
    assert "\x1b" not in to_terminal(sheet, colour=False)


# --- when there is colour --------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "stream", "expected"),
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"NO_COLOR": ""}, Terminal(), True),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"FORCE_COLOR": "1"}, io.StringIO(), True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, Terminal(), False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    environment: dict[str, str],
    stream: io.StringIO,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert has_colour(stream) == expected


# --- images ----------------------------------------------------------------------------------


def test_half_blocks_show_two_pixels_each() -> None:
    picture = Image.new("RGB", (5, 4), (1, 2, 3))
    picture.putpixel((2, 1), (7, 8, 9))
    rows = half_blocks(picture).split("\n")
    assert [cells(row) for row in rows] == [5, 5]
    assert rows[0].count("38;2;1;2;3;48;2;7;8;9m▀") == 1
    assert rows[1].count("38;2;1;2;3;48;2;1;2;3m▀") == 5
    assert all(row.endswith("\x1b[0m") for row in rows)


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [20, 33, 40, 80, 81, 200])
def test_maps_fit_the_terminal(width: int, colour: bool) -> None:
    _, *blocks = to_terminal(two_classes(), colour=colour, width=width).split("\n\n")
    for block in blocks:
        title, *rows, legend = block.split("\n")
        widths = {cells(row) for row in rows}
        assert len(widths) == 1
        assert cells(legend) <= width
        assert 16 <= widths.pop() <= width
        assert cells(title) <= width


def test_maps_of_two_classes_stand_side_by_side_where_there_is_room() -> None:
    _, both = to_terminal(two_classes(), colour=False, width=80).split("\n\n")
    title, *rows, legend = both.split("\n")
    assert legend.split() == ["0", ".:-=+*#%@", "1"] * 2
    assert title.index("why dog?") == 41
    assert rows[0][:39].count("@") > 0
    assert rows[0][41:].count("@") == 0
    assert rows[-1][41:].count("@") > 0
    assert len(to_terminal(two_classes(), colour=False, width=20).split("\n\n")) == 3


def test_an_image_keeps_its_aspect() -> None:
    """A character is about twice as high as wide."""
    sheet = image_sheet(View("lrp", CAT, np.eye(2)), size=(100, 50))
    _, block = to_terminal(sheet, colour=True).split("\n\n")
    rows = block.split("\n")[1:-1]
    assert cells(rows[0]) / (2 * len(rows)) == pytest.approx(2, rel=0.1)


def test_titles_of_wide_letters_keep_the_columns() -> None:
    cat, dog = ClassScore(0, "猫" * 30, 2.0, 0.7), ClassScore(1, "犬", 1.0, 0.3)
    views = [View("lrp", cat, np.eye(2)), View("lrp", dog, np.eye(2))]
    _, block = to_terminal(image_sheet(*views, size=(64, 64)), colour=False).split("\n\n")
    title = block.split("\n")[0]
    assert cells(title[: title.index("why 犬")]) == 41


# --- texts -----------------------------------------------------------------------------------


def test_coloured_words_read_as_the_text() -> None:
    pieces = [Piece("A", "", 0), Piece("joy", "\n", 1), Piece("less", "", 1), Piece(".", "", 2)]
    sheet = text_sheet(pieces, View("lrp", CAT, np.array([0.0, 0.5, 1.0, 0.0])))
    shown = to_terminal(sheet, colour=True)
    title, legend, *text = OURS.sub("", shown).split("\n")[2:]
    assert title == "why cat?  0.70"
    assert legend.split() == ["0", "1"]
    assert text == ["A", "joyless."]
    assert len(re.findall(r"\x1b\[48[0-9;]*m\w", shown)) == 1


def test_without_colour_the_strongest_words_are_listed_first() -> None:
    words = [f"word{i}" for i in range(30)]
    shown = to_terminal(plain_text(" ".join(words)), colour=False).split("\n")[3:]
    assert [line.split()[0] for line in shown] == words[:12]
    bars = [line.count("#") for line in shown]
    assert bars[0] == 20
    assert bars == sorted(bars, reverse=True)


SIGNED = np.array([0.5, -1.0, 0.0])


def test_words_against_are_told_from_words_for() -> None:
    pieces = [Piece(word, " ", i) for i, word in enumerate(("good", "dull", "film"))]
    sheet = text_sheet(pieces, View("lrp", CAT, SIGNED))
    title, first, second, third = to_terminal(sheet, colour=False).split("\n")[2:]
    assert title.endswith("(# for, - against)")
    assert first.split() == ["dull", "-1.00e+00", "-" * 20]
    assert second.split() == ["good", "5.00e-01", "#" * 10]
    assert third.split() == ["film", "0.00e+00"]
    coloured = to_terminal(sheet, colour=True)
    for word, number, step in (("dull", 0, 255), ("good", 1, 128)):
        ground = ";".join(map(str, scale(ink(number))[step].tolist()))
        assert re.search(rf"\x1b\[48;2;{ground};[0-9;]*m{word}", coloured)


def test_maps_against_are_told_from_maps_for() -> None:
    sheet = image_sheet(View("lrp", CAT, SIGNED[None]), size=(60, 30))
    *rows, legend = to_terminal(sheet, colour=False).split("\n\n")[1].split("\n")[1:]
    assert legend == f"-1 {SHADES_AGAINST[:0:-1]} {SHADES[1:]} 1"
    assert "&" not in rows[0][:13]
    assert "&" in rows[0][13:26]
    assert "=" in rows[0][:13]
    strongest = to_terminal(sheet, colour=True, look=Look(opacity=1.0, smooth=False))
    assert "{};{};{}".format(*AGAINST) in strongest


def test_the_list_of_words_lines_up_with_wide_letters() -> None:
    sheet = plain_text("电影 film")
    first, second = to_terminal(sheet, colour=False).split("\n")[3:]
    at = [cells(line[: line.index("e+00")]) for line in (first, second)]
    assert at[0] == at[1]


def test_a_regression_tells_its_value() -> None:
    stars = ClassScore(0, "stars", 3.14159, None)
    shown = to_terminal(plain_text("fine", stars, problem="regression"), colour=False)
    assert shown.startswith("the model value: stars 3.14")
