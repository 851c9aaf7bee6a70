"""Conditions on one column. Most are TRUE (or not, if `wanted` is False) for one row of the data set.

Their literals are values of that row and of the rows around it, which are often the bounds of its row group.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.differential.random_files import Column

COMPARISONS = ("=", "=", "=", "<=>", "<", "<=", ">", ">=", "<>", "!=")
_SIGNS = {"=": (0,), "<=>": (0,), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1), "<>": (-1, 1), "!=": (-1, 1)}
"""How the column compares with the literal where a comparison is TRUE."""


def some_value(random: Random, column: Column) -> Any:
    """A value of the row, of a row around it, or any of the type. Without a row: of the column."""
    return random.choice(random.choice((column.pool, column.pool, column.near or column.pool, column.type.values)))


def comparison(random: Random, column: Column, value: Any, wanted: bool | None) -> str:
    """An operator between the column and `value`."""
    if wanted is None or not column.near or value is None or column.pool[0] is None:
        return random.choice(COMPARISONS)
    own, other = _key(column.pool[0]), _key(value)
    sign = (own > other) - (own < other)
    return random.choice([each for each in COMPARISONS if (sign in _SIGNS[each]) == wanted])


def _key(value: Any) -> tuple[bool, Any]:
    """NaN is above every number, and equal to itself."""
    is_nan = value != value
    return is_nan, 0 if is_nan else value


def null_test(random: Random, column: Column, wanted: bool | None) -> str:
    is_wanted = wanted if column.near else None
    is_null = random.random() < 0.6 if is_wanted is None else (column.pool[0] is None) == is_wanted
    if not is_null:
        return "IS NOT NULL"
    return "IS NULL" if column.type.name == "map" else random.choice(("IS NULL", "<=> NULL"))  # maps are not compared


def membership(random: Random, column: Column, values: list[Any], wanted: bool | None) -> str:
    """IN or NOT IN `values`."""
    if wanted is None or not column.near:
        return random.choice(("IN", "IN", "NOT IN"))
    own = _key(column.pool[0])
    return "IN" if any(own == _key(value) for value in values) == wanted else "NOT IN"


def prefix_test(random: Random, column: Column, value: str, wanted: bool | None) -> str:
    """LIKE or NOT LIKE a prefix of `value`."""
    prefix = value[: random.choice((0, 1, 1, 2))].replace("'", "")
    own = column.pool[0]
    if wanted is None or not column.near or own is None:
        return f"{random.choice(('LIKE', 'NOT LIKE'))} '{prefix}%'"
    return f"{'LIKE' if own.startswith(prefix) == wanted else 'NOT LIKE'} '{prefix}%'"


def portable(random: Random, column: Column, name: str, wanted: bool | None) -> str:
    """A condition that the package's own `where` has too."""
    shape = random.random()
    drawn = [some_value(random, column) for _ in range(8)]
    literals = [value for value in drawn if value is not None and value == value]  # `where` has no NaN
    values = literals[: random.choice((1, 2, 4))]
    if not values or shape < 0.1 or (column.pool == (None,) and shape < 0.5):
        return f"{name} {null_test(random, column, wanted)}"
    if shape < 0.4 and column.type.name == "string":
        return f"{name} {prefix_test(random, column, values[0], wanted)}"
    if shape < 0.75:
        return f"{name} {comparison(random, column, values[0], wanted)} {column.type.sql(values[0])}"
    return f"{name} {membership(random, column, values, wanted)} ({', '.join(map(column.type.sql, values))})"
