"""Converts literals to keys in the order of a file's column, which are compared with its statistics.

Keys are exact. A literal that the column cannot hold (2**40 among 32-bit integers, 1.005 among decimals of scale 2) has
no key: no row of the file equals it. If the key of a literal is uncertain, the answer is None, and nothing is skipped.

The *file's* column decides, by its range, unit and scale, never the type of the query or of the table. Each format
describes its columns as :class:`ValueOrder`.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.query.families import ColumnType
from bloomparquet.query.literals import DAY_NANOSECONDS, EPOCH_ORDINAL, Family, to_stored

BYTES_FAMILIES = frozenset[Family]({"string", "binary", "uuid"})
"""Families whose keys are bytes."""

# Older values may be stored in the hybrid Julian calendar or in local mean time, and readers shift them. A day's margin
# allows for time zones.
_OLDEST_DATE = dt.date(1582, 10, 15)
OLDEST_TIMESTAMP = (dt.date(1900, 1, 2).toordinal() - EPOCH_ORDINAL) * DAY_NANOSECONDS


@dataclass(frozen=True, slots=True)
class Point:
    """A value's position in a column's order, relative to the storable value `key`.

    `side`: 0: equal to `key`; -1: just below `key`; 1: just above.
    """

    key: Any
    side: int = 0


@dataclass(frozen=True)
class Encoded:
    """The values of an equality or IN as a column stores them. Values that the column cannot hold are left out: no row
    equals them.

    `keys` has shape (n,) and is sorted. ``hashes[i]`` is the Bloom filter's hash of ``keys[i]``; `hashes` is None if
    filters of this column prove nothing. Zero in a floating-point column has two keys, -0.0 and 0.0.
    """

    keys: NDArray[Any]
    hashes: NDArray[np.uint64] | None


@dataclass(frozen=True, repr=False)
class Bounds:
    """Minima and maxima of n column chunks as keys of the column's order, shape (n,). They hold where `known`.

    Those of floating-point numbers leave out NaN. `without_nan`: the chunks that are known to hold none; None if no
    chunk is.
    """

    lower: NDArray[Any]
    upper: NDArray[Any]
    known: NDArray[np.bool_]
    without_nan: NDArray[np.bool_] | None = None

    @property
    def may_hold_nan(self) -> NDArray[np.bool_]:
        """Whether each chunk may hold NaN, if the column has floating-point numbers."""
        return np.ones(len(self.known), np.bool_) if self.without_nan is None else ~self.without_nan


@dataclass(frozen=True, slots=True)
class ValueOrder(ColumnType):
    """The order of the values that a file's column can hold.

    Keys are bytes for :data:`BYTES_FAMILIES`, float64 for ``float``, and for all other families the integers that the
    file stores: unscaled decimals, days since 1970, or time in units of `unit` nanoseconds.
    """

    def keys(self, values: Sequence[Any], timezone: str | None) -> NDArray[Any] | None:
        """The sorted keys of the `values` that the column can hold; None if one of them has no certain key.

        `timezone` and errors are those of :meth:`ColumnType.exact_values`.
        """
        exact = self.exact_values(values, timezone)
        if exact is None:
            return None
        if self.family == "float":
            return self._float_keys(exact)
        stored = self._stored(exact)
        if stored is None:
            return None
        return self._bytes_keys(stored) if self.family in BYTES_FAMILIES else self._integer_keys(stored)

    def point(self, value: Any, timezone: str | None) -> Point | None:
        """The position of `value` in the order; None if it is not certain. Errors are those of :meth:`keys`."""
        exact = self.exact_values([value], timezone)
        if exact is None or is_nan(exact[0]):
            return None
        if self.family == "float":
            return _float_point(exact[0])
        stored = self._stored(exact)
        if stored is None:
            return None
        number = stored[0]
        if isinstance(number, bytes):
            return Point(number)
        low, high = self.integers
        if number > high:
            return Point(high, 1)
        if number < low:
            return Point(low, -1)
        key = math.floor(number)
        return Point(key, 0 if key == number else 1)

    def _stored(self, exact: Sequence[Any]) -> Sequence[Any] | None:
        """Each value as the file would store it, as an exact number (perhaps a Fraction) or bytes; None if that is not
        certain for one of them. NaN stays as it is: no column holds it."""
        family = self.family
        if family == "string":
            return [value.encode() for value in exact]
        if family == "decimal":
            factor = 10 ** (self.scale or 0)
            return [to_stored(value, factor) for value in exact]
        if family == "date":
            return None if any(value < _OLDEST_DATE for value in exact) else [to_stored(value) for value in exact]
        if family in ("timestamp", "timestamp_ntz", "time"):
            is_old = any(value < OLDEST_TIMESTAMP for value in exact)
            return None if is_old else [to_stored(value, per=self.unit) for value in exact]
        return exact

    def _integer_keys(self, stored: Sequence[Any]) -> NDArray[Any]:
        low, high = self.integers
        dtype = np.int64 if low else np.uint64
        try:
            keys = np.array(stored, dtype) if set(map(type, stored)) == {int} else None
        except OverflowError:
            keys = None
        if keys is None or high > 2**64 or bool(((keys < low) | (keys > high)).any()):
            fitting = [int(number) for number in stored if isinstance(number, int) and low <= number <= high]
            keys = objects(fitting) if high >= 2**64 or low < -(2**63) else np.array(fitting, dtype)
        return np.unique(keys, return_index=True)[0]  # without indexes, it imports numpy.ma, which takes 15 ms

    def _bytes_keys(self, stored: Sequence[bytes]) -> NDArray[Any]:
        if self.length is not None:
            stored = [value for value in stored if len(value) == self.length]
        return objects(sorted(set(stored)))

    def _float_keys(self, exact: Sequence[Any]) -> NDArray[Any] | None:
        if any(is_nan(value) for value in exact):
            return None  # NaN has many bit patterns, and Spark holds them all equal
        with np.errstate(over="ignore"):
            fitting = {value for value in exact if isinstance(value, float) and float(self.float_type(value)) == value}
        ordered = sorted(fitting)
        if 0.0 in fitting:
            zero = ordered.index(0.0)
            ordered[zero : zero + 1] = [-0.0, 0.0]
        return np.array(ordered, np.float64)


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """An array of objects; numpy alone might choose another type."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _float_point(value: Any) -> Point:
    if isinstance(value, float):
        return Point(value)
    return Point(math.inf, -1) if value > 0 else Point(-math.inf, 1)  # an int beyond the largest float64


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
