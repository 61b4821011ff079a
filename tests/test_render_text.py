"""A text's words keep their order, their lines and their strengths in every rendering."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from sheets import CAT, DOG, plain_text, text_sheet
from whyformer.render.colour import PLAIN, ink, scale
from whyformer.render.drawing import WIDER_FONTS, font
from whyformer.render.fragment import html_fragment
from whyformer.render.pages import COLUMN, GUTTER, LEADING, MARGIN, TYPE, lay_out, text_picture
from whyformer.render.prose import Marked, heading, marked_words, side_by_side
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
SCORES = np.array([9.0, 0.1, 0.4, 0.0, -0.3, 9.0])


def mark(text: str, gap: str = " ") -> Marked:
    return Marked(text, gap, 1.0, 1.0, (200, 220, 255), (17, 17, 17))


def lines(words: list[Marked], width: float = COLUMN) -> list[str]:
    """The words of each line, joined."""
    placed, count = lay_out(words, width)
    found = [""] * count
    for _, line, word in placed:
        found[line] += word.text
    return found


# --- words and their strengths -------------------------------------------------------------------


def test_a_word_is_as_strong_as_its_strongest_piece() -> None:
    view = View("lrp", CAT, SCORES)
    words = marked_words(text_sheet(JOYLESS, view), view)
    assert [word.text for word in words] == ["joyless", ",", "film"]
    assert [word.score for word in words] == [0.4, 0.0, -0.3]
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
    view = View("lrp", CAT, -np.ones(6))
    assert not any(word.shown for word in marked_words(text_sheet(JOYLESS, view), view))


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
    for (x, line, word), (after, next_line, _) in pairwise(placed):
        right = x + font(TYPE, word.text).getlength(word.text)
        assert right <= COLUMN
        assert (next_line == line and after > right) or (next_line == line + 1 and after == 0)


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
def test_nothing_leaves_the_column(words: list[Marked]) -> None:
    placed, _ = lay_out(words)
    for x, _, word in placed:
        assert x + font(TYPE, word.text).getlength(word.text) <= COLUMN + 1


def test_all_text_is_kept() -> None:
    words = [mark("x" * 200), mark("y"), mark("z" * 90, "")]
    assert "".join(lines(words)) == "x" * 200 + "y" + "z" * 90


# --- the picture ---------------------------------------------------------------------------------


def area(picture: Image.Image, colour: tuple[int, int, int]) -> np.ndarray:
    return (np.asarray(picture) == colour).all(-1)


def test_the_picture_has_a_column_a_class_and_a_row_a_method() -> None:
    views = [View(method, asked, SCORES) for method in ("lrp", "gradcam") for asked in (CAT, DOG)]
    one = text_picture(text_sheet(JOYLESS, views[0]))
    four = text_picture(text_sheet(JOYLESS, *views))
    assert one.width == 2 * MARGIN + COLUMN
    assert four.width == 2 * MARGIN + 2 * COLUMN + GUTTER
    assert four.height - one.height == one.height - 2 * MARGIN
    for number, left in ((0, MARGIN), (1, MARGIN + COLUMN + GUTTER)):
        found = area(four, tuple(scale(ink(number))[-1].tolist()))
        assert found.any()
        assert found[:, left - 2 : left + COLUMN].sum() == found.sum()


def test_the_ground_of_a_word_is_as_wide_as_the_word() -> None:
    view = View("lrp", CAT, SCORES)
    picture = text_picture(text_sheet(JOYLESS, view))
    found = area(picture, tuple(scale(ink(0))[-1].tolist()))
    across = np.flatnonzero(found.any(0))
    wide = font(TYPE, "joyless").getlength("joyless")
    assert across[0] == pytest.approx(MARGIN - 1, abs=1)
    assert across[-1] - across[0] == pytest.approx(wide, abs=2)
    assert np.ptp(np.flatnonzero(found.any(1))) < LEADING


def test_notes_stand_below() -> None:
    view = View("lrp", CAT, SCORES)
    bare = text_picture(text_sheet(JOYLESS, view))
    noted = text_picture(text_sheet(JOYLESS, view, notes=["read in windows"]))
    assert noted.height == bare.height + LEADING
    assert (np.asarray(noted)[bare.height - MARGIN :] != 255).any()


@pytest.mark.parametrize(
    "text",
    [
        "שלום עולם",
        "مرحبا بالعالم",
        "世界 你好",
        "🙂 👩‍👩‍👧 🇫🇷",
        "naïve café",
        "a\u0301 \u200d \u202e",
        "\x00 \x1b[31m \x9b",
    ],
)
def test_any_script_can_be_drawn(text: str) -> None:
    sheet = plain_text(text)
    picture = text_picture(sheet)
    assert area(picture, tuple(scale(ink(0))[-1].tolist())).any()
    assert "why cat?" in html_fragment(sheet)


def test_a_text_of_special_tokens_alone_is_blank() -> None:
    sheet = text_sheet([Piece("[CLS]", " ", None)], View("lrp", CAT, np.ones(1)))
    picture = np.asarray(text_picture(sheet))
    assert (picture[MARGIN + LEADING :] == 255).all()


@pytest.fixture
def _wider_font() -> None:
    if font(TYPE, "é").getname() == font(TYPE, "e").getname():
        pytest.skip(f"none of {', '.join(WIDER_FONTS)} is installed")


@pytest.mark.usefixtures("_wider_font")
def test_accents_are_drawn() -> None:
    """Pillow's own font has none: every letter beyond ASCII would be the same box."""
    one, other = (np.asarray(text_picture(plain_text(letter))) for letter in "éè")
    assert (one != other).any()


@pytest.mark.usefixtures("_wider_font")
def test_one_text_has_one_typeface() -> None:
    """An accent does not change the letters beside it: both words are equally wide."""
    (first, _, _), (second, _, _), (end, _, _) = lay_out([mark("cafe"), mark("café"), mark("|")])[0]
    assert second - first == pytest.approx(end - second, abs=0.5)


# --- the fragment for notebooks ------------------------------------------------------------------


def test_a_fragment_colours_words_and_keeps_the_text() -> None:
    pieces = [Piece("good", "", 0), Piece("<b>", "\n", 1), Piece("&", " ", 2)]
    sheet = text_sheet(pieces, View("lrp", CAT, np.array([1.0, 0.5, 0.0])), notes=["<i>"])
    fragment = html_fragment(sheet)
    assert "<b>" not in fragment
    assert "<i>" not in fragment
    assert "&lt;b&gt;" in fragment
    assert ">&amp;</span>" in fragment
    assert fragment.count("background:") == 3  # the paper and two words
    assert "pre-wrap" in fragment
    assert "</span>\n<span" in fragment
