"""A data file that changes while it is read, and the results that a reader may return.

Each version of the file consists of numbered units (row groups or stripes) of :data:`ROWS` rows. The query matches ids
in unit 2 and above. Every change moves the units, so that offsets and indexes of the old version lead to other rows in
the new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc

from tests.support import files

ROWS = 1000
BASE = 1 << 40  # all ids have one width, so the order of units does not change the size
FIRST = BASE + 2500  # the first id that matches
WHERE = f"id >= {FIRST}"
FORMATS = ("parquet", "orc")
CHANGED = "changed since it was listed"  # in Python's error
Row = tuple[int, str]

KEPT, SKIPPED = (0, 1, 2), (0, 1)
"""Units of the first version, with and without matching rows."""


def write(path: Path, units: Sequence[int], version: str, *, extra: bool = False) -> None:
    """Write a version of the file at `path`, by renaming a new file."""
    numbers = [np.random.default_rng(unit).permutation(ROWS) + unit * ROWS for unit in units]
    ids = np.concatenate(numbers)
    table = pa.table({"id": ids + BASE, "v": [version] * len(ids), "pad": [f"{7919 * i:032x}" for i in ids.tolist()]})
    if extra:
        table = table.append_column("more", pa.array(ids))
    new = path.with_name(f".{path.name}.new")
    if path.suffix == ".orc":
        options: Any = {"stripe_size": 20_000, "batch_size": ROWS, "row_index_stride": ROWS}
        orc.write_table(table, str(new), compression="uncompressed", bloom_filter_columns=[0], **options)
    else:
        files.write(new, table, ["id"], rows_per_group=ROWS, compression="none", use_dictionary=False)
    os.replace(new, path)


def _same_size_and_time(path: Path, units: Sequence[int]) -> None:
    before = path.stat()
    write(path, units, "b")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def _in_place(path: Path, units: Sequence[int]) -> None:
    before = path.stat()
    other = path.with_name(f".other{path.suffix}")
    write(other, units, "b")
    with open(path, "r+b") as file:
        file.write(other.read_bytes())
    other.unlink()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    now = path.stat()
    assert (now.st_ino, now.st_size, now.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)


_AFTER: dict[str, Callable[[Sequence[int]], tuple[int, ...]]] = {
    "replaced": lambda units: (2, *units[::-1]) if 2 not in units else tuple(units[::-1]),
    "grown": lambda units: (*units, len(units)),
    "shrunk": lambda units: (2,),
    "same size and time": lambda units: tuple(units[::-1]) if 2 in units else (2, units[0]),
    "same, in place": lambda units: tuple(units[::-1]) if 2 in units else (2, units[0]),
    "deleted": lambda units: (),
}
CHANGES = tuple(_AFTER)


def change(path: Path, kind: str, units: Sequence[int]) -> None:
    """Change the file at `path`, which has `units`."""
    after = _AFTER[kind](units)
    if kind == "deleted":
        path.unlink()
    elif kind == "same size and time":
        _same_size_and_time(path, after)
    elif kind == "same, in place":
        _in_place(path, after)
    else:
        size = path.stat().st_size
        write(path, after, "b", extra=kind == "replaced")
        assert kind == "replaced" or (path.stat().st_size > size) == (kind == "grown")


def matching(units: Sequence[int], version: str) -> list[Row]:
    """The matching rows of a version."""
    ids = sorted(i for unit in units for i in range(unit * ROWS, unit * ROWS + ROWS) if i + BASE >= FIRST)
    return [(i, version) for i in ids]


def after(kind: str, units: Sequence[int]) -> list[Row]:
    """The matching rows after a change."""
    return matching(_AFTER[kind](units), "b")


def shown(rows: Iterable[Any]) -> list[Row]:
    """Rows of ``id`` and ``v`` in the form of :func:`matching`."""
    return sorted((row[0] - BASE, row[1]) for row in rows)


def outcome(read: Callable[[], list[Row]], allowed: Sequence[list[Row]], errors: type[Exception], named: str) -> str:
    """The outcome of `read`: ``"old rows"``, ``"new rows"`` or ``"named error"``. Anything else fails the test."""
    try:
        rows = read()
    except errors as error:
        text = str(error)
        assert any(each in text for each in (named, "No such file", "FILE_NOT_EXIST", "does not exist")), text
        return "named error"
    assert rows in allowed, f"{len(rows)} rows; expected one of {[len(each) for each in allowed]}"
    return ("old rows", "new rows")[list(allowed).index(rows)]
