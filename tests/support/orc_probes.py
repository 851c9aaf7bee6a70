"""ORC files with filters on every column, and probes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc

import bloomparquet as bp

STRIPE, STRIDE = 300, 100


MAYBE, ABSENT = bp.Verdict.MIGHT_MATCH, bp.Verdict.CANNOT_MATCH


def write(path: Path, table: pa.Table, **options: Any) -> str:
    """A file with stripes of 300 rows, row groups of 100, and filters on every column, nested ones too."""
    given = {"bloom_filter_columns": list(range(1, 40)), "bloom_filter_fpp": 0.001, "row_index_stride": STRIDE}
    orc.write_table(table, path, stripe_size=1, batch_size=STRIPE, **{**given, **options})
    return str(path)


def might_match(path: str | Path, value: Any, column: str = "c0") -> list[int]:
    answers = bp.probe(path, column=column, value=value)
    assert [answer.row_group for answer in answers] == list(range(len(answers)))
    return [answer.row_group for answer in answers if answer.verdict is MAYBE]
