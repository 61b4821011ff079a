"""Make the pages' pictures anew: `make images`, or `python docs/images.py [MODEL UPPER LOWER]`.

Without arguments: what the embedded models show, and the tutorials' pictures by the tutorials' own
code. With an image classifier and two photos also the picture at the README's head (see
`examples/two_classes.py`). The page is photographed in chromium.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from PIL import Image

from tutorial import TUTORIALS, Code, Session, parts
from whyformer.demo.scenes import draw_scene
from whyformer.demo.tour import tour
from whyformer.files import write_whole

HERE = Path(__file__).parent
IMAGES = HERE / "images"
#: pixels; pages are narrower still
WIDEST = 1600


def keep(picture: Image.Image, name: str) -> None:
    """Small enough for a repository."""
    picture = picture.convert("RGB")
    picture.thumbnail((WIDEST, picture.height), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=88, subsampling=0, optimize=True)
    write_whole(IMAGES / f"{name}.jpg", buffer.getvalue())
    print(f"{name}.jpg: {picture.width} x {picture.height}, {len(buffer.getvalue()) // 1024} kB")


@contextmanager
def window(width: int, height: int) -> Iterator[Any]:
    """A browser's page of that size."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser.new_page(viewport={"width": width, "height": height})
        browser.close()


def photograph(page: Path, name: str, width: int, height: int) -> None:
    """The report as a reader sees it, with both classes side by side."""
    with window(width, height) as view:
        view.goto(page.as_uri())
        view.get_by_role("button", name="Side by side").click()
        view.mouse.move(0, 0)
        view.wait_for_timeout(300)
        keep(Image.open(io.BytesIO(view.screenshot())), name)


def photograph_server(name: str, width: int, height: int) -> None:
    """The web page as it opens."""
    command = [sys.executable, "-m", "whyformer", "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        with window(width, height) as view:
            view.goto(address[0])
            view.locator("#view .why-stage").nth(1).wait_for()
            view.wait_for_timeout(500)
            keep(Image.open(io.BytesIO(view.screenshot())), name)
    finally:
        server.terminate()
        server.wait(30)


def photograph_gallery(folder: Path, name: str, width: int, height: int) -> None:
    """The page of many scenes, each in the folder of its first digit."""
    for seed in range(24):
        scene = draw_scene(seed, count=2)
        path = folder / "scenes" / str(scene.labels[0]) / f"{seed:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        scene.image.save(path)
    command = [sys.executable, "-m", "whyformer", "explain", folder / "scenes", "--quiet"]
    subprocess.run([*command, "--out", folder / "maps"], check=True)
    with window(width, height) as view:
        view.goto((folder / "maps" / "index.html").as_uri())
        keep(Image.open(io.BytesIO(view.screenshot())), name)


def run_tutorial(page: Path, folder: Path) -> None:
    """Every picture that follows a block is what the block's last line shows."""
    session = Session()
    for code in parts(page.read_text(encoding="utf-8")):
        if not isinstance(code, Code):
            continue
        with chdir(folder), redirect_stdout(io.StringIO()):
            shown = session.run(code.source)
        if code.picture is None:
            continue
        if not isinstance(shown, Image.Image):
            shown = Image.open(io.BytesIO(shown._repr_png_()))
        keep(shown, Path(code.picture).stem)


def main() -> None:
    for page in TUTORIALS.values():
        with tempfile.TemporaryDirectory() as folder:
            run_tutorial(page, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder)
        tour(demo)
        keep(Image.open(demo / "methods.png"), "methods")
        keep(Image.open(demo / "review.png"), "review")
        photograph(demo / "scene.html", "page", 1100, 720)
        photograph_server("serve", 1100, 830)
        photograph_gallery(demo, "gallery", 1100, 830)
        if len(sys.argv) == 4:
            head = demo / "two_classes.png"
            example = HERE.parent / "examples" / "two_classes.py"
            subprocess.run([sys.executable, str(example), *sys.argv[1:], str(head)], check=True)
            keep(Image.open(head), "two_classes")


if __name__ == "__main__":
    main()
