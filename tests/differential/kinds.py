"""The kinds of columns that files are made of: their values, the literals worth comparing them with, and their order.

A row's value is a plain Python value whose meaning owes nothing to Arrow or to the package under test: int, float,
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
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY_NS = 86_400 * 10**9


@dataclass(frozen=True)
class Kind:
    """One column type. `near` gives values beside a value, in the form that rows have."""

    name: str
    family: str  # integer float decimal string binary boolean date timestamp ntz time uuid
    arrow: pa.DataType = field(compare=False)
    values: st.SearchStrategy[Any] = field(compare=False, repr=False)
    near: Callable[[Any], Sequence[Any]] = field(compare=False, repr=False)
    spark: bool = True
    int96: bool = False
    narrower: tuple[str, ...] = ()  # kinds that some files may have while the data set shows this one

    def __repr__(self) -> str:
        return f"KINDS[{self.name!r}]"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # hypothesis shows dataclasses field by field otherwise
        printer.text(repr(self))


def to_arrow(kind: Kind, values: Sequence[Any]) -> pa.Array:
    """The values as an Arrow array of exactly the kind's type, bit for bit."""
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
    """Spark's order of numbers, exact over all types: NaN equals NaN and is the greatest, -0.0 equals 0.0."""
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


def literal_key(kind: Kind, literal: Any, timezone: str) -> Any:
    """A literal in the order of `row_key`. The one reading that is a choice: decimal against binary fractions."""
    if kind.family == "float" and isinstance(literal, Decimal):
        try:
            nearest = float(literal)
        except OverflowError:
            nearest = math.inf
        return number_key(nearest if math.isfinite(nearest) else Fraction(literal))
    if kind.family == "decimal" and isinstance(literal, float) and math.isfinite(literal):
        return number_key(Decimal(repr(literal)))
    if kind.family in ("integer", "float", "decimal"):
        return number_key(literal)
    if kind.family in ("string", "binary"):
        return literal.encode() if isinstance(literal, str) else literal
    if kind.family == "date":
        return (dt.date.fromisoformat(literal) if isinstance(literal, str) else literal).toordinal() - EPOCH_DAY
    if kind.family in ("timestamp", "ntz"):
        return _instant(literal, ZoneInfo(timezone) if kind.family == "timestamp" else dt.timezone.utc)
    if kind.family == "time":
        return _time(literal) if isinstance(literal, str) else _time(literal.isoformat())
    if kind.family == "uuid":
        return literal if isinstance(literal, bytes) else UUID(str(literal)).bytes
    return literal


def _instant(literal: Any, zone: dt.tzinfo) -> int:
    fraction = 0
    if isinstance(literal, str):
        whole, _, digits = literal.partition(".")
        fraction = int(digits.ljust(9, "0")) if digits else 0
        literal = dt.datetime.fromisoformat(whole)
    elif not isinstance(literal, dt.datetime):
        literal = dt.datetime.combine(literal, dt.time())
    if literal.tzinfo is None:
        literal = literal.replace(tzinfo=zone)
    since = literal - EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000 + fraction


def _time(text: str) -> int:
    whole, _, digits = text.partition(".")
    hour, minute, second = map(int, whole.split(":"))
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int(digits.ljust(9, "0") or 0)


# -- literals ---------------------------------------------------------------------------------------------------------


def as_literal(kind: Kind, value: Any) -> Any:
    """A value of a row (or beside one) as a user would write it for this column; None when Python cannot."""
    if kind.family == "date":
        ordinal = value + EPOCH_DAY
        return dt.date.fromordinal(ordinal) if 1 <= ordinal <= dt.date.max.toordinal() else None
    if kind.family in ("timestamp", "ntz"):
        whole, rest = divmod(value, 1000)
        try:
            moment = EPOCH.replace(tzinfo=None) + dt.timedelta(microseconds=whole)
        except OverflowError:
            return None
        if not rest:
            return moment
        return f"{moment.isoformat(sep=' ', timespec='microseconds')}{rest:03}"
    if kind.family == "time":
        if not 0 <= value < DAY_NS:
            return None
        seconds, rest = divmod(value, 10**9)
        whole = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return dt.time.fromisoformat(f"{whole}.{rest // 1000:06}") if rest % 1000 == 0 else f"{whole}.{rest:09}"
    if kind.family == "uuid":
        return UUID(bytes=value) if len(value) == 16 else None
    return value


def other_forms(kind: Kind, literal: Any) -> list[Any]:
    """The same or nearly the same value by literals of other types that the column can be compared with."""
    if kind.family == "integer" and isinstance(literal, int):
        return [
            Decimal(literal),
            Decimal(f"{literal}.0"),
            Decimal(f"{literal}.5"),
            _float(literal),
            _float(literal) + 0.5,
        ]
    if kind.family == "float" and isinstance(literal, float) and math.isfinite(literal):
        below = Decimal(literal) - Decimal("1E-20")
        return [Decimal(repr(literal)), Decimal(literal), int(literal), int(literal) + 1, below]
    if kind.family == "decimal" and isinstance(literal, Decimal):
        return [
            int(literal),
            float(literal),
            literal.scaleb(0),
            Decimal(f"{literal:f}" + ("0" if literal.as_tuple().exponent else ".0")),
        ]
    if kind.family == "date":
        return [literal.isoformat()]
    if kind.family in ("timestamp", "ntz") and isinstance(literal, dt.datetime):
        forms: list[Any] = [literal.isoformat(sep=" "), literal.date()]
        if kind.family == "timestamp" and 2 < literal.year < 9998:
            forms += [
                literal.replace(tzinfo=dt.timezone.utc),
                literal.replace(tzinfo=dt.timezone(dt.timedelta(hours=-7))),
            ]
        return forms
    if kind.family == "binary" and literal.isascii():
        return [literal.decode()]
    if kind.family == "uuid" and isinstance(literal, UUID):
        return [str(literal), literal.bytes, str(literal).upper()]
    if kind.family == "time" and isinstance(literal, dt.time):
        return [literal.isoformat()]
    return []


def foreign(kind: Kind) -> list[Any]:
    """Literals that the column's type cannot hold, or only just."""
    if kind.family == "integer":
        return [
            2**31,
            -(2**31) - 1,
            2**32,
            2**63 - 1,
            2**63,
            2**64,
            -(2**63) - 1,
            10**30,
            math.nan,
            math.inf,
            -math.inf,
            1e300,
        ]
    if kind.family == "float":
        return [10**400, -(10**400), Decimal("1E+310"), 2**53 + 1, Decimal("1E-400"), Decimal("0.1"), 1e39, 65520.0]
    if kind.family == "decimal":
        return [10**38, -(10**40), Decimal("1E+60"), Decimal("1E-60"), math.nan, math.inf, -math.inf, 0]
    if kind.family == "date":
        return [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10)]
    if kind.family in ("timestamp", "ntz"):
        return [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), dt.date(1900, 1, 1)]
    if kind.family == "binary":
        return [b"", b"\xff" * 17]
    return []


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def spark_agrees(kind: Kind, literal: Any) -> bool:
    """Whether Spark compares this column with this literal exactly, which it does not when it widens lossily."""
    if literal is None:
        return True
    if kind.family == "integer":
        small = kind.name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")
        if isinstance(literal, float):
            return small or not math.isfinite(literal)
        # Spark 4.3 takes NULL <= 18446744073709551615 for true when the column is narrower than that DECIMAL.
        low, high = integer_range(kind)
        if isinstance(literal, int):
            return -(2**63) <= literal < 2**63 or kind.name == "uint64"
        return low <= literal <= high and Fraction(literal).denominator <= 10**6
    if kind.family == "float":
        if isinstance(literal, int):
            return abs(literal) <= (2**24 if kind.name == "float32" else 2**53)
        return isinstance(literal, float) or _digits(literal) <= 38
    if kind.family == "decimal":
        if isinstance(literal, float):
            return False
        scale, whole = kind.arrow.scale, kind.arrow.precision - kind.arrow.scale
        if isinstance(literal, int):
            return max(whole, len(str(abs(literal))), 20) + scale <= 38
        places = max(0, -int(literal.as_tuple().exponent))
        ahead = max(0, literal.adjusted() + 1)
        return max(whole, ahead) + max(scale, places) <= 38
    if kind.family in ("timestamp", "ntz"):
        if isinstance(literal, str):
            return len(literal.partition(".")[2]) <= 6
        return isinstance(literal, dt.datetime)
    if kind.family == "date":
        return isinstance(literal, dt.date)
    return not (kind.family == "binary" and isinstance(literal, str))


def integer_range(kind: Kind) -> tuple[int, int]:
    bits = int(kind.name.lstrip("uint"))
    return (0, 2**bits - 1) if kind.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _digits(value: Decimal) -> int:
    exponent = int(value.as_tuple().exponent)
    return max(0, value.adjusted() + 1) + max(0, -exponent)


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
    edges = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.0, *special]
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


_TEXTS = [
    "", "a", "A", "ab", "abc", "abd", "b", "é", "e\u0301", "日本語", "😀", "\uffff", "a\x00", "it's", "100%", "a_b",
    "\\", '"', "\n", " a", "a ",
    "x" * 70 + "a", "x" * 70 + "b", "x" * 5000,
]  # fmt: skip


def _text_kind(name: str, arrow: pa.DataType, spark: bool = True) -> Kind:
    values = st.one_of(st.sampled_from(_TEXTS), st.text("ab", max_size=3), st.text(max_size=6))

    def near(value: str) -> list[str]:
        return [value + "a", value[:-1], value.upper(), value + "\x00", value + " ", value[:64]]

    return Kind(name, "string", arrow, values.filter(_encodable), near, spark=spark)


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
        "float64", 64, [1.7976931348623157e308, 5e-324, 0.1, 2.0**53, _nan("<d", 0xFFF8000000000001)],
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
