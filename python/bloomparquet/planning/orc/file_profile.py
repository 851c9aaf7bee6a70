"""Profiles of ORC files: the facts that files of one writer and schema share, judged once for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.schema import build_schema
from bloomparquet.query.columns import FileSchema

_HIVE_PLACEHOLDER = "_col"
_HIVE_TRANSACTIONAL = {"operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row"}


@dataclass(frozen=True)
class FileProfile:
    """The facts that files of one writer and schema share: `tail` is the tail of one of them, and ``columns[i]`` the
    column number of leaf i. Compared by `key`: the types, and the writer."""

    key: Hashable
    tail: Tail = field(compare=False)
    schema: FileSchema = field(compare=False)
    columns: tuple[int, ...] = field(compare=False)

    @property
    def is_by_name(self) -> bool:
        """Whether every reader finds the columns by their names.

        Hive's placeholder names (``_col0``, ``_col1``, …) are ignored: such columns are found by position. In files of
        Hive's transactional tables, ORC's reader finds the columns within the struct ``row``.
        """
        names = [child.name for child in self.schema.root.children]
        are_placeholders = bool(names) and all(name.startswith(_HIVE_PLACEHOLDER) for name in names)
        return not are_placeholders and {name.lower() for name in names} != _HIVE_TRANSACTIONAL


def find_profiles(tails: Sequence[Tail]) -> tuple[list[FileProfile], list[int]]:
    """The distinct profiles of `tails`, and the index of each tail's profile."""
    indexes: dict[Hashable, int] = {}
    profiles: list[FileProfile] = []
    index_of = []
    for tail in tails:
        writer = tail.writer, tail.writer_version, tail.software_version, tail.file_version, tail.calendar
        key = tuple(orc_type.key for orc_type in tail.types), writer
        if key not in indexes:
            indexes[key] = len(profiles)
            profiles.append(FileProfile(key, tail, *build_schema(tail.types)))
        index_of.append(indexes[key])
    return profiles, index_of
