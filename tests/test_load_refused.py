"""What does not load: missing and damaged parts, pickles, code that a model brings along."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch

import whyformer
from small_images import save_vit
from small_texts import save_bert
from spoiling import Evil, edit, refused, to_pickle, weights_of
from whyformer import ModelError, UnknownNameError, WhyformerError


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


def test_a_file_instead_of_a_directory(vit_copy: Path) -> None:
    message = refused(ModelError, vit_copy / "model.safetensors")
    assert "is a file; give the directory" in message


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("config.json", "has no config.json"),
        ("model.safetensors", "holds no weights: expected model.safetensors"),
        ("preprocessor_config.json", "has no preprocessor_config.json"),
    ],
)
def test_an_image_directory_without_a_part(vit_copy: Path, file: str, said: str) -> None:
    (vit_copy / file).unlink()
    message = refused(ModelError, vit_copy)
    assert said in message
    assert str(vit_copy) in message


def test_a_text_directory_without_a_tokenizer(bert_copy: Path) -> None:
    for file in bert_copy.glob("*tokenizer*"):
        file.unlink()
    assert "tokenizer" in refused(ModelError, bert_copy)


def test_an_empty_directory(tmp_path: Path) -> None:
    assert "has no config.json" in refused(ModelError, tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"not json"])
def test_a_config_that_is_no_json(vit_copy: Path, content: bytes) -> None:
    (vit_copy / "config.json").write_bytes(content)
    message = refused(ModelError, vit_copy)
    assert "config.json is not valid JSON" in message


@pytest.mark.parametrize(
    "content",
    ["[]", "null", '"vit"', "{}", '{"architectures": null}', '{"architectures": [null]}',
     '{"architectures": "ViTForImageClassification"}', '{"architectures": ["Nothing"]}'],
)  # fmt: skip
def test_a_config_that_describes_no_model(vit_copy: Path, content: str) -> None:
    (vit_copy / "config.json").write_text(content)
    refused(ModelError, vit_copy)


@pytest.mark.parametrize("file", ["preprocessor_config.json", "model.safetensors"])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"],
    ids=["empty", "cut", "pointer"],
)
def test_a_damaged_part(vit_copy: Path, file: str, content: bytes) -> None:
    (vit_copy / file).write_bytes(content)
    assert str(vit_copy) in refused(ModelError, vit_copy)


def test_a_damaged_tokenizer(bert_copy: Path) -> None:
    (bert_copy / "tokenizer.json").write_text("{")
    assert "tokenizer" in refused(ModelError, bert_copy)


def test_truncated_weights(vit_copy: Path) -> None:
    path = vit_copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert str(vit_copy) in refused(ModelError, vit_copy)


def test_weights_of_another_size_name_what_does_not_fit(vit_copy: Path) -> None:
    edit(vit_copy / "config.json", id2label={str(i): f"c{i}" for i in range(7)})
    message = refused(ModelError, vit_copy)
    assert str(vit_copy) in message
    assert "above" not in message  # nothing was printed above


def test_pickled_weights_are_refused_unless_allowed(vit_copy: Path) -> None:
    before = weights_of(whyformer.load(vit_copy).model)
    to_pickle(vit_copy)
    message = refused(ModelError, vit_copy)
    assert "pytorch_model.bin" in message
    assert "allow_pickle=True" in message
    after = weights_of(whyformer.load(vit_copy, allow_pickle=True).model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("allowed", [False, True])
def test_a_malicious_pickle_is_not_run(vit_copy: Path, tmp_path: Path, allowed: bool) -> None:
    import pickle

    trace = tmp_path / "was-run"
    (vit_copy / "model.safetensors").unlink()
    torch.save({"classifier.weight": Evil(trace)}, vit_copy / "pytorch_model.bin")
    refused(ModelError, vit_copy, allow_pickle=allowed)
    (vit_copy / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(trace), protocol=2))
    refused(ModelError, vit_copy, allow_pickle=allowed)
    assert not trace.exists()
    pickle.loads(pickle.dumps(Evil(trace)))
    assert trace.exists(), "the trap does not work"


def plant_code(folder: Path, trace: Path) -> None:
    (folder / "evil.py").write_text(
        f"import pathlib\npathlib.Path({str(trace)!r}).touch()\nclass Thing: pass\n"
    )


def test_code_from_a_models_repository_is_refused(vit_copy: Path, tmp_path: Path) -> None:
    plant_code(vit_copy, tmp_path / "was-run")
    edit(vit_copy / "config.json", auto_map={"AutoModelForImageClassification": "evil.Thing"})
    message = refused(ModelError, vit_copy)
    assert "never runs" in message
    assert "whyformer.Explainer(model)" in message
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    ("kind", "file", "key"),
    [
        ("vit_copy", "preprocessor_config.json", "AutoImageProcessor"),
        ("bert_copy", "tokenizer_config.json", "AutoTokenizer"),
    ],
)
def test_code_of_a_processor_is_not_run(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, file: str, key: str
) -> None:
    folder: Path = request.getfixturevalue(kind)
    plant_code(folder, tmp_path / "was-run")
    value: Any = ["evil.Thing", "evil.Thing"] if kind == "bert_copy" else "evil.Thing"
    name = (
        {"tokenizer_class": "Thing"} if kind == "bert_copy" else {"image_processor_type": "Thing"}
    )
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


@pytest.mark.parametrize("device", ["nosuch", "cuda:99", ""])
def test_a_device_that_does_not_exist(device: str) -> None:
    assert repr(device) in refused(WhyformerError, "demo-text", device=device)


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
