"""Conditions on columns with several leaves: structs, lists, maps and VARIANT."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.differential.column_types import TYPES
from tests.differential.comparisons import COMPARISONS, null_test, portable
from tests.differential.random_files import Column

NESTED = ("list", "map", "struct", "variant")


_FIELDS = (("x",), "int64"), (("y.z",), "string"), (("t", "u"), "float64"), (("t", "u"), "float64")


def field_leaf(random: Random, column: Column, name: str, wanted: bool | None) -> str:
    """A condition on a field of a struct."""
    path, type_name = random.choice(_FIELDS)

    def field(struct: Any) -> Any:
        for key in path:
            struct = struct and struct[key]
        return struct

    pool, near = (tuple(map(field, values)) for values in (column.pool, column.near))
    sql = ".".join(f"`{key}`" for key in path)
    leaf = Column(sql, TYPES[type_name], pool, near)
    if random.random() < 0.25:  # a field is NULL in three ways: itself, its struct, or the struct around that
        return f"{name}.{sql} {null_test(random, leaf, wanted)}"
    return portable(random, leaf, f"{name}.{sql}", wanted)


def nested_leaf(random: Random, column: Column, name: str, wanted: bool | None) -> str:
    comparison = random.choice(COMPARISONS)
    # An element of a list in the file, where there is one, and its position.
    lists = [v for v in column.pool if v] if column.type.name == "list" else []
    at, element = random.choice([*enumerate(random.choice(lists))] if lists else [(0, 1)])
    element = "NULL" if element is None else element
    shapes = {
        "list": [
            f"array_contains({name}, 42)", f"array_contains({name}, {element})", f"size({name}) = 2",
            f"get({name}, {at}) {comparison} {element}",
            f"get({name}, {at}) {comparison} {random.choice((1, 3, 5, 7, 42))}", f"{name} IS NULL",
            f"exists({name}, x -> x = 5)", f"{name} = array(1, 2)", f"{name} IS NOT NULL AND get({name}, 0) IS NULL",
            f"arrays_overlap({name}, array(42, 7))",
            f"element_at({name}, {at + 1}) {comparison} {random.choice((3, 5, 42))}",
            f"exists({name}, x -> x IN (1, 42))",
        ],
        "map": [
            f"{name}['a'] {comparison} 1", f"map_contains_key({name}, 'b')", f"element_at({name}, 'a') {comparison} 42",
            f"array_contains(map_values({name}), 42L)", f"size({name}) = 0", f"{name} IS NULL",
        ],
        "struct": [
            *[field_leaf(random, column, name, wanted) for _ in range(6 if column.type.name == "struct" else 0)],
            f"{name}.x {comparison} {random.choice((1, 42, 7, 1000, 'NULL'))}", f"{name}.`y.z` {comparison} 'a'",
            f"{name}.t.u {comparison} 1.5D", f"{name} IS NULL", f"{name}.t IS NULL", f"{name}.x IS NULL",
            f"{name}.t.u IS NOT NULL", f"{name}.x IN (1, 7, NULL)", f"{name}.`y.z` LIKE 'a%'", f"isnan({name}.t.u)",
            f"{name}.X = 42", f"{name} = named_struct('x', 1L, 'y.z', 'a', 't', named_struct('u', 1.5D))",
        ],
        "variant": [
            *[f"try_variant_get({name}, '$.a', '{type_}') {comparison} {random.choice((1, 42, 7))}"
              for type_ in ("bigint", "bigint", "double", "decimal(10,1)", "string")],
            f"try_variant_get({name}, '$.a', 'int') IN (1, 43)",
            f"try_variant_get({name}, '$.a', 'bigint') IS NULL",
            *[f"try_variant_get({name}, '$.b', 'string') {comparison} '{text}'" for text in ("a", "s", "x", "7", "42")],
            f"try_variant_get({name}, '$.o.x', 'double') {comparison} {random.choice((1.5, 42.0, 2.0))}D",
            f"try_variant_get({name}, '$.z', 'bigint') = 1",
            f"try_variant_get({name}, '$', 'bigint') = 42",
            f"{name} IS NULL",
        ],
    }  # fmt: skip
    return random.choice(shapes[column.type.name])
