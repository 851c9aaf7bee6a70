"""Evaluates a predicate for Arrow rows, under SQL's three-valued logic and Spark's order of values.

Arrow compares a column only with a literal of the column's type. Where the types differ, Arrow would cast and round.
So each literal is first converted, exactly, to a bound among the values that the column can hold: ``id < 1.5`` becomes
``id <= 1``. As in Spark, and not in Arrow, NaN equals itself and is greater than every other number, and -0.0 equals
0.0.
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
from bloomparquet.query import evaluate_elements
from bloomparquet.query import predicate as p
from bloomparquet.query.literals import DAY_NANOSECONDS, EPOCH_ORDINAL, NANOSECONDS_PER_SECOND, Family, coerce_all
from bloomparquet.query.names import find
from bloomparquet.query.predicate import Column, Leaf, Membership, Predicate

Convert = Callable[..., list[Any]]
"""A function with the signature of :func:`bloomparquet.query.literals.coerce_all`."""
_Test = Callable[[Any], Any]
"""A function of a column in its comparable type. Returns booleans, null where the column is null."""

_UNIT_NS = {"s": NANOSECONDS_PER_SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}


def mask(
    predicate: Predicate, batch: pa.RecordBatch | pa.Table, *, timezone: str = "UTC", case_sensitive: bool = True
) -> pa.BooleanArray | pa.ChunkedArray:
    """The value of `predicate` for each row of `batch`: true, false or null. ``batch.filter`` keeps the true ones.

    Returns a boolean array for a record batch, a chunked array for a table. A column that `batch` lacks is NULL in
    every row. `timezone` is the zone of timestamp literals without an offset, for columns that are adjusted to UTC.
    Raises PlanError if a literal does not fit its column, if a column cannot be compared, or if a name is ambiguous.
    """
    return bind_mask(predicate, batch.schema, timezone=timezone, case_sensitive=case_sensitive)(batch)


def bind_mask(
    predicate: Predicate,
    schema: pa.Schema,
    *,
    timezone: str = "UTC",
    case_sensitive: bool = True,
    convert: Convert = coerce_all,
) -> Callable[[pa.RecordBatch | pa.Table], Any]:
    """:func:`mask` for many batches of one `schema`. Names are resolved and literals converted (by `convert`) once."""
    evaluate = _Binder(schema, timezone, case_sensitive, convert).bind(predicate)

    def masked(batch: pa.RecordBatch | pa.Table) -> Any:
        values = evaluate(_Rows(batch))
        if isinstance(batch, pa.Table) and not isinstance(values, pa.ChunkedArray):
            return pa.chunked_array([values], pa.bool_())
        return values

    return masked


class _Rows:
    """One batch, and a cache of its columns in their comparable types."""

    def __init__(self, batch: pa.RecordBatch | pa.Table) -> None:
        self.batch = batch
        self.columns: dict[tuple[int, ...], Any] = {}

    def repeat(self, value: bool | None) -> Any:
        return pa.repeat(pa.scalar(value, pa.bool_()), self.batch.num_rows)

    def column(self, path: tuple[int, ...]) -> Any:
        if path not in self.columns:
            column = _decoded(self.batch.column(path[0]))
            for index in path[1:]:
                column = _decoded(pc.struct_field(column, [index]))
            self.columns[path] = _comparable(column)
        return self.columns[path]


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
        if isinstance(node, p.ElementPredicate):
            return self.bind_elements(node)
        assert isinstance(node, Leaf)
        return self.bind_leaf(node)

    def bind_elements(self, leaf: p.ElementPredicate) -> Callable[[_Rows], Any]:
        (path, kind), fields = evaluate_elements.split_at_list(leaf.column, self.find)
        if kind is None or pa.types.is_null(kind):
            return self.bind(p.Always(None))

        def make_test(values: Sequence[Any], kind: pa.DataType) -> _Test:
            test = _constant(None) if pa.types.is_null(kind) else self.test(p.In(leaf.column, values), kind)
            return lambda column: test(_comparable(column))

        def find_field(name: str, names: Sequence[str]) -> int | None:
            return self.index(name, names, leaf.column)

        test = evaluate_elements.bind(leaf, kind, fields, find_field, make_test)
        return lambda rows: test(rows.column(path))

    def bind_leaf(self, leaf: Leaf) -> Callable[[_Rows], Any]:
        path, kind = self.find(leaf.column)
        if isinstance(leaf, p.EqNullSafe) and leaf.value is None:
            leaf = p.IsNull(leaf.column)
        if isinstance(leaf, (p.IsNull, p.IsNotNull)):
            if kind is None:
                return self.bind(p.Always(isinstance(leaf, p.IsNull)))
            test: _Test = pc.is_null if isinstance(leaf, p.IsNull) else pc.is_valid
        elif kind is None or pa.types.is_null(kind):
            if isinstance(leaf, Membership) and not leaf.values:
                return self.bind(p.Always(isinstance(leaf, p.NotIn)))
            return self.bind(p.Always(False if isinstance(leaf, p.EqNullSafe) else None))
        else:
            test = self.test(leaf, kind)
        return lambda rows: test(rows.column(path))

    def test(self, leaf: Leaf, kind: pa.DataType) -> _Test:
        name, family = ".".join(leaf.column), family_of(kind)
        if family == "other":
            raise PlanError(
                f"column {quoted(name)} is of type {shorten(str(kind))}, which supports only IS NULL and IS NOT NULL"
            )
        domain = _domain(kind)
        if isinstance(leaf, Membership):
            values = self.convert(leaf.values, family, timezone=self.timezone, column=name, kind=str(kind))
            contains = _contains(domain, values)
            return contains if isinstance(leaf, p.In) else _invert(contains)
        if isinstance(leaf, p.StartsWith) and family not in ("string", "binary"):
            raise PlanError(
                f"startswith needs a column of text or bytes, but column {quoted(name)} is of type {shorten(str(kind))}"
            )
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
        at_most = domain.at_most(literal, inclusive=isinstance(leaf, (p.LtEq, p.Gt)))
        return _invert(at_most) if isinstance(leaf, (p.Gt, p.GtEq)) else at_most

    def find(self, column: Column) -> tuple[tuple[int, ...], pa.DataType | None]:
        """The field index of the column at each level, and its type. The type is None if the column is missing."""
        path, kind = self.descend(column)
        if kind is None and len(column) == 1 and "." in column[0]:
            return self.descend(tuple(column[0].split(".")))
        return path, kind

    def descend(self, column: Column) -> tuple[tuple[int, ...], pa.DataType | None]:
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
                return (), None
            path.append(index)
            kind = fields[index].type
        return tuple(path), kind

    def index(self, name: str, names: Sequence[str], column: Column) -> int | None:
        matching = find(names, name, self.case_sensitive)
        if len(matching) > 1:
            candidates = join_names(repr(names[i]) for i in matching)
            raise PlanError(f"column {quoted('.'.join(column))} is ambiguous: it could be any of {candidates}")
        return matching[0] if matching else None


def family_of(kind: pa.DataType) -> Family:
    """The family of literals that a column of this Arrow type compares with."""
    if isinstance(kind, pa.UuidType):
        return "uuid"
    below = _type_below(kind)
    if below is not None:
        return family_of(below)
    if pa.types.is_timestamp(kind):
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
    """The ordered values that a column's type can hold. Literals are as ``coerce`` makes them."""

    def equal(self, literal: Any) -> _Test: ...

    def at_most(self, literal: Any, *, inclusive: bool) -> _Test:
        """``<= literal`` if `inclusive`, else ``< literal``."""

    def contains(self, literals: Iterable[Any]) -> _Test: ...


class _Discrete:
    """Values stored as the integers from `low` to `high`. A stored integer divided by `factor` is the value."""

    def __init__(self, kind: pa.DataType, low: int, high: int, factor: Fraction) -> None:
        self.kind, self.low, self.high, self.factor = kind, low, high, factor

    def equal(self, literal: Any) -> _Test:
        stored, exact = self.floor(literal)
        if not exact:
            return _constant(False)
        scalar = self.scalars([stored])[0]
        return lambda column: pc.equal(column, scalar)

    def at_most(self, literal: Any, *, inclusive: bool) -> _Test:
        stored, exact = self.floor(literal)
        if exact and not inclusive:
            stored -= 1
        if not self.low <= stored < self.high:
            return _constant(stored >= self.high)
        scalar = self.scalars([stored])[0]
        return lambda column: pc.less_equal(column, scalar)

    def contains(self, literals: Iterable[Any]) -> _Test:
        value_set = self.scalars([stored for stored, exact in map(self.floor, literals) if exact])
        return lambda column: pc.is_in(column, value_set=value_set)

    def floor(self, literal: Any) -> tuple[int, bool]:
        """The greatest stored integer that is not above `literal`, and whether it equals `literal` and is in range."""
        if isinstance(literal, dt.date):
            literal = literal.toordinal() - EPOCH_ORDINAL
        if isinstance(literal, float) and not math.isfinite(literal):
            return (self.low - 1 if literal < 0 else self.high + 1), False  # NaN is above all numbers
        if type(literal) is int and self.factor == 1:
            stored, whole = literal, True
        else:
            scaled = Fraction(literal) * self.factor
            stored, whole = math.floor(scaled), scaled.denominator == 1
        return stored, whole and self.low <= stored <= self.high

    def scalars(self, stored: list[int]) -> pa.Array:
        if pa.types.is_decimal(self.kind):
            return pa.array([_to_decimal(unscaled, self.kind.scale) for unscaled in stored], self.kind)
        return pa.array(stored, self.kind)


class _Floats:
    """float64. NaN is the greatest value."""

    def equal(self, literal: Any) -> _Test:
        if not isinstance(literal, float):
            return _constant(False)
        if math.isnan(literal):
            return pc.is_nan  # type: ignore[no-any-return]
        return lambda column: pc.equal(column, literal)

    def at_most(self, literal: Any, *, inclusive: bool) -> _Test:
        if not isinstance(literal, float):
            literal, inclusive = _float_below(literal), True
        elif math.isnan(literal):
            return _constant(True) if inclusive else _invert(pc.is_nan)
        compare = pc.less_equal if inclusive else pc.less
        return lambda column: compare(column, literal)

    def contains(self, literals: Iterable[Any]) -> _Test:
        floats = [value for value in literals if isinstance(value, float)]
        # Arrow looks values up by their bits, which differ between the zeros and between NaNs.
        numbers = [value for value in floats if value == value]
        value_set = pa.array([*numbers, -0.0, 0.0] if 0.0 in numbers else numbers, pa.float64())
        if len(numbers) == len(floats):
            return lambda column: pc.is_in(column, value_set=value_set)
        return lambda column: pc.or_(pc.is_in(column, value_set=value_set), pc.fill_null(pc.is_nan(column), False))


class _Bytes:
    """Text and bytes, ordered by unsigned bytes."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind

    def equal(self, literal: Any) -> _Test:
        scalar = pa.scalar(literal, self.kind)
        return lambda column: pc.equal(column, scalar)

    def at_most(self, literal: Any, *, inclusive: bool) -> _Test:
        scalar, compare = pa.scalar(literal, self.kind), pc.less_equal if inclusive else pc.less
        return lambda column: compare(column, scalar)

    def contains(self, literals: Iterable[Any]) -> _Test:
        value_set = pa.array(list(literals), self.kind)
        return lambda column: pc.is_in(column, value_set=value_set)


def _domain(kind: pa.DataType) -> _Domain:
    types, family = pa.types, family_of(kind)
    while (below := _type_below(kind)) is not None:
        kind = below
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


def _type_below(kind: pa.DataType) -> pa.DataType | None:
    """The type that an extension, dictionary or run-end encoded type wraps. None for other types."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind) else None


def _comparable_type(kind: pa.DataType) -> pa.DataType:
    """The type that columns of `kind` are cast to, without loss, before they are compared."""
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


def _comparable(column: Any) -> Any:
    """`column` in its comparable type."""
    column = _decoded(column)
    return column.cast(_comparable_type(column.type))


def _decoded(column: Any) -> Any:
    while (below := _type_below(column.type)) is not None:
        column = pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column.cast(below)
    return column


def _contains(domain: _Domain, values: Sequence[Any]) -> _Test:
    """``IN (values)``. A row without an equal value is NULL if it is null or `values` has None, else FALSE."""
    if not values:
        return lambda column: pc.fill_null(_constant(False)(column), False)
    has_null = None in values
    is_in = domain.contains(value for value in values if value is not None)

    def contains(column: Any) -> Any:
        equal, null = is_in(column), pa.scalar(None, pa.bool_())
        if has_null:
            return pc.if_else(equal, True, null)
        return equal if column.null_count == 0 else pc.if_else(pc.is_valid(column), equal, null)

    return contains


def _constant(value: bool | None) -> _Test:
    """A test that gives `value` for every row that is not null."""
    scalar, null = pa.scalar(value, pa.bool_()), pa.scalar(None, pa.bool_())
    return lambda column: pc.if_else(pc.is_valid(column), scalar, null)


def _invert(test: _Test) -> _Test:
    return lambda column: pc.invert(test(column))


def _to_decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))  # arithmetic would round to the context's precision


def _float_below(exact: int | Fraction) -> float:
    """The greatest float64 below `exact`, a number that no float64 equals."""
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = math.inf if exact > 0 else -math.inf
    return nearest if nearest < exact else math.nextafter(nearest, -math.inf)
