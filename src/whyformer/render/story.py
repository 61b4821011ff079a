"""What a model wrote, drawn: a page, a picture, numbers, and lines for the terminal."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whyformer import __version__
from whyformer.errors import InputError, nearest
from whyformer.files import write_whole
from whyformer.render.colour import coloured, in_terminal, ink, readable_on
from whyformer.render.document import piece_entry
from whyformer.render.matrix import matrix_picture, names_of, shares_of
from whyformer.render.png import png_bytes
from whyformer.render.report import page_html
from whyformer.render.templates import fill
from whyformer.words import printable, shorten

if TYPE_CHECKING:
    from whyformer.models.written import Written

#: words that a line of the terminal names as a word's sources
SOURCES = 4


def save_story(written: Written, path: str | Path, title: str = "") -> Path:
    """Write a page, the matrix as a picture, or numbers: .html, .png, .json, .npz."""
    target = Path(path)
    write_whole(target, story_writer(target)(written, title))
    return target


def story_writer(path: Path) -> Callable[[Written, str], bytes | str]:
    """What makes a file of that name, or an error that lists the endings there are."""
    ending = path.suffix.lower()
    if ending not in WRITERS:
        raise InputError(
            f"{path.name!r} has {'no ending' if not ending else f'the ending {ending!r}'}, which "
            f"a text that a model wrote is not saved as; {nearest(ending, WRITERS)}"
        )
    return WRITERS[ending]


def story_document(written: Written, title: str = "") -> dict[str, Any]:
    """JSON-able. ``words`` are the written tokens in order: ``piece`` is a token's place among the
    ``pieces``, ``scores`` tell how much each piece before it spoke for it.
    """
    probabilities = written.probabilities.tolist()
    words = []
    for number, probability in enumerate(probabilities):
        place = written.start + number
        best = [{"label": name, "probability": p} for name, p in written.candidates(number)]
        words.append(
            {
                "piece": place,
                "label": written.labels[written.ids[place]],
                "target": written.ids[place],
                "probability": probability,
                "candidates": best,
                "scores": written.relevance[number, :place].tolist(),
            }
        )
    return {
        "whyformer": __version__,
        "kind": "story",
        "title": title or shorten(written.prompt),
        "model": written.model,
        "method": written.method,
        "preset": written.preset,
        "notes": list(written.notes),
        "prompt": written.prompt,
        "text": written.text,
        "start": written.start,
        "pieces": [piece_entry(piece) for piece in written.pieces],
        "words": words,
    }


def story_html(written: Written, title: str = "") -> str:
    styles, scripts = ["viewer.css", "story.css"], ["tools.js", "story.js"]
    return page_html(story_document(written, title), styles, scripts, "whyformerStory")


def _json(written: Written, title: str) -> str:
    return json.dumps(story_document(written, title), indent=1, ensure_ascii=False) + "\n"


def _npz(written: Written, title: str) -> bytes:
    """``scores`` (written, pieces), the ``pieces``, their ``ids``, and where the prompt ends."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        scores=written.relevance.double().numpy(),
        pieces=np.array([piece.text for piece in written.pieces]),
        ids=np.array(written.ids),
        start=np.array(written.start),
        probabilities=written.probabilities.numpy(),
        method=np.array(written.method),
    )
    return buffer.getvalue()


WRITERS: dict[str, Callable[[Written, str], bytes | str]] = {
    ".html": story_html,
    ".png": lambda written, title: png_bytes(matrix_picture(written, title)),
    ".json": _json,
    ".npz": _npz,
}


def story_text(written: Written, *, colour: bool) -> str:
    """The text, then every written token with the words that spoke most for it."""
    names = names_of(written)
    lines = [
        printable(f"{written.model}: {written.text}"),
        f"why each word, by {written.method}:",
    ]
    width = max(len(name) for name in names[written.start :])
    shares = shares_of(written)
    for number, probability in enumerate(written.probabilities.tolist()):
        place = written.start + number
        best = np.argsort(-shares[number, :place])[:SOURCES]
        sources = [
            _source(names[i], shares[number, i], colour) for i in best if shares[number, i] > 0
        ]
        said = ", ".join(sources) or "nothing before it speaks for it"
        lines.append(f"  {names[place]:<{width}}  {probability:4.2f}  {said}")
    return "\n".join([*lines, *(printable(f"note: {note}") for note in written.notes)])


def _source(name: str, share: float, colour: bool) -> str:
    if not colour:
        return f"{name} {share:.2f}"
    ground = coloured(np.asarray(share), ink(0))
    return in_terminal(name, ground, readable_on(ground))


def story_fragment(written: Written) -> str:
    """For notebooks: the text, and a table of the words that each word came from."""
    shares = shares_of(written)
    words = []
    for number, probability in enumerate(written.probabilities.tolist()):
        place = written.start + number
        grounds = coloured(shares[number, :place].clip(0), ink(0))
        letters = [readable_on(ground) for ground in grounds]
        words.append(
            {
                "text": written.pieces[place].text,
                "probability": probability,
                "sources": zip(written.pieces[:place], grounds, letters, strict=True),
            }
        )
    return fill("story.html", text=written.text, words=words, notes=written.notes)
