"""A LaTeX document that compiles on its own: words on coloured ground, or an image's panels."""

from __future__ import annotations

from whyformer.render.prose import Marked, heading, marked_words, side_by_side
from whyformer.render.sheet import Sheet

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

PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{textcomp}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
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
        elif ord(letter) > 0x17F or letter in NOT_IN_T1:
            parts.append(rf"\letter{{{ord(letter):X}}}{{{letter}}}")
        elif letter.isprintable():
            parts.append(letter)
    return "".join(parts)


def text_latex(sheet: Sheet, pieces: bool = False) -> str:
    """Classes next to each other, methods below one another."""
    body = []
    for views in side_by_side(sheet):
        columns = [
            f"\\raggedright\n\\textbf{{{escape(heading(sheet, view))}}}\\par\\smallskip\n"
            f"{_words(marked_words(sheet, view, pieces))}\n"
            for view in views
        ]
        if len(views) == 1 or len(sheet.words) > SHORT:
            body += columns
            continue
        share = 0.97 / len(views)
        start = f"\\begin{{minipage}}[t]{{{share:.3f}\\textwidth}}"
        body.append("\\hfill\n".join(f"{start}{c}\\end{{minipage}}" for c in columns))
    return _document("\n\n\\bigskip\n".join(body), sheet)


def image_latex(sheet: Sheet, picture: str) -> str:
    """Includes the panels from a picture file that lies beside the document."""
    return _document(f"\\includegraphics[width=\\textwidth]{{{picture}}}", sheet)


def _words(words: list[Marked]) -> str:
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


def _fractions(colour: tuple[int, int, int]) -> str:
    return ",".join(f"{part / 255:.3f}" for part in colour)


def _document(body: str, sheet: Sheet) -> str:
    notes = "".join(f"\n\n\\smallskip\\footnotesize {escape(note)}" for note in sheet.notes)
    return f"{PREAMBLE}\\begin{{document}}\n{body}{notes}\n\\end{{document}}\n"
