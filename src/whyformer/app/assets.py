"""The page's own files: a fixed list, read once, each with its type."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from whyformer.render.report import VIEWER, asset

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
STORY = ("viewer.css", "story.js", "story.css")


def make_pages() -> APIRouter:
    """Every file at its name; the viewer's are the report's own."""
    folder = files("whyformer.app") / "page"
    contents = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir()}
    contents |= {name: asset(name) for name in (*VIEWER, *STORY)}
    contents[""] = contents.pop("index.html")
    pages = APIRouter(include_in_schema=False)
    for name, text in contents.items():
        add(pages, name, text)
    return pages


def add(pages: APIRouter, name: str, text: str) -> None:
    kind = KINDS[name.rpartition(".")[2] or "html"]

    @pages.api_route(f"/{name}", methods=["GET", "HEAD"])
    async def page() -> Response:
        return Response(text, media_type=kind)
