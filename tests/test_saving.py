"""Every ending writes a file that others can read, and that holds what was computed."""

from __future__ import annotations

import base64
import html
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

import whyformer
from sheets import CAT, DOG, HOSTILE, image_sheet, text_sheet
from whyformer import InputError
from whyformer.explanation import Explanation
from whyformer.render import html_fragment, make_sheet, save
from whyformer.render.figure import Picture, Writing
from whyformer.render.panels import image_figure
from whyformer.render.png import png_bytes
from whyformer.render.saving import WRITERS, save_sheet
from whyformer.render.sheet import ClassScore, Sheet, View
from whyformer.words import Piece
from zoo import CASES, HandWritten

ENDINGS = ["png", "html", "json", "npz", "tex", "svg", "pdf"]
SVG = "{http://www.w3.org/2000/svg}"
RECTANGULAR = next(case for case in CASES if case.grid and case.grid[0] != case.grid[1])


@pytest.fixture(scope="module")
def review() -> Explanation:
    """Two texts of different length, each asked about both classes."""
    texts = ["a joyless film", "I did not expect it to be this good, and yet it is <b>great</b>!"]
    return whyformer.load("demo-text")(texts, target=[[0, 1], [0, 1]])


@pytest.fixture(scope="module")
def pictures() -> Explanation:
    """Two raw images that are not square, by a model that came without a processor."""
    model, inputs = RECTANGULAR.make()
    return whyformer.Explainer(model)(inputs, target=1, matrix=True)


def hostile_text() -> Sheet:
    pieces = [Piece(text, " ", i) for i, text in enumerate(HOSTILE)]
    scores = np.linspace(0.1, 1, len(pieces))
    views = [View("lrp", ClassScore(i, HOSTILE[i], 1.0, 0.5), scores) for i in range(len(HOSTILE))]
    return text_sheet(
        pieces, *views, View("rollout", None, scores), title=HOSTILE[0], model=HOSTILE[4],
        notes=HOSTILE,
    )  # fmt: skip


def hostile_image() -> Sheet:
    views = [
        View(method, ClassScore(i, label, 1.0, 0.5), np.eye(2))
        for method in ("lrp", "gradcam")
        for i, label in enumerate(HOSTILE)
    ]
    return image_sheet(*views, title=HOSTILE[0], model=HOSTILE[4], notes=HOSTILE)


HOSTILES = pytest.mark.parametrize(
    "sheet", [hostile_text(), hostile_image()], ids=["text", "image"]
)


# --- endings -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ending_writes_a_file(
    ending: str, review: Explanation, pictures: Explanation, tmp_path: Path
) -> None:
    for name, explanation in (("text", review), ("image", pictures)):
        path = explanation.save(tmp_path / "new folder" / f"{name}.{ending.upper()}")
        assert path.stat().st_size > 200
    assert not [file for file in path.parent.iterdir() if file.name.startswith(".")]


def test_an_unknown_ending_lists_the_known(review: Explanation, tmp_path: Path) -> None:
    assert set(WRITERS) == {f".{ending}" for ending in [*ENDINGS, "gif"]}
    with pytest.raises(InputError, match=r"'why\.docx' has the ending '\.docx'") as caught:
        review.save(tmp_path / "why.docx")
    for ending in ENDINGS:
        assert f".{ending}" in str(caught.value)
    with pytest.raises(InputError, match=r"has no ending; .*\.png.*\.svg"):
        review.save(tmp_path / "why")
    with pytest.raises(InputError, match=r"known: .*\.html"):
        review.save(tmp_path / "why.htm")
    assert not list(tmp_path.iterdir())


# --- numbers -------------------------------------------------------------------------------


def test_json_holds_a_text_s_scores_exactly(review: Explanation, tmp_path: Path) -> None:
    told = json.loads(
        review.save(tmp_path / "why.json", sample=1, title="t", model="m").read_text()
    )
    assert {key: told[key] for key in ("kind", "title", "model", "preset", "problem")} == {
        "kind": "text",
        "title": "t",
        "model": "m",
        "preset": "stable",
        "problem": "single_label_classification",
    }
    assert told["whyformer"] == whyformer.__version__
    scores = [view["scores"] for view in told["views"]]
    assert torch.equal(torch.tensor(scores, dtype=torch.float32), review.relevance[1].float())
    assert [view["target"] for view in told["views"]] == [0, 1]
    assert [view["label"] for view in told["views"]] == review.labels
    logits = {entry["index"]: entry["logit"] for entry in told["classes"]}
    assert [logits[i] for i in range(2)] == review.logits[1].tolist()
    assert sum(entry["probability"] for entry in told["classes"]) == pytest.approx(1)
    written = "".join(p["gap"] + p["text"] for p in told["pieces"] if p["content"])
    assert written == "I did not expect it to be this good, and yet it is <b>great</b>!"
    words = told["views"][0]["words"]
    assert [word["text"] for word in words[:3]] == ["I", "did", "not"]
    places = [i for i, p in enumerate(told["pieces"]) if p["word"] == 0]
    assert words[0]["score"] == max(scores[0][i] for i in places)


def test_json_holds_an_image_s_patches_row_by_row(pictures: Explanation, tmp_path: Path) -> None:
    told = json.loads(pictures.save(tmp_path / "why.json").read_text())
    rows, columns = told["image"]["grid"]
    assert (rows, columns) == pictures.grid
    assert (told["image"]["height"], told["image"]["width"]) == pictures.tokens.size
    (view,) = told["views"]
    grid = torch.tensor(view["scores"]).reshape(rows, columns)
    assert torch.equal(grid, pictures.tokens.to_map(pictures.relevance)[0].float())
    assert view["class_specific"] is True
    assert "src" not in told["image"]


@HOSTILES
def test_json_keeps_every_string(sheet: Sheet, tmp_path: Path) -> None:
    told = json.loads(save_sheet(sheet, tmp_path / "why.json").read_text(encoding="utf-8"))
    assert told["notes"] == HOSTILE
    assert {entry["label"] for entry in told["classes"]} == set(HOSTILE)
    if sheet.pieces:
        assert [piece["text"] for piece in told["pieces"]] == HOSTILE


def test_npz_equals_the_explanation(
    review: Explanation, pictures: Explanation, tmp_path: Path
) -> None:
    with np.load(review.save(tmp_path / "text.npz"), allow_pickle=False) as told:
        np.testing.assert_array_equal(told["scores"], review.relevance[0].double())
        assert told["target"].tolist() == [0, 1]
        assert told["label"].tolist() == review.labels
        assert "joyless" in "".join(told["pieces"])
    with np.load(pictures.save(tmp_path / "image.npz"), allow_pickle=False) as told:
        expected = pictures.tokens.to_map(pictures.relevance)[:1]
        np.testing.assert_array_equal(told["scores"], expected.double())
        height, width = pictures.tokens.size or (0, 0)
        assert told["image"].shape == (height, width, 3)
        assert pictures.matrix is not None
        patches = pictures.tokens.patches
        np.testing.assert_array_equal(told["rows"][0], pictures.matrix[0, patches, patches])


def test_npz_of_class_agnostic_methods(tmp_path: Path) -> None:
    sheet = image_sheet(View("lrp", CAT, np.eye(2)), View("rollout", None, np.ones((2, 2))))
    with np.load(save_sheet(sheet, tmp_path / "why.npz"), allow_pickle=False) as told:
        assert told["method"].tolist() == ["lrp", "rollout"]
        assert told["target"].tolist() == [0, -1]
        assert told["label"].tolist() == ["cat", ""]


# --- pictures and pages ----------------------------------------------------------------------


@pytest.mark.parametrize("size", [(1, 1), (5, 31), (7, 32), (3, 33), (300, 200)])
def test_a_png_file_holds_every_pixel(size: tuple[int, int]) -> None:
    """Packed by ourselves, read by Pillow: rows below, at and beyond those packed at once."""
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    content = png_bytes(Image.fromarray(noise), dpi=144)
    with Image.open(io.BytesIO(content)) as read:
        read.verify()
    with Image.open(io.BytesIO(content)) as read:
        assert (read.format, read.mode, read.size) == ("PNG", "RGB", size)
        assert read.info["dpi"] == pytest.approx((144, 144), abs=0.02)
        assert (np.asarray(read) == noise).all()


@HOSTILES
def test_png_opens(sheet: Sheet, tmp_path: Path) -> None:
    with Image.open(save_sheet(sheet, tmp_path / "why.png")) as picture:
        picture.load()
        assert picture.format == "PNG"
        assert picture.width > 300


@HOSTILES
def test_svg_is_well_formed_and_has_no_script(sheet: Sheet, tmp_path: Path) -> None:
    root = ElementTree.fromstring(save_sheet(sheet, tmp_path / "why.svg").read_bytes())
    names = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert names <= {"svg", "rect", "text", "title", "g", "defs", "image", "use"}
    for element in root.iter():
        assert not [name for name in element.attrib if name.startswith("on")]
        assert "javascript:" not in element.get("href", "")
    # Some programs take the digits of an emoji font wherever one is named.
    assert "Emoji" not in root.get("style", "")
    said = " ".join(root.itertext())
    for text in HOSTILE[:5]:
        assert text in said


def test_png_svg_and_pdf_are_one_figure(tmp_path: Path) -> None:
    """The same rows, columns, original, colour bar and words."""
    views = [View(m, c, np.eye(2)) for m in ("lrp", "gradcam") for c in (CAT, DOG)]
    sheet = image_sheet(*views, size=(224, 112), notes=["a note"])
    figure = image_figure(sheet)
    with Image.open(save_sheet(sheet, tmp_path / "why.png")) as picture:
        assert picture.size == (round(figure.width * 2), round(figure.height * 2))
        assert picture.info["dpi"] == pytest.approx((192, 192), abs=0.1)
    root = ElementTree.fromstring(save_sheet(sheet, tmp_path / "why.svg").read_bytes())
    assert root.get("viewBox") == f"0 0 {figure.width:.0f} {figure.height:.0f}"
    pictures = [mark for mark in figure.marks if isinstance(mark, Picture)]
    assert len(list(root.iter(f"{SVG}image"))) == len(pictures) == 2 * (1 + 2 + 1)
    words = [mark.text for mark in figure.marks if isinstance(mark, Writing)]
    assert ["".join(text.itertext()) for text in root.iter(f"{SVG}text")] == words
    assert {"why cat?  0.70", "why dog?  0.30", "lrp", "gradcam", "a note"} <= set(words)
    pdf = save_sheet(sheet, tmp_path / "why.pdf").read_bytes()
    width, height = figure.width * 0.75, figure.height * 0.75
    assert f"/MediaBox [0 0 {width:.2f} {height:.2f}]".encode() in pdf
    assert pdf.count(b"/Subtype /Image") == 3  # what is equal is stored once: photo, map, bar
    assert b"/ToUnicode" in pdf


def test_pdf_embeds_its_fonts(tmp_path: Path) -> None:
    pieces = [Piece(word, " ", i) for i, word in enumerate("thin, naïve 这部 هذا".split())]
    sheet = text_sheet(pieces, View("lrp", CAT, np.ones(4)))
    pdf = save_sheet(sheet, tmp_path / "why.pdf").read_bytes()
    assert b"/FontFile" in pdf
    assert b"/Helvetica" not in pdf


@pytest.mark.parametrize("letter", ["\x00", "\x1b", "\x7f", "\ufffe", "\uffff", "\U0001ffff"])
def test_svg_survives_characters_that_xml_forbids(letter: str, tmp_path: Path) -> None:
    label = ClassScore(0, f"x{letter}y", 1.0, 0.5)
    text = text_sheet([Piece(f"a{letter}b", "", 0)], View("lrp", label, np.ones(1)))
    image = image_sheet(View("lrp", label, np.eye(2)))
    for name, sheet in (("text", text), ("image", image)):
        path = save_sheet(sheet, tmp_path / f"{name}.svg")
        assert "why x" in "".join(ElementTree.fromstring(path.read_bytes()).itertext())


def test_svg_has_a_shape_a_patch_with_its_score(pictures: Explanation, tmp_path: Path) -> None:
    root = ElementTree.fromstring(pictures.save(tmp_path / "why.svg").read_bytes())
    titles = [title.text for title in root.iter(f"{SVG}title")]
    expected = pictures.tokens.to_map(pictures.relevance)[0].double().flatten().tolist()
    assert titles == [f"{score:.3g}" for score in expected]


class Elements(HTMLParser):
    """Counts the elements of a page and keeps the contents of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        if self.names and self.names[-1] == "script":
            self.scripts.append(data)


@HOSTILES
def test_a_page_holds_hostile_strings_as_data_only(sheet: Sheet, tmp_path: Path) -> None:
    page = save_sheet(sheet, tmp_path / "why.html").read_text(encoding="utf-8")
    seen = Elements(page)
    assert sorted(set(seen.names)) == [
        "body", "head", "html", "link", "main", "meta", "noscript", "script", "style", "title",
    ]  # fmt: skip
    assert seen.names.count("script") == 2
    assert "<script>alert" not in page
    assert html.escape(HOSTILE[0]) in page
    told = json.loads(seen.scripts[0])
    assert told["notes"] == HOSTILE
    assert told["title"] == HOSTILE[0]


@HOSTILES
def test_a_notebook_s_cell_escapes_hostile_strings(sheet: Sheet) -> None:
    names = Elements(html_fragment(sheet)).names
    assert set(names) <= {"div", "strong", "span", "p", "small", "img"}
    assert html.escape(HOSTILE[0]) in html_fragment(sheet)


@pytest.mark.parametrize("ending", [*ENDINGS])
def test_half_a_character_does_not_stop_a_file(ending: str, tmp_path: Path) -> None:
    """Names of files may hold bytes that are no UTF-8; Python reads them as lone surrogates."""
    label = ClassScore(0, "x\udcff", 1.0, 0.5)
    sheet = text_sheet(
        [Piece("a\udcffb", "", 0)], View("lrp", label, np.ones(1)), title="scene\udcff.png"
    )
    assert save_sheet(sheet, tmp_path / f"why.{ending}").stat().st_size


# --- notebooks -------------------------------------------------------------------------------


def test_explanations_show_themselves_in_notebooks(
    review: Explanation, pictures: Explanation
) -> None:
    assert "joyless" in review._repr_html_()
    picture = pictures._repr_html_().split("base64,")[1].split('"')[0]
    for data in (base64.b64decode(picture), pictures._repr_png_(), review._repr_png_()):
        with Image.open(io.BytesIO(data)) as opened:
            assert opened.width > 300


# --- batches and raw models ------------------------------------------------------------------


def test_sample_selects_from_a_batch(review: Explanation, tmp_path: Path) -> None:
    told = [
        json.loads(review.save(tmp_path / "why.json", sample=sample).read_text())
        for sample in range(2)
    ]
    assert len(told[0]["views"][0]["words"]) == 3
    assert len(told[1]["views"][0]["words"]) > 10
    assert torch.tensor(told[1]["views"][1]["scores"]).equal(review.relevance[1, 1].float())


@pytest.mark.parametrize("sample", [2, -3, 100])
def test_a_sample_out_of_range(sample: int, review: Explanation, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"sample {sample} of a batch of 2"):
        review.save(tmp_path / "why.png", sample=sample)
    assert not list(tmp_path.iterdir())


def test_samples_count_from_the_end_too(review: Explanation, pictures: Explanation) -> None:
    for explanation in (review, pictures):
        last, same = (make_sheet(explanation, sample) for sample in (-1, 1))
        assert len(last.views) == len(same.views)
        for one, other in zip(last.views, same.views, strict=True):
            np.testing.assert_array_equal(one.scores, other.scores)


def test_raw_pixels_are_stretched_to_a_picture(tmp_path: Path) -> None:
    model = HandWritten().eval()
    pixels = torch.randn(1, 3, 32, 32) * 5
    explanation = whyformer.Explainer(model)(pixels, target=2)
    with np.load(explanation.save(tmp_path / "why.npz")) as told:
        image = told["image"].astype(float)
    assert image.min() == 0
    assert image.max() == 255
    flat = pixels[0].permute(1, 2, 0).flatten().numpy()
    assert np.corrcoef(image.flatten(), flat)[0, 1] > 0.9999
    with Image.open(explanation.save(tmp_path / "why.png")) as picture:
        assert picture.width > 640


def test_a_raw_picture_of_one_colour(tmp_path: Path) -> None:
    explanation = whyformer.Explainer(HandWritten().eval())(torch.full((1, 3, 32, 32), 7.0))
    with np.load(explanation.save(tmp_path / "why.npz")) as told:
        assert np.ptp(told["image"]) == 0


def test_token_ids_alone_cannot_be_drawn(tmp_path: Path) -> None:
    model, inputs = next(case for case in CASES if case.name == "BERT").make()
    explanation = whyformer.Explainer(model)(inputs)
    with pytest.raises(InputError, match="pass what the tokenizer returned"):
        explanation.save(tmp_path / "why.png")


def test_explanations_that_do_not_belong_together(
    review: Explanation, pictures: Explanation, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no explanation"):
        save([], tmp_path / "why.png")
    with pytest.raises(InputError):
        save([review, pictures], tmp_path / "why.png")
