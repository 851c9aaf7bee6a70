"""The predicate on a field of a VARIANT column."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from bloomparquet.errors import PlanError, quoted
from bloomparquet.query import predicate as p
from bloomparquet.query.casts import require_decimal
from bloomparquet.query.literals import Family, coerce_all
from bloomparquet.query.names import column_to_sql
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.values import to_sql as literal_to_sql

FAMILIES: dict[str, Family] = {
    "tinyint": "integer", "smallint": "integer", "int": "integer", "bigint": "integer", "float": "float",
    "double": "float", "decimal": "decimal", "string": "string", "binary": "binary", "boolean": "boolean",
    "date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp_ntz",
}  # fmt: skip
"""Spark's types that a field can be compared as, without precision and scale."""

_SYNONYMS = {
    "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float", "dec": "decimal",
    "numeric": "decimal",
}  # fmt: skip
_TYPE = re.compile(r"([a-z_]+)(?:\((\d{1,2})(?:,(\d{1,2}))?\))?")
_SEGMENT = re.compile(r"""\.([^.\[]+)|\['([^']*)']|\["([^"]*)"]|\[([0-9]+)]""")


@dataclass(frozen=True, slots=True)
class TypeName:
    """Spark's name of a type, such as ``bigint`` or ``decimal(10,2)``."""

    name: str
    precision: int | None = None  # decimal
    scale: int | None = None  # decimal

    def __str__(self) -> str:
        return self.name if self.precision is None else f"{self.name}({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class VariantField(p.FunctionPredicate):
    """A test of one field of a VARIANT: ``variant_get(column, '$.a', 'bigint') = 42``.

    `path` is Spark's path of the field, which is cast to `kind`, one of Spark's types. The field is NULL if it does
    not exist or is a VARIANT's null. `test` says how it is compared; its own column is ignored.
    """

    path: str
    kind: str
    test: p.Leaf

    def __init__(self, column: str | Iterable[str], path: str, kind: str, test: p.Leaf) -> None:
        p.Leaf.__init__(self, column)
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "kind", str(parse_type(kind)))
        object.__setattr__(self, "test", dataclasses.replace(test, column=self.column))
        parse_path(path)
        values = (
            test.values if isinstance(test, p.Membership) else (test.value,) if isinstance(test, p.Comparison) else ()
        )
        prefix = (test.prefix,) if isinstance(test, p.StartsWith) else ()
        coerce_all((*values, *prefix), FAMILIES[self.type.name], column=self._operand(), kind=self.kind)

    @property
    def keys(self) -> tuple[str | int, ...]:
        """The names of fields, and the indexes of elements, on the path."""
        return parse_path(self.path)

    @property
    def type(self) -> TypeName:
        return parse_type(self.kind)

    def normalized(self, *, negated: bool) -> p.Predicate:
        test = normalize(p.Not(self.test) if negated else self.test)
        return p.map_leaves(test, lambda leaf: VariantField(self.column, self.path, self.kind, leaf))

    def provable(self, *, negated: bool) -> p.Predicate:
        # Evidence excludes only rows with a value, and NULL passes these tests.
        return p.Always(True) if negated or isinstance(self.test, p.IsNull) else self

    def to_sql(self, max_values: int | None) -> str:
        return p.leaf_to_sql(self.test, self._operand(), max_values)

    def _operand(self) -> str:
        path, kind = literal_to_sql(self.path), literal_to_sql(self.kind)
        return f"variant_get({column_to_sql(self.column)}, {path}, {kind})"


@lru_cache(maxsize=256)
def parse_path(path: str) -> tuple[str | int, ...]:
    """The names and indexes of a path such as ``$.a['b.c'][0]``. PlanError if Spark would not accept it."""
    keys: list[str | int] = []
    at = 1
    while at < len(path) and (segment := _SEGMENT.match(path, at)):
        *names, index = segment.groups()
        keys.append(int(index) if index is not None else next(name for name in names if name is not None))
        at = segment.end()
    if not path.startswith("$") or at != len(path):
        raise PlanError(
            f"the path of variant_get is {quoted(path)}; expected one such as '$.a', '$.a.b' or \"$['a.b']\""
        )
    return tuple(keys)


@lru_cache(maxsize=256)
def parse_type(text: str) -> TypeName:
    """The type of ``variant_get``. PlanError for one that is not known."""
    match = _TYPE.fullmatch("".join(text.lower().split()))
    name = _SYNONYMS.get(match[1], match[1]) if match else ""
    if match is None or name not in FAMILIES or (match[2] and name != "decimal"):
        raise PlanError(f"the type of variant_get is {quoted(text)}; expected one of {', '.join(FAMILIES)}")
    if name != "decimal":
        return TypeName(name)
    require_decimal(text, [parameter for parameter in match.groups()[1:] if parameter])
    return TypeName(name, int(match[2] or 10), int(match[3] or 0))
