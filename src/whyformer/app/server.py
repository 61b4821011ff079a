"""The application, and how it is run."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from whyformer import __version__
from whyformer.app.api import make_api
from whyformer.app.assets import make_pages
from whyformer.app.connections import Server
from whyformer.app.guard import Guard, is_loopback
from whyformer.app.recordings import RecordingCache
from whyformer.app.refusals import RefusalError
from whyformer.app.worker import AbandonedError, Worker
from whyformer.errors import InputError, WhyformerError

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline

#: requests that are waiting or running at once
PLACES = 24
#: inputs whose recorded forwards are kept, at most, and how many megabytes they may take
KEEP, MEMORY = 4, 384

NOT_HERE = {
    404: "there is nothing at this address; see /api/v1/openapi.json",
    405: "this address does not take that method; see /api/v1/openapi.json",
}
OPEN = (
    "Listening beyond this machine: everyone who can reach it can use the page and the models, "
    "without a password and without encryption."
)


def make_app(
    models: Sequence[Pipeline],
    *,
    host: str = "127.0.0.1",
    places: int = PLACES,
    keep: int = KEEP,
    memory: int = MEMORY,
    names: Sequence[str] = (),
) -> Guard:
    """The page and the API for models that are loaded already.

    ``names`` are host names that it answers to, beside the machine's own.
    """
    worker = Worker(places)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(
        title="whyformer",
        version=__version__,
        description="Ask a Transformer why: how much every patch or word spoke for a class.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(make_pages())
    app.include_router(make_api(RecordingCache(models, keep, memory * 2**20), worker))

    @app.exception_handler(RefusalError)
    async def refuse(request: Request, error: RefusalError) -> Response:
        return error.response()

    @app.exception_handler(WhyformerError)
    async def explain_error(request: Request, error: WhyformerError) -> Response:
        return RefusalError(422, str(error)).response()

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return RefusalError(422, f"{place}: {first['msg']}; see /api/v1/openapi.json").response()

    @app.exception_handler(HTTPException)
    async def not_here(request: Request, error: HTTPException) -> Response:
        sentence = NOT_HERE.get(error.status_code, str(error.detail))
        response = RefusalError(error.status_code, sentence).response()
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(AbandonedError)
    async def abandoned(request: Request, error: AbandonedError) -> Response:
        return Response(status_code=499)

    @app.exception_handler(Exception)
    async def mistake(request: Request, error: Exception) -> Response:
        return RefusalError(500, "an error in whyformer itself; its log says more").response()

    return Guard(app, host, names, lambda: worker.taken)


def serve(models: Sequence[Pipeline], listening: socket.socket, host: str, **settings: Any) -> None:
    """Run until Ctrl-C, at a socket that listens already; ``settings`` are those of the app."""
    address = f"[{host}]" if ":" in host else host
    if not is_loopback(host):
        print(OPEN, flush=True)
    port = listening.getsockname()[1]
    print(f"whyformer is at http://{address}:{port}/ (Ctrl-C ends it)", flush=True)
    app = make_app(models, host=host, **settings)
    Server(app, app.working).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket at the address, or an error that says why not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only where the protocol is named
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen at {host} port {port}: {reason}; choose another --port (0: any free "
            "one) or --host"
        ) from error
    return listening
