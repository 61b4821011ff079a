"""Commands without their imports: one process has made them, and forks for every command.

    python tests/forking.py --serve SOCKET    until its standard input ends
    python tests/forking.py WORDS             has them run by the server that WHYFORMER_FORKS names

They are run as `python` would, with the sender's files, folder and surroundings: `whyformer` by
its entry point, anything else as a script. What libraries read from the surroundings when they are
imported is the server's.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve()
SOCKET = "WHYFORMER_FORKS"
COMMAND = "whyformer"
#: what most commands import, beside torch
IMPORTED = (
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.processing_auto",
    "transformers.modeling_utils",
    "whyformer.models.loading",
    "whyformer.evaluation",
    "whyformer.render.saving",
)


def send(words: Sequence[str]) -> int:
    """Have a command run; its exit code."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(os.environ[SOCKET])
        order = json.dumps([list(words), os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(wire, [len(order).to_bytes(8, "big")], [0, 1, 2])
        wire.sendall(order)
        return int.from_bytes(wire.recv(1) or b"\x86", "big")


def serve(path: str) -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
            wire, _ = server.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                code = obey(wire)
                sys.stdout.flush(), sys.stderr.flush()
                wire.sendall(bytes([code]))
                os._exit(code)
            wire.close()
    os._exit(0)


def obey(wire: socket.socket) -> int:
    length, files, _, _ = socket.recv_fds(wire, 8, 3)
    order = b""
    while len(order) < int.from_bytes(length, "big"):
        order += wire.recv(1 << 20)
    words, folder, surroundings = json.loads(order)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(surroundings)
    sys.argv = words
    try:
        run(words)
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
            return 1
        return int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run(words: list[str]) -> None:
    if words[0] == COMMAND:
        from whyformer.cli import main

        sys.exit(main())
    sys.path.insert(0, str(Path(words[0]).parent))
    runpy.run_path(words[0], run_name="__main__")


def forked(*words: object) -> list[str]:
    """A command that has the words run by the server."""
    return [sys.executable, "-IS", str(HERE), *map(str, words)]


@contextlib.contextmanager
def forks(folder: Path, surroundings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """A server, and the surroundings in which `whyformer` is what it runs."""
    programs, path = folder / "bin", folder / "forks"
    programs.mkdir()
    program = programs / COMMAND
    program.write_text(f'#!/bin/sh\nexec {shlex.join(forked(COMMAND))} "$@"\n')
    program.chmod(0o755)
    inside = {**surroundings, SOCKET: str(path)}
    own = [str(programs), str(Path(sys.executable).parent)]
    inside["PATH"] = os.pathsep.join([*own, surroundings["PATH"]])
    command = [sys.executable, str(HERE), "--serve", str(path)]
    server = subprocess.Popen(command, env=inside, stdin=subprocess.PIPE)
    try:
        while not path.exists():
            assert server.poll() is None, "the server of forks ended"
            time.sleep(0.05)
        yield inside
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.wait(60)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        sys.exit(send(sys.argv[1:]))
