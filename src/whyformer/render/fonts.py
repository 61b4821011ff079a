"""Fonts that have the letters of a text: Pillow's own, or what the machine has.

Pillow's raqm lays letters out (joined Arabic, Devanagari's clusters); fontconfig, where it is
installed, names a font for any letter, and fontTools tells what a font covers.
"""

from __future__ import annotations

import io
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import regex
from PIL import ImageFont, features

#: widths are measured at this size, in pixels
MEASURED = 64
#: sizes that fonts of coloured bitmaps have: Noto's, Apple's, others
BITMAPS = (109, 160, 136, 128, 96)
#: they fill more than their size: drawn as high as letters are
BITMAP_ROOM = 1.17
#: fonts for plain letters beyond ASCII, then for scripts: looked for without fontconfig
PLAIN = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial.ttf", "arial.ttf", "segoeui.ttf")
SCRIPTS = (
    "NotoColorEmoji.ttf", "Apple Color Emoji.ttc", "seguiemj.ttf", "NotoSansCJK-Regular.ttc",
    "Arial Unicode.ttf", "msyh.ttc", "PingFang.ttc", "Nirmala.ttc", "Nirmala.ttf",
    "Kohinoor.ttc", "NotoSansArabic-Regular.ttf", "NotoSansDevanagari-Regular.ttf",
)  # fmt: skip
FOLDERS = {
    "darwin": ("/System/Library/Fonts", "/Library/Fonts", "~/Library/Fonts"),
    "win32": ("C:/Windows/Fonts", "~/AppData/Local/Microsoft/Windows/Fonts"),
}
ELSEWHERE = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
#: letters that need no glyph of their own: joiners, variation selectors, directions
UNSEEN = regex.compile(r"[\p{Cf}\p{Cc}\p{Variation_Selector}\s]")
EMOJI = regex.compile(r"[\U0001F000-\U0001FAFF\uFE0F]")
#: scripts whose letters change with their neighbours
JOINING = regex.compile(
    r"[\p{Arabic}\p{Syriac}\p{Devanagari}\p{Bengali}\p{Tamil}\p{Telugu}\p{Gujarati}\p{Gurmukhi}"
    r"\p{Kannada}\p{Malayalam}\p{Khmer}\p{Myanmar}]"
)


@dataclass(frozen=True)
class Face:
    """A font of a file; without a path Pillow's own, the same on every machine."""

    path: str = ""
    index: int = 0

    @property
    def data(self) -> bytes | None:
        """Pillow's own font as a file's content."""
        return None if self.path else _own_bytes()

    def at(self, size: float) -> Any:
        return _font(self, size)

    @property
    def fixed(self) -> int | None:
        """The one size that a font of coloured bitmaps has."""
        return _bitmap_size(self)

    def covers(self, text: str) -> bool:
        letters = _letters(self)
        return all(ord(letter) in letters for letter in UNSEEN.sub("", text))


OWN = Face()


def base_face(text: str) -> Face:
    """One face for a text's plain letters: the first of those that have the most of them."""
    letters = set(EMOJI.sub("", UNSEEN.sub("", text)))
    if OWN.covers("".join(letters)):
        return OWN
    return max((OWN, *_plain_faces()), key=lambda face: sum(face.covers(a) for a in letters))


def faces(text: str, base: Face) -> Iterator[tuple[str, Face | None]]:
    """A text in runs of one face each; None where no font of this machine has the letters."""
    if text and text.isascii() and base.covers(text):
        yield text, base
        return
    clusters = regex.findall(r"\X", text)
    for face, run in groupby(clusters, key=lambda cluster: face_of(cluster, base)):
        yield "".join(run), face


@lru_cache(4096)
def face_of(cluster: str, base: Face) -> Face | None:
    emoji = EMOJI.search(cluster) is not None
    if base.covers(cluster) and not emoji:
        return base
    for face in _found("emoji" if emoji else "sans", cluster):
        if face.covers(cluster):
            return face
    return base if base.covers(cluster) else None


@lru_cache(16384)
def text_width(text: str, size: float, base: Face) -> float:
    """How wide a text is; letters without a font count as the box that stands for them."""
    wide = 0.0
    for run, face in faces(text, base):
        face = face or base
        measured = face.fixed or MEASURED
        wide += (
            face.at(measured).getlength(run)
            * size
            / (measured * (BITMAP_ROOM if face.fixed else 1))
        )
    return wide


def missing(text: str) -> list[str]:
    """The letters that no font of this machine has."""
    base = base_face(text)
    runs = (run for run, face in faces(text, base) if face is None)
    return list(dict.fromkeys(c for run in runs for c in run if not UNSEEN.match(c)))


def font_notes(text: str) -> list[str]:
    """What is wrong with a picture of this text on this machine, a sentence each."""
    notes = []
    if letters := missing(text):
        shown = ", ".join(f"{a} (U+{ord(a):04X})" for a in letters[:3])
        more = f" and {len(letters) - 3} more" if len(letters) > 3 else ""
        script = unicodedata.name(letters[0], "unnamed").split()[0].capitalize()
        notes.append(
            f"no font of this machine has {shown}{more}: boxes stand for them; install a font for "
            f"{script}, such as Noto, or save .html"
        )
    if not features.check("raqm") and JOINING.search(text):
        notes.append(
            "Pillow has no raqm here (it needs the library fribidi), so letters are not joined as "
            "their script wants; save .html, or install fribidi"
        )
    return notes


@cache
def _font(face: Face, size: float) -> Any:
    if face.path:
        return ImageFont.truetype(face.path, size, index=face.index)
    return ImageFont.truetype(io.BytesIO(_own_bytes()), size)


@cache
def _own_bytes() -> bytes:
    return bytes(ImageFont.load_default(16).font_bytes)  # type: ignore[union-attr]


@cache
def _bitmap_size(face: Face) -> int | None:
    try:
        face.at(MEASURED)
    except OSError:
        for size in BITMAPS:
            try:
                face.at(size)
            except OSError:
                continue
            return size
    return None


@cache
def _letters(face: Face) -> frozenset[int]:
    from fontTools.ttLib import TTFont

    source = face.path or io.BytesIO(_own_bytes())
    with TTFont(source, fontNumber=face.index, lazy=True) as font:
        return frozenset(font.getBestCmap() or ())


@cache
def _plain_faces() -> tuple[Face, ...]:
    return tuple(face for name in PLAIN for face in _named(name))


def _found(family: str, cluster: str) -> Iterator[Face]:
    """Fonts that may have a cluster of letters: fontconfig's, then those of known names."""
    letter = max(cluster, key=lambda a: (not UNSEEN.match(a), ord(a)))
    yield from _asked(f"{family}:charset={ord(letter):x}")
    if family == "emoji":
        yield from _asked(f"sans:charset={ord(letter):x}")
    for name in (*SCRIPTS, *PLAIN):
        yield from _named(name)


@cache
def _asked(pattern: str) -> tuple[Face, ...]:
    """fontconfig's best font for a pattern, where there is fontconfig."""
    command = ["fc-match", "--format", "%{file}\t%{index}", pattern]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    path, _, index = found.stdout.partition("\t")
    return _usable(Face(path, int(index or 0) & 0xFFFF)) if path else ()


@cache
def _named(name: str) -> tuple[Face, ...]:
    for folder in FOLDERS.get(sys.platform, ELSEWHERE):
        for path in sorted(Path(folder).expanduser().rglob(name)):
            return _usable(Face(str(path)))
    return ()


def _usable(face: Face) -> tuple[Face, ...]:
    """The face, where Pillow and fontTools can read it."""
    try:
        face.at(face.fixed or MEASURED)
        _letters(face)
    except Exception:  # a damaged font is no font, whatever its reader says
        return ()
    return (face,)
