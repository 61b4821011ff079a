"""Connections: how long one may take to begin a request, and how the server ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

#: seconds for a request's headers to arrive
PATIENCE = 20


class PatientProtocol(H11Protocol):
    """HTTP, with a limit that uvicorn does not have: half-sent headers are waited for, and then not
    any more."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """The clock runs from the first byte to the last of the headers; more bytes do not help."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._overdue is None:
            self._overdue = self.loop.call_later(PATIENCE, self._close)

    def _close(self) -> None:
        self._overdue = None
        if not self.transport.is_closing():
            self.transport.close()

    def _forget(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


class Server(uvicorn.Server):
    """Ends in a sentence: the first Ctrl-C lets requests finish, the second does not."""

    def __init__(self, app: Any, working: Callable[[], int]) -> None:
        super().__init__(
            uvicorn.Config(app, http=PatientProtocol, log_level="warning", server_header=False)
        )
        self._working = working

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            print("whyformer: stopped", file=sys.stderr, flush=True)
            os._exit(128 + sig)
        count = self._working()
        if count:
            again = "Ctrl-C" if sig == signal.SIGINT else "the signal"
            requests = "1 request" if count == 1 else f"{count} requests"
            print(
                f"whyformer: finishing {requests}; {again} again to stop now",
                file=sys.stderr,
                flush=True,
            )
        super().handle_exit(sig, frame)
