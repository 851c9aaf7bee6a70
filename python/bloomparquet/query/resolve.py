"""Resolves names in predicates to the leaf columns of files. The files of a scan may have different schemas."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from bloomparquet.errors import PlanError, closest, join_names, quoted, shorten
from bloomparquet.query import predicate as p
from bloomparquet.query.columns import FileSchema, LeafColumn, SchemaNode
from bloomparquet.query.elements import ContainsAny, ElementIn, Part
from bloomparquet.query.names import column_to_sql, dotted_name, find, fold, repr_column
from bloomparquet.query.predicate import Column, column_of, leaves
from bloomparquet.query.variants import VariantField


class NoLeaf(Enum):
    """Why there is no evidence about a column in a file."""

    ABSENT = "absent"  # the file lacks the column: every reader returns nulls
    UNKNOWN = "unknown"  # a group, a list, or a name that readers resolve differently


def name_candidates(column: Column, *, exact: bool = False) -> list[Column]:
    """The paths that `column` may mean: itself, and, unless `exact`, a name with dots split at the dots."""
    if len(column) == 1 and "." in column[0] and not exact:
        return [column, tuple(column[0].split("."))]
    return [column]


class Resolved(NamedTuple):
    """The resolved columns of a predicate.

    `paths` has the one path that each column means in all files of a scan. `unknown` are the columns that no file has.
    """

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
    """Resolve the columns `named`. Partition columns are left out.

    A name with dots means the column of that name, in all files, if any file has one. Otherwise, unless names are
    `exact`, it means a field of a struct.
    """
    paths: dict[Column, Column] = {}
    unknown = []
    for column in named:
        if not partitions or find_partition(partitions, column, case_sensitive=case_sensitive) is None:
            existing = (
                path
                for path in name_candidates(column, exact=exact)
                if any(path in schema.comparable or _contains(schema, path, case_sensitive) for schema in schemas)
            )
            path = next(existing, None)
            if path is None:
                unknown.append(column)
            else:
                paths[column] = path
    return Resolved(paths, unknown)


def rename(predicate: p.Predicate, names: Mapping[Column, Column]) -> p.Predicate:
    """`predicate` with each column replaced by ``names[column]``, if there is such an entry."""
    if all(name == path for name, path in names.items()):
        return predicate

    def renamed(leaf: p.Leaf) -> p.Predicate:
        return dataclasses.replace(leaf, column=names.get(leaf.column, leaf.column))

    return p.map_leaves(predicate, renamed)


def find_leaf_of(schema: FileSchema, predicate: p.Predicate, *, case_sensitive: bool) -> LeafColumn | NoLeaf:
    """The leaf column that the leaf predicate `predicate` tests."""
    if isinstance(predicate, ElementIn):
        return find_element(schema, predicate.column, predicate.part, case_sensitive=case_sensitive)
    return find_leaf(schema, column_of(predicate), case_sensitive=case_sensitive)


def find_node(schema: FileSchema, path: Column, *, case_sensitive: bool) -> SchemaNode | NoLeaf:
    """The node of `schema` at `path`, which leads through structs only."""
    walked = _walk_through_list(schema, path, case_sensitive)
    if isinstance(walked, NoLeaf):
        return walked
    node, in_list = walked
    return NoLeaf.UNKNOWN if in_list else node


def find_leaf(schema: FileSchema, path: Column, *, case_sensitive: bool) -> LeafColumn | NoLeaf:
    """The leaf of `schema` at `path`. Dots in a part are part of the name."""
    if path in schema.comparable:
        return schema.comparable[path]
    node = find_node(schema, path, case_sensitive=case_sensitive)
    if isinstance(node, NoLeaf):
        return node
    leaf = leaf_of(schema, node)
    return NoLeaf.UNKNOWN if leaf is None or leaf.repeated else leaf


def find_element(schema: FileSchema, path: Column, part: Part, *, case_sensitive: bool) -> LeafColumn | NoLeaf:
    """The leaf with the elements of the list at `path`, or with the keys or values of the map there.

    `path` may lead through one list into structs. Lists have the layouts of parquet-format ``LogicalTypes.md``: three
    levels, two levels, and repeated fields without an annotation. ABSENT means that every reader returns a null list or
    map; below a list, where readers may differ about the layout, everything that is not found is UNKNOWN.
    """
    walked = _walk_through_list(schema, path, case_sensitive)
    if isinstance(walked, NoLeaf):
        return walked
    node, in_list = walked
    if part != "element":
        node_of_part = None if in_list else map_part(node, part)
    else:
        node_of_part = node if in_list else list_element(node)
    leaf = None if node_of_part is None else leaf_of(schema, node_of_part)
    return NoLeaf.UNKNOWN if leaf is None or leaf.repeated_levels != 1 else leaf


def find_partition(names: Sequence[str], column: Column, *, case_sensitive: bool) -> str | None:
    """The partition column that `column` names, or None."""
    positions = find(names, column[0], case_sensitive) if len(column) == 1 else []
    return names[positions[0]] if positions else None


def unknown_column_error(
    column: Column, schemas: Iterable[FileSchema], partitions: Sequence[str], above: str | None = None
) -> PlanError:
    """The error for a column that no file and no partition directory has. `above`: the directory that holds its
    partition directory, if that is above the path."""
    paths = [*(leaf.path for schema in schemas for leaf in schema.leaves), *((name,) for name in partitions)]
    names = list(dict.fromkeys(map(column_to_sql, paths)))
    name = ".".join(column)
    by_name = {dotted_name(path): path for path in reversed(paths)}
    choice = closest(name, by_name)
    hint = "" if choice is None else f"; did you mean {_suggest(by_name[choice])}?"
    if above is not None:
        hint = (
            f"; {shorten(name)}= is a directory above the path: give the directory that holds it, {quoted(above)}, or "
            "set it as the base path (base_path= of bloomparquet.Dataset.open, option basePath in Spark)"
        )
    language = " in SQL" if any("`" in each for each in names) else ""
    columns_of_files = (
        f"the columns{language} are {join_names(names)}" if names else "no file that can be read has a column"
    )
    return PlanError(f"column {quoted(name)} is in none of the files{hint}; {columns_of_files}")


def _suggest(path: Column) -> str:
    """A column as Python writes it, and as SQL does if that differs: ``'first name' (in SQL `first name`)``."""
    is_dotted = len(path) > 1 and not any("." in part for part in path)
    in_python = repr(dotted_name(path)) if is_dotted else repr_column(path)
    in_sql = column_to_sql(path)
    return f"{in_python} (in SQL {in_sql})" if "`" in in_sql and in_sql.isprintable() else in_python


def require_comparable(
    predicate: p.Predicate, schemas: Iterable[FileSchema], partitions: Sequence[str], *, case_sensitive: bool
) -> None:
    """PlanError if `predicate`, with resolved names, compares a value that cannot be compared in one of `schemas`.

    These are whole structs, lists and maps, except with IS NULL and IS NOT NULL; values inside a list or a map; and in
    a predicate on elements, columns that are neither a list nor a map.
    """
    tests: dict[tuple[Column, bool], None] = {}
    for leaf in leaves(predicate):
        if isinstance(leaf, p.ElementPredicate):
            for schema in schemas:
                _require_elements(schema, leaf, case_sensitive)
        elif isinstance(leaf, VariantField):
            continue  # `shredded.require_variants` tests it
        elif not partitions or find_partition(partitions, leaf.column, case_sensitive=case_sensitive) is None:
            is_null_test = isinstance(leaf, p.IsNull | p.IsNotNull) or (
                isinstance(leaf, p.EqNullSafe) and leaf.value is None
            )
            tests[leaf.column, is_null_test] = None
    for schema in schemas:
        for column, is_null_test in tests:
            if column not in schema.comparable:
                _require_comparable(schema, column, is_null_test, case_sensitive)


def _require_elements(schema: FileSchema, leaf: p.ElementPredicate, case_sensitive: bool) -> None:
    parts: tuple[Part, ...] = (leaf.of,) if isinstance(leaf, ContainsAny) else ("element", "value")
    walked = _walk_through_list(schema, leaf.column, case_sensitive)
    if not isinstance(walked, NoLeaf) and all(
        find_element(schema, leaf.column, part, case_sensitive=case_sensitive) is NoLeaf.UNKNOWN for part in parts
    ):
        expected = " or ".join("list" if part == "element" else "map" for part in parts)
        raise PlanError(
            f"column {quoted('.'.join(leaf.column))} is a {_kind(walked[0])}; {shorten(leaf.to_sql(1))} needs a "
            f"{expected} of values that are not nested"
        )


def _require_comparable(schema: FileSchema, column: Column, is_null_test: bool, case_sensitive: bool) -> None:
    node = schema.root
    for name in column:
        if node is not schema.root and node.physical_type is None and not is_struct(node):
            raise PlanError(
                f"column {quoted('.'.join(column))} is inside a {_kind(node)}; only structs have fields to compare"
            )
        positions = find([child.name for child in node.children], name, case_sensitive)
        if len(positions) != 1:
            return
        node = node.children[positions[0]]
    if not is_null_test and node.annotation is not None and node.annotation.kind == "INTERVAL":
        raise PlanError(
            f"column {quoted('.'.join(column))} is an INTERVAL; only IS NULL and IS NOT NULL can be used on it"
        )
    if not is_null_test and (node.physical_type is None or node.repetition == "REPEATED"):
        fields = f"; compare one of its fields: {join_names(child.name for child in node.children)}"
        raise PlanError(
            f"column {quoted('.'.join(column))} is a {_kind(node)}; only IS NULL and IS NOT NULL can be used on it"
            f"{fields if is_struct(node) else ''}"
        )


def find_child(node: SchemaNode, name: str, case_sensitive: bool) -> SchemaNode | NoLeaf:
    matching = [child for child in node.children if child.name == name]
    others = [child for child in node.children if child.name != name]
    similar = [child for child in others if fold(child.name, False) == fold(name, False)]
    if not case_sensitive:
        matching += similar
    if not matching:
        # Readers fold case differently: a column that one of them finds is not absent.
        is_similar = similar or any(child.name.casefold() == name.casefold() for child in others)
        return NoLeaf.UNKNOWN if is_similar else NoLeaf.ABSENT
    return NoLeaf.UNKNOWN if len(matching) > 1 else matching[0]


def _walk_through_list(schema: FileSchema, path: Column, case_sensitive: bool) -> tuple[SchemaNode, bool] | NoLeaf:
    """The node at `path`, and whether the path leads through a list."""
    node, in_list = schema.root, False
    for name in path:
        if node is not schema.root and not is_struct(node):
            element = None if in_list else list_element(node)
            if element is None or element.physical_type is not None or element.annotation is not None:
                return NoLeaf.UNKNOWN
            node, in_list = element, True
        child = find_child(node, name, case_sensitive)
        if isinstance(child, NoLeaf):
            return NoLeaf.UNKNOWN if in_list else child
        node = child
    return node, in_list


def leaf_of(schema: FileSchema, node: SchemaNode) -> LeafColumn | None:
    return next((leaf for leaf in schema.leaves if leaf.node is node), None)


def list_element(node: SchemaNode) -> SchemaNode | None:
    """The element of a list; None if `node` is no list."""
    if node.repetition == "REPEATED":
        return node if node.physical_type is not None or node.annotation is None else None
    if node.annotation is None or node.annotation.kind != "LIST" or len(node.children) != 1:
        return None
    repeated = node.children[0]
    if repeated.repetition != "REPEATED":
        return None
    is_element = len(repeated.children) != 1 or repeated.name in ("array", f"{node.name}_tuple", "_elem")  # ORC
    return repeated if is_element else repeated.children[0]


def map_part(node: SchemaNode, part: Part) -> SchemaNode | None:
    """The key or the value of a map; None if `node` is no map."""
    if node.annotation is None or node.annotation.kind != "MAP":
        return None
    # ORC has no group between the map and its keys and values.
    parts = node.children[0].children if len(node.children) == 1 else node.children
    return parts[0 if part == "key" else 1] if len(parts) == 2 else None


def _kind(node: SchemaNode) -> str:
    if is_struct(node):
        return "struct"
    if node.physical_type is not None and node.repetition != "REPEATED":
        return "plain column"
    kind = None if node.annotation is None else node.annotation.kind
    return "list" if kind is None or node.repetition == "REPEATED" else kind.lower()


def _contains(schema: FileSchema, path: Column, case_sensitive: bool) -> bool:
    """Whether there is a leaf or a group at `path`. True if `path` leads into a list or a map."""
    node = schema.root
    for name in path:
        if node is not schema.root and not is_struct(node):
            return _kind(node) in ("list", "map", "map_key_value")
        folded = fold(name, case_sensitive)
        child = next((child for child in node.children if fold(child.name, case_sensitive) == folded), None)
        if child is None:
            return False
        node = child
    return True


def is_struct(node: SchemaNode) -> bool:
    return node.physical_type is None and node.annotation is None and node.repetition != "REPEATED"
