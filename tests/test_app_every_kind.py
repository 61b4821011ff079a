"""Every kind of model in the browser, by upload and by text, with the library's answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import whyformer
from serving import running
from small_families import save_family
from small_sounds import beeps, write_wav
from small_towers import save_clip, save_siglip
from small_videos import ball, write_gif
from stand_ins import photo
from test_app_kinds import MAKERS, PROMPT, TEXT, same
from whyformer.app.examples import picture

#: by its model: what is uploaded or typed, what is typed beside it, and what that is in Python
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "clip": ("photo.png", "a photo of a cat\na cup", {"text": ["a photo of a cat", "a cup"]}),
    "siglip": ("photo.png", "a photo of a cat\na cup", {"text": ["a photo of a cat", "a cup"]}),
    "vilt": ("photo.png", "is the film witty", {"text": ["is the film witty"]}),
    "swin": ("photo.png", "", {}),
    "hiera": ("photo.png", "", {}),
    "detr": ("photo.png", "", {}),
    "detector": ("photo.png", "", {}),
    "segformer": ("photo.png", "", {}),
    "ast": ("beeps.wav", "", {}),
    "wav2vec2": ("beeps.wav", "", {}),
    "whisper": ("beeps.wav", "", {"position": 0}),
    "videomae": ("ball.gif", "", {}),
    "timesformer": ("ball.gif", "", {}),
    "t5": ("the small dog", "", {"position": 0}),
    "tagger": (TEXT, "", {}),
    "reader": ("a witty film", "the acting is superb", {}),
    "chooser": (TEXT, "superb\nwithout plot", {"text": ["superb", "without plot"]}),
    "masked": ("a ___ film", "", {}),
    "language": (PROMPT, "", {}),
    "sentences": (TEXT, "superb acting", {"similar_to": "superb acting"}),
}
OWN = {name: MAKERS[name] for name in KINDS if name in MAKERS}
OWN |= {"clip": save_clip, "siglip": save_siglip}
OWN |= {name: lambda f, name=name: save_family(f, name) for name in ("swin", "hiera", "detr")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("every")
    write_wav(folder / "beeps.wav", beeps(1.2))
    write_gif(folder / "ball.gif", ball())
    photo(0).save(folder / "photo.png")
    return folder


@pytest.fixture(scope="module")
def models(folder: Path) -> list[Any]:
    own = [whyformer.load(make(folder / name)) for name, make in OWN.items()]
    return [*own, whyformer.load("demo-detector")]


@pytest.fixture(scope="module")
def address(models: list[Any]) -> Iterator[str]:
    from whyformer.app.server import make_app

    with running(make_app(models)) as url:
        yield url


def give(page: Any, folder: Path, given: str, beside: str) -> None:
    """Upload or type as a visitor would."""
    page.locator("#status", has_text="to begin").wait_for()
    if (folder / given).is_file():
        page.set_input_files("#file", str(folder / given))
    else:
        page.fill("#text", given)
        page.press("#text", "Tab")
    if beside:
        page.locator("#beside-input").wait_for()
        page.fill("#beside", beside)
        page.press("#beside", "Tab")
    page.locator("#view .why-question").wait_for()


@pytest.mark.parametrize("name", KINDS)
def test_the_page_shows_what_the_library_says(
    name: str, visit: Any, folder: Path, models: list[Any]
) -> None:
    given, beside, options = KINDS[name]
    why = next(why for why in models if why.name == name)
    page = visit(f"#model={name}")
    answers: list[Any] = []
    page.on("response", lambda r: answers.append(r) if r.url.endswith("/explain") else None)
    give(page, folder, given, beside)
    assert page.locator("#alert").is_hidden()
    answer = answers[-1].json()
    source = (folder / given).read_bytes() if (folder / given).is_file() else given
    content = (given, beside) if name == "reader" else source
    recorded = why.record(content, **{k: v for k, v in options.items() if k != "position"})
    place = {k: v for k, v in options.items() if k == "position"}
    targets = [view["target"] for view in answer["views"]]
    asked = [[targets]] if len(targets) > 1 and recorded.several else targets
    if name in ("whisper", "t5", "detr", "detector"):
        count = 1 if name in ("whisper", "t5") else 2
        asked = recorded.likeliest(count, place.get("position")) or [None]
        asked = [[asked]] if len(asked) > 1 else asked
    expected = [recorded.explain(target, **place) for target in asked]
    same(answer, expected if len(expected) > 1 else expected[0])
    question = page.locator("#view .why-question").inner_text()
    for view in answer["views"]:
        assert view["label"].split(",")[0].strip() in question


def test_what_a_detector_found_and_an_edge_of_it(
    visit: Any, folder: Path, models: list[Any]
) -> None:
    page = visit("#model=demo-detector")
    page.locator("#view .why-question", has_text="6").wait_for()
    found = models[-1].record(picture("two boxes"))
    shown = page.locator("#place option").all_inner_texts()
    assert shown == [
        "the surest of each class",
        *(f"{i + 1} {p}" for i, p in enumerate(found.places)),
    ]
    page.select_option("#place", "1")
    page.locator("#view .why-question", has_text="Why “7”?").wait_for()
    page.select_option("#edge", "left")
    page.locator("#view .why-question", has_text="Why the left edge of 7?").wait_for()
    page.get_by_role("button", name="Python").click()
    page.get_by_role("status").get_by_text("Copied.").wait_for()
    code = page.evaluate("navigator.clipboard.readText()")
    assert "position=1, edge='left')" in code
    page.select_option("#place", "0")
    page.locator("#view .why-question", has_text="the left edge of 6").wait_for()


def test_a_region_of_a_segmentation(visit: Any, folder: Path, models: list[Any]) -> None:
    page = visit("#model=segformer")
    give(page, folder, "photo.png", "")
    why = next(why for why in models if why.name == "segformer")
    for name, box in {
        "the lower half": (0, 0.5, 1, 1),
        "the middle": (0.25, 0.25, 0.75, 0.75),
    }.items():
        with page.expect_response(lambda response: response.url.endswith("/explain")) as answered:
            page.select_option("#region", label=name)
        same(answered.value.json(), why((folder / "photo.png").read_bytes(), region=box))
