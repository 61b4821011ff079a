"""LaTeX files compile as they are, whatever the text holds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sheets import CAT, DOG, HOSTILE, image_sheet, plain_text, text_sheet
from typesetting import compiled
from whyformer.render.colour import ink, scale
from whyformer.render.latex import escape, text_latex
from whyformer.render.look import Look
from whyformer.render.saving import save_sheet
from whyformer.render.sheet import ClassScore, View
from whyformer.words import Piece

SPECIAL = r"\ { } $ & # % _ ^ ~ < > | \" ` ' - -- --- ?` !` ,, [ ] * / @ = + ; : ( )"
#: a command of ours, a letter by its number, or a plain escaped sign
COMMANDS = re.compile(
    r"\\letter\{[0-9A-F]+\}\{.\}|\\text[a-z]+\{\}|\\[{}$&#%_]|\{[-,']\}", re.DOTALL
)


@given(st.text())
def test_no_character_keeps_its_meaning(text: str) -> None:
    rest = COMMANDS.sub("", escape(text))
    assert not set(rest) & set("\\{}$&#%_^~")
    assert not re.search(r"[\x00-\x1f\x7f]", rest)


@given(st.text(max_size=40), st.text(max_size=20))
def test_braces_stay_balanced(text: str, label: str) -> None:
    sheet = text_sheet(
        [Piece(text, "", 0)], View("lrp", ClassScore(0, label, 1.0, 0.5), np.ones(1)), notes=[text]
    )
    bare = re.sub(r"\\[\\{}]", "", re.sub(r"\\letter\{[0-9A-F]+\}\{.\}", "", text_latex(sheet)))
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50% & more", r"50\% \& more"),
        ("\\input{x}", r"\textbackslash{}input\{x\}"),
        ("a_b^c~", r"a\_b\textasciicircum{}c\textasciitilde{}"),
        ("naïve", "naïve"),
        ("猫", r"\letter{732B}{猫}"),
        ("a\x07b", "ab"),
    ],
)
def test_known_escapes(text: str, expected: str) -> None:
    assert escape(text) == expected


@pytest.mark.parametrize("ligature", ["--", "---", ",,", "''", "<<", ">>", "``", "?`", "!`"])
def test_signs_are_not_joined_to_others(ligature: str) -> None:
    """Two commas are two commas, not a German quotation mark."""
    assert ligature not in escape(ligature)


def test_texts_compile(tmp_path: Path) -> None:
    """Special signs, scripts, emoji, hostile strings and broken lines, for two classes."""
    words = [*SPECIAL.split(), "naïve", "Straße", "猫", "שלום", "🙂", "👩‍👩‍👧", "e\u0301", "€"]
    words += [*HOSTILE, "x" * 300, "\\end{document}", "a\n\nb", "\\letter", "[", "*"]
    gaps = [" ", "", "\n", "\n\n", " \n \n ", "\t"]
    pieces = [Piece(word, gaps[i % len(gaps)], i) for i, word in enumerate(words)]
    scores = np.linspace(0, 1, len(pieces))
    labels = [ClassScore(i, f"{SPECIAL} {HOSTILE[i]} 猫\n\n", 1.0, 0.5) for i in range(2)]
    views = [
        View(method, asked, scores[::turn])
        for method in ("lrp", "gradcam")
        for asked, turn in zip(labels, (1, -1), strict=True)
    ]
    views.append(View("rollout", None, scores))
    sheet = text_sheet(pieces, *views, notes=[SPECIAL, *HOSTILE])
    compiled(save_sheet(sheet, tmp_path / "words.tex"))
    compiled(save_sheet(sheet, tmp_path / "pieces.tex", pieces=True))


def test_every_letter_of_the_latin_blocks_compiles(tmp_path: Path) -> None:
    letters = " ".join(chr(code) for code in [*range(0x21, 0x250), *range(0x2010, 0x2030)])
    compiled(save_sheet(plain_text(letters), tmp_path / "letters.tex"))


def test_a_text_without_words_compiles(tmp_path: Path) -> None:
    sheet = text_sheet([Piece("[CLS]", " ", None)], View("lrp", CAT, np.ones(1)))
    compiled(save_sheet(sheet, tmp_path / "empty.tex"))


def test_a_long_text_is_not_cut_off(tmp_path: Path) -> None:
    """Three thousand words take several pages."""
    log = compiled(save_sheet(plain_text("word " * 2999 + "end"), tmp_path / "long.tex"))
    assert "Overfull \\vbox" not in log
    assert int(re.search(r"\((\d+) pages?", log)[1]) > 2  # type: ignore[index]


def test_a_fragment_is_for_a_document_of_one_s_own(tmp_path: Path) -> None:
    """Signed words have both colours, and the scale has both ends."""
    pieces = [Piece("good", "", 0), Piece("dull", " ", 1)]
    sheet = text_sheet(pieces, View("lrp", CAT, np.array([0.5, -1.0])))
    path = save_sheet(sheet, tmp_path / "words.tex", look=Look(fragment=True))
    told = path.read_text(encoding="utf-8")
    assert "documentclass" not in told
    blue = ",".join(f"{part / 255:.3f}" for part in scale(ink(0))[-1])
    assert rf"\word{{{blue}}}" in told
    assert "against {-}1" in told
    assert "1 for" in told
    image = image_sheet(View("lrp", CAT, np.eye(2)))
    save_sheet(image, tmp_path / "map.tex", look=Look(fragment=True))
    around = tmp_path / "paper.tex"
    around.write_text(
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\\usepackage{color,graphicx}\n"
        "\\begin{document}\n\\input{words}\n\n\\input{words}\n\n\\input{map}\n\\end{document}\n"
    )
    compiled(around)


def test_broken_lines_stay_broken() -> None:
    pieces = [Piece("one", "", 0), Piece("two", "\n", 1), Piece("three", " ", 2)]
    body = text_latex(text_sheet(pieces, View("lrp", CAT, np.zeros(3))))
    assert re.search(r"one\s*(\\\\|\\newline|\\par|\n\n)\s*(\{\})?\s*two\s+three", body)


@pytest.mark.parametrize("name", ["why", "a b", "50%_#1~{x}$^&", "äö.v2", "猫"])
def test_an_image_is_written_beside_its_document(name: str, tmp_path: Path) -> None:
    views = [View("lrp", asked, np.eye(2)) for asked in (CAT, DOG)]
    path = save_sheet(image_sheet(*views, notes=[SPECIAL]), tmp_path / f"{name}.tex")
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".png", ".tex"]
    plain = path.rename(tmp_path / "document.tex")
    assert ".png" in compiled(plain).replace("\n", "")
