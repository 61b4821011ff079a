"""A LaTeX document that compiles on its own: words on coloured ground, or an image's panels."""

from __future__ import annotations

from whyformer.render.prose import Marked, heading, marked_words, side_by_side
from whyformer.render.sheet import Sheet

ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}", "'": "'", "-": "{-}",
}  # fmt: skip

PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{textcomp}
\usepackage{color}
\usepackage{graphicx}
\setlength{\fboxsep}{1.5pt}
\setlength{\parindent}{0pt}
\pagestyle{empty}
% A letter that pdfLaTeX's fonts lack is shown by its number; other engines set it.
\newcommand{\letter}[2]{\ifx\pdfoutput\undefined#2\else[U+#1]\fi}
\newcommand{\word}[3]{\colorbox[rgb]{#1}{\strut\textcolor[rgb]{#2}{#3}}}
"""


def escape(text: str) -> str:
    """Any text as LaTeX sets it."""
    parts = []
    for letter in text:
        if letter in ESCAPES:
            parts.append(ESCAPES[letter])
        elif ord(letter) > 0x17F or (0x7F <= ord(letter) < 0xA1):
            parts.append(rf"\letter{{{ord(letter):X}}}{{{letter}}}")
        elif ord(letter) >= 0x20:
            parts.append(letter)
    return "".join(parts)


def text_latex(sheet: Sheet, pieces: bool = False) -> str:
    """Classes next to each other, methods below one another."""
    body = []
    for views in side_by_side(sheet):
        share = 0.97 / len(views)
        columns = [
            f"\\begin{{minipage}}[t]{{{share:.3f}\\textwidth}}\\raggedright\n"
            f"\\textbf{{{escape(heading(sheet, view))}}}\\par\\smallskip\n"
            f"{_words(marked_words(sheet, view, pieces))}\n\\end{{minipage}}"
            for view in views
        ]
        body.append("\\hfill\n".join(columns))
    return _document("\n\n\\bigskip\n".join(body), sheet)


def image_latex(sheet: Sheet, picture: str) -> str:
    """Includes the panels from a picture file that lies beside the document."""
    return _document(f"\\includegraphics[width=\\textwidth]{{{picture}}}", sheet)


def _words(words: list[Marked]) -> str:
    parts = []
    for word in words:
        if "\n\n" in word.gap:
            parts.append("\n\n")
        elif word.gap:
            parts.append("\n")
        text = escape(word.text)
        parts.append(
            rf"\word{{{_fractions(word.ground)}}}{{{_fractions(word.letter)}}}{{{text}}}"
            if word.shown
            else text
        )
    return "".join(parts).strip()


def _fractions(colour: tuple[int, int, int]) -> str:
    return ",".join(f"{part / 255:.3f}" for part in colour)


def _document(body: str, sheet: Sheet) -> str:
    notes = "".join(f"\n\n\\smallskip\\footnotesize {escape(note)}" for note in sheet.notes)
    return f"{PREAMBLE}\\begin{{document}}\n{body}{notes}\n\\end{{document}}\n"
