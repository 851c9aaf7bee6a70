"""Values of a predicate: which are allowed, and their SQL."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from bloomparquet.errors import PlanError

Value = bool | int | float | str | bytes | Decimal | dt.date | dt.datetime | dt.time | UUID | np.datetime64 | None
"""A value of a predicate. A ``numpy.datetime64`` is kept only if it is finer than microseconds."""

_PLAIN: frozenset[type] = frozenset(
    {bool, int, float, str, bytes, Decimal, dt.date, dt.datetime, dt.time, UUID, type(None)}
)

_FINE_UNITS = frozenset({"ns", "ps", "fs", "as"})  # of datetime64: too fine for a year beyond 2262


def normalize_value(value: Any) -> Value:
    """`value` as a plain Python value. Takes scalars of numpy, pandas and pyarrow, too. NaT and pandas' NA become
    None.

    Raises PlanError for types that no column can be compared with.
    """
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    if isinstance(value, np.datetime64):
        return _narrow_datetime64(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, dt.date, dt.time, UUID)):  # pandas' Timestamp is a datetime, and so is its NaT
        return value if value == value else None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Decimal):
        return Decimal(value)
    if hasattr(value, "as_py"):  # a pyarrow scalar
        return normalize_value(value.as_py())
    if type(value).__name__ == "NAType":  # pandas may not be installed
        return None
    raise PlanError(
        f"cannot compare with {describe(value)}; "
        "expected bool, int, float, str, bytes, Decimal, date, datetime, time, UUID or None"
    )


def normalize_values(values: Iterable[Any]) -> tuple[Value, ...]:
    """:func:`normalize_value` of each value, in order. Raises PlanError for a single str or bytes, and for an array
    that has not one dimension."""
    is_scalar = isinstance(values, np.ndarray) and values.ndim != 1
    if is_scalar or isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, Iterable):
        raise PlanError(f"IN takes a list of values; found {describe(values)}")
    items = tuple(values.tolist() if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" else values)
    return items if _PLAIN.issuperset(map(type, items)) else tuple(map(normalize_value, items))


def without_none(values: tuple[Value, ...]) -> tuple[Value, ...]:
    return values if None not in values else tuple(value for value in values if value is not None)


def to_sql(value: Value) -> str:
    """`value` as a typed literal of Spark's SQL: ``1.5D`` is a float, ``1.5`` is a Decimal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text if "." in text else f"{text}BD"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, (dt.datetime, np.datetime64)):
        return f"TIMESTAMP '{str(value).replace('T', ' ')}'"
    if isinstance(value, (dt.date, dt.time)):
        return f"{'DATE' if isinstance(value, dt.date) else 'TIME'} '{value.isoformat()}'"
    text = str(value)
    for plain, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\0", "\\0")):
        text = text.replace(plain, escaped)
    return f"'{text}'"


def describe(value: object) -> str:
    """A value as error messages show it: ``the int 5``."""
    text = repr(value)
    return f"the {type(value).__name__} {text if len(text) <= 60 else text[:57] + '…'}"


def _narrow_datetime64(value: np.datetime64) -> Value:
    if np.isnat(value):
        return None
    unit, _ = np.datetime_data(value.dtype)
    year = 1970 if unit in _FINE_UNITS else 1970 + int(value.astype("datetime64[Y]").astype(np.int64))
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        raise PlanError(f"cannot compare with {value}: dates must be in the years 1 to 9999")
    micros = value.astype("datetime64[us]")  # beyond these years, it could wrap around
    if micros != value:
        nanos: np.datetime64 = value.astype("datetime64[ns]")
        if nanos != value:
            raise PlanError(f"cannot compare with {value}: columns hold nanoseconds at most")
        return nanos
    plain = value.item() if unit == "D" else micros.item()
    assert isinstance(plain, dt.date)
    return plain


def values_to_sql(values: Sequence[Value], max_values: int | None) -> str:
    """A list of literals; at most `max_values` of them are shown."""
    shown = [to_sql(value) for value in values[:max_values]]
    if len(shown) < len(values):
        shown.append(f"… {len(values) - len(shown):,} more")
    return ", ".join(shown)
