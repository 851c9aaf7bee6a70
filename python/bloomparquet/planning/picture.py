"""Draws a plan as HTML: the evidence that decided about each row group, the cost, and why not more is skipped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.planning.decisions import WHOLE_FILE, Decisions, describe_index
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.query.verdict import DECISIONS, Decision
from bloomparquet.report import cells, marks
from bloomparquet.report.cells import Codes
from bloomparquet.report.counts import Count, counts
from bloomparquet.report.html import code, fragment, text
from bloomparquet.report.texts import common_directory, human_bytes, plural

_MARKS = {
    Decision.READ: marks.READ,
    Decision.CONSTANT: marks.CONSTANT,
    Decision.PARTITION: marks.PARTITION,
    Decision.NULLS: marks.NULLS,
    Decision.BOUNDS: marks.BOUNDS,
    Decision.INDEX: marks.INDEX,
    Decision.BLOOM: marks.BLOOM,
}
_BY_CODE = [_MARKS[decision] for decision in DECISIONS]
_READ = Decision.READ.code

_MOST_LINES = 40  # files of a grid
_MOST_PER_FILE = 480  # cells of a file in a grid
_MOST_READ_FILES = 20  # files below a field
_MOST_ERRORS = 5


class _Units(NamedTuple):
    """The row groups of a plan, file after file, each file once.

    Per row group: `code` is the evidence that decided, `position` its file among the n `paths`, and `number` its index
    in the file.
    """

    paths: list[str]
    position: NDArray[np.int64]
    number: NDArray[np.int64]
    code: Codes


def draw_plan(plan: ScanPlan) -> str:
    """The picture of `plan` for a notebook."""
    decisions = plan.decisions()
    cells_of_files = _cells(plan, _units(plan, decisions))
    return fragment(
        _headline(plan), _counts(plan, decisions), _cost(plan), cells_of_files, _explanation(plan), _errors(plan)
    )


def _headline(plan: ScanPlan) -> str:
    entries = len(plan.excluded) + len(plan.unreadable)
    parts = [f"{plan.kept - len(plan.unreadable):,} of {plan.total - entries:,} {plan.unit}s read"]
    if plan.unreadable:
        parts.append(f"{plural(len(plan.unreadable), 'file')} read whole")
    what = f"<b>{text('; '.join(parts))}</b> from {plural(len(plan.dataset.files), 'file')}"
    where = "" if plan.where is None else f"<br>where {code(plan.where, 1_000)}"
    return f'<p class="bp-head">{what}{where}</p>'


def _counts(plan: ScanPlan, decisions: Decisions) -> str:
    decision, opened = decisions.decision, len(plan.table)
    n_marks = len(DECISIONS)
    rows = np.zeros(n_marks, np.int64)
    np.add.at(rows, decision[:opened], np.asarray(plan.table.rows, np.int64))
    units = np.bincount(decision[:opened], minlength=n_marks).tolist()
    files = np.bincount(decision[opened:], minlength=n_marks).tolist()
    read, *skipped = (Count(*each) for each in zip(_BY_CODE, units, rows.tolist(), files))
    return counts([*skipped, read], plan.unit)


def _cost(plan: ScanPlan) -> str:
    parts = [f"Planned in {_milliseconds(plan.seconds)}"]
    if plan.seconds_by_part:
        slowest, seconds = max(plan.seconds_by_part.items(), key=lambda part: part[1])
        parts[0] += f" (the slowest part: {slowest}, {_milliseconds(seconds)})"
    parts.append(plural(plan.requests, "request"))
    parts.append(f"{human_bytes(plan.bloom_bytes_read)} of filters read")
    if plan.indexed:
        parts.append(describe_index(plan.indexed, len(plan.table.files)))
    if (within := plan.row_group_counts) is not None:
        parts.append(f"{within.kept:,} of {within.total:,} row groups in the stripes might match")
    return f'<p class="bp-dim">{text("; ".join(parts))}.</p>'


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.{1 if seconds < 0.01 else 0}f} ms"


def _units(plan: ScanPlan, decisions: Decisions) -> _Units:
    order = np.lexsort((decisions.row_group, decisions.file))
    files, position = np.unique(decisions.file[order], return_inverse=True)
    paths = [plan.dataset.files[i].path for i in files.tolist()]
    return _Units(paths, position, decisions.row_group[order], decisions.decision[order])


def _cells(plan: ScanPlan, units: _Units) -> str:
    if not plan.total:
        return f"<p>The files have no {plan.unit}: there is nothing to read.</p>"
    base = len(common_directory(units.paths))
    names = [path[base:] for path in units.paths]
    if len(names) <= _MOST_LINES:
        return _grid(units, names, range(len(names)), plan.unit)
    by_file = cells.combine(units.code, units.position, len(names), len(DECISIONS), _READ)
    codes, per_cell = cells.binned(by_file, cells.MOST_CELLS, len(DECISIONS), _READ)

    def title(first: int, last: int) -> str:
        low, high = first * per_cell, min((last + 1) * per_cell, len(names)) - 1
        return names[low] if low == high else f"{high - low + 1:,} files from {names[low]} to {names[high]}"

    read = np.flatnonzero(by_file == _READ).tolist()
    each = "One cell is one file" if per_cell == 1 else f"One cell is {per_cell:,} files"
    says = f"{each}, in the colour of a {plan.unit} that is read, if there is one."
    picture = cells.field(
        codes, _BY_CODE, f"{len(names):,} files, {len(read):,} of them read", title, frozenset({_READ})
    )
    parts = [f'<p class="bp-dim">{text(says)}</p>', picture]
    if read:
        shown = read[:_MOST_READ_FILES]
        which = f"{len(shown)} of the {len(read):,} files" if len(read) > len(shown) else "Files"
        parts += [f"<p>{which} that are read:</p>", _grid(units, names, shown, plan.unit)]
    return "\n".join(parts)


def _grid(units: _Units, names: list[str], files: range | list[int], unit: str) -> str:
    lines, longest = [], 1
    most = min(_MOST_PER_FILE, cells.MOST_IN_GRID // len(files))
    for i in files:
        low, high = np.searchsorted(units.position, [i, i + 1])
        codes, per_cell = cells.binned(units.code[low:high], most, len(DECISIONS), _READ)
        longest = max(longest, per_cell)
        if units.number[low] == WHOLE_FILE:
            lines.append(cells.row(codes, _BY_CODE, "whole file"))
        else:
            lines.append(cells.row(codes, _BY_CODE, unit, per_cell=per_cell))
    note = f'<p class="bp-dim">In long files, one cell is up to {longest:,} {unit}s.</p>' if longest > 1 else ""
    return note + cells.grid([names[i] for i in files], lines)


def _explanation(plan: ScanPlan) -> str:
    try:
        explanation = plan.explain()
    except (BloomParquetError, OSError) as error:
        return f"<p>Not explained: {text(error)}</p>"
    return explanation.to_html()


def _errors(plan: ScanPlan) -> str:
    if not plan.errors:
        return ""
    lines = "".join(f"<li>{text(error, 500)}</li>" for error in plan.errors[:_MOST_ERRORS])
    more = f"<li>and {len(plan.errors) - _MOST_ERRORS:,} more</li>" if len(plan.errors) > _MOST_ERRORS else ""
    return f"<p>Evidence that could not be used:</p><ul>{lines}{more}</ul>"
