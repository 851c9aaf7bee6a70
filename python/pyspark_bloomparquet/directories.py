"""Hive partition directories when writing: which rows go into which, and how a directory is named.

Names are those that Spark gives, byte for byte, so that its files and these lie in the same directories.

Source: Spark's ``ExternalCatalogUtils`` (escaping, the directory of nulls), ``PartitioningUtils`` (what may be a
partition column) and the cast of a value to a string.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import UnsupportedError
from bloomparquet.literals import find_zone
from bloomparquet.partitions import NULL_DIRECTORY

_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_MICROS = 1_000_000
_DAY_SECONDS = 86_400
_ERA_DAYS = 146_097  # in 400 years of the Gregorian calendar
_EPOCH_OF_ERA = 719_468  # days from 0000-03-01 to 1970-01-01
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7  # Java writes numbers outside of these with an exponent


def check_partition_type(name: str, kind: pa.DataType) -> None:
    """UnsupportedError for a type of which no directory is named."""
    if _writer_of(kind, "UTC") is None:
        raise UnsupportedError(f"column {name} is {kind}, which names no directories; partition by another column")


def directory_of(names: Sequence[str], values: Sequence[str | None]) -> str:
    """``day=2026-03-01/city=Z%3Frich``: the directories of these values, below the table's."""
    pairs = zip(names, values, strict=True)
    return "/".join(f"{escape(name)}={NULL_DIRECTORY if not value else escape(value)}" for name, value in pairs)


def escape(text: str) -> str:
    """`text` as part of a directory's name."""
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", text)


def split(batch: pa.RecordBatch, names: Sequence[str], places: Sequence[int], zone: str) -> Iterator[tuple[str, Any]]:
    """The rows of `batch` by the directory that they go into: its name, and their numbers, in order.

    `places` are the partition columns, which the directories call `names`; `zone` is the one that timestamps are
    written in.
    """
    if not batch.num_rows:
        return
    codes = np.zeros(batch.num_rows, np.int64)
    for place in places:
        encoded = pc.dictionary_encode(batch.column(place), null_encoding="encode")
        _, codes = np.unique(
            codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
            return_inverse=True,
        )
    order = np.argsort(codes, kind="stable")
    firsts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    texts = [texts_of(batch.column(place).take(pa.array(order[firsts])), zone) for place in places]
    found: dict[str, list[Any]] = {}
    for i, rows in enumerate(np.split(order, firsts[1:])):
        found.setdefault(directory_of(names, [column[i] for column in texts]), []).append(rows)
    for directory, parts in found.items():
        yield directory, parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def texts_of(values: pa.Array, zone: str) -> list[str | None]:
    """Each of `values` as Spark casts it to a string; None for null."""
    write = _writer_of(values.type, zone)
    if write is None:
        raise UnsupportedError(f"{values.type} names no directories")
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return [None if value is None else write(value) for value in values.to_pylist()]


def _writer_of(kind: pa.DataType, zone: str) -> Callable[[Any], str] | None:
    types = pa.types
    if types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if types.is_integer(kind):
        return str
    if types.is_float64(kind):
        return _double
    if types.is_float32(kind):
        return _float
    if types.is_decimal(kind):
        return lambda value: f"{value:f}" if isinstance(value, Decimal) else str(value)
    if types.is_date(kind):
        return _date
    if types.is_timestamp(kind):
        clock = None if kind.tz is None else find_zone(zone)
        return lambda value: _timestamp(value, clock)
    if types.is_string(kind) or types.is_large_string(kind):
        return str
    if types.is_binary(kind) or types.is_large_binary(kind):
        return lambda value: value.decode("utf-8", "replace")
    return None


def _date(days: int) -> str:
    """ISO 8601, in the proleptic Gregorian calendar, of any year: Python's own dates end at 9999.

    Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    """
    era, day_of_era = divmod(days + _EPOCH_OF_ERA, _ERA_DAYS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _timestamp(micros: int, clock: dt.tzinfo | None) -> str:
    seconds, fraction = divmod(micros, _MICROS)
    if clock is not None:
        seconds += _offset(seconds, clock)
    days, second = divmod(seconds, _DAY_SECONDS)
    text = f"{_date(days)} {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return text + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _offset(seconds: int, clock: dt.tzinfo) -> int:
    """How far `clock` is ahead of UTC then. Before and after the years that Python has, as at their ends."""
    moment = min(max(seconds, -62135510400), 253402214400)
    utc = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=moment)
    offset = utc.astimezone(clock).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def _double(value: float) -> str:
    return _java_number(repr(abs(value)), value)


def _float(value: float) -> str:
    return _java_number(str(np.float32(abs(value))), value)


def _java_number(shortest: str, value: float) -> str:
    """As Java writes the number whose shortest decimal is `shortest`."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    digits = Decimal(shortest).normalize().as_tuple()
    if len(digits.digits) == 1:  # Java has two at least, and of the smallest numbers the second is no zero
        digits = Decimal(f"{abs(value):.1e}").normalize().as_tuple()
    assert isinstance(digits.exponent, int)
    text = "".join(map(str, digits.digits))
    exponent = len(text) + digits.exponent - 1
    if _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        plain = f"{Decimal(shortest):f}"
        return f"{sign}{plain}" if "." in plain else f"{sign}{plain}.0"
    return f"{sign}{text[0]}.{text[1:] or '0'}E{exponent}"
