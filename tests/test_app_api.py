"""The API: it answers as the command line does, and lists what there is."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

import whyformer
from command_line import Run
from serving import running
from whyformer.app.examples import as_written, examples, picture
from whyformer.app.recipes import RecipeQuestion, recipe
from whyformer.app.recordings import RecordingCache, key_of
from whyformer.app.server import make_app
from whyformer.methods import default_methods, methods, registry

TEXT = "The plot is thin, but the ending is deeply moving."


def explained(client: Any, **question: Any) -> dict[str, Any]:
    response = client.post("/explain", json=question)
    assert response.status_code == 200, response.text
    return response.json()


def upload(client: Any, data: bytes, name: str = "scene.png", **fields: Any) -> Any:
    return client.post("/explain", files={"image": (name, data)}, data=fields)


def test_a_text_is_explained_as_on_the_command_line(client: Any, run: Run) -> None:
    code, output, _ = run("explain", TEXT, "--model=demo-text", "--target=positive", "--json")
    assert code == 0
    answer = explained(client, text=TEXT, targets=["positive"])
    assert answer.pop("input") == key_of("demo-text", TEXT)
    assert answer == json.loads(output)


def test_an_image_is_explained_as_on_the_command_line(
    client: Any, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "scene.png"
    path.write_bytes(picture("two digits"))
    names = ["transformer_attribution", "rollout"]
    code, output, _ = run(
        "compare", path, "--model=demo-vision", "-t8", "-t4", *[f"--method={n}" for n in names],
        "--json", "-q",
    )  # fmt: skip
    assert code == 0
    answer = upload(client, path.read_bytes(), targets=["8", "4"], methods=names).json()
    printed = json.loads(output)
    assert answer.pop("input")
    assert (answer.pop("title"), printed.pop("title")) == ("scene.png", "scene.png")
    assert answer == printed


def test_the_default_is_what_the_model_predicts(client: Any) -> None:
    assert [view["target"] for view in explained(client, example="two digits")["views"]] == [8]
    both = explained(client, example="two digits", runner_up=True)
    assert [view["target"] for view in both["views"]] == [8, 4]
    assert [entry["index"] for entry in both["classes"][:2]] == [8, 4]


def test_the_best_method_is_asked_by_that_name(client: Any) -> None:
    asked = {"text": "a lifeless film", "methods": ["best", "witness", "rollout"]}
    answer = client.post("/explain", json=asked)
    assert answer.status_code == 200, answer.text
    views = answer.json()["views"]
    assert sorted({view["method"] for view in views}) == ["rollout", "witness"]


def test_an_input_is_sent_once_and_asked_about_again(client: Any) -> None:
    first = upload(client, picture("one digit")).json()
    again = explained(client, input=first["input"], targets=[3], methods=["gradcam", "gradcam"])
    assert [(view["method"], view["target"]) for view in again["views"]] == [("gradcam", 3)]
    assert again["title"] == "scene.png"
    gone = client.post("/explain", json={"input": "0" * 64})
    assert gone.status_code == 410
    assert "send it again" in gone.json()["error"]


def test_targets_by_index_label_and_twice(client: Any) -> None:
    answer = explained(client, text=TEXT, targets=[1, "positive", "1", "Negative"])
    assert [view["target"] for view in answer["views"]] == [1, 0]


def test_detail_adds_what_the_viewer_needs(client: Any) -> None:
    plain = explained(client, example="two digits")
    assert "src" not in plain["image"]
    assert "rows" not in plain["views"][0]
    whole = explained(client, example="two digits", detail=True)
    assert whole["image"]["src"].startswith("data:image/png;base64,")
    assert whole["views"][0]["rows"]["scale"]
    assert whole["views"][0]["scores"] == plain["views"][0]["scores"]


def test_pairs_and_windows(client: Any) -> None:
    pair = explained(client, text="A film.", pair="A second text.", detail=True)
    assert "".join(p["gap"] + p["text"] for p in pair["pieces"]).count("\n\n") == 1
    long = explained(client, example="long text")
    assert "windows" in long["notes"][0]
    assert len(long["views"][0]["words"]) > 400


def test_files(client: Any) -> None:
    starts = {"png": b"\x89PNG", "html": b"<!doctype", "json": b"{", "npz": b"PK", "svg": b"<svg"}
    for name, start in starts.items():
        answer = client.post("/save", json={"text": TEXT, "format": name})
        assert answer.status_code == 200
        assert answer.content.startswith(start)
        assert answer.headers["content-disposition"] == f'attachment; filename="why.{name}"'
    drawn = {"example": "two digits", "format": "png"}
    smooth = client.post("/save", json=drawn).content
    assert client.post("/save", json={**drawn, "smooth": False}).content != smooth
    assert client.post("/save", json={**drawn, "opacity": 0}).content != smooth


def test_blocks_agree_with_the_library(client: Any, models: list[Any]) -> None:
    asked = {"example": "two digits", "targets": [4], "block": 2}
    answer = client.post("/blocks", json=asked).json()
    blocks = models[0](picture("two digits"), 4, keep_blocks=True).blocks
    assert (answer["blocks"], answer["heads"]) == (5, 4)
    shown = {view["method"]: view["scores"] for view in answer["views"]}
    product = (blocks.gradient[2] * blocks.relevance[2]).clamp(min=0)
    for name, expected in (
        ("attention", blocks.attention[2]),
        ("gradient", blocks.gradient[2]),
        ("relevance", blocks.relevance[2]),
        ("product", product),
    ):
        assert shown[name] == pytest.approx(expected[0].mean(0)[0, 1:].tolist(), rel=1e-6)
    third = client.post("/blocks", json={**asked, "head": 3}).json()["views"][1]["scores"]
    assert third == pytest.approx(blocks.gradient[2][0, 3, 0, 1:].tolist(), rel=1e-6)
    for wrong in ({"block": 5}, {"head": 4}):
        refused = client.post("/blocks", json={**asked, **wrong})
        assert refused.status_code == 422
        assert "count from 0" in refused.json()["error"]


def test_listings(client: Any) -> None:
    assert [(m["name"], m["kind"], m["classes"]) for m in client.get("/models").json()] == [
        ("demo-vision", "image", 10),
        ("demo-text", "text", 2),
    ]
    listed = client.get("/methods").json()
    assert {m["name"] for m in listed["methods"]} == set(methods())
    assert [m["name"] for m in listed["methods"] if not m["on_request"]] == default_methods()
    found = client.get("/classes", params={"model": "demo-text", "search": "POS"}).json()
    assert found["classes"] == [{"index": 1, "label": "positive"}]
    few = client.get("/classes", params={"model": "demo-vision", "limit": 3}).json()
    assert (few["found"], len(few["classes"])) == (10, 3)
    health = client.get("/health").json()
    assert (health["version"], health["taken"]) == (whyformer.__version__, 0)


def test_examples_can_be_seen(client: Any) -> None:
    listed = {entry["name"]: entry for entry in client.get("/examples").json()}
    shown = {"demo-vision", "demo-text"}
    assert set(listed) == {name for name, each in examples().items() if each.model in shown}
    for name, entry in listed.items():
        seen = client.get("/examples/picture", params={"name": name})
        assert seen.status_code == (200 if entry["text"] is None else 422)
    assert as_written(["A", "film", ".", "Dull", ",", "then", ":", "no", "!"]) == (
        "A film. Dull, then: no!"
    )


def test_classes_without_names_are_found_by_number(models: list[Any]) -> None:
    from whyformer.app.listings import list_classes
    from whyformer.explainer import Explainer
    from whyformer.models.images import ImagePipeline

    explainer = Explainer(models[0].model, labels=None)
    why = ImagePipeline("plain", explainer, models[0]._prepare, [0.5], [0.5])
    assert why.labels is None
    assert [entry.index for entry in list_classes(why, " 7", 5).classes] == [7]
    assert list_classes(why, "cat", 5).found == 0


def test_the_oldest_reading_makes_room(models: list[Any]) -> None:
    cache = RecordingCache(models, keep=2, most_bytes=2**30)
    keys = [cache.read(models[1], f"film {i}", "").key for i in range(2)]
    cache.read(models[1], "film 0", "")
    third = cache.read(models[1], "film 2", "").key
    assert [cache.find(key) is not None for key in (*keys, third)] == [True, False, True]


def test_keys_tell_inputs_apart() -> None:
    contents = [b"a", "a", ("a", "b"), ("ab", ""), "ab"]
    keys = {key_of(model, content) for model in ("m", "n") for content in contents}
    assert len(keys) == 2 * len(contents)


@pytest.mark.parametrize(
    ("content", "names", "preset"),
    [
        (TEXT, ["transformer_attribution"], "stable"),
        ('It\'s "dull" \\ $HOME `x` ünï\nand -- long', ["gradcam", "rollout"], "paper"),
        ("-t is how it begins", ["rollout"], "stable"),
    ],
)
def test_recipes_do_what_the_page_does(
    client: Any, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    content: str, names: list[str], preset: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    question = {"model": "demo-text", "targets": [1, 0], "methods": names, "preset": preset}
    shown = explained(client, text=content, **question)
    code = client.post("/recipe", json={**question, "content": content}).json()

    program, *arguments = shlex.split(code["command"])
    assert program == "whyformer"
    status, _, errors = run(*[word.replace("why.html", "why.json") for word in arguments])
    assert status == 0, errors
    assert json.loads(Path("why.json").read_text())["views"] == shown["views"]

    Path("why.json").unlink()
    exec(code["python"].replace("why.html", "why.json"), {})
    assert json.loads(Path("why.json").read_text())["views"] == shown["views"]


def test_a_method_of_ones_own_that_fails_is_named(client: Any) -> None:
    @whyformer.register("boom", "a mistake of the user's")
    def boom(question: Any) -> Any:
        raise KeyError("mine")

    try:
        response = client.post("/explain", json={"text": TEXT, "methods": ["boom"]})
        assert response.status_code == 422
        assert "the method 'boom' failed (test_app_api.py:" in response.json()["error"]
    finally:
        registry._METHODS.pop("boom")


def test_recipes_name_the_file_of_an_own_method(tmp_path: Path) -> None:
    file = tmp_path / "my method.py"
    file.write_text(
        "import whyformer\n@whyformer.register('of_a_file', 'the first head')\n"
        "def first(question):\n    return question.pool(question.attention[-1][:, 0])\n"
    )
    whyformer.methods_from(file)
    asked = RecipeQuestion(model="demo-text", content="a joyless film", methods=["of_a_file"])
    try:
        given = recipe(asked, None)
        assert f"--methods-from={file}" in shlex.split(given.command)
        found: dict[str, Any] = {}
        exec(given.python.replace('explanation.save("why.html")', ""), found)
        assert found["explanation"].method == "of_a_file"
    finally:
        registry._METHODS.pop("of_a_file")


def test_repeated_labels_are_spelled_as_numbers() -> None:
    question = RecipeQuestion(model="m", content="x.png", targets=[0, 1, 2])
    assert "--target=0 --target=b --target=2 " in recipe(question, ["a", "b", "a"]).command
    assert "--target=0 --target=1 " in recipe(question, None).command


def test_a_missing_package_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("server", "connections"):
        monkeypatch.delitem(sys.modules, f"whyformer.app.{name}")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, errors = run("serve")
    assert code == 2
    assert "the page needs uvicorn: pip install 'whyformer[serve]'" in errors


def test_one_model_alone(models: list[Any]) -> None:
    with running(make_app(models[1:])) as url:
        assert len(httpx2.get(f"{url}/api/v1/models").json()) == 1
        offered = httpx2.get(f"{url}/api/v1/examples").json()
        assert {entry["model"] for entry in offered} == {"demo-text"}
        refused = httpx2.post(f"{url}/api/v1/explain", json={"example": "two digits"})
        assert refused.status_code == 422
        assert "no model here reads images" in refused.json()["error"]
