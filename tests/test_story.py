"""A text that a model wrote: as a page, a picture, numbers and lines; the command; the web page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import whyformer
from browsing import background, press, question, reading
from command_line import CONTROL, OWN, Run
from conftest import shared
from serving import running
from small_language import save_language
from whyformer import InputError
from whyformer.render.story import story_text

PROMPT = "Once upon a time, there was a little"
HOSTILE = "<script>alert(1)</script>"
NOTHING = "rgba(0, 0, 0, 0)"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language(tmp_path_factory.mktemp("language") / "llama")


@pytest.fixture(scope="module")
def why(llama: Path) -> Any:
    return whyformer.load(llama)


@pytest.fixture(scope="module")
def written(why: Any) -> Any:
    return why.generate(PROMPT, 5, "fullgrad", progress=False)


class TestFiles:
    def test_json_holds_every_score(self, written: Any, tmp_path: Path) -> None:
        data = json.loads(written.save(tmp_path / "why.json").read_text())
        assert data["text"] == written.text
        assert [len(word["scores"]) for word in data["words"]] == [10, 11, 12, 13, 14]
        assert data["words"][2]["scores"] == written.relevance[2, :12].tolist()
        assert [entry["text"] for entry in data["pieces"]] == [p.text for p in written.pieces]
        assert data["pieces"][0]["sink"] is True

    def test_arrays(self, written: Any, tmp_path: Path) -> None:
        arrays = np.load(written.save(tmp_path / "why.npz"))
        assert np.array_equal(arrays["scores"], written.relevance.double().numpy())
        assert arrays["ids"].tolist() == written.ids
        assert int(arrays["start"]) == 10

    def test_the_matrix_is_drawn_where_a_word_came_from(self, written: Any, tmp_path: Path) -> None:
        from dataclasses import replace

        alone = written.relevance.new_zeros(written.relevance.shape)
        alone[0, 3] = 1.0
        bare = Image.open(replace(written, relevance=alone * 0).save(tmp_path / "bare.png"))
        one = Image.open(replace(written, relevance=alone).save(tmp_path / "one.png"))
        changed = np.argwhere(np.asarray(bare) != np.asarray(one))
        (top, left), (bottom, right) = changed.min(0)[:2], changed.max(0)[:2]
        assert bottom - top < 20
        assert right - left < 20

    def test_many_pieces_leave_the_labels_out(self, written: Any, tmp_path: Path) -> None:
        from dataclasses import replace

        wide = replace(
            written,
            pieces=[*written.pieces[:10] * 40, *written.pieces[10:]],
            ids=[*written.ids[:10] * 40, *written.ids[10:]],
            relevance=written.relevance.new_ones(5, 405),
            start=400,
        )
        assert Image.open(wide.save(tmp_path / "wide.png")).width < 2500

    def test_other_endings_are_refused(self, written: Any, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"known: '.html', '.png', '.json', '.npz'"):
            written.save(tmp_path / "why.tex")

    def test_lines_for_the_terminal(self, written: Any, capsys: Any) -> None:
        written.show()
        shown = capsys.readouterr().out
        assert len(shown.splitlines()) == 2 + 5 + len(written.notes)
        best = int(written.relevance[0, 1:10].argmax()) + 1
        assert f"{written.pieces[best].text} 1.00" in shown.splitlines()[2]
        assert CONTROL.search(shown) is None
        assert CONTROL.search(OWN.sub("", story_text(written, colour=True))) is None

    def test_a_notebook_shows_text_as_text(self, why: Any) -> None:
        told = why.generate(f"a {HOSTILE}", 2, progress=False)
        assert HOSTILE not in told._repr_html_()
        assert html.escape(HOSTILE).split(";")[1] in told._repr_html_()


class TestPage:
    @pytest.fixture(scope="class")
    def opened(
        self, tab: tuple[Any, list[str]], why: Any, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Any]:
        page, events = tab
        told = why.generate(f"Once upon a {HOSTILE} time", 6, progress=False)
        path = told.save(tmp_path_factory.mktemp("page") / "why.html")
        events.clear()
        page.goto(path.as_uri())
        yield page, told
        assert [event for event in events if event != f"request: {path.as_uri()}"] == []

    def test_a_click_shows_what_a_word_came_from(self, opened: tuple[Any, Any]) -> None:
        page, told = opened
        press(page, "Pieces")
        page.locator(".why-wrote").nth(2).click()
        place = told.start + 2
        scores = told.relevance[2, 1:place]
        best = int(scores.argmax()) + 1
        units = page.locator(".why-unit")
        colour = units.nth(best).evaluate("(span) => getComputedStyle(span).backgroundColor")
        assert colour not in (NOTHING, "rgb(255, 255, 255)")
        sink = units.nth(0).evaluate("(span) => getComputedStyle(span).backgroundColor")
        assert sink == NOTHING
        later = units.nth(place + 1).get_attribute("class")
        assert "why-later" in later
        units.nth(best).hover()
        share = float(scores.max() / scores.abs().sum())
        assert f"{100 * share:.1f} %" in reading(page)

    def test_keys_choose_the_next_word(self, opened: tuple[Any, Any]) -> None:
        page, told = opened
        press(page, "Pieces")
        page.locator(".why-wrote").first.click()
        asked = [question(page)]
        for key in ("ArrowRight", "ArrowLeft", "End"):
            page.locator(".why-stage").press(key)
            asked.append(question(page))
        names = [CONTROL.sub("\ufffd", p.text) or "◌" for p in told.pieces[told.start :]]
        shown = [names[0], names[1], names[0], names[-1]]
        assert asked == [f"Why “{name}”?" for name in shown]

    def test_the_matrix_is_painted_and_chooses(self, opened: tuple[Any, Any]) -> None:
        page, told = opened
        page.locator(".why-wrote").first.click()
        drawn = page.locator("canvas").evaluate(
            "(c) => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
        )
        assert drawn > 20
        box = page.locator("canvas").bounding_box()
        page.locator("canvas").click(position={"x": box["width"] / 2, "y": box["height"] - 4})
        best = page.locator(".why-taken .why-name").get_attribute("title")
        assert best == told.labels[told.ids[-1]]

    @pytest.mark.parametrize(("width", "scheme"), [(1100, "dark"), (390, "light")])
    def test_it_fits_narrow_and_dark(
        self, browser: Any, opened: tuple[Any, Any], width: int, scheme: str
    ) -> None:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        page.goto(opened[0].url)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.locator("body").evaluate("(b) => getComputedStyle(b).backgroundColor")
        assert (ground == "rgb(21, 20, 26)") == (scheme == "dark")
        context.close()


class TestCommand:
    def test_generate(self, run: Run, llama: Path, tmp_path: Path) -> None:
        out = tmp_path / "why.json"
        model = f"--model={llama}"
        code, output, _ = run("explain", PROMPT, model, "--generate=3", "-o", out)
        assert code == 0
        data = json.loads(out.read_text())
        assert data["text"] in output
        assert len(data["words"]) == 3
        code, output, errors = run("explain", PROMPT, model, "--generate=3", "--json", "-q")
        assert (code, errors) == (0, "")
        assert json.loads(output)["text"] == data["text"]
        assert "why each word" in run("explain", PROMPT, model, "--generate=2", "-q")[1]

    def test_the_next_word(self, run: Run, llama: Path) -> None:
        model = f"--model={llama}"
        code, output, _ = run("explain", PROMPT, model)
        assert code == 0
        best = re.search(r"no --target was given: (.*) is the likeliest word here", output)
        assert f"why {best[1]}?" in output
        output = run("explain", PROMPT, model, "--target= girl", "--rather-than= boy")[1]
        assert 'why " girl" rather than " boy"?' in output
        both = [run("explain", PROMPT, model, f"--position={p}", "--json")[1] for p in (4, -6)]
        assert json.loads(both[0])["views"] == json.loads(both[1])["views"]

    def test_a_contrast_of_a_classifier(self, run: Run) -> None:
        output = run("explain", "a lifeless film", "-t", "negative", "--rather-than", "positive")[1]
        assert "why negative rather than positive?" in output

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--generate=2", "--target= girl"], "leave --target out"),
            (["--generate=2", "--out=why.svg"], "'why.svg' has the ending '.svg'"),
            (["--generate=0"], "at least 1"),
            (["--chat"], "has no chat template"),
            (["--target=elephant"], "no single token of this model"),
            (["--position=99"], "position 99 of a prompt with 10 pieces"),
        ],
    )
    def test_refusals(
        self, run: Run, llama: Path, arguments: list[str], message: str, monkeypatch: Any
    ) -> None:
        code, _, errors = run("explain", PROMPT, f"--model={llama}", *arguments)
        assert code == 2
        assert message in errors

    def test_classifiers_neither_write_nor_chat_nor_have_places(self, run: Run) -> None:
        for option in ("--generate=2", "--chat", "--position=1"):
            code, _, errors = run("explain", "a lifeless film", option)
            assert code == 2
            assert "demo-text" in errors

    def test_classes_are_the_vocabulary(self, run: Run, llama: Path) -> None:
        assert " girl" in run("classes", llama, "--search", "girl")[1]


class TestServer:
    @pytest.fixture(scope="class")
    def client(self, why: Any) -> Iterator[Any]:
        httpx2 = pytest.importorskip("httpx2", reason="the extra serve is not installed")
        from whyformer.app.server import make_app

        with (
            running(make_app([why])) as url,
            httpx2.Client(base_url=f"{url}/api/v1", timeout=60) as client,
        ):
            yield client

    def test_it_answers_as_the_library(self, client: Any, why: Any) -> None:
        (model,) = client.get("/models").json()
        assert (model["kind"], model["classes"]) == ("text", len(why.labels))
        answer = client.post("/explain", json={"text": PROMPT, "targets": [" girl"]}).json()
        found = why(PROMPT, " girl")
        assert answer["views"][0]["scores"] == pytest.approx(found.relevance[0].tolist())
        predicted = client.post("/explain", json={"text": PROMPT, "runner_up": True}).json()
        best = found.logits[0].topk(2).indices.tolist()
        assert [view["target"] for view in predicted["views"]] == best

    def test_words_are_searched_the_nearest_first(self, client: Any, why: Any) -> None:
        answer = client.get("/classes", params={"model": why.name, "search": "little"}).json()
        assert answer["classes"][0]["label"] == " little"

    def test_a_word_that_is_none_is_told(self, client: Any) -> None:
        response = client.post("/explain", json={"text": PROMPT, "targets": ["elephant"]})
        assert response.status_code == 422
        assert "it is written as" in response.json()["error"]


@pytest.mark.slow
def test_the_viewer_leaves_the_sink_out(tab: tuple[Any, list[str]], tmp_path: Path) -> None:
    page, _ = tab
    why = whyformer.load(shared("data", "stories15M"))
    page.goto(why(PROMPT, [[" girl", " boy"]]).save(tmp_path / "why.html").as_uri())
    assert question(page) == 'Why " girl"?'
    press(page, "Pieces")
    assert background(page, "<s>") == NOTHING
    page.locator(".why-unit", has_text="<s>").first.hover()
    assert "not coloured" in reading(page)
