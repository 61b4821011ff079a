"""All heads of all blocks at a glance: the numbers, and the thumbnails on the page."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import whyformer
from serving import running, wait_for
from small_sounds import beeps, save_wav2vec2, write_wav
from small_texts import save_bert
from small_videos import ball, save_video
from test_app_image import WHY, settled
from test_app_text import TEXT
from whyformer.app import glance
from whyformer.app.blocks import to_blocks
from whyformer.app.examples import examples, picture
from whyformer.app.questions import BlockQuestion, HeadQuestion
from whyformer.app.recordings import KeptRecording
from whyformer.app.server import make_app

MAPS = ("attention", "gradient", "relevance", "product")


def unpacked(row: dict[str, Any]) -> np.ndarray:
    """(heads with their mean before them, units) of one block."""
    low, high = (np.array(row[name])[:, None] for name in ("low", "high"))
    values = np.frombuffer(b64decode(row["data"]), np.uint8).reshape(len(low), -1)
    return low + values / 255 * (high - low)


def asked(client: Any, **question: Any) -> dict[str, Any]:
    response = client.post("/heads", json=question)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("name", MAPS)
def test_every_head_is_the_librarys(client: Any, models: list[Any], name: str) -> None:
    answer = asked(client, example="two digits", targets=[4], map=name)
    blocks = models[0](picture("two digits"), 4, keep_blocks=True).blocks
    assert (answer["grid"], len(answer["blocks"]), answer["note"]) == ([12, 12], 5, "")
    for number, row in enumerate(answer["blocks"]):
        if name == "product":
            maps = (blocks.gradient[number] * blocks.relevance[number]).clamp(min=0)
        else:
            maps = getattr(blocks, name)[number]
        heads = maps[0, :, 0, 1:]
        expected = torch.cat([heads.mean(0, keepdim=True), heads]).numpy()
        found = unpacked(row)
        assert found.shape == (5, 144)
        finest = np.ptp(expected, 1, keepdims=True) / 500
        assert (np.abs(found - expected) <= finest).all()


def test_a_word_has_its_strongest_pieces_value(client: Any, models: list[Any]) -> None:
    text = "An unwatchable film"
    answer = asked(client, text=text, targets=["negative"], map="gradient")
    assert (answer["grid"], answer["words"]) == (None, text.split())
    found = models[1](text, "negative", keep_blocks=True)
    pieces = models[1].record(text).units
    row = found.blocks.gradient[1][0, 2, 0]
    expected = [max(float(row[i]) for i in word) for word in pieces]
    assert unpacked(answer["blocks"][1])[3] == pytest.approx(
        expected, abs=max(map(abs, expected)) / 250
    )


def test_large_inputs_are_limited_and_say_so(
    models: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx2

    monkeypatch.setattr(glance, "MOST_WORDS", 4)
    monkeypatch.setattr(glance, "MOST_PATCHES", 36)
    with running(make_app(models)) as url, httpx2.Client(base_url=f"{url}/api/v1") as client:
        text = asked(client, text="A warm and moving film")
        image = asked(client, example="one digit")
    assert text["words"] == ["A", "warm", "and", "moving"]
    assert text["note"] == "The text has 5 words: the first 4 are drawn."
    assert unpacked(text["blocks"][0]).shape[1] == 4
    assert (image["grid"], unpacked(image["blocks"][0]).shape[1]) == ([6, 6], 36)


def test_windows_of_attention_are_refused_in_a_sentence(tmp_path: Path) -> None:
    """Swin's maps lie between the places of a window, not between the input's tokens."""
    import httpx2
    from transformers import SwinConfig, SwinForImageClassification, ViTImageProcessor

    config = SwinConfig(
        image_size=32, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
    )
    SwinForImageClassification(config).save_pretrained(tmp_path / "swin")
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "swin")
    with (
        running(make_app([whyformer.load(tmp_path / "swin")])) as url,
        httpx2.Client(base_url=f"{url}/api/v1", timeout=60) as client,
    ):
        read = client.post("/explain", files={"image": ("a.png", picture("one digit"))}).json()
        for path in ("heads", "blocks"):
            refused = client.post(f"/{path}", json={"input": read["input"]})
            assert refused.status_code == 422
            assert "cannot be laid over the input" in refused.json()["error"]


def test_sounds_and_videos_have_maps_too(tmp_path: Path) -> None:
    """A sound is a line of moments; a video's frames stand side by side, as in its picture."""
    hearing = whyformer.load(save_wav2vec2(tmp_path / "sound"))
    seeing = whyformer.load(save_video(tmp_path / "video"))
    sound = write_wav(tmp_path / "beeps.wav", beeps())
    for recorded, rows in ((hearing.record(str(sound)), 1), (seeing.record(ball()), 4)):
        reading = KeptRecording("key", "title", recorded)
        block = to_blocks(BlockQuestion(block=1, head=0), reading, lambda: None)
        every = glance.to_heads(HeadQuestion(), reading, lambda: None)
        assert every["grid"] == block["image"]["grid"]
        assert every["grid"][0] == rows
        scores = block["views"][0]["scores"]
        assert unpacked(every["blocks"][1])[1] == pytest.approx(scores, abs=max(scores) / 250)


def thumbs(page: Any) -> Any:
    return page.locator("#glance-grid button")


def look_inside(page: Any) -> None:
    page.locator("#inside summary").click()
    page.locator("#glance-grid button[aria-pressed=true]").wait_for()


def drawn(page: Any) -> list[str]:
    return page.locator("#glance-grid canvas").evaluate_all(
        "(all) => all.map((canvas) => canvas.toDataURL())"
    )


def opened(page: Any) -> str:
    """What is marked above, which is what is open below."""
    label = page.locator("#glance-grid button[aria-pressed=true]").get_attribute("aria-label")
    block = page.locator("#block-name").inner_text().split()[0]
    head = page.locator("#heads [aria-pressed=true]").inner_text()
    wanted = "mean of the heads" if head == "Mean" else f"head {head}"
    assert label == f"Block {block}, {wanted}"
    return label


def test_a_thumbnail_opens_its_block_and_head(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    look_inside(page)
    assert thumbs(page).count() == 5 * 5
    assert opened(page) == "Block 5, mean of the heads"
    first = drawn(page)
    assert len(set(first)) > 20
    page.get_by_role("button", name="Block 2, head 3", exact=True).click()
    wait_for(lambda: page.locator("#block-name").inner_text() == "2 of 5")
    wait_for(lambda: page.locator("#heads [aria-pressed=true]").inner_text() == "3")
    assert opened(page) == "Block 2, head 3"
    page.get_by_label("All heads at a glance").select_option("gradient")
    wait_for(lambda: drawn(page) != first)
    own = drawn(page)
    page.get_by_label("one scale for all").check()
    assert drawn(page) != own
    page.get_by_label("one scale for all").uncheck()
    assert drawn(page) == own
    page.locator("#inside-classes button", has_text="4").click()
    wait_for(lambda: drawn(page) != own)


def test_arrow_keys_lead_through_the_thumbnails(visit: Any) -> None:
    page = visit()
    settled(page, WHY)
    look_inside(page)
    page.locator("#glance-shared").focus()
    page.keyboard.press("Tab")
    for key in ("ArrowUp", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert page.locator(":focus").get_attribute("aria-label") == "Block 5, head 2"
    page.keyboard.press("Enter")
    wait_for(lambda: page.locator("#heads [aria-pressed=true]").inner_text() == "2")
    assert opened(page) == "Block 5, head 2"


def test_texts_are_strips_and_windows_have_none(visit: Any) -> None:
    page = visit(TEXT, refused=422)
    settled(page, "Why “negative”, why “positive”?")
    look_inside(page)
    assert thumbs(page).count() == 4 * 5
    size = page.locator("#glance-grid canvas").first.evaluate("(c) => [c.width, c.height]")
    count = len(examples()["mixed review"].text.replace(",", " ,").replace(".", " .").split())
    assert size == [count, 1]
    assert "most at “" in thumbs(page).first.get_attribute("title")
    page.get_by_role("button", name="long text").click()
    page.locator("#inside-alert", has_text="several windows").wait_for()
    assert page.locator("#glance").is_hidden()


def test_many_heads_need_no_sideways_scrolling(browser: Any, tmp_path: Path) -> None:
    folder = save_bert(tmp_path / "many", num_attention_heads=16)
    with running(make_app([whyformer.load(folder)])) as url:
        page = browser.new_page(viewport={"width": 375, "height": 800})
        page.goto(f"{url}/#text=the%20film%20is%20a%20warm%20story")
        page.locator("#view .why-stage").first.wait_for()
        look_inside(page)
        assert page.locator("#heads button").count() == 17
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        page.close()
