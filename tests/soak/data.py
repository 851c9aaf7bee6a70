"""The data sets of a run. Each row follows from its id, so that every answer can be checked.

Ids are even: an odd one is in no file. Their order is scattered, so that only filters can tell the row groups apart.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc

from tests.support import files

Row = tuple[int, str, int]
"""id, name, v"""
COLUMNS = ("id", "name", "v")
FILES, ROWS_PER_FILE, ROWS_PER_GROUP = 16, 500, 125
ROWS = FILES * ROWS_PER_FILE
CHANGING_FILES = 4
CHANGING_ROWS = CHANGING_FILES * ROWS_PER_FILE
_FILTERS = {name: {"ndv": ROWS_PER_GROUP, "fpp": 1e-4} for name in ("id", "name")}


def row_of(id_: int) -> Row:
    return id_, f"n{id_}", id_ * 3


def id_at(position: int) -> int:
    return 2 * (position * 7919 % ROWS)


def rows_of(ids: Iterable[int], rows: int = ROWS) -> list[Row]:
    """The rows with these ids, among the first `rows` of the data, in order."""
    known = IDS if rows == ROWS else CHANGING_IDS
    return sorted(row_of(id_) for id_ in set(ids) if id_ in known)


IDS = frozenset(map(id_at, range(ROWS)))
CHANGING_IDS = frozenset(map(id_at, range(CHANGING_ROWS)))


class Tables:
    """The directories below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events, self.events_orc = root / "events", root / "events_orc"
        self.changing, self.originals = root / "changing", root / "originals"
        self.written = root / "written"

    def make(self) -> None:
        """Write all tables. `changing` is a copy of `originals`, whose files have no filters."""
        self.events_orc.mkdir(parents=True)
        self.written.mkdir()
        for i in range(FILES):
            ids = [id_at(i * ROWS_PER_FILE + j) for j in range(ROWS_PER_FILE)]
            table = pa.table(dict(zip(COLUMNS, zip(*map(row_of, ids), strict=True), strict=True)))
            files.write(self.events / f"day={i % 4}" / f"{i}.parquet", table, _FILTERS, rows_per_group=ROWS_PER_GROUP)
            pyarrow.orc.write_table(
                table, self.events_orc / f"{i}.orc", bloom_filter_columns=[0, 1], bloom_filter_fpp=1e-3
            )
            if i < CHANGING_FILES:
                files.write(self.originals / f"{i}.parquet", table, rows_per_group=ROWS_PER_GROUP)
        shutil.copytree(self.originals, self.changing)

    def restore(self, number: int) -> None:
        """Replace a file of `changing` by its original, in one step."""
        temporary = self.root / f"restored-{secrets.token_hex(8)}"
        shutil.copyfile(self.originals / f"{number}.parquet", temporary)
        os.replace(temporary, self.changing / f"{number}.parquet")
