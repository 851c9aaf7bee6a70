"""Draws the table of `bloomparquet.advise` as HTML: the shares that min/max and filters skip, and the advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bloomparquet.report.cells import bar, cell
from bloomparquet.report.html import fragment, table, text
from bloomparquet.report.marks import BLOOM, READ, STATISTICS
from bloomparquet.report.texts import human_bytes, plural

_PARTS = 1_000  # of a bar
_CHANGES = ("add", "replace", "shrink", "drop")
_MOST_COLUMNS = 200


def draw_advice(advice: pa.Table) -> str:
    """The table of `bloomparquet.advise` as a picture for a notebook."""
    columns = advice.to_pylist()
    changes = [column for column in columns if column["advice"] in _CHANGES]
    doing = ", ".join(f"{column['advice']} {column['column']}" for column in changes)
    what = f"<b>{text(doing, 500)}</b>" if changes else "<b>There is nothing to do.</b>"
    rows = [_row(column) for column in sorted(columns, key=lambda column: column["advice"] not in _CHANGES)]
    head = ["column", "type", "advice", "a lookup of one value", "size now", "size needed", "because"]
    legend = "".join(
        f'{cell(mark)} {text(label)} <span style="margin-right:1.5em"></span>'
        for mark, label in ((STATISTICS, "min/max skips"), (BLOOM, "filters skip"), (READ, "is read"))
    )
    parts = [
        f'<p class="bp-head">Filters of {plural(len(columns), "column")}: {what}</p>',
        f'<p class="bp-legend">{legend}</p>',
        table(head, rows[:_MOST_COLUMNS], right=(4, 5), short=(2,), style="bp-named"),
    ]
    if len(rows) > _MOST_COLUMNS:
        parts.append(f"<p>and {len(rows) - _MOST_COLUMNS:,} more columns</p>")
    return fragment(*parts)


def _row(column: Mapping[str, Any]) -> list[str]:
    advice = text(column["advice"])
    return [
        text(column["column"]),
        text(column["type"]),
        f"<b>{advice}</b>" if column["advice"] in _CHANGES else advice,
        _lookup(column["min_max_skip"], column["skip_rate"]),
        human_bytes(column["filter_bytes_now"]) if column["filters"] else "",
        "" if column["filter_bytes"] is None else human_bytes(column["filter_bytes"]),
        text(column["reason"], 500),
    ]


def _lookup(by_min_max: float | None, by_filters: float | None) -> str:
    """The shares of row groups that a lookup skips and reads, as a bar."""
    if by_min_max is None:
        return '<span class="bp-dim">unknown</span>'
    statistics = round(_PARTS * by_min_max)
    bloom = min(round(_PARTS * (by_filters or 0.0)), _PARTS - statistics)
    parts = [(STATISTICS, statistics), (BLOOM, bloom), (READ, _PARTS - statistics - bloom)]
    names = ("min/max skips", "filters skip", "read:")
    label = ", ".join(f"{name} {part / 10:.0f} %" for name, (_, part) in zip(names, parts) if part >= 5)
    return f'{bar(parts, label)}<span class="bp-dim">{label}</span>'
