"""What a run over many files amounts to, for people and for programs.

The record of each file is :mod:`bloomparquet.writing.outcome`'s; here they are added up, column by column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bloomparquet.cli.render import human_bytes
from bloomparquet.writing.outcome import FIELDS, FileOutcome

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_COLUMN_FIELDS = ("column", "filters", "bytes", "fpp", "limited", "unused")


def to_json(outcome: FileOutcome) -> dict[str, Any]:
    """One file as values that ``json.dumps`` takes: what `outcome.FIELDS` has, and ``columns`` with one entry each."""
    columns = [{name: getattr(column, name) for name in _COLUMN_FIELDS} for column in outcome.columns]
    return {**{name: getattr(outcome, name) for name in FIELDS}, "columns": columns}


def failure(outcome: FileOutcome) -> str:
    """What went wrong with a file, with its path, which an error of the operating system may not name."""
    error = outcome.error or "unknown error"
    return error if outcome.path in error else f"{outcome.path}: {error}"


def to_rich(outcomes: Sequence[FileOutcome], *, verb: str, dry_run: bool = False) -> RenderableType:
    """Files by what became of them, new filters by column, bytes before and after."""
    from rich.console import Group

    parts: list[RenderableType] = [_files(outcomes, verb, dry_run)]
    if any(outcome.columns for outcome in outcomes):
        parts += ["", _columns(outcomes)]
    if any(outcome.action in ("added", "shrunk") for outcome in outcomes):
        parts += ["", _bytes(outcomes, dry_run)]
    dropped = sum(outcome.dropped for outcome in outcomes)
    if dropped:
        tense = "would be" if dry_run else "was" if dropped == 1 else "were"
        parts.append(f"{_plural(dropped, 'filter')} {tense} dropped: full, or empty over values.")
    if verb == "add":
        unused = {column.column: column.unused for outcome in outcomes for column in outcome.columns if column.unused}
        parts += [f"[yellow]never used:[/yellow] {_escape(name)}, which {why}." for name, why in unused.items()]
    if any(outcome.limited for outcome in outcomes):
        parts.append("[yellow]limited:[/yellow] allow more by --max-bytes, or write smaller row groups.")
    return Group(*parts)


def _files(outcomes: Sequence[FileOutcome], verb: str, dry_run: bool) -> str:
    count = Counter(outcome.action for outcome in outcomes)
    changed = count["added"] + count["shrunk"]
    what = {"add": "filters added to", "shrink": "filters made smaller in"}[verb]
    if dry_run:
        what = {"add": "filters would be added to", "shrink": "filters would be made smaller in"}[verb]
    parts = [f"{what} {changed:,} of {_plural(len(outcomes), 'file')}"] if changed else []
    if count["unchanged"]:
        parts.append(f"nothing to do in {count['unchanged']:,}" + ("" if parts else f" of {len(outcomes):,} files"))
    if count["copied"]:
        parts.append(f"{count['copied']:,} {'to be copied' if dry_run else 'copied'} as they are")
    if count["failed"]:
        parts.append(f"[red]{count['failed']:,} failed[/red] and {'is' if count['failed'] == 1 else 'are'} as before")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _columns(outcomes: Sequence[FileOutcome]) -> Table:
    from rich.table import Table

    filters: Counter[str] = Counter()
    size: Counter[str] = Counter()
    worst: dict[str, float] = {}
    for outcome in outcomes:
        for column in outcome.columns:
            filters[column.column] += column.filters
            size[column.column] += column.bytes
            worst[column.column] = max(worst.get(column.column, 0.0), column.fpp)
    limited = Counter(column for outcome in outcomes for column in outcome.limited)
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=len(filters) > 1, footer_style="bold")
    table.add_column("column", footer="total", overflow="fold")
    totals = {
        "filters": f"{filters.total():,}",
        "size": human_bytes(size.total()),
        "worst fpp": f"{100 * max(worst.values()):.2f} %",
    }
    for name, footer in totals.items():
        table.add_column(name, footer=footer, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name, number in filters.items():
        table.add_row(
            _escape(name),
            f"{number:,}",
            human_bytes(size[name]),
            f"{100 * worst[name]:.2f} %",
            f"[yellow]limited in {_plural(limited[name], 'file')}[/yellow]" if limited[name] else "",
        )
    return table


def _bytes(outcomes: Sequence[FileOutcome], dry_run: bool) -> str:
    before = sum(outcome.bytes_before for outcome in outcomes)
    after = sum(outcome.bytes_after for outcome in outcomes)
    sign, change = ("−" if after < before else "+"), abs(after - before)
    share = f"{100 * change / before:.1f} %" if before else ""
    would = "Would be" if dry_run else "Now"
    return (
        f"{would} {human_bytes(after)}, {'is' if dry_run else 'was'} {human_bytes(before)} "
        f"({sign}{human_bytes(change)}, {sign}{share})."
    )


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
