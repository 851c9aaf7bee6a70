"""Shortcuts to the rows of advice, and reports as text."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from rich.console import Console

from bloomparquet.writing.advice.advise import advise


def by_column(answer: pa.Table) -> dict[str, dict[str, Any]]:
    return {row["column"]: row for row in answer.to_pylist()}


def only(path: Any, **more: Any) -> dict[str, Any]:
    (row,) = advise(path, **more).to_pylist()
    return row  # type: ignore[no-any-return]


def printed(report: Any, width: int = 400) -> str:
    """What a terminal of this width shows of a report."""
    out = io.StringIO()
    Console(file=out, width=width).print(report)
    return out.getvalue()
