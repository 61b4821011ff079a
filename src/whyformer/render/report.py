"""The HTML report: one file that holds the viewer, the picture and every score.

It loads nothing: its content security policy allows its own script and style by their hashes,
pictures from ``data:`` addresses, and nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

from whyformer.render.templates import fill

START = """
%s(
  document.getElementById("why-root"),
  JSON.parse(document.getElementById("why-data").textContent)
);
"""

#: the viewer's scripts, in their order
VIEWER = ("tools.js", "surfaces.js", "viewer.js")


def report_html(document: Mapping[str, Any]) -> str:
    """The document as a page of its own; strings in it stay text, whatever they hold."""
    return page_html(document, ["viewer.css"], VIEWER, "whyformerViewer")


def page_html(
    document: Mapping[str, Any], styles: Sequence[str], scripts: Sequence[str], entry: str
) -> str:
    """A page of files of the viewer; ``entry`` is the function that shows the document."""
    style = "".join(asset(name) for name in styles)
    script = "".join(asset(name) for name in scripts) + START % entry
    policy = (
        f"default-src 'none'; img-src data:; media-src data:; script-src '{source_hash(script)}'; "
        f"style-src '{source_hash(style)}'; base-uri 'none'; form-action 'none'"
    )
    return fill("page.html", document=document, policy=policy, style=style, script=script)


def asset(name: str) -> str:
    """A file of the viewer."""
    return (files("whyformer.render") / "viewer" / name).read_text(encoding="utf-8")


def source_hash(source: str) -> str:
    """What a content security policy calls the inline script or style with this text."""
    return "sha256-" + b64encode(sha256(source.encode()).digest()).decode()
