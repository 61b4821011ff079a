"""Every script that the machine has a font for is drawn, in its direction and with its joins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PIL import features

from sheets import CAT, letters, mark, plain_text, said, text_sheet
from whyformer.render.fonts import OWN, base_face, face_of, font_notes, missing, text_width
from whyformer.render.fragment import html_fragment
from whyformer.render.look import Look
from whyformer.render.pages import (
    COLUMN,
    TYPE,
    lay_out,
    text_figure,
    text_picture,
)
from whyformer.render.sheet import View
from whyformer.words import Piece

# --- which way it is read ------------------------------------------------------------------------


def across(text: str) -> list[str]:
    """The words of one line from left to right."""
    placed, _ = lay_out([mark(word, " ") for word in text.split()])
    return [spot.word.text for spot in sorted(placed, key=lambda spot: spot.x)]


def test_right_to_left_scripts_run_from_the_right_edge() -> None:
    placed, _ = lay_out([mark(word) for word in "هذا الفيلم رائع".split()])
    assert [spot.x for spot in placed] == sorted(spot.x for spot in placed)
    assert [spot.word.text for spot in placed] == ["رائع", "الفيلم", "هذا"]
    assert placed[-1].x + placed[-1].width == pytest.approx(COLUMN)
    assert all(spot.rtl for spot in placed)


def test_directions_mix_as_unicode_wants() -> None:
    assert across("a good שלום עולם film") == ["a", "good", "עולם", "שלום", "film"]
    assert across("שלום a good עולם 12 30") == ["30", "12", "עולם", "a", "good", "שלום"]


# --- scripts -------------------------------------------------------------------------------------


SCRIPTS = {
    "Chinese": "这部电影非常好看",
    "Arabic": "هذا الفيلم رائع جدا",
    "Hebrew": "שלום עולם",
    "Devanagari": "हिन्दी फिल्म बहुत",
    "emoji": "🙂 👩‍👩‍👧 🤮",
    "accents": "naïve café",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_that_has_a_font_is_drawn(script: str) -> None:
    """No letter is the box that stands for a missing one: all differ."""
    text = SCRIPTS[script]
    if missing(text):
        pytest.skip(f"no font for {script} is installed")
    words = [plain_text(cluster) for cluster in dict.fromkeys(text.replace(" ", "")[:3])]
    drawn = [np.asarray(text_picture(sheet, look=Look(dpi=96))) for sheet in words]
    for one, other in pairwise(drawn):
        assert (one != other).any()
    assert not font_notes(text)


def test_letters_are_joined_where_their_script_wants_it() -> None:
    """Arabic letters in a word are narrower than the same letters alone."""
    if missing("رائع") or not features.check("raqm"):
        pytest.skip("no font for Arabic, or no raqm")
    face = base_face("رائع")
    alone = sum(text_width(letter, TYPE, face) for letter in "عععع")
    assert text_width("عععع", TYPE, face) < 0.9 * alone


def test_coloured_emoji_keep_their_colours() -> None:
    face = face_of("😍", OWN)
    if face is None or not face.fixed:
        pytest.skip("no font of coloured emoji is installed")
    sheet = text_sheet([Piece("😍", "", 0)], View("gradcam", CAT, np.zeros(1)))
    pixels = np.asarray(text_picture(sheet)).astype(int)[140:]
    assert (np.ptp(pixels, axis=-1) > 100).sum() > 100
    joined, woman = text_width("👩‍👩‍👧", TYPE, OWN), text_width("👩", TYPE, OWN)
    assert joined == pytest.approx(woman, rel=0.2)


def test_a_sentence_says_which_letters_have_no_font() -> None:
    (note,) = font_notes("a \U0010fffd film")
    assert "U+10FFFD" in note
    assert "save .html" in note
    assert any("U+10FFFD" in text for text in said(plain_text("\U0010fffd")))


@pytest.mark.parametrize(
    "text", ["a\u0301 \u200d \u202e", "\x00 \x1b[31m \x9b", "\u200b", "\ufeff"]
)
def test_unseen_letters_can_be_drawn(text: str) -> None:
    assert text_picture(plain_text(text)).width > 0
    assert "why cat?" in html_fragment(plain_text(text))


def test_a_text_of_special_tokens_alone_is_blank() -> None:
    sheet = text_sheet([Piece("[CLS]", " ", None)], View("lrp", CAT, np.ones(1)))
    assert not letters(text_figure(sheet))


def test_one_text_has_one_typeface() -> None:
    """An accent does not change the letters beside it: both words are equally wide."""
    if missing("é"):
        pytest.skip("no font with accents is installed")
    cafe, accented, _ = lay_out([mark("cafe"), mark("café"), mark("|")])[0]
    assert cafe.width == pytest.approx(accented.width, abs=0.5)
