"""Tags, answers, choices and blanks: what is asked at a place of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import whyformer
from small_texts import save_bert
from whyformer.errors import InputError, TargetError
from whyformer.render.sheets import make_sheet

TEXT = "a warm film without plot"
PAIR = ("a witty film", "the acting is superb but the plot")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    heads = {
        "tags": "BertForTokenClassification",
        "answers": "BertForQuestionAnswering",
        "choices": "BertForMultipleChoice",
        "blanks": "BertForMaskedLM",
    }
    config: dict[str, Any] = {
        "tags": {"id2label": {0: "O", 1: "B-PER", 2: "B-LOC"}, "label2id": {}},
        "answers": {"num_labels": 2},
    }
    found = {}
    for name, kind in heads.items():
        folder = tmp_path_factory.mktemp(name)
        save_bert(folder, kind, **config.get(name, {}))
        found[name] = whyformer.load(folder)
    return found


class TestTags:
    def test_the_tag_of_a_word_is_asked_at_its_first_piece(self, models: Any) -> None:
        why = models["tags"]
        encoding = why.tokenizer([TEXT], return_tensors="pt")
        bare = whyformer.Explainer(why.model)(encoding, target=(3, 2), method="fullgrad")
        found = why(TEXT, target="B-LOC", position="film", method="fullgrad")
        assert torch.allclose(found.relevance, bare.relevance, atol=1e-7)
        assert found.asked == ("B-LOC on 'film'",)
        assert [score.label for score in make_sheet(found).asked] == ["B-LOC on 'film'"]
        by_number = why(TEXT, target="B-LOC", position=2, method="fullgrad")
        assert torch.equal(found.relevance, by_number.relevance)

    def test_without_a_word_the_surest_tag_is_asked(self, models: Any) -> None:
        why = models["tags"]
        tags = why.tags(TEXT)
        assert [tag.word for tag in tags] == TEXT.split()
        telling = [tag for tag in tags if tag.tag != "O"] or tags
        surest = max(telling, key=lambda tag: tag.probability)
        assert why(TEXT).asked == (f"{surest.tag} on {surest.word!r}",)

    def test_two_tags_of_one_word(self, models: Any) -> None:
        why = models["tags"]
        both = why(TEXT, target=[["O", "B-PER"]], position="warm", method="lrp")
        assert both.asked == ("O on 'warm'", "B-PER on 'warm'")
        alone = why(TEXT, target="B-PER", position="warm", method="lrp")
        assert torch.equal(both.relevance[:, 1], alone.relevance)

    @pytest.mark.parametrize(
        ("given", "told"),
        [("cold", "no word 'cold' in the text"), (9, "word 9 of a text with 5")],
    )
    def test_a_word_that_is_not_there(self, models: Any, given: Any, told: str) -> None:
        with pytest.raises(InputError, match=told):
            models["tags"](TEXT, position=given)

    def test_a_word_that_stands_there_twice(self, models: Any) -> None:
        with pytest.raises(InputError, match="stands at 0, 2; give one of these numbers"):
            models["tags"]("film a film", position="film")

    def test_a_text_that_is_too_long(self, models: Any) -> None:
        with pytest.raises(InputError, match="more than the 40 that"):
            models["tags"]("film " * 50)


class TestAnswers:
    def test_start_and_end_together(self, models: Any) -> None:
        why = models["answers"]
        encoding = why.tokenizer([PAIR[0]], [PAIR[1]], return_tensors="pt")
        found = why(PAIR, target="acting is", method="fullgrad")
        explainer = whyformer.Explainer(why.model)
        words = encoding.tokens(0)
        first, last = words.index("acting"), words.index("is")
        bare = explainer(
            encoding,
            target=lambda out: out.start_logits[:, first] + out.end_logits[:, last],
            method="fullgrad",
        )
        assert torch.allclose(found.relevance, bare.relevance, atol=1e-7)

    def test_answers_are_classes(self, models: Any) -> None:
        why = models["answers"]
        recorded = why.record(PAIR)
        (text, share), *_ = recorded.answers()
        found = recorded.explain(method="fullgrad")
        assert found.label(int(found.target)) == text
        assert abs(float(found.probabilities[0, found.target]) - share) < 1e-6
        assert make_sheet(found).classes[0].label == text
        words = PAIR[1].split()
        assert {span.text for span in recorded.spans} == {
            " ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)
        }

    @pytest.mark.parametrize(
        ("inputs", "target", "told"),
        [
            ("one text", None, "give both"),
            (PAIR, "a cold film", "no answer 'a cold film' in the text"),
            (PAIR, "acti", "starts or ends inside a piece"),
        ],
    )
    def test_one_sentence(self, models: Any, inputs: Any, target: Any, told: str) -> None:
        with pytest.raises((InputError, TargetError), match=told):
            models["answers"](inputs, target=target)


class TestChoices:
    def test_the_choices_are_the_classes(self, models: Any) -> None:
        why = models["choices"]
        choices = ["a warm film", "the acting is superb"]
        found = why(TEXT, text=choices, target="the acting is superb", method="fullgrad")
        assert found.target.tolist() == [1]
        assert [score.label for score in make_sheet(found).asked] == [choices[1]]
        words = [word for word, _ in found.words()[0]]
        assert words == [*TEXT.split(), *choices[0].split(), *TEXT.split(), *choices[1].split()]

    def test_each_choice_is_read_for_itself(self, models: Any) -> None:
        """A choice's logit depends on no other choice: relevance stays with its own words."""
        why = models["choices"]
        found = why(TEXT, text=["a warm film", "the acting"], target=0, method="gradient_x_input")
        scores = [score for _, score in found.words()[0]]
        assert any(abs(score) > 0 for score in scores[:8])
        assert all(score == 0 for score in scores[8:])

    def test_a_text_without_choices(self, models: Any) -> None:
        for choices in ((), ["one"]):
            with pytest.raises(TargetError, match="chooses between endings"):
                models["choices"](TEXT, text=choices)


class TestBlanks:
    def test_the_word_of_a_blank(self, models: Any) -> None:
        why = models["blanks"]
        text = "a warm ___ without plot"
        encoding = why.tokenizer(["a warm [MASK] without plot"], return_tensors="pt")
        index = why.tokenizer.convert_tokens_to_ids("film")
        bare = whyformer.Explainer(why.model)(encoding, target=(3, index), method="fullgrad")
        found = why(text, target="film", method="fullgrad")
        assert torch.allclose(found.relevance, bare.relevance, atol=1e-7)
        assert found.logits.shape == (1, why.model.config.vocab_size)
        assert make_sheet(found).asked[0].label == "film"

    def test_the_second_blank(self, models: Any) -> None:
        why = models["blanks"]
        first, second = (why("a ___ ___ plot", position=i) for i in (0, 1))
        assert not torch.equal(first.relevance, second.relevance)

    @pytest.mark.parametrize(
        ("text", "options", "told"),
        [
            (TEXT, {}, r"no blank; write \[MASK\] or ___"),
            ("a ___", {"position": 3}, "blank 3 of a text with 1"),
            ("a ___", {"target": "joylessness"}, "no single token"),
        ],
    )
    def test_one_sentence(self, models: Any, text: str, options: Any, told: str) -> None:
        with pytest.raises((InputError, TargetError), match=told):
            models["blanks"](text, **options)


@pytest.mark.parametrize("kind", ["tags", "answers", "choices", "blanks"])
def test_every_file(models: Any, kind: str, tmp_path: Path) -> None:
    inputs: Any = {
        "tags": TEXT, "answers": PAIR, "choices": TEXT, "blanks": "a warm ___"
    }[kind]  # fmt: skip
    beside = {"text": ["a", "the"]} if kind == "choices" else {}
    found = models[kind](inputs, **beside)
    for ending in ("png", "html", "svg", "json", "npz", "tex"):
        assert found.save(tmp_path / f"why.{ending}").stat().st_size > 500
    for explanation in models[kind].compare(inputs, methods=["rollout", "witness"], **beside):
        assert explanation.relevance.isfinite().all()
