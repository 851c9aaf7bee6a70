"""The ordered values of Arrow's types, and tests of Arrow columns against literals, under Spark's order of values.

Arrow compares a column only with a literal of the column's type. Where the types differ, Arrow would cast and round.
So each literal is first converted, exactly, to a bound among the values that the column can hold: ``id < 1.5`` becomes
``id <= 1``. As in Spark, and not in Arrow, NaN equals itself and is greater than every other number, and -0.0 equals
0.0.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.query.arrow_values import FALSE, NULL, from_bools, make_array, make_scalar, stored_array
from bloomparquet.query.literals import DAY_NANOSECONDS, NANOSECONDS_PER_SECOND, Family, to_stored

Test = Callable[[Any], Any]
"""A function of a column in its comparable type. Returns booleans, null where the column is null."""

_DIGITS_128, _DIGITS_256 = 38, 76
_COMPARED = 10  # numbers: to compare a batch with more takes longer than to hash them
_TIMES_BATCH = 4  # so many times as many numbers as a batch take longer to hash than to search
_UNIT_NS = {"s": NANOSECONDS_PER_SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}


_FAMILIES: tuple[tuple[Family, Callable[[pa.DataType], bool]], ...] = (
    ("boolean", pa.types.is_boolean),
    ("integer", pa.types.is_integer),
    ("float", pa.types.is_floating),
    ("decimal", pa.types.is_decimal),
    ("date", pa.types.is_date),
    ("time", pa.types.is_time),
    ("timestamp", lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None),
    ("timestamp_ntz", pa.types.is_timestamp),
    ("string", lambda kind: _comparable_type(kind) in (pa.string(), pa.large_string())),
    ("binary", lambda kind: _comparable_type(kind) in (pa.binary(), pa.large_binary())),
)


class Domain:
    """The values of a column's type: of `family`, in the comparable type `kind`, and ordered as Arrow orders that.
    Literals are as ``coerce`` makes them."""

    def __init__(self, family: Family, kind: pa.DataType) -> None:
        self.family, self.kind = family, kind

    def equal(self, literal: Any) -> Test:
        scalar = make_scalar(literal, self.kind)
        return lambda column: pc.equal(column, scalar)

    def at_most(self, literal: Any, *, inclusive: bool) -> Test:
        """``<= literal`` if `inclusive`, else ``< literal``."""
        scalar, compare = make_scalar(literal, self.kind), pc.less_equal if inclusive else pc.less
        return lambda column: compare(column, scalar)

    def contains(self, literals: Iterable[Any]) -> Test:
        return is_in(self.stored(literals).drop_null())

    def stored(self, literals: Iterable[Any]) -> Any:
        """The literals in the column's comparable type, null for one that no value equals. None if values that are
        equal may be stored in several ways."""
        return make_array(list(literals), self.kind)


class _Discrete(Domain):
    """Values stored as the integers from `low` to `high`: the values * `times` / `per`."""

    def __init__(self, family: Family, kind: pa.DataType, low: int, high: int, times: int = 1, per: int = 1) -> None:
        super().__init__(family, kind)
        self.low, self.high, self.times, self.per = low, high, times, per

    def equal(self, literal: Any) -> Test:
        stored, exact = self.floor(literal)
        if not exact:
            return constant(False)
        scalar = stored_array([stored], self.kind)[0]
        return lambda column: pc.equal(column, scalar)

    def at_most(self, literal: Any, *, inclusive: bool) -> Test:
        stored, exact = self.floor(literal)
        if exact and not inclusive:
            stored -= 1
        if not self.low <= stored < self.high:
            return constant(stored >= self.high)
        scalar = stored_array([stored], self.kind)[0]
        return lambda column: pc.less_equal(column, scalar)

    def stored(self, literals: Iterable[Any]) -> pa.Array:
        return stored_array([stored if exact else None for stored, exact in map(self.floor, literals)], self.kind)

    def floor(self, literal: Any) -> tuple[int, bool]:
        """The greatest stored integer that is not above `literal`, and whether it equals `literal` and is in range."""
        exact = to_stored(literal, self.times, self.per)
        if isinstance(exact, float):
            return (self.low - 1 if exact < 0 else self.high + 1), False  # NaN is above all numbers
        stored = math.floor(exact)
        return stored, stored == exact and self.low <= stored <= self.high


class _Floats(Domain):
    """float64. NaN is the greatest value."""

    def equal(self, literal: Any) -> Test:
        if not isinstance(literal, float):
            return constant(False)
        return pc.is_nan if math.isnan(literal) else super().equal(literal)

    def at_most(self, literal: Any, *, inclusive: bool) -> Test:
        if not isinstance(literal, float):  # an int beyond the largest float64
            return super().at_most(sys.float_info.max if literal > 0 else -math.inf, inclusive=True)
        if math.isnan(literal):
            return constant(True) if inclusive else invert(pc.is_nan)
        return super().at_most(literal, inclusive=inclusive)

    def contains(self, literals: Iterable[Any]) -> Test:
        floats = [value for value in literals if isinstance(value, float)]
        # Arrow looks values up by their bits, which differ between the zeros and between NaNs.
        numbers = [value for value in floats if value == value]
        is_number = is_in(make_array([*numbers, -0.0, 0.0] if 0.0 in numbers else numbers, pa.float64()))
        if len(numbers) == len(floats):
            return is_number
        return lambda column: pc.or_(is_number(column), pc.fill_null(pc.is_nan(column), FALSE))

    def stored(self, literals: Iterable[Any]) -> None:
        return None


def is_in(value_set: pa.Array) -> Test:
    """Whether the values of a column are in `value_set`, which has no nulls. False where the column is null.

    Arrow hashes `value_set` for each batch. So numbers are compared one by one if `value_set` is small, and looked up
    in their order if it is much larger than the batch.
    """
    if not pa.types.is_integer(value_set.type):
        return lambda column: pc.is_in(column, value_set=value_set)
    if 0 < len(value_set) <= _COMPARED:
        scalars = list(value_set)
        return lambda column: pc.fill_null(reduce(pc.or_, (pc.equal(column, each) for each in scalars)), FALSE)
    in_order = np.unique(value_set.to_numpy())

    def contains(column: Any) -> Any:
        if len(in_order) < _TIMES_BATCH * len(column):
            return pc.is_in(column, value_set=value_set)
        numbers = pc.fill_null(column, 0).to_numpy()
        at = np.searchsorted(in_order, numbers)
        equal = in_order[np.minimum(at, len(in_order) - 1)] == numbers
        return pc.and_(from_bools(equal), pc.is_valid(column))

    return contains


def arrow_family(kind: pa.DataType) -> Family:
    """The family of literals that a column of this Arrow type compares with."""
    return domain_of(kind).family


def domain_of(kind: pa.DataType) -> Domain:
    """The values that columns of this Arrow type hold, in their comparable type. A type of the family "other" has
    none."""
    is_uuid = False
    while (below := _type_below(kind)) is not None:
        kind, is_uuid = below, is_uuid or isinstance(kind, pa.UuidType)
    return _domain(kind, is_uuid)


def _make_domain(kind: pa.DataType, is_uuid: bool) -> Domain:
    """The domain of a decoded type, which may be that of UUIDs."""
    types, plain = pa.types, _comparable_type(kind)
    family: Family = "uuid" if is_uuid else next((family for family, check in _FAMILIES if check(kind)), "other")
    if family in ("string", "binary", "uuid", "other"):
        return Domain(family, plain)
    if family == "float":
        return _Floats(family, plain)
    if family == "decimal":
        return _Discrete(family, plain, 1 - 10**plain.precision, 10**plain.precision - 1, 10**kind.scale)
    if family == "boolean":
        return _Discrete(family, plain, 0, 1)
    sign_bits = int(types.is_signed_integer(plain))
    low, high = -sign_bits << plain.bit_width - 1, (1 << plain.bit_width - sign_bits) - 1
    if family == "date":
        return _Discrete(family, plain, low, high, 1 if types.is_date32(kind) else DAY_NANOSECONDS // _UNIT_NS["ms"])
    return _Discrete(family, plain, low, high, per=1 if family == "integer" else _UNIT_NS[kind.unit])


_domain = lru_cache(maxsize=256)(_make_domain)  # decoded types, unlike extension types, can be hashed


def _type_below(kind: pa.DataType) -> pa.DataType | None:
    """The type that an extension, dictionary or run-end encoded type wraps. None for other types."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind) else None


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """The type of :func:`decoded` columns of `kind`."""
    while (below := _type_below(kind)) is not None:
        kind = below
    return kind


def _comparable_type(kind: pa.DataType) -> pa.DataType:
    """The type that columns of `kind` are cast to, without loss, before they are compared."""
    types = pa.types
    if types.is_boolean(kind):
        return pa.uint8()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_decimal(kind):  # with all digits: a file may hold numbers beyond the precision
        wide = types.is_decimal256(kind)
        return pa.decimal256(_DIGITS_256, kind.scale) if wide else pa.decimal128(_DIGITS_128, kind.scale)
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    if types.is_date64(kind) or types.is_time64(kind) or types.is_timestamp(kind):
        return pa.int64()
    return kind


def comparable(column: Any) -> Any:
    """`column` in its comparable type."""
    column = decoded(column)
    kind = _comparable_type(column.type)
    if not pa.types.is_decimal(kind) or kind.bit_width != column.type.bit_width:
        return column.cast(kind)
    if isinstance(column, pa.ChunkedArray):  # a cast copies
        return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)
    return column.view(kind)


def decoded(column: Any) -> Any:
    """`column` without extension, dictionary and run-end encoding."""
    while (below := _type_below(column.type)) is not None:
        column = pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column.cast(below)
    return column


def constant(value: bool | None) -> Test:
    """A test that gives `value` for every row that is not null."""
    scalar = make_scalar(value, pa.bool_())
    return lambda column: pc.if_else(pc.is_valid(column), scalar, NULL)


def invert(test: Test) -> Test:
    """A test that is true where `test` is false. Null stays null."""
    return lambda column: pc.invert(test(column))
