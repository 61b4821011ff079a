"""LaTeX, a document or a fragment to \\input: words on coloured ground, or an image's panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from whyformer.render.look import USUAL, Look
from whyformer.render.palettes import check_colours
from whyformer.render.prose import StyledWord, heading, marked_words, side_by_side, view_colours
from whyformer.render.scaling import ends, scaled
from whyformer.render.sheet import Sheet, View

ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}", "'": "{'}", "-": "{-}", ",": "{,}",
}  # fmt: skip

#: letters below U+0180 that LaTeX's T1 encoding lacks
NOT_IN_T1 = "ĦħĸĿŀŉŦŧſ"
#: words that fit on a page beside one another; longer texts go below one another
SHORT = 300

#: cells of a legend
STEPS = 12

CLASS = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{textcomp}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage{color}
\usepackage{graphicx}
\setlength{\parindent}{0pt}
\pagestyle{empty}
"""
#: what a fragment brings along; the document around it loads color and graphicx
COMMANDS = r"""% A letter that pdfLaTeX's fonts lack is shown by its number; other engines set it.
\providecommand{\letter}[2]{\ifx\pdfoutput\undefined#2\else[U+#1]\fi}
\providecommand{\word}[3]{{\setlength{\fboxsep}{1.5pt}\colorbox[rgb]{#1}{\strut\textcolor[rgb]{#2}{#3}}}}
\providecommand{\ramp}[1]{{\setlength{\fboxsep}{0pt}\colorbox[rgb]{#1}{\rule{0pt}{1ex}\hspace{0.5em}}}}
"""


def escape(text: str) -> str:
    """Any text as LaTeX sets it."""
    parts = []
    for letter in text:
        if letter in ESCAPES:
            parts.append(ESCAPES[letter])
        elif ord(letter) > 0x17F or letter in NOT_IN_T1:
            parts.append(rf"\letter{{{ord(letter):X}}}{{{letter}}}")
        elif letter.isprintable():
            parts.append(letter)
    return "".join(parts)


def text_latex(sheet: Sheet, pieces: bool = False, look: Look = USUAL) -> str:
    """Classes next to each other, methods below one another."""
    check_colours(look.colours, sheet)
    sheet = scaled(sheet, look.shared, pieces)
    body = []
    for views in side_by_side(sheet):
        columns = [
            f"\\raggedright\n\\textbf{{{escape(heading(sheet, view))}}}\\par\n"
            f"{_legend(sheet, view, look)}\\par\\smallskip\n"
            f"{_words(marked_words(sheet, view, pieces, look.colours))}\n"
            for view in views
        ]
        if len(views) == 1 or len(sheet.words) > SHORT:
            body += columns
            continue
        share = 0.97 / len(views)
        start = f"\\begin{{minipage}}[t]{{{share:.3f}\\textwidth}}"
        body.append("\\hfill\n".join(f"{start}{c}\\end{{minipage}}" for c in columns))
    return _document("\n\n\\bigskip\n".join(body), sheet, look)


def image_latex(sheet: Sheet, picture: str, look: Look = USUAL) -> str:
    """Includes the panels from a picture file that lies beside the document."""
    included = f"\\includegraphics[width=\\textwidth]{{{picture}}}"
    return _document(included, replace(sheet, notes=[]), look)


def _legend(sheet: Sheet, view: View, look: Look) -> str:
    low, high = ends(view)
    if view.signed:
        low, high = f"against {low}", f"{high} for"
    steps = np.linspace(-1 if view.signed else 0, 1, STEPS)
    colours = view_colours(sheet, view, look.colours).of(steps).tolist()
    ramp = "".join(f"\\ramp{{{_fractions(colour)}}}" for colour in colours)
    return f"{{\\footnotesize {escape(low)} {ramp} {escape(high)}}}"


def _words(words: list[StyledWord]) -> str:
    parts = []
    for word in words:
        if "\n\n" in word.gap:
            parts.append("\n\n")
        elif "\n" in word.gap and parts:
            parts.append("\\newline\n")
        elif word.gap:
            parts.append("\n")
        text = escape(word.text)
        parts.append(
            rf"\word{{{_fractions(word.ground)}}}{{{_fractions(word.letter)}}}{{{text}}}"
            if word.shown
            else text
        )
    return "".join(parts).strip()


def _fractions(colour: Sequence[int]) -> str:
    return ",".join(f"{part / 255:.3f}" for part in colour)


def _document(body: str, sheet: Sheet, look: Look) -> str:
    notes = "".join(
        f"\n\n\\smallskip{{\\footnotesize {escape(note)}\\par}}" for note in sheet.notes
    )
    if look.fragment:
        return f"{COMMANDS}{body}{notes}\n"
    return f"{CLASS}{COMMANDS}\\begin{{document}}\n{body}{notes}\n\\end{{document}}\n"
