"""The counts of read and skipped row groups of a scan, as a bar and as a table that is the legend of the bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bloomparquet.report.cells import Mark, bar, cell
from bloomparquet.report.html import table, text
from bloomparquet.report.texts import plural, share


class Count(NamedTuple):
    """The number of row groups with one mark, and of their rows if known.

    `files` is the number of whole files beside them, whose row groups and rows are not known.
    """

    mark: Mark
    units: int
    rows: int | None = None
    files: int = 0


def counts(parts: Sequence[Count], unit: str) -> str:
    """The bar, and its legend with numbers."""
    shown = [part for part in parts if part.units or part.files]
    if not shown:
        return ""
    total, files = sum(part.units for part in shown), sum(part.files for part in shown)
    head, right = ["", "", f"{unit}s"], [2]
    columns = [[_number(part.units, part.files) for part in shown] + [_number(total, files)]]
    if not files:
        head.append("share")
        columns.append([share(part.units, total) for part in shown] + [""])
    if any(part.rows is not None for part in shown):
        head.append("rows")
        known = sum(part.rows or 0 for part in shown)
        columns.append([_rows(part) for part in shown] + [f"at least {known:,}" if files else f"{known:,}"])
    right = list(range(2, len(head)))
    legends = [[cell(part.mark), text(part.mark.label)] for part in shown] + [["", "total"]]
    rows = [[*legend, *numbers] for legend, *numbers in zip(legends, *columns)]
    pieces = [(part.mark, part.units + part.files) for part in shown]
    label = ", ".join(f"{mark.label}: {count:,}" for mark, count in pieces)
    return bar(pieces, label) + table(head, rows, right=right, last=True)


def _number(count: int, files: int) -> str:
    return " + ".join(
        [*([plural(files, "whole file")] if files else []), *([f"{count:,}"] if count or not files else [])]
    )


def _rows(part: Count) -> str:
    return "?" if part.rows is None or (part.files and not part.units) else f"{part.rows:,}"
