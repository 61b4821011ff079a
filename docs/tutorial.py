"""The parts of a page: prose, code with what it prints, and the picture that the code shows.

A picture that follows a python block is what the block's last expression shows. So `images.py`
makes the picture by running the page, and `notebooks.py` leaves it to the notebook.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: the pages that have a notebook, by its name
TUTORIALS = {name: HERE / "tutorials" / f"{name}.md" for name in ("images", "text")}

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<prints>.*?)^```\n)?"
    r"(?:\n!\[[^\]]*\]\((?P<picture>[^)]+)\)\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Code:
    """A python block, what it prints, and the file of the picture that its last line shows."""

    source: str
    prints: str | None
    picture: str | None


def parts(page: str) -> Iterator[str | Code]:
    """Prose and code in turn."""
    end = 0
    for block in BLOCK.finditer(page):
        if prose := page[end : block.start()].strip():
            yield prose
        yield Code(block["code"].rstrip(), block["prints"], block["picture"])
        end = block.end()
    if prose := page[end:].strip():
        yield prose


@dataclass
class Session:
    """Runs a page's blocks one after another, as a notebook would."""

    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def run(self, source: str) -> Any:
        """The value of the last line, where that is an expression."""
        tree = ast.parse(source)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, ast.Expr):
            exec(compile(tree, "page", "exec"), self.names)
            return None
        body = ast.Module(tree.body[:-1], type_ignores=[])
        exec(compile(body, "page", "exec"), self.names)
        return eval(compile(ast.Expression(last.value), "page", "eval"), self.names)
