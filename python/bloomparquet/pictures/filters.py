"""Draws the table of `bloomparquet.inspect` as HTML: a heat map of the fpp and the fill of the filters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.report import cells
from bloomparquet.report.cells import Codes, Mark
from bloomparquet.report.html import fragment, table, text
from bloomparquet.report.texts import common_directory, human_bytes, plural

_LIMITS = (0.0001, 0.001, 0.01, 0.05, 0.2, 0.5)
_CLASSES = [f"FPP under {100 * limit:g} %" for limit in _LIMITS] + ["FPP of 50 % and more"]
_FILLS = 9  # eighths of the bits that are set, from none to all
_MARKS = [
    Mark(str(i), f"bp-h bp-h{i} bp-f{fill}", f"{name}, about {100 * fill / 8:.0f} % of the bits are set")
    for i, name in enumerate(_CLASSES)
    for fill in range(_FILLS)
]
_NO_FILTER = len(_MARKS)
_MARKS.append(Mark("-", "bp-n", "no filter"))
_FULL = _FILLS - 1  # the fill of small cells, which are of one colour
_TITLED = frozenset(range(5 * _FILLS, len(_MARKS)))

_MOST_LINES = 40
_MOST_PER_FILE = 480
_MOST_COLUMNS = 12


def draw_filters(filters: pa.Table) -> str:
    """The table of `bloomparquet.inspect` as a picture for a notebook."""
    if not len(filters):
        return fragment(
            '<p class="bp-head"><b>There is no Bloom filter in these files.</b><br>'
            "<code>bloomparquet advise</code> says where filters pay, <code>bloomparquet add</code> adds them.</p>"
        )
    files = filters["file"].unique().to_pylist()
    columns = filters["column"].unique().to_pylist()
    size = human_bytes(int(np.sum(_numbers(filters, "bytes"))))
    what = f"<b>{plural(len(filters), 'Bloom filter')}</b> on {plural(len(columns), 'column')}"
    headline = f'<p class="bp-head">{what} in {plural(len(files), "file")}, {size}</p>'
    parts = [headline, _columns(filters, columns), _legend(filters, small=len(files) > _MOST_LINES)]
    shown = columns[:_MOST_COLUMNS]
    for name in shown:
        chosen = filters.filter(pc.equal(filters["column"], name))
        parts += [f"<p><b>{text(name)}</b></p>", _heat(chosen, len(shown))]
    if len(columns) > len(shown):
        parts.append(f"<p>and {len(columns) - len(shown):,} more columns</p>")
    return fragment(*parts)


def _numbers(filters: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = filters[name].to_numpy()
    return values


def _fill(filters: pa.Table) -> NDArray[np.float64]:
    """The share of set bits of each filter."""
    share: NDArray[np.float64] = _numbers(filters, "bits_set") / np.maximum(8 * _numbers(filters, "bytes"), 1)
    return share


def _class_of(filters: pa.Table) -> NDArray[np.int64]:
    return np.searchsorted(_LIMITS, _numbers(filters, "estimated_fpp"), side="right")


def _columns(filters: pa.Table, columns: list[str]) -> str:
    rows = []
    for name in columns:
        chosen = filters.filter(pc.equal(filters["column"], name))
        fill, fpp, size = _fill(chosen), _numbers(chosen, "estimated_fpp"), _numbers(chosen, "bytes")
        row = [
            text(name),
            text(", ".join(chosen["type"].unique().to_pylist())),
            f"{len(chosen):,}",
            human_bytes(int(size.sum())),
            f"{np.median(_numbers(chosen, 'estimated_ndv')):,.0f}",
            f"{100 * np.median(fill):.0f} %",
            f"{100 * fill.max():.0f} %",
            _percent(float(np.median(fpp))),
            _percent(float(fpp.max())),
        ]
        if "unusable" in chosen.column_names:
            row.append(text("; ".join(each for each in chosen["unusable"].unique().to_pylist() if each)))
        rows.append(row)
    head = ["column", "type", "filters", "size", "NDV", "fill", "highest fill", "FPP", "highest FPP"]
    if "unusable" in filters.column_names:
        head.append("proves nothing, because")
    note = '<p class="bp-dim">NDV, fill (the share of set bits) and FPP are medians over the filters of a column.</p>'
    return table(head, rows, right=range(2, 9), style="bp-named") + note


def _percent(probability: float) -> str:
    if probability < 1e-6:
        return "< 0.0001 %"
    return f"{100 * probability:.2g} %" if probability < 0.1 else f"{100 * probability:.0f} %"


def _legend(filters: pa.Table, *, small: bool) -> str:
    counts = np.bincount(_class_of(filters), minlength=len(_CLASSES)).tolist()
    rows = [
        [cells.cell(_MARKS[i * _FILLS + _FULL]), name, f"{count:,}"]
        for i, (name, count) in enumerate(zip(_CLASSES, counts))
        if count
    ]
    height = "" if small else '<p class="bp-dim">The height of a cell is the share of set bits.</p>'
    return table(["", "false positive probability (FPP)", "filters"], rows, right=(2,)) + height


def _heat(filters: pa.Table, columns: int) -> str:
    """The heat map of the filters of one of `columns` columns."""
    files = filters["file"].dictionary_encode().combine_chunks()
    names, position = files.dictionary.to_pylist(), files.indices.to_numpy()
    base = len(common_directory(names))
    names = [name[base:] for name in names]
    index, in_class = _numbers(filters, "row_group"), _class_of(filters)
    if len(names) <= _MOST_LINES:
        codes = (in_class * _FILLS + np.rint(8 * _fill(filters)).astype(np.int64)).astype(np.uint8)
        most = min(_MOST_PER_FILE, cells.MOST_IN_GRID // (columns * len(names)))
        lines = [_line(codes[position == i], index[position == i], most) for i in range(len(names))]
        return cells.grid(names, lines)
    per_cell = -(-len(filters) // (cells.MOST_CELLS // columns))
    starts = np.arange(0, len(filters), per_cell)
    worst = (np.maximum.reduceat(in_class, starts) * _FILLS + _FULL).astype(np.uint8)

    def title(first: int, last: int) -> str:
        low, high = first * per_cell, min((last + 1) * per_cell, len(filters)) - 1
        end = "" if low == high else f" to {names[position[high]]}, row group {index[high]:,}"
        return f"{names[position[low]]}, row group {index[low]:,}{end}"

    each = "One cell is one filter." if per_cell == 1 else f"One cell is the worst of {per_cell:,} filters."
    label = f"{len(filters):,} filters in {len(names):,} files"
    return f'<p class="bp-dim">{each}</p>{cells.field(worst, _MARKS, label, title, _TITLED)}'


def _line(codes: Codes, index: NDArray[np.int64], most: int) -> str:
    """The filters of one file; row groups between them have none."""
    line = np.full(int(index.max()) + 1, _NO_FILTER, np.uint8)
    line[index] = codes
    per_cell = -(-len(line) // most)
    starts = np.arange(0, len(line), per_cell)
    return cells.row(np.maximum.reduceat(line, starts), _MARKS, "row group", per_cell=per_cell)
