"""Shortcuts to the rows of advice."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bloomparquet.writing.advice.advise import advise


def by_column(answer: pa.Table) -> dict[str, dict[str, Any]]:
    return {row["column"]: row for row in answer.to_pylist()}


def only(path: Any, **more: Any) -> dict[str, Any]:
    (row,) = advise(path, **more).to_pylist()
    return row  # type: ignore[no-any-return]
