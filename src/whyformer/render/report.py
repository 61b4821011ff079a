"""The HTML report: one file that holds the viewer, the picture and every score.

It loads nothing: its content security policy allows its own script and style by their hashes,
pictures from ``data:`` addresses, and nothing else.
"""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body class="why-page">
<main id="why-root"><noscript>This report needs JavaScript.</noscript></main>
<script type="application/json" id="why-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""

START = """
%s(
  document.getElementById("why-root"),
  JSON.parse(document.getElementById("why-data").textContent)
);
"""

#: the viewer's scripts, in their order
VIEWER = ("tools.js", "surfaces.js", "viewer.js")
#: what could end a script element, or a line in old JavaScript
UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


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
    return PAGE.format(
        policy=policy,
        title=html.escape(f"{document['title']} · whyformer"),
        style=style,
        data=embedded_json(document),
        script=script,
    )


def embedded_json(document: Mapping[str, Any]) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(UNSAFE)


def asset(name: str) -> str:
    """A file of the viewer."""
    return (files("whyformer.render") / "viewer" / name).read_text(encoding="utf-8")


def source_hash(source: str) -> str:
    """What a content security policy calls the inline script or style with this text."""
    return "sha256-" + b64encode(sha256(source.encode()).digest()).decode()
