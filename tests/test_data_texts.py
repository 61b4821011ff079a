"""ERASER directories: written, read back, and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whyformer.errors import InputError
from whyformer.evaluation.data.documents import open_documents

SENTIMENT = ["negative", "positive"]


def eraser(folder: Path, *entries: Any) -> Path:
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    (folder / "docs" / "a.txt").write_text("a dull film .\nbut warm at heart .")
    (folder / "docs" / "empty.txt").write_text("\n")
    whole = {"annotation_id": "a.txt", "classification": "POS", "evidences": []}
    lines = [json.dumps({**whole, **entry}) for entry in entries]
    (folder / "test.jsonl").write_text("\n".join(lines))
    return folder


class TestEraser:
    def test_a_query_is_the_documents(self, tmp_path: Path) -> None:
        asked = [{"annotation_id": str(i), "docids": ["a.txt"], "query": f"{i} ?"} for i in (1, 2)]
        samples = open_documents(str(eraser(tmp_path, *asked)), "test", SENTIMENT, None)
        assert [samples[i].query for i in range(2)] == ["1 ?", "2 ?"]
        assert samples[0].tokens[:2] == ["a", "dull"]
        assert samples[0].evidence == frozenset()
        assert samples[0].docid == "a.txt"

    def test_a_line_ends_only_where_the_file_says_so(self, tmp_path: Path) -> None:
        folder = eraser(tmp_path, {"query": "one\u2028line"})
        path = folder / "test.jsonl"
        path.write_text(path.read_text().replace("\\u2028", "\u2028"), encoding="utf-8")
        assert len(open_documents(str(folder), "test", SENTIMENT, None)) == 1

    def test_a_query_that_all_share_is_the_task(self, tmp_path: Path) -> None:
        asked = [{"annotation_id": str(i), "docids": ["a.txt"], "query": "Why?"} for i in (1, 2)]
        samples = open_documents(str(eraser(tmp_path, *asked)), "test", SENTIMENT, None)
        assert samples[0].query is None

    @pytest.mark.parametrize("docids", [None, [], ["a.txt"]])
    def test_documents_without_evidence(self, tmp_path: Path, docids: Any) -> None:
        folder = eraser(tmp_path, {"docids": docids})
        assert len(open_documents(str(folder), "test", SENTIMENT, 1)[0].tokens) == 9

    def test_an_empty_span_marks_nothing(self, tmp_path: Path) -> None:
        """The movie reviews have such a span."""
        spans = [{"docid": "a.txt", "start_token": s, "end_token": 3} for s in (3, 2)]
        folder = eraser(tmp_path, {"evidences": [[spans[0]], [spans[1]]]})
        assert open_documents(str(folder), "test", SENTIMENT, 1)[0].evidence == {2}

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ({"docids": ["a.txt", "b.txt"]}, "2 documents"),
            ({"docids": "a.txt"}, "docids are 'a.txt'"),
            ({"docids": ["empty.txt"]}, "is empty"),
            ({"docids": [".."]}, "no such file"),
            ({"evidences": {"docid": "a.txt"}}, "no list of lists"),
            ({"evidences": [{"docid": "a.txt"}]}, "no list of lists"),
            ({"evidences": [["a.txt"]]}, "lacks docid, start_token, end_token"),
            ({"evidences": [[{"docid": "a.txt", "start_token": 1}]]}, "lacks end_token"),
            (
                {"evidences": [[{"docid": "a.txt", "start_token": 1.5, "end_token": 2}]]},
                "1.5 to 2: expected two whole numbers",
            ),
            (
                {"evidences": [[{"docid": "a.txt", "start_token": -1, "end_token": 2}]]},
                "from token -1 to 2",
            ),
        ],
    )
    def test_bad_samples(self, tmp_path: Path, entry: Any, said: str) -> None:
        samples = open_documents(str(eraser(tmp_path, entry)), "test", SENTIMENT, None)
        with pytest.raises(InputError, match=said):
            samples[0]

    def test_bad_directories(self, tmp_path: Path) -> None:
        folder = str(eraser(tmp_path, {}, {}))
        with pytest.raises(InputError, match=r"lists 'a\.txt' twice"):
            open_documents(folder, "test", SENTIMENT, None)
        with pytest.raises(InputError, match="it has the splits test"):
            open_documents(folder, "val", SENTIMENT, None)
        eraser(tmp_path)
        with pytest.raises(InputError, match="no samples"):
            open_documents(folder, "test", SENTIMENT, None)
        (tmp_path / "test.jsonl").write_text('{"annotation_id": "a"}')
        with pytest.raises(InputError, match="line 1: 'classification' is missing"):
            open_documents(folder, "test", SENTIMENT, None)

    def test_the_fingerprint_follows_the_entries(self, tmp_path: Path) -> None:
        found = []
        for verdict in ("POS", "NEG"):
            folder = str(eraser(tmp_path, {"classification": verdict}))
            found.append(open_documents(folder, "test", SENTIMENT, 1).fingerprint)
        assert found[0] != found[1]
