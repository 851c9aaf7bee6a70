"""Everything that the command line prints but advice: plans, filters, outcomes and rows, for people and as JSON values.

Functions here touch no file. rich is imported where it is used: ``--help`` does not need it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bloomparquet.cli.json_rows import rows
from bloomparquet.cli.terminal import printable
from bloomparquet.report.texts import common_directory, human_bytes, plural

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from bloomparquet.planning.plan import RowGroup, ScanPlan
    from bloomparquet.writing.outcome import ColumnOutcome, FileOutcome

EVIDENCE = {"partition": "partition values", "statistics": "min/max and null counts", "bloom": "Bloom filters"}
"""The name of each kind of evidence in a report, in the order in which it is consulted."""

_UNOPENED = "file"
_WIDE = 120  # characters, from which the filters of `inspect` are listed with all details


def console(*, stderr: bool = False) -> Console:
    """A rich console as wide as the terminal. Without a terminal it is wide enough that no path is folded."""
    from rich.console import Console

    terminal = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return terminal if terminal.is_terminal else Console(stderr=stderr, highlight=False, width=400)


def plan_to_json(plan: ScanPlan) -> dict[str, Any]:
    """The whole plan as values that ``json.dumps`` takes: seconds as float, sizes in bytes.

    ``unit`` says whether ``row_groups`` are row groups or stripes. ``opened_files`` counts those alone whose file was
    opened. ``row_group_counts`` counts the row groups within stripes; it is None for Parquet. A file of
    ``unopened_files`` is one entry of ``row_groups``, whose ``index`` and ``rows`` are None.
    """
    within = None
    if (counts := plan.row_group_counts) is not None:
        skipped = {"statistics": counts.by_statistics, "bloom": counts.by_bloom}
        within = {"total": counts.total, "kept": counts.kept, "skipped": skipped}
    in_opened = plan.skipped["partition"] - len(plan.excluded)
    return {
        "unit": plan.unit,
        "opened_files": {
            "files": len(plan.table.files),
            "total": len(plan.table),
            "kept": plan.kept - len(plan.unreadable),
            "skipped": {**{reason: plan.skipped[reason] for reason in EVIDENCE}, "partition": in_opened},
        },
        "unopened_files": {"skipped": len(plan.excluded), "read_whole": len(plan.unreadable)},
        "not_understood": plan.not_understood(),
        "columns_without_filters": plan.columns_without_filters(),
        "row_group_counts": within,
        "requests": plan.requests,
        "bloom_bytes_read": plan.bloom_bytes_read,
        "indexed_files": plan.indexed,
        "seconds": plan.seconds,
        "errors": [str(error) for error in plan.errors],
        "left_out": [str(error) for error in plan.left_out.values()],
        "row_groups": [asdict(group) for group in plan.row_groups],
    }


def plan_report(plan: ScanPlan, *, show_skipped: bool = False, limit: int | None = 20) -> RenderableType:
    """A summary, then the kept row groups (stripes of ORC), or with `show_skipped` all of them.

    At most `limit` of these lines are shown (None: all). A last line counts the others.
    """
    from rich.console import Group

    parts: list[RenderableType] = [_plan_summary(plan), ""]
    if (counts := plan.row_group_counts) is not None:
        parts.append(
            f"Row groups within stripes: {counts.kept:,} of {counts.total:,} might match; statistics exclude "
            f"{counts.by_statistics:,}, Bloom filters {counts.by_bloom:,}."
        )
    filters = f"{human_bytes(plan.bloom_bytes_read)} of filters" if plan.bloom_bytes_read else "no filter"
    index = f" {plan.indexed:,} of {len(plan.table.files):,} files by the index." if plan.indexed else ""
    cost = f"{plural(plan.requests, 'request')}, {filters} read.{index}"
    parts.append(f"Planned in {1000 * plan.seconds:,.0f} ms: {cost}")
    parts += [f"[yellow]unusable:[/yellow] {escaped(str(error))}" for error in plan.errors]
    parts += [f"[yellow]left out:[/yellow] {escaped(str(error))}" for error in plan.left_out.values()]
    shown = plan.row_groups if show_skipped else plan.kept_row_groups()
    if shown:
        base = common_directory(group.path for group in plan.row_groups)
        parts += ["", _plan_row_groups(shown, plan.unit, base, limit)]
    return Group(*parts)


def _plan_summary(plan: ScanPlan) -> Table:
    """One line for each kind of evidence, with the row groups (stripes of ORC), rows and bytes that it excludes.

    The line after them has those that are left to read. Files that partition values exclude are counted as files: they
    are not opened, so their row groups are not known.
    """
    count, n_rows, size = Counter[str](), Counter[str](), Counter[str]()
    for group in plan.row_groups:
        key = _UNOPENED if group.index is None else group.reason or ""
        count[key] += 1
        n_rows[key] += group.rows or 0
        size[key] += group.length
    unopened, opened = count[_UNOPENED], count.total() - count[_UNOPENED]
    table = new_table("", right=(f"{plan.unit}s", "rows", "data", ""))
    for key, name in [(_UNOPENED, "partition values, unopened"), *EVIDENCE.items(), ("", "")]:
        if not count[key] and key in (_UNOPENED, "partition"):
            continue
        table.add_row(
            f"skipped by {name}" if name else "read",
            plural(count[key], "file") if key == _UNOPENED else f"{count[key]:,}",
            "?" if key == _UNOPENED else f"{n_rows[key]:,}",
            human_bytes(size[key]),
            percent(size[key] / size.total()) if size.total() else "",
            style="green" if not name else "" if count[key] else "dim",
        )
    units = f"{plural(unopened, 'file')} + {opened:,}" if unopened else f"{opened:,}"
    table.add_row("total", units, f"{n_rows.total():,}", human_bytes(size.total()), "", style="bold")
    return table


def _plan_row_groups(groups: Sequence[RowGroup], unit: str, base: str, limit: int | None) -> Table:
    table = new_table("file", right=(unit, "rows", "data"))
    table.add_column("", no_wrap=True)
    for group in groups[:limit]:
        table.add_row(
            escaped(group.path[len(base) :]),
            "all" if group.index is None else str(group.index),
            "?" if group.rows is None else f"{group.rows:,}",
            human_bytes(group.length),
            "read" if group.kept else f"skipped by {EVIDENCE[group.reason or '']}",
            style="green" if group.kept else "dim",
        )
    if limit is not None and len(groups) > limit:
        table.add_row(f"… and {plural(len(groups) - limit, unit)} more", style="dim")
    return table


def filters_report(filters: pa.Table, *, width: int, limit: int | None = 20) -> RenderableType:
    """A summary of each column, then at most `limit` filters (None: all) of the table of `bloomparquet.inspect`.

    A last line counts the others. Numbers are rounded, and the directory that all files share is left out; on a narrow
    terminal also the details that fewest need.
    """
    from rich.console import Group

    by_column = filters.group_by("column", use_threads=False)
    totals = by_column.aggregate([("bytes", "count"), ("bytes", "sum"), ("estimated_fpp", "max")]).to_pylist()
    summary = _filter_totals(
        [(row["column"], row["bytes_count"], row["bytes_sum"], row["estimated_fpp_max"] or 0.0, "") for row in totals]
    )
    parts: list[RenderableType] = [summary, "", _filter_lines(filters, width, limit)]
    if "page_index" in filters.column_names:
        parts.insert(1, page_index_line(sum(filters["page_index"].to_pylist()), len(filters), "filter"))
    if limit is not None and len(filters) > limit:
        parts.append(f"[dim]… and {plural(len(filters) - limit, 'filter')} more; --limit 0 lists all[/dim]")
    return Group(*parts)


def page_index_line(number: int, total: int, unit: str) -> str:
    """Whether files have a page index, of which `number` of `total` row groups or filters lie in files with one."""
    share = {0: "no", total: "yes"}.get(number, f"in the files of {number:,} of {plural(total, unit)}")
    return f"page index: {share}"


def _filter_lines(filters: pa.Table, width: int, limit: int | None) -> Table:
    table = new_table()
    left_out = ("page_index", *(("offset", "bits_set", "type") if width < _WIDE else ()))
    names = [
        name
        for name in filters.column_names
        if name not in left_out and (name != "unusable" or filters[name].null_count < len(filters))
    ]
    for name in names:
        text = name in ("file", "column", "type", "unusable")
        table.add_column(
            name.replace("_", "\n").replace("ndv", "NDV").replace("fpp", "FPP"),
            justify="left" if text else "right",
            overflow="fold",
            no_wrap=not text,
            min_width={"file": 12, "column": 8}.get(name),
        )
    base = common_directory(filters["file"].unique().to_pylist())
    for row in filters.slice(0, limit).to_pylist():
        cells = {
            "file": escaped(row["file"][len(base) :]),
            "row_group": str(row["row_group"]),
            "estimated_ndv": f"{row['estimated_ndv']:,.0f}",
            "estimated_fpp": f"{100 * row['estimated_fpp']:.4f} %",
            "type": escaped(short_type(row["type"])),
        }
        for name in names:
            value = row[name]
            cells.setdefault(name, f"{value:,}" if isinstance(value, int) else escaped(str(value or "")))
        table.add_row(*map(cells.__getitem__, names))
    return table


def _filter_totals(columns: Sequence[tuple[str, int, int, float, str]]) -> Table:
    """One line per column (name, number of filters, bytes, highest FPP, note), and a total."""
    table = new_table("column", right=("filters", "size", "highest FPP"))
    table.add_column("", no_wrap=True)
    for name, number, size, fpp, note in columns:
        table.add_row(escaped(name), f"{number:,}", human_bytes(size), f"{100 * fpp:.2f} %", note)
    if len(columns) > 1:
        _, numbers, sizes, worst, _ = zip(*columns, strict=True)
        table.add_row(
            "total", f"{sum(numbers):,}", human_bytes(sum(sizes)), f"{100 * max(worst):.2f} %", "", style="bold"
        )
    return table


def outcome_to_json(outcome: FileOutcome) -> dict[str, Any]:
    """One file as values that ``json.dumps`` takes: the fields of the outcome, and ``columns`` with one entry each."""
    from bloomparquet.writing.outcome import FIELDS

    return {**{name: getattr(outcome, name) for name in FIELDS}, "columns": list(map(asdict, outcome.columns))}


def outcomes_report(outcomes: Sequence[FileOutcome], *, verb: str, dry_run: bool = False) -> RenderableType:
    """The numbers of changed and other files, new filters by column, bytes before and after."""
    from rich.console import Group

    parts: list[RenderableType] = [_outcome_counts(outcomes, verb, dry_run)]
    if any(outcome.columns for outcome in outcomes):
        parts += ["", _outcome_columns(outcomes)]
    if any(outcome.action in ("added", "shrunk") for outcome in outcomes):
        parts += ["", _outcome_bytes(outcomes, dry_run)]
    dropped = sum(outcome.dropped for outcome in outcomes)
    if dropped:
        tense = "would be" if dry_run else "was" if dropped == 1 else "were"
        parts.append(
            f"{plural(dropped, 'filter')} {tense} dropped: "
            "nearly all bits were set, or no bit was set although the column has values."
        )
    if verb == "add":
        unused = {column.column: column.unused for outcome in outcomes for column in outcome.columns if column.unused}
        parts += [f"[yellow]not useful:[/yellow] {escaped(name)} {why}." for name, why in unused.items()]
    if any(outcome.limited for outcome in outcomes):
        parts.append(
            "[yellow]size limit reached:[/yellow] allow larger filters with --max-bytes, or write smaller row groups."
        )
    return Group(*parts)


def _outcome_counts(outcomes: Sequence[FileOutcome], verb: str, dry_run: bool) -> str:
    count = Counter(outcome.action for outcome in outcomes)
    changed = count["added"] + count["shrunk"]
    done = {"add": "added to", "shrink": "made smaller in"}[verb]
    files = plural(len(outcomes), "file")
    parts = [f"filters {'would be ' if dry_run else ''}{done} {changed:,} of {files}"] if changed else []
    if count["unchanged"]:
        parts.append(f"nothing to do in {count['unchanged']:,}" + ("" if parts else f" of {len(outcomes):,} files"))
    if count["copied"]:
        parts.append(f"{count['copied']:,} {'to be copied' if dry_run else 'copied'} unchanged")
    if count["failed"]:
        parts.append(f"[red]{count['failed']:,} failed[/red] and {'is' if count['failed'] == 1 else 'are'} unchanged")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _outcome_columns(outcomes: Sequence[FileOutcome]) -> Table:
    by_name: dict[str, list[ColumnOutcome]] = {}
    for column in (column for outcome in outcomes for column in outcome.columns):
        by_name.setdefault(column.column, []).append(column)
    totals = []
    for name, columns in by_name.items():
        limited = sum(column.limited for column in columns)
        note = f"[yellow]hit --max-bytes in {plural(limited, 'file')}[/yellow]" if limited else ""
        filters, size = sum(column.filters for column in columns), sum(column.bytes for column in columns)
        totals.append((name, filters, size, max(column.fpp for column in columns), note))
    return _filter_totals(totals)


def _outcome_bytes(outcomes: Sequence[FileOutcome], dry_run: bool) -> str:
    before = sum(outcome.bytes_before for outcome in outcomes)
    after = sum(outcome.bytes_after for outcome in outcomes)
    sign, change = ("−" if after < before else "+"), abs(after - before)
    share = f"{100 * change / before:.1f} %" if before else ""
    would = "Would be" if dry_run else "Now"
    return (
        f"{would} {human_bytes(after)}, {'is' if dry_run else 'was'} {human_bytes(before)} "
        f"({sign}{human_bytes(change)}, {sign}{share})."
    )


def head(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first `limit` rows (None: all). Later batches are not read."""
    left = limit
    for batch in batches:
        if left is not None and batch.num_rows >= left:
            yield batch.slice(0, left)
            return
        left = None if left is None else left - batch.num_rows
        yield batch


def print_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch], most: int) -> None:
    """At most `most` rows as a table on stdout. If there are more, a line on stderr says so."""
    from rich.text import Text

    table = new_table()
    for field in schema:
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        table.add_column(escaped(field.name), justify="right" if numeric else "left", overflow="fold")
    left, more = most, False
    for batch in batches:
        for row in islice(rows(batch), left):
            table.add_row(*map(_cell, row))
        more = batch.num_rows > left
        left -= min(left, batch.num_rows)
        if more:
            break
    console().print(table)
    if more:
        text = f"only the first {most} rows are shown; --limit or --json give more"
        console(stderr=True).print(Text(text, style="dim"))


def _cell(value: Any) -> RenderableType:
    from rich.text import Text

    if value is None:
        return Text("null", style="dim")
    return Text(printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))


def new_table(*left: str, right: Sequence[str] = (), **options: Any) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", **options)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def short_type(name: str) -> str:
    """``STRING`` for ``BYTE_ARRAY (STRING)``."""
    return name.rpartition("(")[2].rstrip(")")


def escaped(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))
