"""A text's words keep their order, their lines and their strengths in every rendering."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from sheets import CAT, DOG, letters, mark, plain_text, said, text_sheet
from whyformer import InputError
from whyformer.render.colour import PLAIN, ink, scale
from whyformer.render.figure import Box, Figure, Writing
from whyformer.render.fonts import OWN, text_width
from whyformer.render.fragment import html_fragment
from whyformer.render.look import Look
from whyformer.render.pages import (
    COLUMN,
    GUTTER,
    LEADING,
    LONG,
    MARGIN,
    TYPE,
    lay_out,
    text_figure,
    text_picture,
)
from whyformer.render.prose import StyledWord, heading, marked_words, side_by_side
from whyformer.render.sheet import View
from whyformer.words import Piece

JOYLESS = [
    Piece("[CLS]", " ", None),
    Piece("joy", "", 0),
    Piece("less", "", 0),
    Piece(",", "", 1),
    Piece("film", " ", 2),
    Piece("[SEP]", " ", None),
]
SCORES = np.array([9.0, 0.1, 0.4, 0.0, 0.0, 9.0])
SIGNED = np.array([9.0, 0.1, 0.4, 0.0, -0.3, -9.0])
SCREEN = Look(dpi=96)


def lines(words: list[StyledWord], width: float = COLUMN) -> list[str]:
    """The words of each line, joined."""
    placed, count = lay_out(words, width)
    found = [""] * count
    for spot in placed:
        found[spot.line] += spot.word.text
    return found


# --- words and their strengths -------------------------------------------------------------------


def test_a_word_is_as_strong_as_its_strongest_piece() -> None:
    view = View("lrp", CAT, SCORES)
    words = marked_words(text_sheet(JOYLESS, view), view)
    assert [word.text for word in words] == ["joyless", ",", "film"]
    assert [word.score for word in words] == [0.4, 0.0, 0.0]
    assert [word.strength for word in words] == [1, 0, 0]
    assert [word.shown for word in words] == [True, False, False]


def test_pieces_are_shown_where_they_are_asked_for() -> None:
    view = View("lrp", CAT, SCORES)
    words = marked_words(text_sheet(JOYLESS, view), view, pieces=True)
    assert [(word.gap, word.text) for word in words] == [
        ("", "joy"),
        ("", "less"),
        ("", ","),
        (" ", "film"),
    ]
    assert [word.strength for word in words] == [0.25, 1, 0, 0]


def test_nothing_for_the_class_is_no_colour() -> None:
    view = View("rollout", CAT, np.zeros(6))
    assert not any(word.shown for word in marked_words(text_sheet(JOYLESS, view), view))


def test_words_for_are_orange_and_words_against_blue() -> None:
    """By one scale for both, whichever class was asked about; special tokens do not count."""
    view = View("lrp", CAT, SIGNED)
    words = marked_words(text_sheet(JOYLESS, view), view)
    np.testing.assert_allclose([word.strength for word in words], [1, 0, -0.75])
    assert words[0].ground == tuple(scale(ink(1))[-1].tolist())
    assert words[2].ground == tuple(scale(ink(0))[191].tolist())
    assert [word.shown for word in words] == [True, False, True]
    assert {"against  -0.4", "0.4  for"} <= set(said(text_sheet(JOYLESS, view)))


def test_the_maximum_stands_beside_the_words() -> None:
    one, half = View("gradcam", CAT, SCORES), View("gradcam", DOG, SCORES / 4)
    assert [text for text in said(text_sheet(JOYLESS, one, half)) if "0." in text] == [
        "why cat?  0.70", "0.4", "why dog?  0.30", "0.1",
    ]  # fmt: skip
    shared = said(text_sheet(JOYLESS, one, half), shared=True)
    assert shared.count("0.4") == 2
    weak = grounds(text_figure(text_sheet(JOYLESS, one, half), look=Look(shared=True)))
    assert weak[1].colour == tuple(scale(ink(1))[64].tolist())


def grounds(figure: Figure) -> list[Box]:
    return [mark for mark in figure.marks if isinstance(mark, Box)]


def test_classes_keep_their_colours_however_they_are_asked_for() -> None:
    cat, dog = (View("gradcam", asked, np.ones(6)) for asked in (CAT, DOG))
    for sheet in (text_sheet(JOYLESS, cat, dog), text_sheet(JOYLESS, dog, cat)):
        assert marked_words(sheet, cat)[0].ground == tuple(scale(ink(0))[-1].tolist())


def test_classes_have_colours_of_their_own_and_no_class_is_grey() -> None:
    cat, dog, neither = (View("lrp", asked, np.ones(6)) for asked in (CAT, DOG, None))
    sheet = text_sheet(JOYLESS, cat, dog, neither)
    grounds = [marked_words(sheet, view)[0].ground for view in sheet.views]
    assert grounds == [tuple(scale(stops)[-1].tolist()) for stops in (ink(0), ink(1), PLAIN)]
    assert grounds[0] != grounds[1]
    assert len(set(grounds[2])) == 1


def test_a_class_has_the_same_colour_in_every_method() -> None:
    views = [
        View(method, asked, np.ones(6)) for method in ("lrp", "gradcam") for asked in (CAT, DOG)
    ]
    sheet = text_sheet(JOYLESS, *views)
    first, second, third, fourth = (marked_words(sheet, view)[0].ground for view in views)
    assert first == third != second == fourth
    assert [[view.asked for view in row] for row in side_by_side(sheet)] == [[CAT, DOG]] * 2


def test_headings_name_the_class_and_the_method_where_there_are_several() -> None:
    cat, none = View("lrp", CAT, SCORES), View("rollout", None, SCORES)
    assert heading(text_sheet(JOYLESS, cat), cat) == "why cat?  0.70"
    assert heading(text_sheet(JOYLESS, cat, none), cat) == "lrp: why cat?  0.70"
    assert heading(text_sheet(JOYLESS, none), none) == "rollout: every class"


# --- lines ---------------------------------------------------------------------------------------


def test_lines_break_at_gaps_where_they_are_full() -> None:
    words = [mark(f"word{i}") for i in range(40)]
    placed, count = lay_out(words)
    assert count > 1
    for one, other in pairwise(placed):
        right = one.x + text_width(one.word.text, TYPE, OWN)
        assert right <= COLUMN
        following = other.line == one.line and other.x > right
        assert following or (other.line == one.line + 1 and other.x == 0)


@pytest.mark.parametrize("count", range(1, 60, 7))
def test_words_without_a_gap_stay_together(count: int) -> None:
    """A line may be full at any place; punctuation never starts the next one."""
    words = [mark("w") for _ in range(count)] + [mark("("), mark("end", ""), mark(").", "")]
    assert lines(words, 300)[-1].endswith("(end).")


def test_broken_lines_stay_broken() -> None:
    words = [mark("one", ""), mark("two", "\n"), mark("three", " "), mark("four", " \n\n ")]
    assert lines(words) == ["one", "twothree", "", "four"]


def test_many_empty_lines_become_one() -> None:
    assert lines([mark("one"), mark("two", "\n" * 50)]) == ["one", "", "two"]


@pytest.mark.parametrize(
    "words",
    [
        [mark("x" * 200)],
        [mark("a"), mark("https://example.org/" + "path/" * 30), mark("b")],
        [mark(letter, "") for letter in "天地玄黄宇宙洪荒日月盈昃辰宿列张" * 6],
    ],
    ids=["long word", "long address", "Chinese, a word a letter without gaps"],
)
def test_nothing_leaves_the_column(words: list[StyledWord]) -> None:
    placed, _ = lay_out(words)
    for spot in placed:
        assert spot.x + spot.width <= COLUMN + 1


def test_all_text_is_kept() -> None:
    words = [mark("x" * 200), mark("y"), mark("z" * 90, "")]
    assert "".join(lines(words)) == "x" * 200 + "y" + "z" * 90


# --- the picture ---------------------------------------------------------------------------------


def area(picture: Image.Image, colour: tuple[int, int, int]) -> np.ndarray:
    return (np.asarray(picture) == colour).all(-1)


def test_the_picture_has_a_column_a_class_and_a_row_a_method() -> None:
    views = [View(method, asked, SCORES) for method in ("lrp", "gradcam") for asked in (CAT, DOG)]
    one = text_picture(text_sheet(JOYLESS, views[0]), look=SCREEN)
    four = text_picture(text_sheet(JOYLESS, *views), look=SCREEN)
    assert one.width == 2 * MARGIN + COLUMN
    assert four.width == 2 * MARGIN + 2 * COLUMN + GUTTER
    assert four.height - one.height == one.height - 2 * MARGIN
    for number, left in ((0, MARGIN), (1, MARGIN + COLUMN + GUTTER)):
        found = area(four, tuple(scale(ink(number))[-1].tolist()))
        assert found.any()
        assert found[:, left - 2 : left + COLUMN].sum() == found.sum()


def test_the_ground_of_a_word_is_as_wide_as_the_word() -> None:
    """It reaches into the space beside it, and not under the comma that has none."""
    figure = text_figure(text_sheet(JOYLESS, View("gradcam", CAT, SCORES)))
    (box,) = grounds(figure)
    joyless, comma, _ = letters(figure)
    assert box.x == joyless.x - 2
    assert box.x + box.width == pytest.approx(joyless.x + joyless.width)
    assert box.x + box.width < comma.x
    assert box.height < LEADING


@pytest.mark.parametrize("text", ['thin, superb. a/b (so) "yes"!', "这部电影非常好看。"])
def test_boxes_never_cover_letters(text: str) -> None:
    """Letters are drawn on top of all boxes, and no box reaches under another word's letters."""
    pieces = [
        Piece(sign, " " if text[max(0, i - 1)] == " " else "", i)
        for i, sign in enumerate(text)
        if sign != " "
    ]
    sheet = text_sheet(pieces, View("gradcam", CAT, np.ones(len(pieces))))
    figure = text_figure(sheet)
    kinds = [
        type(mark) for mark in figure.marks if isinstance(mark, Box) or mark in letters(figure)
    ]
    assert kinds == sorted(kinds, key=lambda kind: kind is Writing)
    for one, other in pairwise(sorted(grounds(figure), key=lambda box: box.x)):
        assert one.x + one.width <= other.x + 1e-6
    for box, word in zip(grounds(figure), letters(figure), strict=True):
        assert box.x <= word.x
        assert word.x + word.width <= box.x + box.width + 1e-6


def test_corners_are_smooth_and_pictures_have_two_pixels_a_unit() -> None:
    view = View("gradcam", CAT, SCORES)
    sheet = text_sheet(JOYLESS, view)
    picture = text_picture(sheet)
    assert picture.width == 2 * (2 * MARGIN + COLUMN)
    assert text_picture(sheet, look=Look(dpi=300)).width == round(508 * 300 / 96)
    (box,) = grounds(text_figure(sheet))
    corner = picture.crop(
        (round(box.x * 2), round(box.y * 2), round(box.x * 2) + 8, round(box.y * 2) + 8)
    )
    assert len(corner.getcolors() or []) > 3


def test_long_texts_go_on_in_columns() -> None:
    short, long = (plain_text(" ".join(["word"] * count)) for count in (300, 2000))
    one, three = text_figure(short), text_figure(long)
    assert one.width == 2 * MARGIN + COLUMN
    assert three.width == 2 * MARGIN + 3 * COLUMN + 2 * GUTTER
    assert three.height < 2 * three.width
    places = [(mark.x, mark.y) for mark in letters(three)]
    assert len(places) == len(set(places)) == 2000
    assert len({y for _, y in places}) >= LONG


def test_a_width_decides_the_columns() -> None:
    views = [View("gradcam", asked, SCORES) for asked in (CAT, DOG)]
    wide, narrow = (
        text_figure(text_sheet(JOYLESS, *views), look=Look(width=width)) for width in (6.5, 2.4)
    )
    assert wide.width == pytest.approx(6.5 * 96)
    assert narrow.width == pytest.approx(2.4 * 96)
    tops = [[m.y for m in figure.marks if m in letters(figure)] for figure in (wide, narrow)]
    assert len(set(tops[0])) == 1
    assert len(set(tops[1])) == 2


def test_an_enormous_picture_is_refused() -> None:
    views = [View(f"method {i}", CAT, np.ones(1000)) for i in range(9)]
    pieces = [Piece("word", " ", i) for i in range(1000)]
    with pytest.raises(InputError, match=r"pixels; ask for fewer methods or classes"):
        text_picture(text_sheet(pieces, *views), look=Look(dpi=1200))


def test_notes_stand_below() -> None:
    view = View("lrp", CAT, SCORES)
    bare = text_picture(text_sheet(JOYLESS, view))
    noted = text_picture(text_sheet(JOYLESS, view, notes=["read in windows"]))
    assert noted.height > bare.height
    assert (np.asarray(noted)[bare.height - 2 * MARGIN :] != 255).any()


# --- the fragment for notebooks ------------------------------------------------------------------


def test_a_fragment_colours_words_and_keeps_the_text() -> None:
    pieces = [Piece("good", "", 0), Piece("<b>", "\n", 1), Piece("&", " ", 2)]
    sheet = text_sheet(pieces, View("lrp", CAT, np.array([1.0, 0.5, 0.0])), notes=["<i>"])
    fragment = html_fragment(sheet)
    assert "<b>" not in fragment
    assert "<i>" not in fragment
    assert "&lt;b&gt;" in fragment
    assert ">&amp;</span>" in fragment
    assert fragment.count("background:") == 4  # the paper, the scale and two words
    assert "pre-wrap" in fragment
    assert "</span>\n<span" in fragment
