"""What ORC files of one writer and schema share, so that it is judged once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.schema import file_schema
from bloomparquet.query.columns import FileSchema

_PLACEHOLDER = "_col"
_TRANSACTIONAL = {"operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row"}


@dataclass(frozen=True)
class Layout:
    """What files of one writer and schema share: `tail` is that of one of them, ``columns[i]`` the column number of the
    i-th leaf. Columns without names (Hive calls them ``_col0``, ``_col1``, …) are read by position; and of files of
    Hive's transactional tables ORC's reader takes the columns for those of the struct within."""

    tail: Tail
    schema: FileSchema
    columns: tuple[int, ...]

    @property
    def is_by_name(self) -> bool:
        """Whether every reader finds the columns by their names."""
        names = [child.name for child in self.schema.root.children]
        placeholders = bool(names) and all(name.startswith(_PLACEHOLDER) for name in names)
        return not placeholders and {name.lower() for name in names} != _TRANSACTIONAL


def find_layouts(tails: Sequence[Tail]) -> tuple[list[Layout], list[int]]:
    """The layouts that files have, and the place of each file's among them."""
    numbers: dict[object, int] = {}
    layouts: list[Layout] = []
    found = []
    for tail in tails:
        writer = tail.writer, tail.writer_version, tail.software_version, tail.file_version, tail.calendar
        key = tuple(each.key for each in tail.types), writer
        if key not in numbers:
            numbers[key] = len(layouts)
            layouts.append(Layout(tail, *file_schema(tail.types)))
        found.append(numbers[key])
    return layouts, found
