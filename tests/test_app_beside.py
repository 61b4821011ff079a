"""The server with models that read something beside their input: texts beside a picture."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import whyformer
from serving import running
from small_towers import save_clip
from stand_ins import photo

TEXTS = ["a photo of a cat", "a cup of coffee"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_clip(tmp_path_factory.mktemp("beside") / "clip")


@pytest.fixture(scope="module")
def models(folder: Path) -> list[Any]:
    return [whyformer.load(folder), whyformer.load("demo-vision"), whyformer.load("demo-text")]


@pytest.fixture(scope="module")
def address(models: list[Any]) -> Iterator[str]:
    from whyformer.app.server import make_app

    with running(make_app(models)) as url:
        yield url


def picture() -> bytes:
    buffer = io.BytesIO()
    photo(0).save(buffer, "PNG")
    return buffer.getvalue()


def upload(client: Any, **fields: Any) -> Any:
    return client.post("/explain", files={"image": ("photo.png", picture())}, data=fields)


def test_texts_come_with_a_picture(client: Any, models: list[Any]) -> None:
    answer = upload(client, texts=TEXTS, targets=["a cup of coffee"], methods=["fullgrad"]).json()
    expected = models[0](Image.open(io.BytesIO(picture())), 1, "fullgrad", text=TEXTS)
    assert answer["model"] == models[0].name
    scores = expected.relevance[0, expected.tokens.patches].tolist()
    assert answer["views"][0]["scores"] == pytest.approx(scores, rel=1e-4)
    assert [word["text"] for word in answer["others"][0]["views"][0]["words"]] == [
        "a", "cup", "of", "coffee"
    ]  # fmt: skip
    other = upload(client, texts=["a dog", "a cat"]).json()
    assert other["input"] != answer["input"]
    assert {entry["label"] for entry in other["classes"]} == {"a dog", "a cat"}
    again = client.post("/explain", json={"input": answer["input"], "targets": [0]}).json()
    assert again["views"][0]["label"] == "a photo of a cat"


def test_a_picture_alone_goes_to_the_model_that_needs_no_text(client: Any) -> None:
    assert upload(client).json()["model"] == "demo-vision"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "demo-vision", "texts": TEXTS}, "demo-vision reads no text"),
        ({"texts": ["coffee " * 30]}, "more than the model's 16"),
        ({"texts": ["a cat"] * 40}, "at most 32"),
    ],
)
def test_texts_that_do_not_fit(client: Any, fields: dict[str, Any], said: str) -> None:
    response = upload(client, **fields)
    assert response.status_code == 422
    assert said in response.json()["error"]


def test_a_model_that_lacks_its_texts_says_so(client: Any, models: list[Any]) -> None:
    response = upload(client, model=models[0].name)
    assert response.status_code == 422
    assert "no text was given" in response.json()["error"]
    kept = upload(client, texts=TEXTS).json()["input"]
    response = client.post("/explain", json={"input": kept, "texts": ["a dog"]})
    assert "send it again" in response.json()["error"]


def test_the_recipe_holds_the_texts(client: Any, models: list[Any]) -> None:
    asked = {"model": models[0].name, "content": "photo.png", "texts": TEXTS, "targets": [1]}
    given = client.post("/recipe", json=asked).json()
    assert f"why('photo.png', text={TEXTS}, target=1)" in given["python"]
    assert "'--text=a cup of coffee' '--target=a cup of coffee'" in given["command"]


def test_a_second_picture_instead_of_the_texts(client: Any, models: list[Any]) -> None:
    other = io.BytesIO()
    photo(1).save(other, "PNG")
    both = {"file": ("photo.png", picture()), "similar_to": ("other.png", other.getvalue())}
    answer = client.post("/explain", files=both).json()
    assert answer["model"] == models[0].name
    expected = models[0](picture(), similar_to=other.getvalue())
    for told, part in zip([answer, *answer["others"]], expected.parts, strict=True):
        assert told["views"][0]["scores"] == pytest.approx(part.relevance[0, 1:].tolist(), rel=1e-4)
    refused = client.post("/explain", files=both, data={"texts": TEXTS})
    assert refused.status_code == 422
    assert "text or similar_to, not both" in refused.json()["error"]


def test_the_page_takes_a_second_picture(visit: Any, tmp_path: Path, models: list[Any]) -> None:
    for seed in (0, 1):
        photo(seed).save(tmp_path / f"{seed}.png")
    page = visit()
    page.set_input_files("#file", str(tmp_path / "0.png"))
    page.locator("#status", has_text="Texts to compare the picture with").wait_for()
    page.set_input_files("#other", str(tmp_path / "1.png"))
    page.locator("#view .why-question", has_text="similar").wait_for()
    assert page.locator("#view .why-caption").all_inner_texts()[1].startswith("other image")
    assert page.locator("#beside-input").is_hidden()
    page.get_by_role("button", name="Remove it").click()
    page.locator("#beside-input").wait_for()
    page.locator("#status", has_text="Texts to compare the picture with").wait_for()


def test_the_page_asks_for_the_texts(visit: Any, tmp_path: Path, models: list[Any]) -> None:
    file = tmp_path / "photo.png"
    file.write_bytes(picture())
    page = visit(refused=422)
    page.set_input_files("#file", str(file))
    page.locator("#status", has_text="Texts to compare the picture with").wait_for()
    page.fill("#beside", "a photo of a cat\n\n a cup of coffee\n")
    page.locator("#view .why-question", has_text="a cup of coffee").wait_for()
    assert page.locator("#view [data-class]").count() == 2
    assert page.locator("#view .why-unit", has_text="coffee").count() == 2
    assert page.locator("#inside").is_hidden()
    page.fill("#beside", "coffee " * 30)
    page.locator("#alert", has_text="more than the model's 16").wait_for()
    page.get_by_role("button", name="demo-text").click()
    page.locator("#beside-input").wait_for(state="hidden")
