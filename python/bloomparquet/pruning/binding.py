"""Which column chunks a column name of a predicate means, in files whose schemas need not be the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from bloomparquet.errors import PlanError, nearest
from bloomparquet.format.schema import FileSchema, LeafColumn
from bloomparquet.predicate import Column


class NoLeaf(Enum):
    """Why a column has no leaf to draw evidence from in a file."""

    ABSENT = "absent"  # the file lacks the column: every reader shows nulls
    UNKNOWN = "unknown"  # a group, a list, or a name that readers resolve in different ways


def readings(column: Column) -> list[Column]:
    """The paths that `column` may name: itself, and, for one part with dots in it, its parts."""
    if len(column) == 1 and "." in column[0]:
        return [column, tuple(column[0].split("."))]
    return [column]


def bind(schema: FileSchema, column: Column, *, case_sensitive: bool) -> LeafColumn | NoLeaf:
    """The leaf of `schema` that `column` names."""
    for path in readings(column):
        found = _bind(schema, path, case_sensitive)
        if found is not NoLeaf.ABSENT:
            return found
    return NoLeaf.ABSENT


def partition_of(names: Sequence[str], column: Column, *, case_sensitive: bool) -> str | None:
    """The partition column that `column` names, if it names one."""
    if len(column) != 1:
        return None
    if column[0] in names:
        return column[0]
    folded = [name for name in names if name.casefold() == column[0].casefold()]
    return folded[0] if folded and not case_sensitive else None


def require_known(
    columns: Iterable[Column], schemas: Sequence[FileSchema], partitions: Sequence[str], *, case_sensitive: bool
) -> None:
    """Raises :class:`PlanError`, with the nearest name, for a column that no file and no partition directory has."""
    for column in columns:
        if partition_of(partitions, column, case_sensitive=case_sensitive) is not None:
            continue
        if not any(_has(schema, path, case_sensitive) for schema in schemas for path in readings(column)):
            names = dict.fromkeys([*(".".join(leaf.path) for schema in schemas for leaf in schema.leaves), *partitions])
            listed = ", ".join(list(names)[:20]) + (", …" if len(names) > 20 else "")
            name = ".".join(column)
            raise PlanError(f"column {name!r} is in none of the files{nearest(name, names)}; the columns are {listed}")


def _has(schema: FileSchema, path: Column, case_sensitive: bool) -> bool:
    """Whether `path` names a leaf, or a group above one."""
    if case_sensitive:
        return any(leaf.path[: len(path)] == path for leaf in schema.leaves)
    folded = [name.casefold() for name in path]
    return any([name.casefold() for name in leaf.path[: len(path)]] == folded for leaf in schema.leaves)


def _bind(schema: FileSchema, path: Column, case_sensitive: bool) -> LeafColumn | NoLeaf:
    folded = tuple(name.casefold() for name in path)
    exact: list[LeafColumn] = []
    similar: list[LeafColumn] = []
    for leaf in schema.leaves:
        names = tuple(name.casefold() for name in leaf.path)
        if names == folded:
            (exact if leaf.path == path else similar).append(leaf)
        elif names[: len(folded)] == folded or folded[: len(names)] == names:
            return NoLeaf.UNKNOWN  # a group, or a path into something that is no group here
    if case_sensitive:
        matching = exact
        if not exact and similar:
            return NoLeaf.UNKNOWN  # a reader that ignores case finds the other one
    else:
        matching = exact + similar
    if not matching:
        return NoLeaf.ABSENT
    return matching[0] if len(matching) == 1 and not matching[0].repeated else NoLeaf.UNKNOWN
