"""Columns of random tables, and random conditions on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

Literal = Callable[[Random], str]


@dataclass(frozen=True)
class Kind:
    """A type. `value`: SQL of a value of row number `i`; each is in few row groups, which min/max do not tell apart."""

    type: str
    value: str
    literal: Literal
    wider: tuple[str, ...] = ()

    def widened(self, to: str) -> Kind:
        return Kind(to, f"CAST({self.value} AS {to})", self.literal)


@dataclass(frozen=True)
class Nested:
    """A struct, or a list of two structs. `fields` changes its keys when a field is renamed."""

    fields: dict[str, Kind]
    is_list: bool = False

    @property
    def type(self) -> str:
        struct = f"STRUCT<{', '.join(f'{quoted(name)}: {kind.type}' for name, kind in self.fields.items())}>"
        return f"ARRAY<{struct}>" if self.is_list else struct

    @property
    def value(self) -> str:
        struct = f"named_struct({', '.join(f'{text(name)}, {kind.value}' for name, kind in self.fields.items())})"
        return f"transform(array(i, i + 1), i -> {struct})" if self.is_list else struct


Columns = dict[str, Kind | Nested]

EVEN = Kind("BIGINT", "2 * (i * 31 % 2003)", lambda random: f"{2 * random.randrange(2_050)}L")
ODD = Kind("BIGINT", "2 * (i * 17 % 2003) + 1", lambda random: f"{2 * random.randrange(2_050) + 1}L")
TEXT = Kind("STRING", "concat('k', i * 37 % 1009)", lambda random: text(f"k{random.randrange(1_050)}"))
KINDS: dict[str, Kind] = {
    "number": Kind(
        "INT", "CAST(i * 13 % 1997 AS INT)", lambda random: f"{random.randrange(2_050)}",
        ("BIGINT", "DOUBLE", "DECIMAL(14,2)"),
    ),
    "price": Kind(
        "DECIMAL(9,2)", "CAST(i * 7 % 1999 / 4 AS DECIMAL(9,2))", lambda random: f"{random.randrange(2_050) / 4:.2f}BD",
        ("DECIMAL(14,4)",),
    ),
    "single": Kind(
        "FLOAT", "CAST(i * 11 % 1493 / 8 AS FLOAT)", lambda random: f"{random.randrange(1_550) / 8}F", ("DOUBLE",)
    ),
    "double": Kind("DOUBLE", "i * 5 % 1499 / 8D", lambda random: f"{random.randrange(1_550) / 8}D"),
    "day": Kind(
        "DATE", "date_add(DATE'2020-01-01', CAST(i * 3 % 1777 AS INT))",
        lambda random: f"date_add(DATE'2020-01-01', {random.randrange(1_800)})", ("TIMESTAMP_NTZ",),
    ),
    "at": Kind(
        "TIMESTAMP", "timestamp_seconds(1700000000 + i * 61 % 1801 * 3600)",
        lambda random: f"timestamp_seconds({1_700_000_000 + 3_600 * random.randrange(1_850)})",
    ),
    "raw": Kind(
        "BINARY", "CAST(concat('b', i * 19 % 1511) AS BINARY)",
        lambda random: f"CAST('b{random.randrange(1_550)}' AS BINARY)",
    ),
    "row": Kind("BIGINT", "i", lambda random: f"{random.randrange(3_000)}L"),
}  # fmt: skip


def quoted(name: str) -> str:
    return f"`{name}`"


def text(value: str) -> str:
    return f"'{value}'"


def nullable(name: str, kind: Kind | Nested) -> str:
    """SQL of the column's values of row numbers `i`."""
    return kind.value if name == "id" else f"if(i % 13 = {len(name) % 13}, NULL, {kind.value})"


@dataclass
class Conditions:
    """Random conditions on some columns, most of them selective. `lists`: columns of type ARRAY<BIGINT>."""

    columns: Columns
    random: Random
    lists: tuple[str, ...] = ()
    partition: str | None = None
    prefix: str = ""
    leaves: list[tuple[str, Kind]] = field(init=False)

    def __post_init__(self) -> None:
        self.leaves = list(self._leaves())

    def _leaves(self) -> Iterator[tuple[str, Kind]]:
        for name, kind in self.columns.items():
            if isinstance(kind, Kind):
                yield self.prefix + quoted(name), kind
            elif not kind.is_list:
                for each, of_field in kind.fields.items():
                    yield f"{self.prefix}{quoted(name)}.{quoted(each)}", of_field

    def key(self) -> tuple[str, Kind]:
        return self.random.choice(self.leaves)

    def any(self) -> str:
        choose = self.random.random()
        if choose < 0.55:
            return self.selective()
        if choose < 0.7:
            return f"{self.selective()} AND {self.broad()}"
        if choose < 0.8:
            return f"({self.selective()} OR {self.selective()})"
        if choose < 0.85:
            return f"NOT ({self.broad()} OR {self.broad()})"
        if choose < 0.9 and self.partition:
            column = self.prefix + quoted(self.partition)
            return f"({column} = {self.random.randrange(4)} OR {self.selective()}) AND {self.selective()}"
        return self.broad()

    def selective(self) -> str:
        column, kind = self.key()
        one, two, three = (kind.literal(self.random) for _ in range(3))
        ways = [f"{column} = {one}", f"{one} = {column}", f"{column} IN ({one}, {two}, {three})", f"{column} <=> {one}"]
        ways += [f"{column} IN ({one}, NULL)", f"{column} = {one} AND {column} IS NOT NULL"]
        if self.random.random() < 0.25:
            ways = [*self._in_lists()] or ways
        return self.random.choice(ways)

    def _in_lists(self) -> Iterator[str]:
        for name in self.lists:
            column, one = self.prefix + quoted(name), EVEN.literal(self.random)
            yield from (f"array_contains({column}, {one})", f"exists({column}, x -> x = {one})", f"{column}[0] = {one}")
        for name, kind in self.columns.items():
            if isinstance(kind, Nested) and kind.is_list:
                column = self.prefix + quoted(name)
                of_field, leaf = self.random.choice(list(kind.fields.items()))
                of_field, one = quoted(of_field), leaf.literal(self.random)
                yield from (
                    f"exists({column}, x -> x.{of_field} = {one})",
                    f"array_contains({column}.{of_field}, {one})",
                    f"{column}[1].{of_field} = {one}",
                    f"size(filter({column}, x -> x.{of_field} = {one})) > 0",
                )

    def broad(self) -> str:
        column, kind = self.key()
        one, two = kind.literal(self.random), kind.literal(self.random)
        ways = [
            f"{column} BETWEEN {one} AND {two}", f"{column} < {one}", f"{column} >= {one}", f"{column} <> {one}",
            f"{column} NOT IN ({one}, {two})", f"{column} IS NULL", f"{column} IS NOT NULL",
            f"NOT ({column} <=> {one})",
        ]  # fmt: skip
        return self.random.choice(ways)
