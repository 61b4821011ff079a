"""The web page with sounds, videos, two pictures and words, driven as a visitor would."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import whyformer
from browsing import press, reading
from conftest import shared
from serving import running, wait_for
from small_images import save_vit
from small_sounds import beeps, save_wav2vec2, write_wav
from small_texts import save_bert
from small_videos import ball, save_video, write_gif
from small_writers import save_whisper
from stand_ins import photo
from test_app_image import heat, settled

WRITER = "#model=demo-writer"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moving")
    write_wav(folder / "beeps.wav", beeps(1.2))
    write_gif(folder / "ball.gif", ball())
    for seed in (0, 1):
        photo(seed).save(folder / f"{seed}.png")
    return folder


@pytest.fixture(scope="module")
def models(folder: Path) -> list[Any]:
    own = {"ears": save_wav2vec2, "whisper": save_whisper, "film": save_video}
    found = [whyformer.load(make(folder / name)) for name, make in own.items()]
    found.append(whyformer.load(save_vit(folder / "features", "ViTModel")))
    reader = save_bert(folder / "reader", kind="BertForQuestionAnswering", num_labels=2)
    names = ("demo-vision", "demo-text", "demo-writer", "demo-clip", "demo-detector", "demo-swin")
    return [*map(whyformer.load, names), *found, whyformer.load(reader)]


@pytest.fixture(scope="module")
def address(models: list[Any]) -> Iterator[str]:
    from whyformer.app.server import make_app

    with running(make_app(models)) as url:
        yield url


def named(models: list[Any], name: str) -> Any:
    return next(why for why in models if why.name == name)


def send(page: Any, path: Path, what: str = "a sound") -> None:
    page.get_by_text(re.compile(f"Drop {what}.* to begin")).wait_for()
    page.set_input_files("#file", path)


def shown_number(page: Any) -> float:
    """The score that the page tells of what is pointed at."""
    return float(reading(page).partition(" · ")[0].rpartition(" ")[2].replace("\u2212", "-"))


def test_a_sound_is_seen_played_and_pointed_at(visit: Any, models: list[Any], folder: Path) -> None:
    page = visit("#model=ears")
    send(page, folder / "beeps.wav")
    settled(page, "Why “")
    expected = named(models, "ears")(folder / "beeps.wav", method="generic_attention")
    page.locator("[data-method=generic_attention]").click()
    page.locator("[data-method=generic_attention][aria-pressed=true]").wait_for()
    scores = expected.relevance[0].tolist()
    stage = page.locator("#view .why-stage").first
    box = stage.bounding_box()
    for moment in (3, len(scores) // 2, len(scores) - 2):
        x = (moment + 0.5) * box["width"] / len(scores)
        stage.hover(position={"x": x, "y": box["height"] / 2})
        assert shown_number(page) == pytest.approx(scores[moment], rel=0.06)
        assert f"{1.2 * (moment + 0.5) / len(scores):.2f} s" in reading(page)
    player = page.locator("#view audio").first
    wait_for(lambda: player.evaluate("(audio) => audio.duration") == pytest.approx(1.2, abs=0.01))
    assert page.locator("#inside").is_visible()
    page.get_by_role("button", name="Command line").click()
    page.get_by_role("status").get_by_text("Copied.").wait_for()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command.endswith("--method=generic_attention --out=why.html -- beeps.wav")


def test_a_dropped_sound_finds_its_model(visit: Any, folder: Path) -> None:
    page = visit()
    settled(page, "Why “8”")
    drop = """(data) => {
      const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
      const carried = new DataTransfer();
      carried.items.add(new File([bytes], "dropped.wav", { type: "audio/wav" }));
      const options = { dataTransfer: carried, bubbles: true, cancelable: true };
      document.body.dispatchEvent(new DragEvent("drop", options));
    }"""
    page.evaluate(drop, base64.b64encode((folder / "beeps.wav").read_bytes()).decode())
    page.locator("#file-name", has_text="dropped.wav").wait_for()
    page.locator("#view audio").first.wait_for()
    assert page.locator("#models [aria-pressed=true]").inner_text().startswith("ears")


def test_wrong_files_are_refused_in_a_sentence(visit: Any, folder: Path) -> None:
    page = visit("#model=ears", refused=415)
    (folder / "words.wav").write_text("no sound")
    send(page, folder / "words.wav")
    page.get_by_role("alert").get_by_text("not a sound of a known format").wait_for()
    page.set_input_files("#file", folder / "0.png")
    settled(page, "Why “")
    assert page.locator("#models [aria-pressed=true]").inner_text().startswith("demo-vision")
    (folder / "story.txt").write_text("A joyless film.")
    page.set_input_files("#file", folder / "story.txt")
    settled(page, "Why “negative”")
    assert page.locator("#text").input_value() == "A joyless film."


def test_each_word_that_was_heard(visit: Any, models: list[Any], folder: Path) -> None:
    page = visit("#model=whisper")
    send(page, folder / "beeps.wav")
    settled(page, "Why “")
    answer = named(models, "whisper").generate(folder / "beeps.wav")
    words = page.locator("#answer button")
    assert words.all_inner_texts() == [*(w.strip() for w in answer.words), "every word at once"]
    words.nth(3).click()
    page.locator("#answer button[aria-pressed=true]").nth(0).wait_for()
    settled(page, answer.words[3].strip())
    sound = answer[3].parts[0]
    scores = sound.relevance[0].tolist()
    stage = page.locator("#view .why-stage").first
    box = stage.bounding_box()
    stage.hover(position={"x": 10.5 * box["width"] / len(scores), "y": 20})
    assert shown_number(page) == pytest.approx(scores[10], rel=0.06)
    words.last.click()
    page.get_by_text("Side by side").wait_for()
    assert page.locator("#view [data-class]").count() == len(answer)
    page.locator("#view [data-class='-4']").click()
    assert page.locator("#view [data-class='-4']").get_attribute("aria-pressed") == "true"
    assert page.locator("#rather-label").is_hidden()


def test_a_video_is_a_strip_and_a_gif(visit: Any, models: list[Any], folder: Path) -> None:
    page = visit("#model=film")
    send(page, folder / "ball.gif", "an animation")
    settled(page, "Why “")
    expected = named(models, "film")(folder / "ball.gif")
    grid = expected.tokens.to_map(expected.relevance[0])
    stage = page.locator("#view .why-stage").first
    box = stage.bounding_box()
    rows, columns = grid.shape
    x, y = box["width"] / columns, box["height"] / rows
    stage.hover(position={"x": 5.5 * x, "y": 1.5 * y})
    assert shown_number(page) == pytest.approx(float(grid[1, 5]), rel=0.06)
    press(page, "Play")
    film = page.locator("#view .why-film").first
    moving = "(film) => getComputedStyle(film.firstElementChild).animationTimingFunction"
    assert film.evaluate(moving) == f"steps({expected.tokens.volume[0]})"
    assert film.bounding_box()["width"] == 320
    assert stage.bounding_box()["width"] == pytest.approx(320 * expected.tokens.volume[0])
    press(page, "Strip")
    assert film.evaluate(moving) == "ease"
    with page.expect_download() as started:
        page.get_by_role("button", name="GIF").click()
    assert Path(started.value.path()).read_bytes().startswith(b"GIF89a")
    page.locator("#models button", has_text="demo-vision").click()
    settled(page, "Why “8”")
    assert page.get_by_role("button", name="GIF").is_hidden()


def test_a_frame_does_not_colour_the_next(visit: Any) -> None:
    reds = visit().evaluate("""() => {
        const canvas = document.createElement("canvas");
        const palette = Array.from({ length: 511 }, (_, i) => [Math.max(0, i - 255), 0, 0, 255]);
        whyformerSurfaces.drawHeat(canvas, [0, 1, 0, 0], 1, 4, 4, palette, 2);
        const { data } = canvas.getContext("2d").getImageData(0, 0, 16, 1);
        return [...data].filter((_, i) => i % 4 === 0);
    }""")
    assert reds[7] == 255
    assert reds[8:] == [0] * 8


def test_a_second_picture(visit: Any, models: list[Any], folder: Path) -> None:
    page = visit("#model=features")
    send(page, folder / "0.png", "a picture")
    settled(page, "Why “unit")
    page.set_input_files("#other", folder / "1.png")
    settled(page, "Why “similar”?")
    assert page.locator("#view .why-caption").all_inner_texts()[1].startswith("other image")
    both = named(models, "features")(folder / "0.png", similar_to=folder / "1.png")
    value = page.locator("#view .why-amount").first.inner_text()
    assert float(value.replace("\u2212", "-")) == pytest.approx(float(both.logits), rel=0.06)
    page.get_by_role("button", name="Python").click()
    page.get_by_role("status").get_by_text("Copied.").wait_for()
    code = page.evaluate("navigator.clipboard.readText()")
    assert "why('0.png', similar_to='1.png'" in code
    page.get_by_role("button", name="Remove it").click()
    settled(page, "Why “unit")


def test_a_word_rather_than_another_and_after_any_word(visit: Any, models: list[Any]) -> None:
    page = visit(WRITER)
    settled(page, 'Why " station"')
    page.fill("#rather", " school")
    page.press("#rather", "Enter")
    settled(page, 'Why " station" rather than " school"?')
    page.locator("[data-class]", has_text="park").click()
    settled(page, 'Why " park" rather than " school"?')
    page.fill("#rather", "")
    page.press("#rather", "Enter")
    settled(page, 'Why " park"?')
    page.select_option("#place", "4")
    settled(page, "Why")
    why, text = named(models, "demo-writer"), page.locator("#text").input_value()
    recorded = why.record(text)
    best = [why.labels[index] for index in recorded.likeliest(2, 4)]
    settled(page, f'Why "{best[0]}", why "{best[1]}"?')
    wait_for(lambda: "position=4" in page.evaluate("location.hash"))
    again = visit(page.evaluate("location.hash"))
    settled(again, f'Why "{best[0]}", why "{best[1]}"?')


def test_a_model_writes_on(visit: Any, models: list[Any]) -> None:
    page = visit(WRITER)
    settled(page, 'Why " station"')
    page.fill("#text", "tom went to the station. sam")
    settled(page, "Why")
    page.get_by_role("button", name="Write on").click()
    page.locator("#view .why-story").wait_for()
    why = named(models, "demo-writer")
    written = why.generate("tom went to the station. sam", 20, progress=False)
    assert page.locator("#view .why-wrote").count() == len(written)
    page.locator("#view .why-wrote", has_text=written.words[2].strip()).first.click()
    assert written.words[2].strip() in page.locator("#view .why-question").inner_text()
    unit = page.locator("#view .why-unit").first
    unit.hover()
    first = next(i for i, piece in enumerate(written.pieces) if piece.word is not None)
    assert shown_number(page) == pytest.approx(float(written.relevance[2, first]), rel=0.06)
    page.fill("#words", "3")
    page.press("#words", "Enter")
    wait_for(lambda: page.locator("#view .why-wrote").count() == 3)
    with page.expect_download() as started:
        page.get_by_role("button", name="HTML").click()
    assert b"whyformerStory(" in Path(started.value.path()).read_bytes()
    page.get_by_role("button", name="Command line").click()
    page.get_by_role("status").get_by_text("Copied.").wait_for()
    assert "--generate=3" in page.evaluate("navigator.clipboard.readText()")
    page.get_by_role("button", name="One word").click()
    settled(page, "Why")
    assert page.locator("#view .why-story").count() == 0


def test_writing_is_called_off(models: list[Any]) -> None:
    from whyformer.app.questions import ViewQuestion
    from whyformer.app.recordings import RecordingCache
    from whyformer.app.stories import written
    from whyformer.app.worker import AbandonedError

    why = named(models, "demo-writer")
    reading = RecordingCache([why], 4, 2**30).read(why, "tom went to the station. sam", "")
    for patience in (3, 18):  # while it writes, and while its words are explained
        calls = []

        def check(patience: int = patience, calls: list[int] = calls) -> None:
            calls.append(1)
            if len(calls) > patience:
                raise AbandonedError

        with pytest.raises(AbandonedError):
            written(ViewQuestion(write=20), reading, check)
        assert len(calls) == patience + 1


def test_every_embedded_model_answers_at_the_first_click(visit: Any) -> None:
    page = visit()
    settled(page, "Why “8”, why “4”?")
    asked = {
        "demo-writer": 'Why " station"',
        "demo-clip": "Why “a seven”, why “a six”?",
        "demo-detector": "Why 6, why 7?",
        "demo-swin": "Why “0”, why “8”?",  # the surer class stands first
        "demo-text": "Why “negative”",
    }
    for name, why in asked.items():
        page.locator("#models button", has_text=name).click()
        settled(page, why)
    assert page.locator("#answer, #place, #beside").nth(0).is_hidden()


def test_a_question_about_a_text(visit: Any) -> None:
    page = visit("#model=reader")
    page.fill("#text", "a witty film")
    page.get_by_text("The text that holds the answer: type to begin.").wait_for()
    page.fill("#beside", "the acting is superb but the plot")
    settled(page, "Why “")
    assert page.locator("#view [data-class]").count() == 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens(visit: Any, folder: Path, scheme: str) -> None:
    page = visit("#model=whisper", width=390, scheme=scheme)
    send(page, folder / "beeps.wav")
    settled(page, "Why “")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#models button", has_text="demo-writer").click()
    settled(page, 'Why " station"')
    page.get_by_role("button", name="Write on").click()
    page.locator("#view .why-story").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#models button", has_text="demo-swin").click()
    settled(page, "Why “0”, why “8”?")
    assert heat(page, 0) != heat(page, 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_a_speech(browser: Any) -> None:
    """Whisper hears the end of "Americans" where it is."""
    from whyformer.app.server import make_app

    why = whyformer.load(shared("data", "whisper_tiny_en"))
    with running(make_app([why])) as url:
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.goto(url)
        send(page, shared("data", "whisper_tiny_en", "jfk.wav"))
        page.locator("#answer button", has_text="Americans").click()
        settled(page, 'Why " Americans"?')
        assert page.locator("#view audio").count() == 1
        page.close()
