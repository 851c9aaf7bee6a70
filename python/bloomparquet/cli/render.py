"""A scan plan for people and for programs: as a rich table, as plain text, as JSON values.

A plan's ``repr`` is one line and belongs to the plan. What is here answers the next question, "which row groups (of
ORC: stripes), and why?", and is kept apart so that planning needs neither rich nor a terminal. Functions here touch no
file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType
    from rich.table import Table

    from bloomparquet.planning.plan import RowGroup, RowGroupCounts, ScanPlan

#: How each kind of evidence is called in a report, in the order in which it is consulted.
EVIDENCE = {"partition": "partition values", "statistics": "min/max and null counts", "bloom": "Bloom filters"}

_UNOPENED = "file"


def to_json(plan: ScanPlan) -> dict[str, Any]:
    """The whole plan as values that ``json.dumps`` takes: seconds as float, sizes in bytes.

    ``row_groups`` are what ``unit`` says; ``inside`` counts the row groups within stripes, and is None for Parquet. A
    file that partition values exclude is one entry of ``row_groups``, whose ``index`` and ``rows`` are None.
    """
    return {
        "unit": plan.unit,
        "total": plan.total,
        "kept": plan.kept,
        "skipped": {reason: plan.skipped[reason] for reason in EVIDENCE},
        "inside": None if plan.inside is None else _inside(plan.inside),
        "requests": plan.requests,
        "bloom_bytes_read": plan.bloom_bytes_read,
        "seconds": plan.seconds,
        "errors": [str(error) for error in plan.errors],
        "row_groups": [
            {
                "path": group.path,
                "index": group.index,
                "rows": group.rows,
                "start": group.start,
                "length": group.length,
                "kept": group.kept,
                "reason": group.reason,
            }
            for group in plan.row_groups
        ],
    }


def to_rich(plan: ScanPlan, *, detail: str = "kept", limit: int | None = 20) -> RenderableType:
    """The summary, then `detail`: ``"kept"`` row groups (of ORC: stripes), every ``"file"``, ``"all"`` row groups, or
    ``"none"``.

    At most `limit` lines of detail are shown (None: all of them), and what was left out is counted in the last one.
    """
    from rich.console import Group

    parts: list[RenderableType] = [summary(plan), ""]
    if plan.inside is not None:
        parts.append(_tell_inside(plan.inside))
    parts.append(_cost(plan))
    parts += [f"[yellow]not usable:[/yellow] {_escape(str(error))}" for error in plan.errors]
    base = _common(group.path for group in plan.row_groups)
    if detail == "file":
        parts += ["", _files(plan.row_groups, plan.unit, base, limit)]
    elif detail == "all":
        parts += ["", _row_groups(plan.row_groups, plan.unit, base, limit)]
    elif detail == "kept" and plan.kept:
        parts += ["", _row_groups(plan.kept_row_groups(), plan.unit, base, limit)]
    return Group(*parts)


def summary(plan: ScanPlan) -> Table:
    """One line per kind of evidence: what it spared, in row groups (of ORC: stripes), rows and bytes of data; then what
    is left to read.

    Files that partition values exclude are counted as files: they are not opened, so nobody knows their row groups.
    """
    from rich.table import Table

    count: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for group in plan.row_groups:
        key = _UNOPENED if group.index is None else group.reason or ""
        count[key] += 1
        rows[key] += group.rows or 0
        size[key] += group.length
    unopened, opened = count[_UNOPENED], count.total() - count[_UNOPENED]
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True, footer_style="bold")
    table.add_column("", footer="total", no_wrap=True)
    totals = {
        f"{plan.unit}s": f"{_plural(unopened, 'file')} + {opened:,}" if unopened else f"{opened:,}",
        "rows": f"{rows.total():,}",
        "data": human_bytes(size.total()),
        " ": "",
    }
    for name, footer in totals.items():
        table.add_column(name, footer=footer, justify="right", no_wrap=True)
    for key, name in [(_UNOPENED, "partition values, unopened"), *EVIDENCE.items(), ("", "")]:
        if not count[key] and key in (_UNOPENED, "partition"):
            continue
        table.add_row(
            f"skipped by {name}" if name else "read",
            _plural(count[key], "file") if key == _UNOPENED else f"{count[key]:,}",
            "?" if key == _UNOPENED else f"{rows[key]:,}",
            human_bytes(size[key]),
            f"{100 * size[key] / size.total():.0f} %" if size.total() else "",
            style="green" if not name else "" if count[key] else "dim",
        )
    return table


def filters_to_rich(filters: pa.Table) -> Table:
    """The table of `bloomparquet.inspect`, rounded for reading and without the directory that all files share."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    names = [name for name in filters.column_names if name != "unusable" or filters[name].null_count < len(filters)]
    for name in names:
        text = name in ("file", "column", "type", "unusable")
        table.add_column(name.replace("_", " "), justify="left" if text else "right", overflow="fold", no_wrap=not text)
    base = _common(filters["file"].unique().to_pylist())
    for row in filters.to_pylist():
        shown = {
            "file": _escape(row["file"][len(base) :]),
            "row_group": str(row["row_group"]),
            "estimated_ndv": f"{row['estimated_ndv']:,.0f}",
            "estimated_fpp": f"{100 * row['estimated_fpp']:.4f} %",
        }
        for name in names:
            found = row[name]
            shown.setdefault(name, f"{found:,}" if isinstance(found, int) else _escape(str(found or "")))
        table.add_row(*map(shown.__getitem__, names))
    return table


def human_bytes(count: int) -> str:
    """``"1.5 MiB"``: a size with three digits at most before its unit."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 5)
    size = count / 1024**power
    return f"{size:.{1 if size < 100 else 0}f} {'KMGTP'[power - 1]}iB"


def human_seconds(seconds: float) -> str:
    """``"14 ms"`` or ``"2.35 s"``."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


def _cost(plan: ScanPlan) -> str:
    filters = f"{human_bytes(plan.bloom_bytes_read)} of filters" if plan.bloom_bytes_read else "no filter"
    return f"Planned in {human_seconds(plan.seconds)}: {_plural(plan.requests, 'request')}, {filters} read."


def _inside(inside: RowGroupCounts) -> dict[str, Any]:
    skipped = {"statistics": inside.by_statistics, "bloom": inside.by_bloom}
    return {"total": inside.total, "kept": inside.kept, "skipped": skipped}


def _tell_inside(inside: RowGroupCounts) -> str:
    """What is known of the row groups within stripes: of a stripe that holds one which might match, all are read."""
    told = f"Row groups inside: {inside.kept:,} of {inside.total:,} might match"
    if inside.kept == inside.total:
        return f"{told}."
    return f"{told}; statistics exclude {inside.by_statistics:,}, Bloom filters {inside.by_bloom:,}."


def _files(groups: Sequence[RowGroup], unit: str, base: str, limit: int | None) -> Table:
    from rich.table import Table

    counts: dict[str, Counter[str]] = {}
    unopened = set()
    for group in groups:
        counts.setdefault(group.path, Counter())[group.reason or ""] += 1
        if group.index is None:
            unopened.add(group.path)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("file", overflow="fold")
    for name in (f"{unit}s", "skipped by statistics", "by Bloom filter", "read"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for path, count in islice(counts.items(), limit):
        cells = (count.total(), count["statistics"], count["bloom"], count[""])
        table.add_row(
            _escape(path[len(base) :]),
            *(["?", "", "", ""] if path in unopened else [f"{cell:,}" if cell else "·" for cell in cells]),
            "skipped by partition values" if count["partition"] else "",
            style="green" if count[""] else "dim",
        )
    _rest(table, len(counts), limit, "file")
    return table


def _row_groups(groups: Sequence[RowGroup], unit: str, base: str, limit: int | None) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("file", overflow="fold")
    for name in (unit, "rows", "data"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for group in groups[:limit]:
        table.add_row(
            _escape(group.path[len(base) :]),
            "all" if group.index is None else str(group.index),
            "?" if group.rows is None else f"{group.rows:,}",
            human_bytes(group.length),
            "read" if group.kept else f"skipped by {EVIDENCE[group.reason or '']}",
            style="green" if group.kept else "dim",
        )
    _rest(table, len(groups), limit, unit)
    return table


def _rest(table: Table, total: int, limit: int | None, what: str) -> None:
    if limit is not None and total > limit:
        table.add_row(f"… and {_plural(total - limit, what)} more", style="dim")


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _common(paths: Iterable[str]) -> str:
    """The directory that all paths share, with its slash, so that a report can leave it out."""
    folders = {path[: path.rfind("/") + 1] for path in paths}
    first, last = min(folders, default=""), max(folders, default="")
    same = next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("/", 0, same) + 1]


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
