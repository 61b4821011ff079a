"""A page of the documentation as a program: its blocks, in order, are run.

    python tests/pages.py PAGE            in a folder with what the page works on

- ``python`` blocks share one namespace; ``sh`` blocks go to bash.
- A block with a title is a file: it is written, not run.
- A ``text`` block directly below a block is what that one prints.
- ``<!-- setup`` ... ``-->`` is run like a Python block, and no reader sees it.
- ``whyformer serve`` stays up, on a free port, for what follows on the page.
- ``make demo`` and ``make docs`` are run in the checkout, where its environment is ready. Other
  targets are only asked what they would do: ``make test-slow`` is what runs this.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=fence) *$"
    r"|^<!-- setup\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)
TITLE = re.compile(r'title="([^"]+)"')
ENVIRONMENT = re.compile(r"^<!-- environment: (\w+) -->$", re.MULTILINE)
INDENTED = re.compile(r"(?:\A|\n)[^\s\-*\d!].*\n\n(?: {4}\S.*\n)", re.MULTILINE)
SNIPPET = "--8<--"
#: what one block exports, the next one has
EXPORTED = ".exported"
ENVIRONMENT_READY = ".venv/main/ready"
REALLY_MADE = {"demo", "docs"}
SERVER = "http://127.0.0.1:8000"


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    text: str
    line: int
    printed: str | None = None


def blocks_of(markdown: str) -> list[Block]:
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(markdown):
        line = markdown.count("\n", 0, match.start()) + 2
        if match["setup"] is not None:
            found.append(Block("python", None, match["setup"], line))
            continue
        language = match["info"].split(" ")[0].strip()
        title = TITLE.search(match["info"])
        text = re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        follows = found and not markdown[end : match.start()].strip()
        if language == "text" and follows and found[-1].language in ("python", "sh"):
            last = found.pop()
            found.append(Block(last.language, last.title, last.text, last.line, text))
        elif SNIPPET not in text:
            found.append(Block(language, title[1] if title else None, text, line))
        end = match.end()
    return found


def environment_of(markdown: str) -> str | None:
    """The environment that a page's packages need, where it is not the usual one."""
    found = ENVIRONMENT.search(markdown)
    return found[1] if found else None


class Session:
    """A reader who does all that a page says."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.server: subprocess.Popen[bytes] | None = None
        self.address = SERVER

    def run(self, block: Block) -> str | None:
        """What a block prints; None for one that is not to be run."""
        if block.title is not None:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text)
            return None
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(self.page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, self.names)
            return printed.getvalue()
        if block.language == "sh":
            return "".join(self.command(command) for command in commands(block.text))
        return None

    def command(self, command: str) -> str:
        if command.startswith("whyformer serve"):
            self.serve(command)
            return ""
        if command.startswith("make "):
            self.make(shlex.split(command, comments=True)[1:])
            return ""
        command = command.replace(SERVER, self.address)
        whole = f"source {EXPORTED}\n{command}\nexport -p > {EXPORTED}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", whole],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def make(self, targets: list[str]) -> None:
        def done(*arguments: str, check: bool = True) -> bool:
            apart = {name: value for name, value in os.environ.items() if "MAKE" not in name}
            command = ["make", *arguments]
            made = subprocess.run(command, cwd=ROOT, env=apart, check=check, capture_output=True)
            return made.returncode == 0

        ready = done("--question", ENVIRONMENT_READY, check=False)
        really = ready and set(targets) <= REALLY_MADE
        done(*targets, *([] if really else ["--dry-run"]))

    def serve(self, command: str) -> None:
        self.close()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        program, *words = shlex.split(command, comments=True)
        words = [str(Path(sys.executable).with_name(program)), *words, "--port", str(port)]
        self.server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while True:
            assert self.server.poll() is None, f"{command} ended"
            assert time.monotonic() < deadline, f"{command} does not answer"
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.address}/api/v1/health", timeout=5).close()
                return
            time.sleep(0.1)

    def close(self) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait(60)
        self.server = None


def commands(text: str) -> Iterator[str]:
    """The block as it is, or command by command where one of them does not end by itself."""
    if not re.search(r"^(whyformer serve|make )", text, re.MULTILINE):
        yield text
        return
    for line in re.split(r"(?<!\\)\n", text):
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def main(page: Path) -> None:
    programs = str(Path(sys.executable).parent)
    if programs not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    sys.path.insert(0, os.getcwd())
    Path(EXPORTED).touch()
    session = Session(page)
    try:
        for block in blocks_of(page.read_text(encoding="utf-8")):
            where = f"{page.name}, line {block.line}"
            try:
                printed = session.run(block)
            except BaseException:
                print(f"the block at {where} failed", file=sys.stderr)
                raise
            if block.printed is not None:
                given, shown = (printed or "").strip(), block.printed.strip()
                assert given == shown, f"the block at {where} prints\n{given}\n\nnot\n{shown}"
    finally:
        session.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
