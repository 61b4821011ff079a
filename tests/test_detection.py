"""Detectors and segmentations: what was found, and why, in people's words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import whyformer
from command_line import Run
from small_images import save_detector, save_segformer
from whyformer.errors import InputError, ModelError, TargetError
from whyformer.models.detection import EDGES
from whyformer.render.document import document
from whyformer.render.sheets import make_sheet

PHOTO = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8))


@pytest.fixture(scope="module", params=["Yolos", "ConditionalDetr"])
def detector(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch.manual_seed(0)
    return whyformer.load(save_detector(tmp_path_factory.mktemp(request.param), request.param))


@pytest.fixture(scope="module")
def segmenter(tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch.manual_seed(1)
    folder = save_segformer(tmp_path_factory.mktemp("segformer"))
    try:
        return whyformer.load(folder)
    except ModelError as error:
        if "image processor" in str(error):
            pytest.skip("this transformers prepares SegFormer's images with torchvision alone")
        raise


class TestDetections:
    def test_they_are_what_the_model_returned(self, detector: Any) -> None:
        recorded = detector.record(PHOTO)
        with torch.no_grad():
            output = detector.model(detector._prepare([PHOTO]))
        softmax = output.logits.shape[-1] == 4
        shares = output.logits.softmax(-1)[..., :-1] if softmax else output.logits.sigmoid()
        best, classes = shares[0].max(-1)
        found = recorded.detections(threshold=0)
        assert [d.query for d in found] == best.argsort(descending=True).tolist()
        for detection in found:
            assert abs(detection.probability - float(best[detection.query])) < 1e-5
            assert detection.label == detector.labels[int(classes[detection.query])]
            x, y, width, height = output.pred_boxes[0, detection.query].tolist()
            expected = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            assert np.allclose(detection.box, expected, atol=1e-5)
        assert recorded.detections(threshold=1.1) == []

    def test_the_surest_of_a_class_is_explained(self, detector: Any) -> None:
        recorded = detector.record(PHOTO)
        shares = recorded._shares[:, 1]
        ranked = shares.argsort(descending=True).tolist()
        explainer = whyformer.Explainer(detector.model)
        for position in (0, 1):
            found = recorded.explain("dog", "fullgrad", position=position)
            bare = explainer(
                detector._prepare([PHOTO]), target=(ranked[position], 1), method="fullgrad"
            )
            assert torch.allclose(found.relevance, bare.relevance, atol=1e-6)
            assert found.label(int(found.target)) == "dog"
            share = make_sheet(found).asked[0].probability
            assert share is not None
            assert abs(share - float(shares[ranked[position]])) < 1e-5

    def test_an_edge_of_the_box(self, detector: Any) -> None:
        recorded = detector.record(PHOTO)
        query = recorded.detections(threshold=0)[0].query
        explainer = whyformer.Explainer(detector.model)
        for name, edge in EDGES.items():
            found = recorded.explain(method="fullgrad", edge=name)
            bare = explainer(
                detector._prepare([PHOTO]),
                target=lambda out, edge=edge: edge(out.pred_boxes[:, query]),
                method="fullgrad",
            )
            assert torch.allclose(found.relevance, bare.relevance, atol=1e-7)
            assert found.asked[0].startswith(f"the {name} edge of ")

    def test_two_classes_and_a_contrast(self, detector: Any) -> None:
        both = detector(PHOTO, target=[["cat", "cup"]], method="fullgrad")
        assert both.relevance.shape[:2] == (1, 2)
        assert both.boxes.shape == (1, 2, 4)
        rather = detector(PHOTO, target=whyformer.contrast("cat", "cup"), method="fullgrad")
        assert rather.asked == ("cat rather than cup",)

    def test_the_box_is_in_the_document_and_in_the_picture(
        self, detector: Any, tmp_path: Path
    ) -> None:
        found = detector(PHOTO, target="cup", method="fullgrad")
        view = document(make_sheet(found))["views"][0]
        assert np.allclose(view["box"], found.boxes[0, 0].tolist())
        plain = replace(found, boxes=None)
        for ending in ("png", "html", "svg", "json", "pdf"):
            framed = found.save(tmp_path / f"why.{ending}").read_bytes()
            assert framed != plain.save(tmp_path / f"plain.{ending}").read_bytes(), ending

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"target": "bird"}, "no label 'bird'"),
            ({"position": 99}, "finding 99 of a model that has rows for 5"),
            ({"edge": "middle"}, "no edge 'middle'"),
        ],
    )
    def test_one_sentence(self, detector: Any, options: Any, told: str) -> None:
        with pytest.raises(TargetError, match=told):
            detector(PHOTO, method="fullgrad", **options)

    def test_several_images(self, detector: Any) -> None:
        with pytest.raises(InputError, match="asked about one"):
            detector([PHOTO, PHOTO])


class TestRegions:
    def test_the_mean_logit_where_the_class_is_seen(self, segmenter: Any) -> None:
        recorded = segmenter.record(PHOTO)
        (label, share), *_ = recorded.shares().items()
        assert 0 < share <= 1
        index = segmenter.labels.index(label)
        pixels = segmenter._prepare([PHOTO])
        found = recorded.explain(label, "fullgrad")

        def mean(output: Any) -> torch.Tensor:
            seen = output.logits[0].argmax(0) == index
            return output.logits[:, index][:, seen].mean(1)

        bare = whyformer.Explainer(segmenter.model)(pixels, target=mean, method="fullgrad")
        assert torch.allclose(found.relevance, bare.relevance, atol=1e-7)
        assert found.probabilities.sum().item() == pytest.approx(1, abs=1e-5)

    def test_a_region(self, segmenter: Any) -> None:
        """The class that is seen most in the corner, and its logits in the corner alone."""
        found = segmenter(PHOTO, method="fullgrad", region=(0.5, 0.5, 1, 1))

        def mean(output: Any) -> torch.Tensor:
            height, width = output.logits.shape[2:]
            corner = output.logits[..., height // 2 :, width // 2 :]
            seen = corner[0].argmax(0)
            index = int(seen.flatten().mode().values)
            return corner[:, index][:, seen == index].mean(1)

        pixels = segmenter._prepare([PHOTO])
        bare = whyformer.Explainer(segmenter.model)(pixels, target=mean, method="fullgrad")
        assert torch.allclose(found.relevance, bare.relevance, atol=1e-7)
        assert found.boxes.tolist() == [[[0.5, 0.5, 1, 1]]]

    def test_one_sentence(self, segmenter: Any) -> None:
        recorded = segmenter.record(PHOTO)
        absent = [label for label in segmenter.labels if label not in recorded.shares()]
        if absent:
            with pytest.raises(TargetError, match=f"sees {absent[0]} nowhere"):
                recorded.explain(absent[0])
        with pytest.raises(InputError, match="is no box"):
            recorded.explain(region=(0.5, 0.5, 0.2, 1))
        with pytest.raises(TargetError, match="no label 'bird'"):
            recorded.explain("bird")


def test_what_was_found_is_listed_and_asked_for_by_its_place(detector: Any) -> None:
    recorded = detector.record(PHOTO)
    found = recorded.detections() or recorded.detections(0)[:1]
    assert recorded.places == [f"{each.label} ({each.probability:.2f})" for each in found]
    first = recorded.explain()
    assert sum(note.startswith("found") for note in first.notes) == 1
    assert recorded.likeliest(2, 0) == []
    assert torch.equal(recorded.explain([found[0].label]).relevance, first.relevance)
    with pytest.raises(TargetError, match="2 targets were given for one image"):
        recorded.explain(["cat", "dog"])


def test_edges_and_regions_on_the_command_line(tmp_path: Path, run: Run, segmenter: Any) -> None:
    torch.manual_seed(0)
    model, segments = save_detector(tmp_path / "yolos"), save_segformer(tmp_path / "segformer")
    PHOTO.save(tmp_path / "photo.png")

    def told(*arguments: Any) -> Any:
        code, printed, said = run("explain", tmp_path / "photo.png", *arguments, "--json")
        return json.loads(printed) if code == 0 else said

    asked = ["--model", model, "--method", "fullgrad"]
    expected = whyformer.load(model)(PHOTO, position=1, edge="top", method="fullgrad")
    edge = told(*asked, "--position", "1", "--edge", "top")
    assert edge["views"][0]["scores"] == pytest.approx(
        expected.relevance[0, expected.tokens.patches].tolist(), rel=1e-3, abs=1e-6
    )
    assert "a box has no edge 'middle'" in told(*asked, "--edge", "middle")
    assert "yolos is not asked by region; leave region out" in told(*asked, "--region", "0,0,1,1")
    asked = ["--model", segments, "--method", "fullgrad"]
    lower = told(*asked, "--region", "0,0.5,1,1")
    expected = whyformer.load(segments)(PHOTO, region=(0, 0.5, 1, 1), method="fullgrad")
    assert lower["views"][0]["scores"] == pytest.approx(
        expected.relevance.flatten().tolist(), rel=1e-3, abs=1e-6
    )
    assert "is no box" in told(*asked, "--region", "0,0.5,1")
    assert "is no box" in told(*asked, "--region", "0,0.5,2,1")
    assert "all of its input; leave edge out" in told(*asked, "--edge", "left")
