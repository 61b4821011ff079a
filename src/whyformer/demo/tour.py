"""What ``whyformer demo`` shows: a scene and a review, each explained for both sides."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from whyformer.demo.scenes import draw_scene
from whyformer.files import write_whole
from whyformer.methods import DEFAULT_METHOD, default_methods
from whyformer.models.loading import load
from whyformer.render.document import png_bytes
from whyformer.render.saving import save_sheet
from whyformer.render.sheet import Sheet
from whyformer.render.sheets import make_sheet
from whyformer.render.terminal import has_colour, to_terminal

SCENE_SEED = 156
REVIEW = (
    "The plot is thin and the first half drags badly, but the performances are warm, "
    "and the ending is deeply moving."
)


def tour(folder: Path) -> None:
    """Explain a two-digit scene and a review for both classes by every method; write and print."""
    scene = draw_scene(SCENE_SEED, 2)
    write_whole(folder / "scene.png", png_bytes(scene.image))
    digits = [str(label) for label in scene.labels]
    scene_sheet = compare_all("demo-vision", folder / "scene.png", digits, "scene.png")
    review_sheet = compare_all("demo-text", REVIEW, ["negative", "positive"], "a review")

    width, colour = shutil.get_terminal_size().columns, has_colour()
    for sheet in (scene_sheet, review_sheet):
        print(to_terminal(only_default(sheet), colour=colour, width=width) + "\n")
    results = {
        "scene.png": "a scene of two digits",
        save(scene_sheet, folder / "methods.png"): "both digits explained by every method",
        save(scene_sheet, folder / "scene.html"): "the same, to click through in a browser",
        save(only_default(review_sheet), folder / "review.png"): "a review, for both sentiments",
        save(review_sheet, folder / "review.html"): "the same by every method, in a browser",
    }
    print(f"In {folder}:")
    for name, what in results.items():
        print(f"  {name:<12} {what}")
    scene_path = folder / "scene.png"
    print(
        "\nTry next:\n"
        f'  {command()} explain "a lifeless film" --out why.html\n'
        f"  {command()} explain {scene_path} --target {digits[0]} --contour 0.5 -o why.png\n"
        f"  {command()} explain photo.jpg --model google/vit-base-patch16-224\n"
        f"  {command()} serve        the same in the browser, with your own pictures and texts\n"
        f"  {command()} --help"
    )


def command() -> str:
    """How this program is called here, to be copied from the screen."""
    if shutil.which("whyformer"):
        return "whyformer"
    called = Path(sys.argv[0])
    return str(called) if called.name == "whyformer" else "python -m whyformer"


def compare_all(model: str, content: Path | str, target: list[str], title: str) -> Sheet:
    why = load(model)
    names = [*default_methods(), "attention_flow"]
    return make_sheet(why.compare(content, [target], names), title=title, model=model)


def only_default(sheet: Sheet) -> Sheet:
    return replace(sheet, views=[view for view in sheet.views if view.method == DEFAULT_METHOD])


def save(sheet: Sheet, path: Path) -> str:
    return save_sheet(sheet, path).name
