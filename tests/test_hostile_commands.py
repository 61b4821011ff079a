"""Commands that cannot be: each ends in one sentence, with exit code 2, and writes nothing.

Inputs that cannot be read are in test_bad_input.py; these are commands, options, models and files.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from small_texts import save_bert
from test_bad_input import Refused, here, refused  # noqa: F401

COMMANDS = [
    # the command itself
    ("", "required: COMMAND"),
    ("explian good.png", "invalid choice: 'explian'"),
    ("--nothing", "required: COMMAND"),
    ("explain", "required: INPUT"),
    ("explain good.png --nothing", "unrecognized arguments: --nothing"),
    ("explain good.png --tar 3", "unrecognized arguments: --tar 3"),
    ("explain good.png --target", "expected one argument"),
    ("compare", "required: INPUT"),
    ("compare good.png good.png", "unrecognized arguments: good.png"),
    ("compare good.png --methods nothing", "unknown method 'nothing'"),
    ("compare good.png --methods rollout,nothing", "unknown method 'nothing'"),
    ("compare good.png --methods rollout:x=1", "x"),
    ("compare good.png --preset nothing", "unknown preset 'nothing'"),
    ("compare good.png --out results", "results is a folder"),
    ("compare good.png --out why.bmp", "'.bmp'"),
    # numbers
    ("explain good.png --opacity 7", "7 is not between 0 and 1"),
    ("explain good.png --opacity x", "'x' is not a number"),
    ("explain good.png --opacity nan", "nan is not between 0 and 1"),
    ("explain good.png --contour -1", "-1 is not between 0 and 1"),
    ("explain good.png --threads x", "'x' is not a whole number"),
    ("explain good.png --threads -1", "-1 is less than 1"),
    ("serve --port x", "invalid int value: 'x'"),
    ("serve --port 99999", "cannot listen at 127.0.0.1 port 99999"),
    ("serve --port -1", "cannot listen at 127.0.0.1 port -1"),
    ("serve --keep 0", "0 is less than 1"),
    ("serve --memory 0", "0 is less than 1"),
    ("serve --host nobody.invalid --port 0", "cannot listen at nobody.invalid"),
    ("serve --model none --port 0", "no model 'none'"),
    ("evaluate pointing --limit x", "invalid int value: 'x'"),
    ("evaluate pointing --limit -3", "--limit -3: expected at least 1"),
    # inputs
    ("explain https://example.com/cat.jpg", "is an address on the internet"),
    ("explain http://example.com/cat.jpg --model demo-vision", "is an address on the internet"),
    ("explain good.png -t 3 -t nothing", "no label 'nothing'"),
    ("explain good.png --method rollout -t 3", "same map for every class"),
    ("explain 'a film' --pieces -t negative -t nothing", "no label 'nothing'"),
    ("explain good.png good.txt --out why.png", "go into a folder"),
    ("explain --lines good.png", "is an image"),
    ("explain good.png --json --out ''", "--out is empty"),
    ("explain good.png --format html", "--format is for many inputs"),
    ("explain 'a film' --contour 0.5", "--contour goes with images"),
    ("explain 'a film' --cropped", "--cropped goes with images"),
    ("explain good.png --contour 0.5 --out a.html", "--contour changes nothing in a .html file"),
    ("explain good.png --contour 0.5 --json", "--contour changes nothing in a .json file"),
    ("explain good.png --size 8cm", "--size changes nothing in the terminal; it goes with .png"),
    ("explain good.png --dpi 96 --out a.npz", "--dpi changes nothing in a .npz file"),
    ("explain good.png --fragment --out a.png", "--fragment changes nothing in a .png file"),
    ("compare good.png --size 8cm --out a.html", "--size changes nothing in a .html file"),
    (
        "explain good.png good.png --size 8cm --out b --format html",
        "--size changes nothing in a .html file",
    ),
    ("explain good.png good.png --dpi 96", "--dpi changes nothing in the terminal"),
    ("explain good.png --size 3", "'3' is no width from 1 to 100 inches"),
    ("explain good.png --size 1e9cm", "'1e9cm' is no width"),
    ("explain good.png --dpi 0", "'0' is no whole number from 24 to 2400"),
    ("explain good.png --scale mine", "invalid choice: 'mine'"),
    ("explain good.png --colours nothing", "nothing"),
    ("explain 'a film' --colours viridis --out why.png", "viridis"),
    ("explain good.png --out why.gif", "gif"),
    # models
    ("explain 'a film' --model no-weights", "holds no weights"),
    ("explain 'a film' --model no-tokenizer", "has no tokenizer"),
    ("explain 'a film' --model bad-config", "is not valid JSON"),
    ("explain 'a film' --model list-config", "describes no model"),
    ("explain 'a film' --model cut-weights", "cannot be loaded"),
    ("explain 'a film' --model own-code", "needs code from its own repository"),
    ("explain 'a film' --model no-head", "lacks the weights of classifier"),
    ("explain 'a film' --model wide", "has another shape than config.json says"),
    ("explain 'a film' --model no-class", "has no head, and so no prediction to ask about"),
    ("explain good.png --model fine", "fine reads texts, and the input is an image"),
    ("classes none", "no model 'none'"),
    ("classes fine --search zebra", "no class of fine holds 'zebra'"),
    ("classes bad-config", "is not valid JSON"),
    ("classes good.png", "is a file"),
    ("classes", "which model?"),
    # methods of one's own
    ("methods --methods-from none.py", "cannot read none.py"),
    ("methods --methods-from folder", "cannot read folder"),
    ("methods --methods-from exit.py", "exit.py failed: line 2: SystemExit"),
    ("methods --methods-from wrong.py", "wrong.py failed: line 1: NameError"),
    ("methods --methods-from good.png", "it is not UTF-8 text"),
    # evaluate and finetune
    ("evaluate", "required: benchmark"),
    ("evaluate nothing", "invalid choice: 'nothing'"),
    ("evaluate all --data none --out run", "none"),
    ("evaluate segmentation --data none --out run", "none"),
    ("evaluate erasure --data none.tsv --out run", "no such file or folder: none.tsv"),
    ("evaluate erasure --data good.txt --out run", "line 1: no tab; expected sentence TAB label"),
    ("evaluate erasure --data latin.txt --out run", "is not UTF-8 text"),
    ("evaluate erasure --data zero.txt --out run", "zero.txt is empty"),
    ("evaluate erasure --data folder --out run", "no ERASER directory"),
    ("evaluate rationales --data folder --split dev --out run", "dev.jsonl"),
    ("evaluate pointing --out good.png", "good.png"),
    ("evaluate pointing --methods nothing --out run", "unknown method 'nothing'"),
    ("finetune --data good.txt --out run", "required: -m/--model"),
    ("finetune --model demo-text --data none --out run", "no such file or folder: none"),
    ("finetune --model demo-text --data good.txt --out run", "expected sentence TAB label"),
    ("finetune --model demo-text --data folder --out run", "holds neither"),
    ("finetune --model demo-text --data good.txt --epochs 0 --out run", "epochs"),
    ("demo --out good.png", "good.png"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model directories, each with something wrong."""
    root = tmp_path_factory.mktemp("models")
    fine = save_bert(root / "fine")
    names = (
        "no-weights", "no-tokenizer", "bad-config", "list-config", "cut-weights", "own-code",
        "no-head", "wide", "no-class",
    )  # fmt: skip
    for name in names:
        (root / name).mkdir()
        for file in fine.iterdir():
            (root / name / file.name).write_bytes(file.read_bytes())
    (root / "no-weights" / "model.safetensors").unlink()
    for file in (root / "no-tokenizer").glob("*token*"):
        file.unlink()
    (root / "bad-config" / "config.json").write_text("{")
    (root / "list-config" / "config.json").write_text("[1]")
    weights = root / "cut-weights" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])
    for name, change in (
        ("own-code", {"auto_map": {"AutoModel": "model.Mine"}}),
        ("wide", {"hidden_size": 64}),
        ("no-class", {"architectures": ["BertModel"]}),
    ):
        config = root / name / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    without_head(root / "no-head" / "model.safetensors")
    return root


def without_head(path: Path) -> None:
    from safetensors.torch import load_file, save_file

    kept = {name: value for name, value in load_file(path).items() if "classifier" not in name}
    save_file(kept, path, {"format": "pt"})


#: what a command needs beyond the base
EXTRAS = {"serve": "starlette", "finetune": "accelerate"}


@pytest.mark.parametrize(("command", "said"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_one_sentence(
    refused: Refused,  # noqa: F811
    here: Path,  # noqa: F811
    models: Path,
    command: str,
    said: str,
) -> None:
    needed = EXTRAS.get(command.partition(" ")[0])
    if needed:
        pytest.importorskip(needed, reason="its extra is not installed")
    for folder in models.iterdir():
        (here / folder.name).symlink_to(folder)
    (here / "exit.py").write_text("import sys\nsys.exit(0)\n")
    (here / "wrong.py").write_text("nothing\n")
    assert said in refused(*shlex.split(command))
