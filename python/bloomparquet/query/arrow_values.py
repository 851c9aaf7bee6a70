"""Makes Arrow arrays and scalars of Python values, and numpy arrays of Arrow's booleans, without importing pandas.

pyarrow imports pandas, if it is installed, in ``pa.array``, ``pa.scalar`` and ``to_numpy``, and where a function of
:mod:`pyarrow.compute` is given a Python value. That takes longer than the rest of a plan or of a small read.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.query.literals import EPOCH_ORDINAL, EPOCH_UTC

_MICROSECOND = dt.timedelta(microseconds=1)
_MOST = 1_000_000  # for so many numbers or paths, the loops here take 0.1 s; importing pandas takes 0.3 s


def make_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """``pa.array(values, kind)``. Leaves to it, and so to pandas, what is not of the one Python type that fits `kind`,
    or is too large for it; and more than a million values, for which the loops here would take longer than the import.
    """
    if len(values) > _MOST:
        return pa.array(values, kind)
    try:
        if pa.types.is_floating(kind) and kind.bit_width == 64 and _are(float, values):
            return _from_buffer(kind, values, np.array(values, np.float64))
        if pa.types.is_boolean(kind) and _are(bool, values):
            return _from_buffer(kind, values, np.packbits(np.array(values, np.bool_), bitorder="little"))
        if kind in (pa.string(), pa.large_string()) and _are(str, values):
            return _bytes_array(values, [(value or "").encode() for value in values]).cast(kind)
        if kind in (pa.binary(), pa.large_binary()) and _are(bytes, values):
            return _bytes_array(values, [value or b"" for value in values]).cast(kind)
        python, to_stored = _stored_integers(kind)
        if _are(python, values):
            return stored_array([None if value is None else to_stored(value) for value in values], kind)
    except (TypeError, ValueError, OverflowError):
        pass
    return pa.array(values, kind)


def make_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """``pa.scalar(value, kind)``; see :func:`make_array`."""
    return make_array([value], kind)[0]


def stored_array(stored: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """The array of `kind` whose values are stored as these integers, such as unscaled decimals or days since 1970.

    Raises OverflowError if one has too many bits.
    """
    width, signed = kind.bit_width // 8, not pa.types.is_unsigned_integer(kind)
    numbers = [value or 0 for value in stored]
    if width <= 8:
        return _from_buffer(kind, stored, np.array(numbers, f"{'i' if signed else 'u'}{width}"))
    return _from_buffer(kind, stored, b"".join(each.to_bytes(width, sys.byteorder, signed=signed) for each in numbers))


def to_bools(booleans: pa.BooleanArray | pa.ChunkedArray) -> NDArray[np.bool_]:
    """The values of `booleans`; False for null."""
    if isinstance(booleans, pa.ChunkedArray):
        booleans = booleans.combine_chunks()
    if not len(booleans):
        return np.zeros(0, np.bool_)
    return np.from_dlpack(booleans.fill_null(FALSE).cast(pa.uint8())).astype(np.bool_)


def from_bools(values: NDArray[np.bool_]) -> pa.BooleanArray:
    """The inverse of :func:`to_bools`."""
    return pa.BooleanArray.from_buffers(
        pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))]
    )


def filter_rows(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows of `batch` for which `mask` is true."""
    try:
        return batch.filter(mask)
    except pa.ArrowNotImplementedError:  # views of strings
        runs = slices_at(batch, np.flatnonzero(to_bools(mask)))
        return pa.concat_batches(runs) if runs else batch.slice(0, 0)


def slices_at(data: Any, positions: NDArray[np.int64]) -> list[Any]:
    """The slices of `data` at the ascending `positions`: one for each run of consecutive positions. pyarrow has no take
    and no filter for views of strings."""
    runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    return [data.slice(run[0], len(run)) for run in runs if len(run)]


def _are(python: type, values: Sequence[Any]) -> bool:
    """Whether all `values` are of this very type, or None."""
    return {python, type(None)}.issuperset(map(type, values))


def _stored_integers(kind: pa.DataType) -> tuple[type, Callable[[Any], int]]:
    """The Python type of the values of `kind`, and how they become the stored integers. TypeError for other kinds."""
    if pa.types.is_integer(kind):
        return int, int
    if pa.types.is_date32(kind):
        return dt.date, lambda date: date.toordinal() - EPOCH_ORDINAL
    if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None:
        return dt.datetime, lambda moment: (moment - EPOCH_UTC) // _MICROSECOND
    if pa.types.is_decimal128(kind):
        return Decimal, lambda number: _to_unscaled(number, kind.precision, kind.scale)
    raise TypeError(kind)


def _to_unscaled(number: Decimal, precision: int, scale: int) -> int:
    """ValueError if the type does not hold `number` exactly."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or exponent + scale < 0 or len(digits) + exponent + scale > precision:
        raise ValueError(number)
    unscaled = int("".join(map(str, digits))) * int(10 ** (exponent + scale))
    return -unscaled if sign else unscaled


def _bytes_array(values: Sequence[Any], stored: Sequence[bytes]) -> pa.LargeBinaryArray:
    ends = np.cumsum([0, *map(len, stored)], dtype=np.int64)
    return _from_buffer(pa.large_binary(), values, ends, b"".join(stored))


def _from_buffer(kind: pa.DataType, values: Sequence[Any], *buffers: Any) -> pa.Array:
    """The array of `kind` with these buffers. It is null where `values` are None."""
    validity = None
    if None in values:
        validity = pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [validity, *map(pa.py_buffer, buffers)])


TRUE, FALSE = make_array([True, False], pa.bool_())
NULL = make_scalar(None, pa.bool_())
