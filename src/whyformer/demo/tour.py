"""What ``whyformer demo`` shows: a scene, a review, a story, boxes and captions, explained."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from whyformer.demo.captions import NUMBERS
from whyformer.demo.scenes import draw_scene, draw_tidy
from whyformer.demo.stories import draw_story
from whyformer.explanation import Explanation
from whyformer.files import write_whole
from whyformer.methods import DEFAULT_METHOD, default_methods
from whyformer.methods.registry import BEST
from whyformer.models.loading import load
from whyformer.render.png import png_bytes
from whyformer.render.saving import save_sheet
from whyformer.render.sheet import Sheet
from whyformer.render.sheets import make_sheet
from whyformer.render.terminal import has_colour, to_terminal
from whyformer.targets import contrast

SCENE_SEED, TIDY_SEED, STORY_SEED = 156, 5, 9
REVIEW = (
    "The plot is thin and the first half drags badly, but the performances are warm, "
    "and the ending is deeply moving."
)


def tour(folder: Path) -> None:
    """Explain a two-digit scene and a review for both classes by every method; write and print."""
    scene = draw_scene(SCENE_SEED, 2)
    write_whole(folder / "scene.png", png_bytes(scene.image))
    digits = [str(label) for label in scene.labels]
    scene_sheet, default_scene = compare_all(
        "demo-vision", folder / "scene.png", digits, "scene.png"
    )
    review_sheet, default_review = compare_all(
        "demo-text", REVIEW, ["negative", "positive"], "a review"
    )

    width, colour = shutil.get_terminal_size().columns, has_colour()
    asked = further()
    story = make_sheet(asked["story.png"], title="a story", model="demo-writer")
    for sheet in (default_scene, default_review, story):
        print(to_terminal(sheet, colour=colour, width=width) + "\n")
    for name, explanation in asked.items():
        explanation.save(folder / name)
    results = {
        "scene.png": "a scene of two digits",
        save(scene_sheet, folder / "methods.png"): "both digits explained by every method",
        save(scene_sheet, folder / "scene.html"): "the same, to click through in a browser",
        save(default_review, folder / "review.png"): "a review, for both sentiments",
        save(review_sheet, folder / "review.html"): "the same by every method, in a browser",
        "story.png": "why a language model went on with that word rather than another",
        "boxes.png": "why a detector found these two digits",
        "captions.png": "why a CLIP says that a text fits the picture",
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


def further() -> dict[str, Explanation]:
    """A word of a story, two boxes of a scene, two captions of it: by our own method."""
    story = draw_story(STORY_SEED)
    rather = contrast(f" {story.answer}", f" {story.rival}")
    scene = draw_tidy(TIDY_SEED)
    captions = [f"a {NUMBERS[label]}" for label in scene.labels]
    digits = [str(label) for label in scene.labels]
    return {
        "story.png": load("demo-writer")(story.text, target=rather, method=BEST),
        "boxes.png": load("demo-detector")(scene.image, target=[digits], method=BEST),
        "captions.png": load("demo-clip")(
            scene.image, text=captions, target=[captions], method=BEST
        ),
    }


def command() -> str:
    """How this program is called here, to be copied from the screen."""
    if shutil.which("whyformer"):
        return "whyformer"
    called = Path(sys.argv[0])
    return str(called) if called.name == "whyformer" else "python -m whyformer"


def compare_all(
    model: str, content: Path | str, target: list[str], title: str
) -> tuple[Sheet, Sheet]:
    """The answers of all methods on one sheet, and the default method's alone."""
    found = load(model).compare(content, [target], [*default_methods(), "attention_flow"])
    default = [explanation for explanation in found if explanation.method == DEFAULT_METHOD]
    every, alone = (make_sheet(given, title=title, model=model) for given in (found, default))
    return every, alone


def save(sheet: Sheet, path: Path) -> str:
    return save_sheet(sheet, path).name
