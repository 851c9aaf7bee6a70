"""The kinds of columns in test files: their values, literals near these values, and their order.

A row's value is a plain Python value, independent of Arrow and of the package under test: int, float,
Decimal, str, bytes, bool, days since 1970 for dates, nanoseconds since 1970 (or midnight) for times.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY_NS = 86_400 * 10**9


@dataclass(frozen=True)
class Kind:
    """One column type. `near` gives the neighbours of a row's value."""

    name: str
    family: str  # integer float decimal string binary boolean date timestamp ntz time uuid
    arrow: pa.DataType = field(compare=False)
    values: st.SearchStrategy[Any] = field(compare=False, repr=False)
    near: Callable[[Any], Sequence[Any]] = field(compare=False, repr=False)
    spark: bool = True
    int96: bool = False
    narrower: tuple[str, ...] = ()  # kinds that single files of the data set may have

    def __repr__(self) -> str:
        return f"KINDS[{self.name!r}]"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # hypothesis would print every field
        printer.text(repr(self))


def to_arrow(kind: Kind, values: Sequence[Any]) -> pa.Array:
    """The values as an Arrow array of the kind's type, bit for bit."""
    if kind.family == "integer" or kind.name in ("string", "binary", "boolean"):
        return pa.array(values, kind.arrow)
    if kind.family == "float":
        bits = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}[kind.name]
        floats = np.array([0.0 if value is None else value for value in values], kind.name)
        nulls = np.array([value is None for value in values], np.bool_)
        return pa.array(floats.view(bits), pa.from_numpy_dtype(bits), mask=nulls).view(kind.arrow)
    if kind.family == "date" and kind.name == "date32":
        return pa.array(values, pa.int32()).view(kind.arrow)
    if kind.family == "date":
        return pa.array([None if v is None else v * 86_400_000 for v in values], pa.int64()).view(kind.arrow)
    if kind.family in ("timestamp", "ntz", "time"):
        unit = UNIT_NS[kind.arrow.unit]
        ticks = [None if value is None else value // unit for value in values]
        return pa.array(ticks, pa.int32() if pa.types.is_time32(kind.arrow) else pa.int64()).view(kind.arrow)
    if kind.family == "uuid":
        return pa.ExtensionArray.from_storage(kind.arrow, pa.array(values, pa.binary(16)))
    if pa.types.is_dictionary(kind.arrow):
        return pa.array(values, pa.string()).dictionary_encode().cast(kind.arrow)
    return pa.array(values, kind.arrow)


# -- order ------------------------------------------------------------------------------------------------------------


def number_key(value: float | Decimal | Fraction) -> tuple[int, Fraction]:
    """Spark's order of numbers, exact across types: NaN equals NaN and is the greatest, -0.0 equals 0.0."""
    if isinstance(value, float):
        if math.isnan(value):
            return (2, Fraction(0))
        if math.isinf(value):
            return (1 if value > 0 else -1, Fraction(0))
    return (0, Fraction(value))


def row_key(kind: Kind, value: Any) -> Any:
    if kind.family in ("integer", "float", "decimal"):
        return number_key(value)
    return value.encode() if kind.family == "string" else value


def integer_range(kind: Kind) -> tuple[int, int]:
    bits = int(kind.name.lstrip("uint"))
    return (0, 2**bits - 1) if kind.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# -- the kinds --------------------------------------------------------------------------------------------------------


def _integers(name: str, bits: int, signed: bool, narrower: tuple[str, ...] = ()) -> Kind:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    edges = [
        v
        for v in (low, low + 1, -1, 0, 1, 2, high - 1, high, high // 2, high // 2 + 1, 2**31, 2**32 + 1)
        if low <= v <= high
    ]
    values = st.one_of(st.sampled_from(edges), st.integers(low, high), st.integers(max(low, -9), 9))

    def near(value: int) -> list[int]:
        return [value + 1, value - 1, -value, value + 2**32, value - 2**32, value + 2**64, value ^ (1 << bits - 1)]

    return Kind(name, "integer", getattr(pa, name)(), values, near, narrower=narrower)


def _nan(width: str, bits: int) -> float:
    return float(struct.unpack(width, struct.pack({"<f": "<I", "<d": "<Q"}[width], bits))[0])


def _floats(name: str, bits: int, special: list[float], narrower: tuple[str, ...] = ()) -> Kind:
    edges = [0.0, -0.0, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.0, *special]
    width = {"float16": np.float16, "float32": np.float32, "float64": np.float64}[name]
    values = st.one_of(
        st.sampled_from([float(width(e)) for e in edges]), st.floats(width=bits), st.integers(-9, 9).map(float)
    )  # type: ignore[arg-type]

    def near(value: float) -> list[float]:
        if not math.isfinite(value):
            return [-value, 0.0]
        with np.errstate(over="ignore"):
            up, down = (float(np.nextafter(width(value), width(to))) for to in (math.inf, -math.inf))
        return [-value, up, down, math.nextafter(value, math.inf), value * (1 + 1e-10)]

    return Kind(name, "float", pa.from_numpy_dtype(width), values, near, spark=name != "float16", narrower=narrower)


def _decimals(precision: int, scale: int, narrower: tuple[str, ...] = ()) -> Kind:
    limit = 10**precision - 1
    edges = [0, 1, -1, limit, -limit, 127, 128, -128, -129, 255, 256, 2**31, 2**63, 10**scale]
    unscaled = st.one_of(
        st.sampled_from([e for e in edges if abs(e) <= limit]), st.integers(-limit, limit), st.integers(-9, 9)
    )

    def make(number: int) -> Decimal:
        digits = tuple(map(int, str(abs(number))))
        return Decimal((number < 0, digits, -scale))

    def near(value: Decimal) -> list[Decimal]:
        number = int((value.as_tuple().sign and -1) or 1) * int("".join(map(str, value.as_tuple().digits)))
        tenth = Decimal((number < 0, (*value.as_tuple().digits, 5), -scale - 1))
        return [make(number + 1), make(number - 1), make(-number), make(number * 10), make(number + 256), tenth]

    kind = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return Kind(
        f"decimal({precision},{scale})",
        "decimal",
        kind,
        unscaled.map(make),
        near,
        spark=precision <= 38,
        narrower=narrower,
    )


NAN = _nan("<d", 0xFFF8000000000001)  # with a sign and a payload

_TEXTS = [
    "", "a", "A", "ab", "abc", "abd", "b", "é", "e\u0301", "日本語", "😀", "\uffff", "a\x00", "it's", "100%", "a_b",
    "\\", '"', "\n", " a", "a ",
    "x" * 70 + "a", "x" * 70 + "b", "x" * 5000,
]  # fmt: skip


def _text_kind(name: str, arrow: pa.DataType) -> Kind:
    values = st.one_of(st.sampled_from(_TEXTS), st.text("ab", max_size=3), st.text(max_size=6))

    def near(value: str) -> list[str]:
        return [value + "a", value[:-1], value.upper(), value + "\x00", value + " ", value[:64]]

    return Kind(name, "string", arrow, values.filter(_encodable), near)


def _encodable(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _bytes_kind(name: str, arrow: pa.DataType, size: int | None = None) -> Kind:
    if size is None:
        edges = [b"", b"\x00", b"\x00\x00", b"\x7f", b"\x80", b"\xff", b"\xff\xfe", b"abc", "é".encode(), b"\xff" * 70]
        values = st.one_of(st.sampled_from(edges), st.binary(max_size=6))
    else:
        values = st.one_of(st.sampled_from([b"\x00" * size, b"\xff" * size]), st.binary(min_size=size, max_size=size))

    def near(value: bytes) -> list[bytes]:
        return [value + b"\x00", value[:-1], value[:-1] + b"\x80", value[::-1]]

    return Kind(name, "binary", arrow, values, near)


_DAYS = [dt.date(*ymd).toordinal() - EPOCH_DAY for ymd in (
    (1, 1, 1), (1500, 2, 28), (1582, 10, 4), (1582, 10, 14), (1582, 10, 15), (1899, 12, 31), (1900, 1, 1),
    (1969, 12, 31), (1970, 1, 1),
    (2024, 2, 29), (2026, 3, 8), (9999, 12, 31),
)]  # fmt: skip
_FAR_DAYS = [-800_000, 4_000_000]


def _dates(name: str, arrow: pa.DataType, spark: bool) -> Kind:
    values = st.one_of(
        st.sampled_from(_DAYS + _FAR_DAYS), st.integers(20_000, 20_010), st.integers(-719_162, 2_932_896)
    )
    return Kind(name, "date", arrow, values, lambda day: [day + 1, day - 1, day + 10, day - 10], spark=spark)


def _timestamps(unit: str, zone: str | None, *, int96: bool = False, narrower: tuple[str, ...] = ()) -> Kind:
    step = UNIT_NS[unit]
    days = [d for d in _DAYS + _FAR_DAYS if not (unit == "ns" or int96) or -100_000 < d < 100_000]
    if unit == "ms":
        days = [d for d in days if abs(d) < 3_000_000]
    moments = [d * DAY_NS for d in days]
    moments += [m + s * step for m in moments for s in (-1, 1)] + [
        1_772_953_200 * 10**9,
        1_700_000_000_123_456_789,
        -1_500_000_000,
    ]
    values = st.one_of(
        st.sampled_from(moments), st.integers(0, 9).map(lambda n: n * 10**9), st.integers(-(2**62), 2**62)
    ).map(lambda ns: ns // step * step)
    family = "ntz" if zone is None else "timestamp"
    name = f"int96 {zone}" if int96 else f"timestamp[{unit}]" if zone is None else f"timestamp[{unit}, {zone}]"

    def near(value: int) -> list[int]:
        return [value + step, value - step, value + 1, value + 1000, value + 10**6, value + 3600 * 10**9]

    return Kind(
        name, family, pa.timestamp(unit, zone), values, near, spark=unit != "ns", int96=int96, narrower=narrower
    )


def _times(unit: str) -> Kind:
    step = UNIT_NS[unit]
    values = st.one_of(st.sampled_from([0, 1, DAY_NS - 1, DAY_NS // 2]), st.integers(0, DAY_NS - 1)).map(
        lambda ns: ns // step * step
    )
    arrow = pa.time32(unit) if unit == "ms" else pa.time64(unit)
    return Kind(f"time[{unit}]", "time", arrow, values, lambda v: [v + step, v - step, v + 1, v + 1000], spark=False)


def _same(value: Any) -> list[Any]:
    return []


_ALL = [
    _integers("int8", 8, True),
    _integers("int16", 16, True, ("int8",)),
    _integers("int32", 32, True, ("int8", "int16", "uint16")),
    _integers("int64", 64, True, ("int8", "int32", "uint32")),
    _integers("uint8", 8, False),
    _integers("uint16", 16, False, ("uint8",)),
    _integers("uint32", 32, False, ("uint16",)),
    _integers("uint64", 64, False),
    _floats("float16", 16, [65504.0, 6e-8]),
    _floats("float32", 32, [3.4028235e38, 1e-45, 0.1, 16777216.0, _nan("<f", 0xFFC00001)]),
    _floats(
        "float64", 64, [1.7976931348623157e308, 5e-324, 0.1, 2.0**53, NAN],
        ("float32", "int32"),
    ),
    _decimals(4, 2),
    _decimals(9, 2, ("decimal(4,2)",)),
    _decimals(10, 2, ("decimal(9,2)",)),
    _decimals(18, 6, ("decimal(9,2)",)),
    _decimals(19, 0),
    _decimals(21, 2, ("decimal(10,2)",)),
    _decimals(38, 10, ("decimal(18,6)",)),
    _decimals(38, 38),
    _decimals(50, 5),
    _text_kind("string", pa.string()),
    _text_kind("large_string", pa.large_string()),
    _text_kind("dictionary", pa.dictionary(pa.int32(), pa.string())),
    _bytes_kind("binary", pa.binary()),
    _bytes_kind("fixed(3)", pa.binary(3), 3),
    _bytes_kind("fixed(16)", pa.binary(16), 16),
    Kind(
        "uuid", "uuid", pa.uuid(), st.binary(min_size=16, max_size=16), lambda v: [v[::-1], v[:-1] + b"\x00"],
        spark=False,
    ),
    Kind("boolean", "boolean", pa.bool_(), st.booleans(), _same),
    _dates("date32", pa.date32(), True),
    _dates("date64", pa.date64(), True),
    _timestamps("ms", "UTC"),
    _timestamps("us", "UTC", narrower=("timestamp[ms, UTC]",)),
    _timestamps("ns", "UTC"),
    _timestamps("us", "Europe/Berlin"),
    _timestamps("ms", None),
    _timestamps("us", None, narrower=("timestamp[ms]",)),
    _timestamps("ns", None),
    _timestamps("us", "UTC", int96=True),
    _times("ms"),
    _times("us"),
    _times("ns"),
]  # fmt: skip

KINDS = {kind.name: kind for kind in _ALL}

_NO_ORC = ("large_string", "dictionary", "date64")
ORC_NAMES = [
    name for name, kind in KINDS.items()
    if ((kind.spark and kind.family not in ("timestamp", "ntz") and not name.startswith("uint") and name not in _NO_ORC)
    or name in ("timestamp[ns]", "timestamp[ns, UTC]"))
]  # fmt: skip
"""The kinds that ORC has and pyarrow reads: no unsigned integers, and only timestamps in nanoseconds."""
