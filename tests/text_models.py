"""Tiny text models for tests, saved once a worker and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

import whyformer
from whyformer import Pipeline


@pytest.fixture(scope="session")
def small_bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from small_texts import save_bert

    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def small_bert(small_bert_folder: Path) -> Pipeline:
    return whyformer.load(small_bert_folder)


@pytest.fixture(scope="session")
def small_roberta(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    from small_texts import save_roberta

    return whyformer.load(save_roberta(tmp_path_factory.mktemp("roberta")))
