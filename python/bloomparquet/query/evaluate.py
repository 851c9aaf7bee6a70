"""A predicate and Arrow rows → which rows it is TRUE for, under SQL's three-valued logic and Spark's order of values.

Arrow's own comparisons are used only between a column and a literal of one and the same type. Where the types differ,
Arrow would cast one of the two and round; here the literal is first moved, exactly, to its place among the values that
the column can hold (``id < 1.5`` is ``id <= 1``). NaN equals itself and is greater than every other number, and -0.0
equals 0.0, which is Spark's rule and not Arrow's.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import PlanError, join_names, quoted, shorten
from bloomparquet.query import predicate as p
from bloomparquet.query.literals import DAY_NANOSECONDS, EPOCH_ORDINAL, NANOSECONDS, Family, coerce_all
from bloomparquet.query.names import find
from bloomparquet.query.predicate import Column, Leaf, Membership, Predicate

Convert = Callable[..., list[Any]]  # as :func:`bloomparquet.query.literals.coerce_all`
_Test = Callable[[Any], Any]  # a column, ready for comparison → booleans, null where the column is

_UNIT_NS = {"s": NANOSECONDS, "ms": 1_000_000, "us": 1_000, "ns": 1}


def mask(
    predicate: Predicate, batch: pa.RecordBatch | pa.Table, *, timezone: str = "UTC", case_sensitive: bool = True
) -> pa.BooleanArray | pa.ChunkedArray:
    """For each row of `batch` whether `predicate` is TRUE, FALSE or, as null, NULL; ``batch.filter`` keeps those TRUE.

    One boolean array for a record batch, a chunked one for a table. A column that `batch` lacks is NULL in every row.
    `timezone` is that of literals without an offset, against columns that are adjusted to UTC. PlanError where a
    literal does not fit its column, where a column cannot be compared, and where a name is ambiguous.
    """
    return bind(predicate, batch.schema, timezone=timezone, case_sensitive=case_sensitive)(batch)


def bind(
    predicate: Predicate,
    schema: pa.Schema,
    *,
    timezone: str = "UTC",
    case_sensitive: bool = True,
    convert: Convert = coerce_all,
) -> Callable[[pa.RecordBatch | pa.Table], Any]:
    """`mask` for many batches of one schema: names are looked up and literals converted once, here, by `convert`."""
    evaluate = _Binder(schema, timezone, case_sensitive, convert).bind(predicate)

    def masked(batch: pa.RecordBatch | pa.Table) -> Any:
        found = evaluate(_Rows(batch))
        if isinstance(batch, pa.Table) and not isinstance(found, pa.ChunkedArray):
            return pa.chunked_array([found], pa.bool_())
        return found

    return masked


class _Rows:
    """One batch, and those of its columns that are ready for comparison."""

    def __init__(self, batch: pa.RecordBatch | pa.Table) -> None:
        self.batch = batch
        self.ready: dict[tuple[int, ...], Any] = {}

    def repeat(self, value: bool | None) -> Any:
        return pa.repeat(pa.scalar(value, pa.bool_()), self.batch.num_rows)

    def column(self, path: tuple[int, ...]) -> Any:
        if path not in self.ready:
            found = _unwrap(self.batch.column(path[0]))
            for index in path[1:]:
                found = _unwrap(pc.struct_field(found, [index]))
            self.ready[path] = found.cast(_comparable_type(found.type))
        return self.ready[path]


class _Binder:
    def __init__(self, schema: pa.Schema, timezone: str, case_sensitive: bool, convert: Convert) -> None:
        self.schema, self.timezone, self.case_sensitive, self.convert = schema, timezone, case_sensitive, convert

    def bind(self, node: Predicate) -> Callable[[_Rows], Any]:
        if isinstance(node, p.Always):
            value = node.value
            return lambda rows: rows.repeat(value)
        if isinstance(node, p.Not):
            child = self.bind(node.child)
            return lambda rows: pc.invert(child(rows))
        if isinstance(node, (p.And, p.Or)):
            children = [self.bind(child) for child in node.children]
            combine = pc.and_kleene if isinstance(node, p.And) else pc.or_kleene
            if not children:
                return self.bind(p.Always(isinstance(node, p.And)))
            return lambda rows: reduce(combine, (child(rows) for child in children))
        assert isinstance(node, Leaf)
        return self.bind_leaf(node)

    def bind_leaf(self, leaf: Leaf) -> Callable[[_Rows], Any]:
        found = self.find(leaf.column)
        if isinstance(leaf, p.EqNullSafe) and leaf.value is None:
            leaf = p.IsNull(leaf.column)
        if isinstance(leaf, (p.IsNull, p.IsNotNull)):
            if found is None:
                return self.bind(p.Always(isinstance(leaf, p.IsNull)))
            test: _Test = pc.is_null if isinstance(leaf, p.IsNull) else pc.is_valid
        elif found is None or pa.types.is_null(found[1]):
            if isinstance(leaf, Membership) and not leaf.values:
                return self.bind(p.Always(isinstance(leaf, p.NotIn)))
            return self.bind(p.Always(False if isinstance(leaf, p.EqNullSafe) else None))
        else:
            test = self.test(leaf, found[1])
        path = found[0]
        return lambda rows: test(rows.column(path))

    def test(self, leaf: Leaf, kind: pa.DataType) -> _Test:
        name, family = ".".join(leaf.column), family_of(kind)
        if family == "other":
            raise PlanError(
                f"column {quoted(name)} is of type {shorten(str(kind))}, of which only IS NULL and IS NOT NULL can be "
                "asked"
            )
        domain = _domain(kind)
        if isinstance(leaf, Membership):
            values = self.convert(leaf.values, family, timezone=self.timezone, column=name, kind=str(kind))
            contains = _contains(domain, values)
            return contains if isinstance(leaf, p.In) else _invert(contains)
        if isinstance(leaf, p.StartsWith) and family not in ("string", "binary"):
            raise PlanError(f"startswith asks for text, but column {quoted(name)} is of type {shorten(str(kind))}")
        assert isinstance(leaf, (p.Comparison, p.StartsWith))
        value = leaf.prefix if isinstance(leaf, p.StartsWith) else leaf.value
        (literal,) = self.convert([value], family, timezone=self.timezone, column=name, kind=str(kind))
        if literal is None:
            return _constant(None)
        if isinstance(leaf, p.StartsWith):
            return lambda column: pc.starts_with(column, literal)
        if isinstance(leaf, p.EqNullSafe):
            equal = domain.equal(literal)
            return lambda column: pc.fill_null(equal(column), False)
        if isinstance(leaf, (p.Eq, p.NotEq)):
            return domain.equal(literal) if isinstance(leaf, p.Eq) else _invert(domain.equal(literal))
        at_most = domain.at_most(literal, itself=isinstance(leaf, (p.LtEq, p.Gt)))
        return _invert(at_most) if isinstance(leaf, (p.Gt, p.GtEq)) else at_most

    def find(self, column: Column) -> tuple[tuple[int, ...], pa.DataType] | None:
        """Where the column is, by the index at each level, and its type; None when there is none."""
        found, dotted = self.descend(column), len(column) == 1 and "." in column[0]
        return self.descend(tuple(column[0].split("."))) if found is None and dotted else found

    def descend(self, column: Column) -> tuple[tuple[int, ...], pa.DataType] | None:
        path: list[int] = []
        fields: Sequence[pa.Field] = list(self.schema)
        kind: pa.DataType = None
        for part in column:
            if path and pa.types.is_nested(kind) and not pa.types.is_struct(kind):
                raise PlanError(
                    f"column {quoted('.'.join(column))} is inside a {shorten(str(kind))}; only structs have fields to "
                    "compare"
                )
            if path:
                fields = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
            index = self.index(part, [field.name for field in fields], column)
            if index is None:
                return None
            path.append(index)
            kind = fields[index].type
        return tuple(path), kind

    def index(self, name: str, names: Sequence[str], column: Column) -> int | None:
        found = find(names, name, self.case_sensitive)
        if len(found) > 1:
            candidates = join_names(repr(names[i]) for i in found)
            raise PlanError(f"column {quoted('.'.join(column))} is ambiguous: it could be any of {candidates}")
        return found[0] if found else None


def family_of(kind: pa.DataType) -> Family:
    """What literals a column of this Arrow type compares with."""
    types = pa.types
    if isinstance(kind, pa.UuidType):
        return "uuid"
    if isinstance(kind, pa.BaseExtensionType):
        return family_of(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return family_of(kind.value_type)
    if types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    return next((family for family, check in _FAMILIES if check(kind)), "other")


_FAMILIES: tuple[tuple[Family, Callable[[pa.DataType], bool]], ...] = (
    ("boolean", pa.types.is_boolean),
    ("integer", pa.types.is_integer),
    ("float", pa.types.is_floating),
    ("decimal", pa.types.is_decimal),
    ("date", pa.types.is_date),
    ("time", pa.types.is_time),
    ("string", lambda kind: _comparable_type(kind) in (pa.string(), pa.large_string())),
    ("binary", lambda kind: _comparable_type(kind) in (pa.binary(), pa.large_binary())),
)


class _Domain(Protocol):
    """The ordered values that a column's type can hold; literals are as `coerce` makes them."""

    def equal(self, literal: Any) -> _Test: ...

    def at_most(self, literal: Any, *, itself: bool) -> _Test:
        """Not above `literal`; and, unless `itself`, not equal to it."""

    def contains(self, literals: Iterable[Any]) -> _Test: ...


class _Discrete:
    """Values that are the integers from `low` to `high`, each standing for itself divided by `factor`."""

    def __init__(self, kind: pa.DataType, low: int, high: int, factor: Fraction) -> None:
        self.kind, self.low, self.high, self.factor = kind, low, high, factor

    def equal(self, literal: Any) -> _Test:
        place, exact = self.floor(literal)
        if not exact:
            return _constant(False)
        scalar = self.scalars([place])[0]
        return lambda column: pc.equal(column, scalar)

    def at_most(self, literal: Any, *, itself: bool) -> _Test:
        place, exact = self.floor(literal)
        if exact and not itself:
            place -= 1
        if not self.low <= place < self.high:
            return _constant(place >= self.high)
        scalar = self.scalars([place])[0]
        return lambda column: pc.less_equal(column, scalar)

    def contains(self, literals: Iterable[Any]) -> _Test:
        found = self.scalars([place for place, exact in map(self.floor, literals) if exact])
        return lambda column: pc.is_in(column, value_set=found)

    def floor(self, literal: Any) -> tuple[int, bool]:
        """The greatest integer that is not above `literal`, kept near the range; and whether a value is just that."""
        if isinstance(literal, dt.date):
            literal = literal.toordinal() - EPOCH_ORDINAL
        if isinstance(literal, float) and not math.isfinite(literal):
            return (self.low - 1 if literal < 0 else self.high + 1), False  # NaN is above all numbers
        if type(literal) is int and self.factor == 1:
            place, whole = literal, True
        else:
            scaled = Fraction(literal) * self.factor
            place, whole = math.floor(scaled), scaled.denominator == 1
        return place, whole and self.low <= place <= self.high

    def scalars(self, places: list[int]) -> pa.Array:
        if pa.types.is_decimal(self.kind):
            return pa.array([_to_decimal(place, self.kind.scale) for place in places], self.kind)
        return pa.array(places, self.kind)


class _Floats:
    """float64, NaN the greatest."""

    def equal(self, literal: Any) -> _Test:
        if not isinstance(literal, float):
            return _constant(False)
        if math.isnan(literal):
            return pc.is_nan  # type: ignore[no-any-return]
        return lambda column: pc.equal(column, literal)

    def at_most(self, literal: Any, *, itself: bool) -> _Test:
        if not isinstance(literal, float):
            literal, itself = _float_below(literal), True
        elif math.isnan(literal):
            return _constant(True) if itself else _invert(pc.is_nan)
        compare = pc.less_equal if itself else pc.less
        return lambda column: compare(column, literal)

    def contains(self, literals: Iterable[Any]) -> _Test:
        floats = [value for value in literals if isinstance(value, float)]
        # Arrow looks values up by their bits, by which the zeros differ and NaN need not be itself.
        plain = [value for value in floats if value == value]
        found = pa.array([*plain, -0.0, 0.0] if 0.0 in plain else plain, pa.float64())
        if len(plain) == len(floats):
            return lambda column: pc.is_in(column, value_set=found)
        return lambda column: pc.or_(pc.is_in(column, value_set=found), pc.fill_null(pc.is_nan(column), False))


class _Bytes:
    """Text and bytes, in the order of their unsigned bytes."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind

    def equal(self, literal: Any) -> _Test:
        scalar = pa.scalar(literal, self.kind)
        return lambda column: pc.equal(column, scalar)

    def at_most(self, literal: Any, *, itself: bool) -> _Test:
        scalar, compare = pa.scalar(literal, self.kind), pc.less_equal if itself else pc.less
        return lambda column: compare(column, scalar)

    def contains(self, literals: Iterable[Any]) -> _Test:
        found = pa.array(list(literals), self.kind)
        return lambda column: pc.is_in(column, value_set=found)


def _domain(kind: pa.DataType) -> _Domain:
    types, family = pa.types, family_of(kind)
    while isinstance(kind, pa.BaseExtensionType) or types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind.value_type
    plain = _comparable_type(kind)
    if family == "float":
        return _Floats()
    if family == "decimal":
        return _Discrete(plain, 1 - 10**kind.precision, 10**kind.precision - 1, Fraction(10) ** kind.scale)
    if family in ("string", "binary", "uuid"):
        return _Bytes(plain)
    if family == "boolean":
        return _Discrete(plain, 0, 1, Fraction(1))
    signed = types.is_signed_integer(plain)
    low, high = (
        (-(1 << plain.bit_width - 1), (1 << plain.bit_width - 1) - 1) if signed else (0, (1 << plain.bit_width) - 1)
    )
    if family == "date":
        return _Discrete(plain, low, high, Fraction(1 if types.is_date32(kind) else DAY_NANOSECONDS // _UNIT_NS["ms"]))
    return _Discrete(plain, low, high, Fraction(1) if family == "integer" else Fraction(1, _UNIT_NS[kind.unit]))


def _comparable_type(kind: pa.DataType) -> pa.DataType:
    """The type that columns of `kind` are cast to for comparison, without loss; often `kind` itself."""
    types = pa.types
    if types.is_boolean(kind):
        return pa.uint8()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_decimal32(kind) or types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    if types.is_date64(kind) or types.is_time64(kind) or types.is_timestamp(kind):
        return pa.int64()
    return kind


def _unwrap(column: Any) -> Any:
    while True:
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.cast(column.type.storage_type)
        elif pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        elif pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        else:
            return column


def _contains(domain: _Domain, values: Sequence[Any]) -> _Test:
    """IN: where nothing is equal, NULL for a row that is null and, if there is a None among `values`, for every row."""
    if not values:
        return lambda column: pc.fill_null(_constant(False)(column), False)
    has_null = None in values
    is_in = domain.contains(value for value in values if value is not None)

    def contains(column: Any) -> Any:
        found = is_in(column)
        if has_null:
            return pc.if_else(found, True, pa.scalar(None, pa.bool_()))
        return found if column.null_count == 0 else pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))

    return contains


def _constant(value: bool | None) -> _Test:
    """`value` for every row that is not null."""
    scalar, null = pa.scalar(value, pa.bool_()), pa.scalar(None, pa.bool_())
    return lambda column: pc.if_else(pc.is_valid(column), scalar, null)


def _invert(test: _Test) -> _Test:
    return lambda column: pc.invert(test(column))


def _to_decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))  # arithmetic would round to the context's precision


def _float_below(exact: int | Fraction) -> float:
    """The greatest float64 below `exact`, which is none itself."""
    try:
        found = float(exact)
    except OverflowError:
        found = math.inf if exact > 0 else -math.inf
    return found if found < exact else math.nextafter(found, -math.inf)
