"""A folder of results as `results.parquet`: a row for each input and class that was asked.

It is written from the records a few rows at a time, so that a million inputs take no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from whyformer.errors import InputError
from whyformer.files import whole_file
from whyformer.render.records import Record, scores_of

TABLE = "results.parquet"
#: rows that are in memory at once
ROWS = 1024


def require_pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "--parquet needs pyarrow, which comes with: pip install 'whyformer[evaluation]'"
        ) from error
    return pyarrow


def write_parquet(folder: Path, records: Iterable[Record]) -> None:
    """Without records there is nothing to write."""
    arrow = require_pyarrow()
    strings, numbers = arrow.list_(arrow.string()), arrow.list_(arrow.float32())
    kinds = {"predicted_probability": arrow.float64(), "asked_probability": arrow.float64()}
    kinds |= {"words": strings, "grid": arrow.list_(arrow.int32()), "relevance": numbers}
    schema = arrow.schema([(name, kinds.get(name, arrow.string())) for name in COLUMNS])
    rows = (row for record in records for row in rows_of(record))
    few = list(islice(rows, ROWS))
    if not few:
        return
    with (
        whole_file(folder / TABLE) as file,
        arrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        while few:
            writer.write_table(arrow.Table.from_pylist(few, schema=schema))
            few = list(islice(rows, ROWS))


COLUMNS = (
    "file", "text", "model", "method", "predicted", "predicted_probability", "true", "asked",
    "asked_probability", "words", "grid", "relevance", "result",
)  # fmt: skip


def rows_of(record: Record) -> Iterator[Record]:
    """What is not known is null."""
    label, share = _class(record["predicted"])
    for view in record["views"]:
        asked, asked_share = _class(view["asked"])
        yield {
            "file": record["file"],
            "text": record.get("text"),
            "model": record["model"],
            "method": record["method"],
            "predicted": label,
            "predicted_probability": share,
            "true": _class(record["true"])[0],
            "asked": asked,
            "asked_probability": asked_share,
            "words": [word for _, word, _ in view["words"]] if "words" in view else None,
            "grid": view.get("grid"),
            "relevance": scores_of(view),
            "result": record["result"],
        }


def _class(score: dict[str, Any] | None) -> tuple[str | None, float | None]:
    return (score["label"], score["probability"]) if score else (None, None)
