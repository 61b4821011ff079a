"""Language models: the next word, any position, contrasts, chats, and what they wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import whyformer
from conftest import shared
from small_language import CHAT, save_language
from whyformer import InputError, ModelError, TargetError
from whyformer.models import room
from whyformer.models.prompts import Prompt, _sinks
from whyformer.models.vocabulary import Vocabulary, pieces_from
from whyformer.render.prose import marked_words
from whyformer.render.sheets import make_sheet
from whyformer.words import words_of

PROMPT = "Once upon a time, there was a little"
METHODS = ("transformer_attribution", "fullgrad", "generic_attention", "rollout")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language(tmp_path_factory.mktemp("language") / "llama", chat_template=CHAT)


@pytest.fixture(scope="module")
def why(llama: Path) -> Any:
    pipeline = whyformer.load(llama)
    pipeline.model.double()
    return pipeline


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return whyformer.load(
        save_language(tmp_path_factory.mktemp("language") / "gpt2", "GPT2", start=False)
    )


def refused(kind: type[Exception], ask: Any) -> str:
    with pytest.raises(kind) as caught:
        ask()
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestNextWord:
    def test_it_is_explained_as_the_explainer_does(self, why: Any) -> None:
        found = why(PROMPT, method="transformer_attribution")
        ids = torch.tensor([why.tokenizer(PROMPT).input_ids])
        alone = whyformer.Explainer(why.model)({"input_ids": ids})
        assert torch.allclose(found.relevance, alone.relevance, rtol=1e-9)
        assert torch.equal(found.logits, alone.logits[:, -1])
        assert found.target.item() == alone.target.item() == found.logits.argmax().item()
        assert found.position.item() == ids.shape[1] - 1
        sheet = make_sheet(found)
        assert [c.index for c in sheet.classes] == found.logits[0].topk(5).indices.tolist()
        assert sum(c.probability for c in sheet.classes) < 1

    def test_witness_answers_where_no_method_is_named(self, why: Any) -> None:
        named = why(PROMPT, method="witness")
        assert why(PROMPT).method == named.method == why.usual == "witness"
        assert torch.equal(why(PROMPT).relevance, named.relevance)

    @pytest.mark.parametrize("method", METHODS)
    def test_a_position_is_asked_as_if_the_text_ended_there(self, why: Any, method: str) -> None:
        target = None if method == "rollout" else " girl"
        for position in (4, -3):
            whole = why(PROMPT, target, method, position=position)
            count = len(why.read(PROMPT))
            place = position % count
            ids = torch.tensor([why.tokenizer(PROMPT).input_ids[: place + 1]])
            asked = None if target is None else why.index_of(target)
            content = torch.ones_like(ids, dtype=torch.bool)
            content[0, 0] = False
            alone = whyformer.Explainer(why.model)(
                {"input_ids": ids}, asked, method, content=content
            )
            assert torch.allclose(whole.relevance[:, : place + 1], alone.relevance, rtol=1e-6)
            assert not whole.relevance[:, place + 1 :].any()
            assert torch.allclose(whole.logits, alone.logits[:, -1], rtol=1e-6)
            assert whole.position.item() == place

    def test_a_contrast_is_the_difference(self, why: Any) -> None:
        both = [why(PROMPT, word, "fullgrad").relevance for word in (" girl", " boy")]
        found = why(PROMPT, whyformer.contrast(" girl", " boy"), "fullgrad")
        assert torch.allclose(found.relevance, both[0] - both[1], atol=1e-9)
        assert found.asked == ('" girl" rather than " boy"',)
        assert make_sheet(found).asked[0].label == '" girl" rather than " boy"'

    def test_forms_of_a_target(self, why: Any) -> None:
        girl = why.index_of(" girl")
        first = why(PROMPT, " girl").relevance
        assert torch.equal(why(PROMPT, girl).relevance, first)
        assert torch.equal(why(PROMPT, (-1, " girl")).relevance, first)
        assert torch.equal(why(PROMPT, [[" girl", " boy"]]).relevance[:, 0], first)
        assert torch.equal(why(PROMPT, lambda logits: logits[:, girl]).relevance, first)

    def test_without_rows_to_keep_the_answer_is_the_same(self, why: Any, monkeypatch: Any) -> None:
        kept = [why(PROMPT, " girl", method, position=5) for method in METHODS[:2]]
        monkeypatch.setattr(why, "_takes_rows", False)
        for method, before in zip(METHODS, kept, strict=False):
            found = why(PROMPT, " girl", method, position=5)
            assert torch.allclose(found.relevance, before.relevance, rtol=1e-9)
            assert torch.allclose(found.logits, before.logits, rtol=1e-9)

    def test_a_word_that_goes_on_is_told_from_one_that_starts(self, why: Any) -> None:
        names = why.vocabulary.places
        word = next(n for n in names if f" {n}" in names and n.isalpha())
        logits = why(PROMPT, word).logits[0]
        likelier = bool(logits[names[f" {word}"]] > logits[names[word]])
        notes = why(PROMPT, word).notes
        assert any("goes on with a word" in note for note in notes) == likelier

    def test_gpt2_needs_no_start_token(self, gpt2: Any) -> None:
        found = gpt2(PROMPT, " girl")
        assert found.pieces[0][0].text == "Once"
        assert found.content.all()
        assert gpt2.longest == 64


def test_a_pipeline_that_writes_is_asked_as_its_model(llama: Path, why: Any) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

    model = AutoModelForCausalLM.from_pretrained(llama).double()
    pipe = pipeline("text-generation", model=model, tokenizer=AutoTokenizer.from_pretrained(llama))
    found = whyformer.load(pipe)(PROMPT, " girl")
    assert torch.allclose(found.relevance, why(PROMPT, " girl").relevance, rtol=1e-6)


class TestRefusals:
    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"target": "elephant"}, 'no single token of this model: it is written as "e", "le",'),
            ({"target": " girly"}, 'it is written as " gi", "r", "ly"; ask about'),
            ({"target": "little"}, '" little", with the space that starts a word, is one'),
            ({"target": ""}, "the empty word was asked for"),
            ({"target": 9999}, "class 9999 of a model with 334; choose from 0 to 333"),
            ({"position": 40}, "position 40 of a prompt with 10 pieces; choose from 0 to 9"),
            ({"target": (2, " girl"), "position": 3}, "positions 2, 3 are asked about at once"),
            ({"position": "girl"}, "position girl of a prompt with 10 pieces"),
        ],
    )
    def test_questions(self, why: Any, asked: dict[str, Any], message: str) -> None:
        assert message in refused(TargetError, lambda: why(PROMPT, **asked))

    @pytest.mark.parametrize(
        ("prompt", "message"),
        [
            ("word " * 200, "pieces, more than the 64 that"),
            (" ", "the text is empty"),
            (("a", "b"), "a text was expected, not tuple"),
            (["a", "b"], "a list is read as a chat"),
            ([], "a list is read as a chat"),
        ],
    )
    def test_prompts(self, why: Any, prompt: Any, message: str) -> None:
        assert message in refused(InputError, lambda: why(prompt))

    def test_maps_that_do_not_fit_the_machine(self, why: Any, monkeypatch: Any) -> None:
        monkeypatch.setattr(room, "memory_of", lambda device: 1000)
        message = refused(InputError, lambda: why(PROMPT))
        assert "keeps the attention between all 10 pieces" in message
        assert "fullgrad" in message
        assert why(PROMPT, method="fullgrad").relevance.any()


class TestVocabulary:
    def test_every_token_has_a_name_that_finds_it(self, why: Any) -> None:
        names = why.vocabulary.names
        assert len(set(names)) == len(names)
        assert [why.index_of(name) for name in names] == list(range(len(names)))
        assert why.index_of("\n") == why.index_of("\\n")
        assert " girl" in names
        assert names[:2] == ["<s>", "</s>"]

    def test_texts_of_tokens_make_the_text(self, why: Any) -> None:
        text = "Once, 😀 a girl's\n字 house"
        ids = why.tokenizer(text, add_special_tokens=False).input_ids
        assert "".join(why.vocabulary.texts(ids)) == text
        pieces = why.read(text).pieces
        assert "".join(p.gap + p.text for p in pieces if p.word is not None) == text

    def test_words_of_pieces(self) -> None:
        texts = ["<s>", "Once", " u", "pon", ",", " don", "'", "t", "\n", "字", "体"]
        pieces = pieces_from(texts, [True] + [False] * 10)
        assert [w.text for w in words_of(pieces)] == [
            "Once", "upon", ",", "don't", "\n", "字", "体",
        ]  # fmt: skip

    def test_a_larger_head_has_names_for_all(self, why: Any) -> None:
        larger = Vocabulary(why.tokenizer, 370)
        assert larger.names[-1] == "<no token 369>"


class TestChat:
    def test_messages_are_rendered_and_explained(self, why: Any) -> None:
        found = why([{"role": "user", "content": "Once upon a time"}])
        texts = [piece.text for piece in found.pieces[0]]
        assert texts[0] == "<|user|>"
        assert texts[-1] == ":"
        assert found.pieces[0][0].word is None
        shown = " ".join(word for word, _ in found.words()[0])
        assert "<|end|>" not in shown
        assert "Once upon a time" in shown

    def test_a_model_without_a_template_refuses(self, gpt2: Any) -> None:
        message = refused(InputError, lambda: gpt2([{"role": "user", "content": "Hello"}]))
        assert "has no chat template" in message


class Sinking(nn.Module):
    """One attention, whose first token draws all the others do not keep."""

    def __init__(self, pull: float) -> None:
        super().__init__()
        self.words, self.head, self.pull = nn.Embedding(20, 8), nn.Linear(8, 20), pull

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        stream = self.words(input_ids)
        scores = stream @ stream.mT / 8
        scores = scores + torch.arange(scores.shape[-1]).eq(0) * self.pull
        later = torch.ones_like(scores[0]).triu(1).bool()
        mixed = scores.masked_fill(later, -1e9).softmax(-1) @ stream
        return self.head(stream + mixed)


class TestSink:
    def test_the_start_token_is_left_out_of_the_colours(self, why: Any) -> None:
        found = why(PROMPT, method="transformer_attribution")
        assert [piece.sink for piece in found.pieces[0]] == [True] + [False] * 9
        share = float(found.relevance[0, 0].abs() / found.relevance.abs().sum())
        assert any(f"has {share:.0%} of the relevance" in note for note in found.notes)

    def test_a_first_word_that_sinks_is_shown_without_colour(self, gpt2: Any) -> None:
        from dataclasses import replace

        found = gpt2(PROMPT)
        first, *rest = found.pieces[0]
        relevance = found.relevance.clone()
        relevance[0, 0] = 10 * relevance.abs().max()
        pieces = [[replace(first, sink=True), *rest]]
        sunk = found.showing("input_ids", relevance=relevance, pieces=pieces)
        words = marked_words(make_sheet(sunk), make_sheet(sunk).views[0])
        assert words[0].text == "Once"
        assert not words[0].shown
        assert max(word.strength for word in words[1:]) == 1

    @pytest.mark.parametrize(("pull", "sinks"), [(6.0, True), (0.0, False)])
    def test_attention_tells_a_sink(self, pull: float, sinks: bool) -> None:
        torch.manual_seed(0)
        ids = torch.randint(20, (1, 24))
        prompt = Prompt("", ids, pieces_from(["a"] * 24, [False] * 24))
        assert _sinks(prompt, whyformer.Explainer(Sinking(pull).eval())) is sinks


class TestWriting:
    @pytest.mark.parametrize("method", METHODS[:3])
    def test_every_word_is_explained_as_alone(self, why: Any, method: str) -> None:
        """One forward over the whole text tells what single calls tell: the model is causal."""
        written = why.generate(PROMPT, 4, method, progress=False)
        assert len(written) == 4
        for number in range(4):
            end = written.start + number
            ids = torch.tensor([written.ids[:end]])
            content = torch.ones_like(ids, dtype=torch.bool)
            content[0, 0] = False
            alone = whyformer.Explainer(why.model)(
                {"input_ids": ids}, written.ids[end], method, content=content
            )
            found = written[number]
            scale = float(alone.relevance.abs().max())
            assert torch.allclose(found.relevance, alone.relevance, rtol=0, atol=1e-6 * scale)
            assert torch.allclose(found.logits, alone.logits[:, -1], rtol=1e-6)
            assert found.label(int(found.target)) == written.labels[written.ids[end]]
            assert not written.relevance[number, end:].any()

    def test_the_likeliest_word_is_written_each_time(self, why: Any) -> None:
        written = why.generate(PROMPT, 3, progress=False)
        assert written.ids[written.start :] == written.logits.argmax(-1).tolist()
        assert written.text == PROMPT + "".join(written.words)
        assert written.probabilities.tolist() == [written.candidates(i)[0][1] for i in range(3)]

    def test_options_go_to_the_model(self, why: Any) -> None:
        torch.manual_seed(3)
        one = why.generate(PROMPT, 6, progress=False, do_sample=True, temperature=5.0)
        greedy = why.generate(PROMPT, 6, progress=False)
        assert one.ids != greedy.ids
        for option in ({"num_return_sequences": 2, "do_sample": True}, {"no_such": 1}):
            refused(InputError, lambda given=option: why.generate(PROMPT, 2, **given))

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"tokens": 60}, "10 pieces and 60 more were asked for"),
            ({"tokens": 0}, "at least 1"),
            ({"method": "rollout"}, "gives the same map for every word"),
        ],
    )
    def test_refusals(self, why: Any, asked: dict[str, Any], message: str) -> None:
        assert message in refused(InputError, lambda: why.generate(PROMPT, **asked))

    def test_a_model_that_looks_ahead_is_refused(self, why: Any, monkeypatch: Any) -> None:
        """Bidirectional attention, as a BERT that was saved as a decoder would have it."""
        forward = nn.functional.scaled_dot_product_attention

        def looking_ahead(*args: Any, **options: Any) -> Any:
            return forward(*args[:3], **{**options, "is_causal": False, "attn_mask": None})

        monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", looking_ahead)
        assert "is not causal" in refused(
            ModelError, lambda: why.generate(PROMPT, 2, progress=False, use_cache=False)
        )

    def test_the_model_is_left_as_it_was(self, why: Any) -> None:
        before = {name: value.clone() for name, value in why.model.state_dict().items()}
        config = why.model.generation_config.to_dict()
        why.generate(PROMPT, 2, progress=False, do_sample=True)
        assert why.model.generation_config.to_dict() == config
        assert all(torch.equal(v, before[k]) for k, v in why.model.state_dict().items())


@pytest.mark.slow
def test_a_prompt_of_thousands_of_tokens(tmp_path: Path) -> None:
    why = whyformer.load(save_language(tmp_path / "long", positions=4096))
    text = " ".join(f"{PROMPT} girl." for _ in range(200))
    prompt = why.read(text)
    assert len(prompt) > 2000
    for method in ("fullgrad", "transformer_attribution"):
        found = why(text, " girl", method, position=2000)
        assert found.matrix is None
        assert found.relevance[0, :2001].any()
        assert not found.relevance[0, 2001:].any()


@pytest.mark.slow
def test_a_real_model_reads_two_thousand_tokens(tmp_path: Path) -> None:
    """Its configuration ends at 256 tokens, as its training did; its weights go on."""
    kept = shared("data", "stories15M")
    for file in kept.iterdir():
        if file.name != "config.json":
            (tmp_path / file.name).symlink_to(file)
    config = json.loads((kept / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 2048}))
    why = whyformer.load(tmp_path)
    story = f"{PROMPT} girl named Lily. She saw a big red ball, and it was too high."
    prompt = " ".join([story] * 74 + [PROMPT])
    last = why(prompt, " girl", "witness")
    assert len(why.read(prompt)) == last.relevance.shape[-1] >= 2000
    assert last.relevance.isfinite().all()
    assert max(last.words()[0], key=lambda word: word[1])[0] == "little"
    start = " ".join([story] * 8)
    alone = whyformer.load(kept)(start, " Once", "transformer_attribution").relevance
    pieces = alone.shape[-1]
    early = why(prompt, " Once", "transformer_attribution", position=pieces - 1).relevance
    assert torch.allclose(early[:, :pieces], alone, rtol=0, atol=1e-4 * float(alone.max()))
    assert not early[:, pieces:].any()


@pytest.mark.slow
def test_a_real_model_says_why_girl() -> None:
    why = whyformer.load(shared("data", "stories15M"))
    found = why(PROMPT)
    assert found.label(int(found.target)) == " girl"
    rather = why(PROMPT, whyformer.contrast(" girl", " boy"), "fullgrad")
    assert rather.words()[0][-1][0] == "little"
    assert found.pieces[0][0].sink
    written = why.generate("Once upon a time", 6, progress=False)
    assert written.text.startswith("Once upon a time, there was a")
    for number, explanation in enumerate(written):
        alone = why(written.text[: _end(written, number)], written.ids[written.start + number])
        scale = float(alone.relevance.abs().max())
        assert torch.allclose(explanation.relevance, alone.relevance, rtol=0, atol=1e-5 * scale)
    assert "more than the 256" in refused(InputError, lambda: why("word " * 2000))


def _end(written: Any, number: int) -> int:
    return len(written.prompt) + sum(len(word) for word in written.words[:number])


def test_a_byte_that_is_no_letter_is_not_called_by_a_letter(tmp_path: Path) -> None:
    """A byte-level tokenizer spells the byte E9 as é, whose own bytes are C3 A9."""
    why = whyformer.load(save_language(tmp_path / "bytes"))
    names = why.labels
    assert {"<0xE9>", "<0xC3>", "<0x07>"} <= set(names)
    assert "é" not in names
    with pytest.raises(TargetError, match='written as "<0xC3>", "<0xA9>"'):
        why("Once upon a time", target="é")
    assert bool(why("Once upon a time", target="<0xC3>").relevance.any())
