"""``whyformer.load`` finds a model by any of its names, and refuses what it cannot trust."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import whyformer
from conftest import shared
from small_images import save_vit, write
from small_texts import save_bert
from whyformer import ModelError, TargetError, UnknownNameError, WhyformerError
from whyformer.models.catalogue import EMBEDDED

IMAGE = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)


def edit(path: Path, **changes: Any) -> None:
    write(path, {**json.loads(path.read_text()), **changes})


def refused(kind: type[WhyformerError], name: Any, **how: Any) -> str:
    """The message of the expected error, which must be one sentence."""
    with pytest.raises(kind) as caught:
        whyformer.load(name, **how)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("saved")
    return {"vit": save_vit(root / "vit"), "bert": save_bert(root / "bert")}


@pytest.fixture
def vit(saved: dict[str, Path], tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(saved["vit"], tmp_path / "vit"))


@pytest.fixture
def bert(saved: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved["bert"], tmp_path / "bert"))


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def to_pickle(folder: Path) -> None:
    from safetensors.torch import load_file

    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")


class Evil:
    """Unpickling it touches a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize(("name", "kind"), [("demo-vision", "image"), ("demo-text", "text")])
def test_embedded_models_load_by_name(name: str, kind: str) -> None:
    why = whyformer.load(name)
    assert (why.name, why.kind) == (name, kind)
    assert not why.model.training
    assert {parameter.dtype for parameter in why.model.parameters()} == {torch.float32}
    assert EMBEDDED[name].kind == kind


def test_an_embedded_model_is_explained() -> None:
    text = whyformer.load("demo-text")("A warm and witty film.", target="positive")
    assert text.words()[0][0][0] == "A"
    image = whyformer.load("demo-vision")(IMAGE, target="3")
    assert image.target.tolist() == [3]
    assert image.image_map().shape == (1, 96, 96)


@pytest.mark.parametrize("form", [str, Path, lambda path: f"{path}/"])
def test_a_directory_by_any_spelling(vit: Path, form: Callable[[Path], Any]) -> None:
    why = whyformer.load(form(vit))
    assert why.kind == "image"
    assert why(IMAGE).relevance.shape == (1, 17)


def test_a_directory_relative_to_here_and_to_home(
    vit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(vit.parent)
    monkeypatch.setenv("HOME", str(vit.parent))
    assert whyformer.load("vit").kind == "image"
    assert whyformer.load("./vit").kind == "image"
    assert whyformer.load("~/vit").kind == "image"


def test_a_directory_with_a_difficult_name(vit: Path) -> None:
    odd = vit.rename(vit.with_name("my model's (né 50%) 猫"))
    assert whyformer.load(odd).kind == "image"


def test_logits_are_the_saved_models_own(vit: Path, bert: Path) -> None:
    from transformers import ViTForImageClassification

    own = ViTForImageClassification.from_pretrained(vit).eval()
    why = whyformer.load(vit)
    for name, value in weights_of(own).items():
        assert torch.equal(weights_of(why.model)[name], value)
    explanation = why(IMAGE)
    pixels = (explanation.picture - 0.5) / 0.5
    assert torch.allclose(explanation.logits, own(pixels).logits, atol=1e-5)


def test_half_precision_weights_are_read_in_float32(vit: Path) -> None:
    from transformers import ViTForImageClassification

    half = ViTForImageClassification.from_pretrained(vit, dtype=torch.float16)
    half.save_pretrained(vit)
    model = whyformer.load(vit).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.equal(model.classifier.weight, half.classifier.weight.float())


def test_a_hub_id_without_a_network_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refused(ModelError, "google/no-such-vit", offline=True)
    assert "offline was asked for" in message
    assert "demo-vision, demo-text" in message
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = refused(ModelError, "google/no-such-vit")
    assert "google/no-such-vit" in message
    assert "demo-vision, demo-text" in message


@pytest.mark.parametrize("name", ["my models/vit", "a--b/..c", "a/b?c", "-a/b", "a/" + "b" * 120])
def test_what_cannot_be_a_hub_id_is_no_model(name: str) -> None:
    assert "no model" in refused(WhyformerError, name, offline=True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("demo-visoin", "did you mean 'demo-vision'"),
        ("Demo_Text", "did you mean 'demo-text'"),
        ("zebra", "'demo-vision', 'demo-text'"),
        ("/no/such/folder", "no such directory"),
        ("./no-such-folder", "no such directory"),
        ("~nobody-of-this-name/vit", "no such directory"),
        ("x" * 300, "no such directory"),
        ("", "no model ''"),
    ],
)
def test_an_unknown_name(name: str, said: str) -> None:
    assert said in refused(UnknownNameError, name)


def test_a_file_instead_of_a_directory(vit: Path) -> None:
    message = refused(ModelError, vit / "model.safetensors")
    assert "is a file; give the directory" in message


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("config.json", "has no config.json"),
        ("model.safetensors", "holds no weights: expected model.safetensors"),
        ("preprocessor_config.json", "has no preprocessor_config.json"),
    ],
)
def test_an_image_directory_without_a_part(vit: Path, file: str, said: str) -> None:
    (vit / file).unlink()
    message = refused(ModelError, vit)
    assert said in message
    assert str(vit) in message


def test_a_text_directory_without_a_tokenizer(bert: Path) -> None:
    for file in bert.glob("*tokenizer*"):
        file.unlink()
    assert "tokenizer" in refused(ModelError, bert)


def test_an_empty_directory(tmp_path: Path) -> None:
    assert "has no config.json" in refused(ModelError, tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"not json"])
def test_a_config_that_is_no_json(vit: Path, content: bytes) -> None:
    (vit / "config.json").write_bytes(content)
    message = refused(ModelError, vit)
    assert "config.json is not valid JSON" in message


@pytest.mark.parametrize(
    "content",
    ["[]", "null", '"vit"', "{}", '{"architectures": null}', '{"architectures": [null]}',
     '{"architectures": "ViTForImageClassification"}', '{"architectures": ["Nothing"]}'],
)  # fmt: skip
def test_a_config_that_describes_no_model(vit: Path, content: str) -> None:
    (vit / "config.json").write_text(content)
    refused(ModelError, vit)


@pytest.mark.parametrize("file", ["preprocessor_config.json", "model.safetensors"])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"],
    ids=["empty", "cut", "pointer"],
)
def test_a_damaged_part(vit: Path, file: str, content: bytes) -> None:
    (vit / file).write_bytes(content)
    assert str(vit) in refused(ModelError, vit)


def test_a_damaged_tokenizer(bert: Path) -> None:
    (bert / "tokenizer.json").write_text("{")
    assert "tokenizer" in refused(ModelError, bert)


def test_truncated_weights(vit: Path) -> None:
    path = vit / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert str(vit) in refused(ModelError, vit)


def test_weights_of_another_size_name_what_does_not_fit(vit: Path) -> None:
    edit(vit / "config.json", id2label={str(i): f"c{i}" for i in range(7)})
    message = refused(ModelError, vit)
    assert str(vit) in message
    assert "above" not in message  # nothing was printed above


def test_pickled_weights_are_refused_unless_allowed(vit: Path) -> None:
    before = weights_of(whyformer.load(vit).model)
    to_pickle(vit)
    message = refused(ModelError, vit)
    assert "pytorch_model.bin" in message
    assert "allow_pickle=True" in message
    after = weights_of(whyformer.load(vit, allow_pickle=True).model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("allowed", [False, True])
def test_a_malicious_pickle_is_not_run(vit: Path, tmp_path: Path, allowed: bool) -> None:
    import pickle

    trace = tmp_path / "was-run"
    (vit / "model.safetensors").unlink()
    torch.save({"classifier.weight": Evil(trace)}, vit / "pytorch_model.bin")
    refused(ModelError, vit, allow_pickle=allowed)
    (vit / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(trace), protocol=2))
    refused(ModelError, vit, allow_pickle=allowed)
    assert not trace.exists()
    pickle.loads(pickle.dumps(Evil(trace)))
    assert trace.exists(), "the trap does not work"


def plant_code(folder: Path, trace: Path) -> None:
    (folder / "evil.py").write_text(
        f"import pathlib\npathlib.Path({str(trace)!r}).touch()\nclass Thing: pass\n"
    )


def test_code_from_a_models_repository_is_refused(vit: Path, tmp_path: Path) -> None:
    plant_code(vit, tmp_path / "was-run")
    edit(vit / "config.json", auto_map={"AutoModelForImageClassification": "evil.Thing"})
    message = refused(ModelError, vit)
    assert "never runs" in message
    assert "whyformer.Explainer(model)" in message
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    ("kind", "file", "key"),
    [
        ("vit", "preprocessor_config.json", "AutoImageProcessor"),
        ("bert", "tokenizer_config.json", "AutoTokenizer"),
    ],
)
def test_code_of_a_processor_is_not_run(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, file: str, key: str
) -> None:
    folder: Path = request.getfixturevalue(kind)
    plant_code(folder, tmp_path / "was-run")
    value: Any = ["evil.Thing", "evil.Thing"] if kind == "bert" else "evil.Thing"
    name = {"tokenizer_class": "Thing"} if kind == "bert" else {"image_processor_type": "Thing"}
    edit(folder / file, auto_map={key: value}, **name)
    with contextlib.suppress(ModelError):
        whyformer.load(folder)
    assert not (tmp_path / "was-run").exists()


def test_a_headless_checkpoint_has_no_classifier(tmp_path: Path) -> None:
    folder = save_vit(tmp_path / "headless", "ViTForMaskedImageModeling")
    assert "is ViTForMaskedImageModeling, which whyformer does not load by name" in refused(
        ModelError, folder
    )
    edit(folder / "config.json", architectures=["ViTForImageClassification"])
    message = refused(ModelError, folder)
    assert "lacks the weights of classifier" in message
    assert "random" in message


def test_a_head_that_has_no_kind(tmp_path: Path) -> None:
    folder = save_bert(tmp_path / "next", "BertForNextSentencePrediction")
    assert "is BertForNextSentencePrediction, which whyformer does" in refused(ModelError, folder)


def test_a_head_for_several_labels_has_sigmoid_probabilities(tmp_path: Path) -> None:
    folder = save_bert(tmp_path / "multi", problem_type="multi_label_classification")
    explanation = whyformer.load(folder)("a warm film")
    assert explanation.problem == "multi_label_classification"
    assert torch.equal(explanation.probabilities, explanation.logits.sigmoid())
    assert explanation.target.tolist() == explanation.logits.argmax(-1).tolist()


def test_a_regression_has_no_probability(tmp_path: Path) -> None:
    folder = save_bert(tmp_path / "regression", num_labels=1)
    explanation = whyformer.load(folder)("a warm film")
    assert explanation.problem == "regression"
    assert explanation.probabilities is None
    assert explanation.target.tolist() == [0]
    assert explanation.relevance.abs().sum() > 0
    written = json.loads(explanation.save(tmp_path / "why.json").read_text())
    assert written["classes"][0]["probability"] is None


def test_labels_and_pooling_pass_through(vit: Path) -> None:
    names = ["crane", "cat", "dog", "eel", "fox"]
    why = whyformer.load(vit, labels=names)
    assert why.labels == names
    assert why(IMAGE, target="eel").target.tolist() == [3]
    with pytest.raises(TargetError, match="LABEL_3"):
        why(IMAGE, target="LABEL_3")
    other = whyformer.load(vit, pooling="mean")
    assert other.explainer.pooling == "mean"
    assert not torch.equal(why(IMAGE).relevance, other(IMAGE).relevance)


@pytest.mark.parametrize("labels", [["only one"], [str(i) for i in range(9)]])
def test_labels_of_another_number_are_refused(vit: Path, labels: list[str]) -> None:
    with pytest.raises(WhyformerError, match="label"):
        whyformer.load(vit, labels=labels)(IMAGE).save(vit / "why.json")


def test_weights_go_with_timm_only(vit: Path) -> None:
    for name in ("demo-vision", vit, "google/vit"):
        message = refused(ModelError, name, weights=vit / "model.safetensors")
        assert "weights= goes with timm models" in message


@pytest.mark.parametrize("device", ["nosuch", "cuda:99", ""])
def test_a_device_that_does_not_exist(device: str) -> None:
    assert repr(device) in refused(WhyformerError, "demo-text", device=device)


def test_what_is_loaded_says_what_it_is(vit: Path) -> None:
    assert repr(whyformer.load(vit)) == f"ImagePipeline('{vit.name}', 5 classes)"


def test_real_models_beside_the_repository() -> None:
    why = whyformer.load(shared("data", "minilm_sentiment"))
    explanation = why("A joyless film.", target="NEG")
    words = dict(explanation.words()[0])
    assert max(words, key=words.__getitem__) == "joyless"


@pytest.mark.vision
class TestTimm:
    """timm's own names, and the same DeiT-Tiny as Hugging Face's."""

    NAME = "timm/deit_tiny_patch16_224"

    @pytest.fixture
    def weights(self) -> Path:
        return shared("data", "deit_tiny_patch16_224", "deit_tiny_patch16_224.safetensors")

    def test_same_relevance_as_hugging_face(self, weights: Path) -> None:
        photo = min(shared("data", "pets_segmentation", "images").glob("*.jpg"))
        there = whyformer.load(shared("data", "deit_tiny_patch16_224_hf"))
        why = whyformer.load(self.NAME, weights=weights)
        assert not why.model.training
        here = why(photo)
        assert here.target.tolist() == there(photo).target.tolist()
        assert here.label(int(here.target)).split(",")[0] in there(photo).label(int(here.target))
        mean, std = (
            torch.tensor(why.model.default_cfg[key]).view(-1, 1, 1) for key in ("mean", "std")
        )
        same = there.explainer((here.picture - mean) / std)  # the two crop photos differently
        assert torch.allclose(here.logits, same.logits, atol=1e-3)
        assert torch.allclose(here.relevance, same.relevance, atol=1e-3 * here.relevance.max())

    def test_unknown_names_and_no_weights(self) -> None:
        message = refused(UnknownNameError, "timm/deit_tiny_patch16_244")
        assert "did you mean 'deit_tiny_patch16_224'" in message
        assert "give weights=" in refused(ModelError, self.NAME, offline=True)
        assert "no such file" in refused(ModelError, self.NAME, weights="no-such.safetensors")

    def test_weights_that_do_not_fit_or_are_damaged(self, vit: Path) -> None:
        message = refused(ModelError, self.NAME, weights=vit / "model.safetensors")
        assert "does not fit" in message
        assert "cannot be read" in refused(
            ModelError, self.NAME, weights=vit / "config.json", allow_pickle=True
        )

    def test_pickled_weights_are_refused_unless_allowed(
        self, weights: Path, tmp_path: Path
    ) -> None:
        from safetensors.torch import load_file

        path = tmp_path / "weights.pth"
        torch.save({"model": load_file(weights)}, path)
        assert "allow_pickle=True" in refused(ModelError, self.NAME, weights=path)
        why = whyformer.load(self.NAME, weights=path, allow_pickle=True)
        assert torch.equal(why.model.head.bias, load_file(weights)["head.bias"])
        torch.save({"model": Evil(tmp_path / "was-run")}, path)
        refused(ModelError, self.NAME, weights=path, allow_pickle=True)
        assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"preset": "paper"}, r"preset belongs to a question.*why\(input, preset='paper'\)"),
        ({"target": 3}, "target belongs to a question"),
        ({"method": "lrp"}, "method belongs to a question"),
        ({"label": ["a"]}, "no option 'label'; did you mean 'labels'"),
        ({"chache": True}, "no option 'chache'; known: 'output'"),
    ],
)
def test_what_is_no_option_of_a_model(option: dict[str, Any], said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        whyformer.load("demo-vision", **option)


def test_where_a_model_lies_stays_out_of_pages(tmp_path: Path) -> None:
    model = save_vit(tmp_path / "secret" / "my-vit")
    why = whyformer.load(model)
    assert (why.name, why.source) == ("my-vit", str(model))
    path = why(IMAGE).save(tmp_path / "why.html", model=why.name)
    assert "secret" not in path.read_text()
    text = whyformer.load(save_bert(tmp_path / "my-bert"))
    assert text.reading(20).source == text.source
