"""What every request and every answer goes through: hosts, origins and headers.

A page on the internet can point a name of its own at this machine (DNS rebinding) or send forms
here from a visitor's browser. Names that are not this machine's, and other origins, are refused.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whyformer.app.refusals import RefusalError

WRONG_NAME = (
    "this server does not answer to that name; use its address, or start it with --allow-host NAME"
)
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "media-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    address = as_address(host)
    return address is not None and address.is_loopback


def as_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class Guard:
    """Wraps an application that listens at ``host`` and answers to other ``names`` as well.

    ``working`` tells how many requests it is busy with.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        names: Iterable[str] = (),
        working: Callable[[], int] = int,
    ) -> None:
        self._app, self.working = app, working
        self._open = not is_loopback(host)
        self._names = {"localhost", host.lower(), *(name.lower() for name in names)}
        if self._open:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            self._check(Headers(scope=scope))
        except RefusalError as refusal:
            await refusal.response()(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _check(self, headers: Headers) -> None:
        host = headers.get("host", "").lower()
        if not self._is_mine(name_of(host)):
            raise RefusalError(421, WRONG_NAME)
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != host:
            raise RefusalError(403, "requests from pages of other origins are refused")

    def _is_mine(self, name: str) -> bool:
        address = as_address(name)
        if address is None:
            return name in self._names
        return self._open or address.is_loopback


def name_of(host: str) -> str:
    """A Host header without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
