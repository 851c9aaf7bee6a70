"""Rows and fields of small cells. Equal neighbours are one HTML element, so that many cells stay small.

Codes are indexes into a sequence of marks, and the codes of cells are arrays of shape (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.report.html import text

Codes = NDArray[np.uint8]

SIZE, SMALL = 14, 7
PER_LINE, SMALL_PER_LINE = 48, 100
MOST_CELLS = 12_000
"""The most cells of a field. More would neither be seen nor fit into a notebook."""
MOST_IN_GRID = 3_000
"""The most cells of the grids of a picture, where each may have a title of its own."""

_MOST_TITLES = 400


class Mark(NamedTuple):
    """The look of one kind of cell.

    `letter` shows without the style sheet. `style` are the classes of the cell. `label` is its meaning, for a legend
    and for the title that the mouse shows.
    """

    letter: str
    style: str
    label: str


def cell(mark: Mark, count: int = 1, *, size: int = SIZE, title: str = "") -> str:
    """`count` equal cells side by side."""
    attribute = f' title="{title}"' if title else ""
    return f'<i class="{mark.style}" style="width:{size * count}px"{attribute}>{mark.letter * count}</i>'


def row(codes: Codes, marks: Sequence[Mark], what: str, *, per_cell: int = 1) -> str:
    """One line of cells, or several if there are many. Each cell is about `per_cell` things of the kind `what`."""
    lines = []
    for start in range(0, len(codes), PER_LINE):
        line = []
        for first, count, code in _runs(codes[start : start + PER_LINE]):
            low, high = (start + first) * per_cell, (start + first + count) * per_cell - 1
            which = what if len(codes) == 1 else f"{what} {low:,}" if low == high else f"{what}s {low:,} to {high:,}"
            line.append(cell(marks[code], count, title=text(f"{which}: {marks[code].label}")))
        lines.append(f'<div class="bp-line">{"".join(line)}</div>')
    return f'<div class="bp-cells">{"".join(lines)}</div>'


def field(
    codes: Codes, marks: Sequence[Mark], label: str, title: Callable[[int, int], str], titled: frozenset[int]
) -> str:
    """Many small cells, line by line. `label` describes the field.

    ``title(first, last)`` describes the cells from `first` to `last`. Cells with a code in `titled` have titles.
    """
    lines, titles = [], 0
    for start in range(0, len(codes), SMALL_PER_LINE):
        line = []
        for first, count, code in _runs(codes[start : start + SMALL_PER_LINE]):
            described = ""
            if code in titled and titles < _MOST_TITLES:
                titles += 1
                described = text(f"{title(start + first, start + first + count - 1)}: {marks[code].label}")
            line.append(cell(marks[code], count, size=SMALL, title=described))
        lines.append(f'<div class="bp-line">{"".join(line)}</div>')
    body = "\n".join(lines)
    return (
        f'<div class="bp-over"><div class="bp-cells bp-small" role="img" aria-label="{text(label)}">{body}</div></div>'
    )


def grid(names: Sequence[str], lines: Sequence[str]) -> str:
    """A line of cells beside each name."""
    rows = "\n".join(f"<tr><td>{text(name)}</td><td>{line}</td></tr>" for name, line in zip(names, lines))
    return f'<div class="bp-over"><table class="bp-grid">\n{rows}\n</table></div>'


def bar(parts: Sequence[tuple[Mark, int]], label: str) -> str:
    """One bar that is divided in proportion to counts. Small parts stay visible."""
    total = sum(count for _, count in parts)
    pieces = [
        f'<i class="{mark.style}" style="width:{100 * count / total:.2f}%;flex-shrink:1" '
        f'title="{text(f"{mark.label}: {count:,}")}"></i>'
        for mark, count in parts
        if count
    ]
    return f'<div class="bp-bar" role="img" aria-label="{text(label)}">{"".join(pieces)}</div>'


def combine(codes: Codes, group: NDArray[np.int64], groups: int, marks: int, always: int) -> Codes:
    """One code for each of `groups`: `always` if a member of the group has that code, otherwise the most frequent code.

    `group` (n,): the group of each member. A group without members gets the code 0.
    """
    counts = np.bincount(group * marks + codes, minlength=groups * marks).reshape(groups, marks)
    return np.where(counts[:, always] > 0, always, counts.argmax(axis=1)).astype(np.uint8)


def binned(codes: Codes, most: int, marks: int, always: int) -> tuple[Codes, int]:
    """At most `most` codes, each for some neighbours of `codes`; and the number of these neighbours."""
    per_cell = max(1, -(-len(codes) // most))
    if per_cell == 1:
        return codes, 1
    group = np.arange(len(codes)) // per_cell
    return combine(codes, group, int(group[-1]) + 1, marks, always), per_cell


def _runs(codes: Codes) -> Iterator[tuple[int, int, int]]:
    """The first position, the length and the code of each run of equal codes."""
    starts = np.flatnonzero(np.diff(codes, prepend=codes[:1] ^ 1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(codes)]):
        yield start, end - start, int(codes[start])
