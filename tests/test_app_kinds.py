"""Every kind of model behind the API: the same numbers as the library gives."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import whyformer
from command_line import Run
from serving import running
from small_images import save_detector, save_segformer, save_vit
from small_language import save_language
from small_sounds import beeps, save_ast, save_wav2vec2, write_wav
from small_texts import save_bert, save_sentences
from small_towers import save_vilt
from small_videos import ball, save_video, write_gif
from small_writers import save_whisper, save_writer
from stand_ins import photo
from whyformer.app.examples import examples, picture
from whyformer.models.catalogue import EMBEDDED
from whyformer.render.sheets import make_sheet

TEXT = "a warm film without plot"
PROMPT = "Once upon a time, there was a little"
TAGS: dict[str, Any] = {"id2label": {0: "O", 1: "B-PER", 2: "B-LOC"}, "label2id": {}}
MAKERS: dict[str, Callable[[Path], Path]] = {
    "ast": save_ast,
    "wav2vec2": save_wav2vec2,
    "whisper": save_whisper,
    "t5": save_writer,
    "videomae": save_video,
    "timesformer": lambda folder: save_video(folder, "timesformer"),
    "detector": save_detector,
    "segformer": save_segformer,
    "tagger": lambda folder: save_bert(folder, kind="BertForTokenClassification", **TAGS),
    "reader": lambda folder: save_bert(folder, kind="BertForQuestionAnswering", num_labels=2),
    "chooser": lambda folder: save_bert(folder, kind="BertForMultipleChoice"),
    "masked": lambda folder: save_bert(folder, kind="BertForMaskedLM"),
    "language": lambda folder: save_language(folder, positions=64),
    "features": lambda folder: save_vit(folder, "ViTModel"),
    "sentences": lambda folder: save_sentences(folder, pooling_mode_mean_tokens=True),
    "vilt": save_vilt,
}
FILES = {"ast": "wav", "wav2vec2": "wav", "whisper": "wav", "videomae": "gif", "timesformer": "gif"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kinds")


@pytest.fixture(scope="module")
def models(folder: Path) -> list[Any]:
    return [whyformer.load(make(folder / name)) for name, make in MAKERS.items()]


@pytest.fixture(scope="module")
def address(models: list[Any]) -> Iterator[str]:
    from whyformer.app.server import make_app

    with running(make_app(models)) as url:
        yield url


@pytest.fixture(scope="module")
def files(folder: Path) -> dict[str, bytes]:
    wav = write_wav(folder / "beeps.wav", beeps(1.2)).read_bytes()
    gif = write_gif(folder / "ball.gif", ball()).read_bytes()
    pictures = []
    for seed in (0, 1):
        buffer = io.BytesIO()
        photo(seed).save(buffer, "PNG")
        pictures.append(buffer.getvalue())
    return {"wav": wav, "gif": gif, "png": pictures[0], "other": pictures[1]}


#: the model, what is asked in Python, and what is sent
TEXTS: list[tuple[str, Any, dict[str, Any]]] = [
    ("t5", {}, {"text": "the small dog"}),
    ("t5", {"position": 1}, {"text": "the small dog", "position": 1}),
    ("tagger", {"position": "film", "target": 1},
     {"text": TEXT, "position": "film", "targets": ["B-PER"]}),
    ("tagger", {"position": 2}, {"text": TEXT, "position": 2}),
    ("reader", {"target": "the acting"},
     {"text": "a witty film", "pair": "the acting is superb", "targets": ["the acting"]}),
    ("chooser", {"text": ["superb", "without plot"], "target": 1},
     {"text": TEXT, "texts": ["superb", "without plot"], "targets": ["without plot"]}),
    ("masked", {"position": 1, "target": "plot"},
     {"text": "a ___ film without ___", "position": 1, "targets": ["plot"]}),
    ("language", {}, {"text": PROMPT}),
    ("language", {"position": 3, "target": " girl"},
     {"text": PROMPT, "position": 3, "targets": [" girl"]}),
    ("language", {"target": whyformer.contrast(" girl", " boy"), "method": "fullgrad"},
     {"text": PROMPT, "targets": [" girl"], "rather_than": " boy", "methods": ["fullgrad"]}),
    ("sentences", {"similar_to": "superb acting"}, {"text": TEXT, "similar_to": "superb acting"}),
]  # fmt: skip
UPLOADS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("ast", {"target": "high"}, {"targets": "high"}),
    ("wav2vec2", {}, {}),
    ("whisper", {}, {}),
    ("whisper", {"position": 2}, {"position": "2"}),
    ("whisper", {"position": 2, "target": whyformer.contrast(26, 7)},
     {"position": "2", "targets": "26", "rather_than": "7"}),
    ("videomae", {"target": "moving"}, {"targets": "moving"}),
    ("timesformer", {}, {}),
    ("detector", {"target": 0, "position": 1}, {"targets": "0", "position": "1"}),
    ("detector", {"position": 1}, {"position": "1"}),
    ("detector", {"target": 1, "edge": "top", "method": "fullgrad"},
     {"targets": "1", "edge": "top", "methods": "fullgrad"}),
    ("segformer", {}, {}),
    ("segformer", {"region": (0, 0.5, 1, 1)}, {"region": ["0", "0.5", "1", "1"]}),
    ("vilt", {"text": "is the film witty", "target": "no"},
     {"texts": "is the film witty", "targets": "no"}),
]  # fmt: skip


def same(answer: dict[str, Any], expected: Any) -> None:
    """Every part's every view, number by number."""
    sheet = make_sheet(expected)
    assert len(answer.get("others", [])) == len(sheet.others)
    for told, part in zip([answer, *answer.get("others", [])], [sheet, *sheet.others], strict=True):
        assert [view["label"] for view in told["views"]] == [
            view.asked.label if view.asked else None for view in part.views
        ]
        for view, shown in zip(told["views"], part.views, strict=True):
            assert view["scores"] == pytest.approx(shown.scores.reshape(-1).tolist(), rel=1e-4)
    assert any(score for view in answer["views"] for score in view["scores"])


@pytest.mark.parametrize(("name", "options", "sent"), TEXTS)
def test_texts(
    client: Any, models: list[Any], name: str, options: dict[str, Any], sent: dict[str, Any]
) -> None:
    response = client.post("/explain", json={"model": name, **sent})
    assert response.status_code == 200, response.text
    why = next(why for why in models if why.name == name)
    given = (sent["text"], sent["pair"]) if "pair" in sent else sent["text"]
    same(response.json(), why(given, **options))


@pytest.mark.parametrize(("name", "options", "sent"), UPLOADS)
def test_uploads(
    client: Any, models: list[Any], files: dict[str, bytes], name: str,
    options: dict[str, Any], sent: dict[str, Any],
) -> None:  # fmt: skip
    data = files[FILES.get(name, "png")]
    response = client.post("/explain", files={"file": ("a", data)}, data={"model": name, **sent})
    assert response.status_code == 200, response.text
    why = next(why for why in models if why.name == name)
    same(response.json(), why(data, **options))


def test_two_pictures(client: Any, models: list[Any], files: dict[str, bytes]) -> None:
    pictures = {"file": ("a.png", files["png"]), "similar_to": ("b.png", files["other"])}
    answer = client.post("/explain", files=pictures).json()
    assert answer["model"] == "features"
    why = next(why for why in models if why.name == "features")
    same(answer, why(files["png"], similar_to=files["other"]))
    assert answer["others"][0]["part"] == "other image"
    swapped = {"file": pictures["similar_to"], "similar_to": pictures["file"]}
    other = client.post("/explain", files=swapped).json()
    assert other["input"] != answer["input"]
    again = client.post("/explain", json={"input": answer["input"], "methods": ["fullgrad"]}).json()
    same(again, why(files["png"], similar_to=files["other"], method="fullgrad"))


def test_a_model_writes_as_in_the_library(client: Any, models: list[Any]) -> None:
    asked = {"model": "language", "text": PROMPT, "write": 6, "methods": ["fullgrad"]}
    answer = client.post("/explain", json=asked).json()
    why = next(why for why in models if why.name == "language")
    written = why.generate(PROMPT, 6, "fullgrad", progress=False)
    assert answer["kind"] == "story"
    assert answer["text"] == written.text
    for number, word in enumerate(answer["words"]):
        row = written.relevance[number, : word["piece"]]
        assert word["scores"] == pytest.approx(row.tolist(), rel=1e-4, abs=1e-9)
    saved = client.post("/save", json={**asked, "format": "html"})
    assert b"whyformerStory(" in saved.content


ASKED: list[dict[str, Any]] = [
    {"model": "language", "content": PROMPT, "targets": [266], "rather_than": " boy"},
    {"model": "language", "content": PROMPT, "targets": [266], "position": 3},
    {"model": "language", "content": PROMPT, "targets": [266, 270], "rather_than": 300},
    {"model": "language", "content": PROMPT, "write": 4},
    {"model": "t5", "content": "the small dog", "methods": ["generic_attention:gradient=libra"]},
    {"model": "t5", "content": "the small dog", "position": 2, "methods": ["fullgrad"]},
    {"model": "reader", "content": "a film", "pair": "the acting is superb", "targets": [1]},
]


@pytest.mark.parametrize("asked", ASKED)
def test_recipes_do_what_the_page_does(
    client: Any, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    question = {"text": asked["content"], **{k: v for k, v in asked.items() if k != "content"}}
    response = client.post("/explain", json=question)
    assert response.status_code == 200, response.text
    told = "words" if "write" in asked else "views"
    code = client.post("/recipe", json=asked).json()
    _, name, *words = shlex.split(code["command"].replace("why.html", "why.json"))
    status, _, errors = run(name, "--quiet", *words)
    assert status == 0, errors
    assert json.loads(Path("why.json").read_text())[told] == response.json()[told]
    Path("why.json").unlink()
    exec(code["python"].replace("why.html", "why.json"), {})
    assert json.loads(Path("why.json").read_text())[told] == response.json()[told]


def test_where_an_input_can_be_asked(client: Any, models: list[Any]) -> None:
    asked = {"model": "t5", "text": "the small dog", "detail": True}
    answer = client.post("/explain", json=asked).json()
    why = next(why for why in models if why.name == "t5")
    assert answer["places"] == [word.strip() for word in why.generate("the small dog").words]
    assert [view["target"] for view in answer["views"]] == [
        -1 - i for i in range(len(why.generate("the small dog")))
    ]
    best = client.post("/explain", json={**asked, "position": 0, "runner_up": True}).json()
    logits = why.record("the small dog").logits[0, 0]
    assert [view["target"] for view in best["views"]] == logits.topk(2).indices.tolist()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"model": "tagger", "text": TEXT, "position": "nobody"}, "no word 'nobody'"),
        ({"model": "masked", "text": "a ___", "position": "film"}, "blank film of a text with 1"),
        ({"model": "language", "text": PROMPT, "position": 99}, "position 99 of a prompt"),
        ({"model": "language", "text": PROMPT, "position": "x"}, "position x of a prompt"),
        ({"model": "language", "text": PROMPT, "rather_than": "elephant"}, "no single token"),
        ({"model": "language", "text": PROMPT, "targets": [" girl"], "rather_than": " girl"},
         "rather than itself"),
        ({"model": "language", "text": PROMPT, "write": 0}, "write"),
        ({"model": "language", "text": PROMPT, "write": 201}, "write"),
        ({"model": "language", "text": PROMPT, "write": 90}, "takes 64 together"),
        ({"model": "language", "text": PROMPT, "write": 5, "position": 1}, "leave targets"),
        ({"model": "sentences", "text": TEXT, "write": 5}, "no language model"),
        ({"model": "sentences", "text": TEXT, "position": 1}, "leave position out"),
        ({"model": "t5", "text": "a dog", "rather_than": 7}, "would have stood"),
        ({"model": "reader", "text": "a film"}, "one text was given"),
        ({"model": "chooser", "text": TEXT}, "chooses between endings"),
        ({"model": "ast", "text": TEXT}, "ast reads sounds and no texts"),
    ],
)  # fmt: skip
def test_questions_without_an_answer(client: Any, sent: dict[str, Any], said: str) -> None:
    response = client.post("/explain", json=sent)
    assert response.status_code == 422, response.text
    assert said in response.json()["error"]


@pytest.mark.parametrize("name", ["whisper", "ast", "t5", "segformer", "chooser"])
def test_the_inside_of_models_that_have_no_plain_one(
    client: Any, files: dict[str, bytes], name: str
) -> None:
    if name in ("t5", "chooser"):
        texts = {"texts": ["superb", "without plot"]} if name == "chooser" else {}
        asked = {"model": name, "text": TEXT, "position": 0 if name == "t5" else None, **texts}
        response = client.post("/blocks", json=asked)
    else:
        file = {"file": ("a", files[FILES.get(name, "png")])}
        response = client.post("/blocks", files=file, data={"model": name})
    assert response.status_code == 422, response.text


@pytest.mark.parametrize("name", EMBEDDED)
def test_every_embedded_model_gets_its_first_example_right(name: str) -> None:
    first, second, *_ = (example for example in examples().values() if example.model == name)
    why = whyformer.load(name)
    given = picture(first.name) if first.text is None else first.text
    texts = {"text": [*first.texts, "a one"]} if first.texts else {}
    recorded = why.record(given, **texts)
    names = {recorded.labels[index] for index in recorded.likeliest(2)}
    right = {
        "demo-vision": {"8", "4"},
        "demo-text": {"negative", "positive"},
        "demo-writer": {" station"},
        "demo-clip": {"a seven", "a six"},
        "demo-detector": {"7", "6"},
        "demo-swin": {"8", "0"},
    }
    assert right[name] <= names
    assert second.name != first.name
