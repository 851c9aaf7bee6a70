"""Which column chunks a column name of a predicate means, in files whose schemas need not be the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from bloomparquet.errors import PlanError, did_you_mean, join_names, quoted
from bloomparquet.query.columns import FileSchema, LeafColumn, SchemaNode
from bloomparquet.query.names import find, fold
from bloomparquet.query.predicate import (
    And,
    Column,
    Eq,
    EqNullSafe,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Not,
    NotEq,
    NotIn,
    Or,
    Predicate,
    leaves,
)


class NoLeaf(Enum):
    """Why a column has no leaf to draw evidence from in a file."""

    ABSENT = "absent"  # the file lacks the column: every reader shows nulls
    UNKNOWN = "unknown"  # a group, a list, or a name that readers resolve in different ways


def name_candidates(column: Column, *, exact: bool = False) -> list[Column]:
    """The paths that `column` may name: itself, and, unless it is `exact`, for one part with dots in it, its parts."""
    if len(column) == 1 and "." in column[0] and not exact:
        return [column, tuple(column[0].split("."))]
    return [column]


class Resolved(NamedTuple):
    """`paths`: the one path that a column means in all files of a scan. `unknown`: the columns that no file has."""

    paths: dict[Column, Column]
    unknown: list[Column]


def resolve_names(
    named: Iterable[Column],
    schemas: Sequence[FileSchema],
    partitions: Sequence[str],
    *,
    case_sensitive: bool,
    exact: bool = False,
) -> Resolved:
    """What each of the columns `named` means. Partition columns stand for themselves.

    A name with dots means the column of that name if any file has one, in all files; else, unless names are `exact`,
    the field inside a struct.
    """
    paths: dict[Column, Column] = {}
    unknown = []
    for column in named:
        if find_partition(partitions, column, case_sensitive=case_sensitive) is None:
            existing = (
                path
                for path in name_candidates(column, exact=exact)
                if any(_has(schema, path, case_sensitive) for schema in schemas)
            )
            path = next(existing, None)
            if path is None:
                unknown.append(column)
            else:
                paths[column] = path
    return Resolved(paths, unknown)


def rename(predicate: Predicate, names: Mapping[Column, Column]) -> Predicate:
    """`predicate` about the columns ``names[column]``; columns without an entry stay."""
    if isinstance(predicate, And | Or):
        return type(predicate)(*(rename(child, names) for child in predicate.children))
    if isinstance(predicate, Not):
        return Not(rename(predicate.child, names))
    if isinstance(predicate, Leaf) and names.get(predicate.column, predicate.column) != predicate.column:
        return dataclasses.replace(predicate, column=names[predicate.column])
    return predicate


def merge_equalities(predicate: Predicate) -> Predicate:
    """`predicate` with the equalities of one column side by side as one: ``a = 1 OR a = 2`` as ``a IN (1, 2)``.

    Takes and gives the negation normal form.
    """
    if not isinstance(predicate, And | Or):
        return predicate
    one, many = (Eq, In) if isinstance(predicate, Or) else (NotEq, NotIn)
    values: dict[Column, list[Any]] = {}
    others = []
    for child in predicate.children:
        if isinstance(child, one):
            values.setdefault(child.column, []).append(child.value)
        elif isinstance(child, many):
            values.setdefault(child.column, []).extend(child.values)
        else:
            others.append(merge_equalities(child))
    gathered = [*(many(column, found) for column, found in values.items()), *others]
    return gathered[0] if len(gathered) == 1 else type(predicate)(*gathered)


def find_leaf(schema: FileSchema, path: Column, *, case_sensitive: bool) -> LeafColumn | NoLeaf:
    """The leaf of `schema` at `path`, each part taken as it stands."""
    node = schema.root
    for name in path:
        if node is not schema.root and not _is_struct(node):
            return NoLeaf.UNKNOWN
        matching = [child for child in node.children if child.name == name]
        others = [child for child in node.children if child.name != name]
        similar = [child for child in others if fold(child.name, False) == fold(name, False)]
        if not case_sensitive:
            matching += similar
        if not matching:
            # Readers have more than one notion of case: what one of them may find is not absent.
            near = similar or any(child.name.casefold() == name.casefold() for child in others)
            return NoLeaf.UNKNOWN if near else NoLeaf.ABSENT
        if len(matching) > 1:
            return NoLeaf.UNKNOWN
        node = matching[0]
    leaf = next((leaf for leaf in schema.leaves if leaf.node is node), None)
    return NoLeaf.UNKNOWN if leaf is None or leaf.repeated else leaf


def find_partition(names: Sequence[str], column: Column, *, case_sensitive: bool) -> str | None:
    """The partition column that `column` names, if it names one."""
    if len(column) != 1:
        return None
    found = find(names, column[0], case_sensitive)
    return names[found[0]] if found else None


def unknown_column(column: Column, schemas: Iterable[FileSchema], partitions: Sequence[str]) -> PlanError:
    """The error for a column that no file and no partition directory has, with the nearest name."""
    leaves = (".".join(leaf.path) for schema in schemas for leaf in schema.leaves)
    return unknown_name(column, dict.fromkeys([*leaves, *partitions]))


def unknown_name(column: Column, names: Iterable[str]) -> PlanError:
    """The same, where `names` are those that there are, each once."""
    names = list(names)
    name = ".".join(column)
    return PlanError(
        f"column {quoted(name)} is in none of the files{did_you_mean(name, names)}; the columns are {join_names(names)}"
    )


def require_comparable(
    predicate: Predicate, schemas: Iterable[FileSchema], partitions: Sequence[str], *, case_sensitive: bool
) -> None:
    """PlanError where `predicate`, with the names of :func:`resolve`, compares a struct, a list or a map of one of
    `schemas`, or looks into a list or a map. Of a whole struct, list or map only IS NULL and IS NOT NULL can be
    asked."""
    asked: dict[tuple[Column, bool], None] = {}
    for leaf in leaves(predicate):
        if find_partition(partitions, leaf.column, case_sensitive=case_sensitive) is None:
            of_null = isinstance(leaf, IsNull | IsNotNull) or (isinstance(leaf, EqNullSafe) and leaf.value is None)
            asked[leaf.column, of_null] = None
    for schema in schemas:
        for column, of_null in asked:
            _require_comparable(schema, column, of_null, case_sensitive)


def _require_comparable(schema: FileSchema, column: Column, of_null: bool, case_sensitive: bool) -> None:
    node = schema.root
    for name in column:
        if node is not schema.root and node.physical_type is None and not _is_struct(node):
            raise PlanError(
                f"column {quoted('.'.join(column))} is inside a {_kind(node)}; only structs have fields to compare"
            )
        places = find([child.name for child in node.children], name, case_sensitive)
        if len(places) != 1:
            return
        node = node.children[places[0]]
    if not of_null and (node.physical_type is None or node.repetition == "REPEATED"):
        fields = f"; compare one of its fields: {join_names(child.name for child in node.children)}"
        raise PlanError(
            f"column {quoted('.'.join(column))} is a {_kind(node)}, of which only IS NULL and IS NOT NULL can be asked"
            f"{fields if _is_struct(node) else ''}"
        )


def _kind(node: SchemaNode) -> str:
    if _is_struct(node):
        return "struct"
    kind = None if node.annotation is None else node.annotation.kind
    return "list" if kind is None or node.repetition == "REPEATED" else kind.lower()


def _has(schema: FileSchema, path: Column, case_sensitive: bool) -> bool:
    """Whether a reader finds a leaf or a group at `path`, or cannot tell before it looks into a list or a map."""
    node = schema.root
    for name in path:
        if node is not schema.root and not _is_struct(node):
            return node.physical_type is None
        folded = fold(name, case_sensitive)
        found = (child for child in node.children if fold(child.name, case_sensitive) == folded)
        below = next(found, None)
        if below is None:
            return False
        node = below
    return True


def _is_struct(node: SchemaNode) -> bool:
    return node.physical_type is None and node.annotation is None and node.repetition != "REPEATED"
