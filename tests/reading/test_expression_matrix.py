"""Expressions of pyarrow on every type of column with literals of every type: no row of pyarrow's is skipped.

The environment variable CONDITIONS is the number of random conditions for each type of column, 40 by default.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.errors import PlanError
from tests.support.files import write

CONDITIONS = int(os.environ.get("CONDITIONS", "40"))
NANOS = (0, 1, 999, 1_000, 10**6, 10**9, 10**9 + 1, 86_400 * 10**9, 1_704_067_201 * 10**9, 1_704_067_201 * 10**9 + 123)
UNITS = {"s": 10**9, "ms": 10**6, "us": 1_000, "ns": 1}
TIMES = [pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC", "Europe/Berlin")]
CLOCKS = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
DECIMALS = [pa.decimal128(5, 1), pa.decimal128(9, 2), pa.decimal128(20, 3), pa.decimal128(38, 2), pa.decimal256(50, 2)]
FLOATS = [pa.float32(), pa.float64()]
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(2)]
DICTIONARY = pa.dictionary(pa.int32(), pa.string())
FAMILIES: list[list[pa.DataType]] = [
    [*TIMES, pa.date32(), pa.date64()], [*CLOCKS], [*INTEGERS, *DECIMALS, *FLOATS], [*TEXTS, DICTIONARY], [pa.bool_()],
]  # fmt: skip


def values_of(kind: pa.DataType) -> list[pa.Scalar[Any]]:
    """Values that the type holds, among them ones that finer or wider types tell from their neighbours."""
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        most = 86_400 * 10**9 if pa.types.is_time(kind) else 2**62
        integers = {n // UNITS[kind.unit] for n in NANOS if n < most}
        storage = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        return list(pa.array(sorted(integers), storage).cast(kind))
    if pa.types.is_date(kind):
        return list(pa.array([dt.date(1970, 1, 1), dt.date(1970, 1, 2), dt.date(2024, 1, 1)], kind))
    if pa.types.is_boolean(kind):
        return list(pa.array([True, False]))
    texts = ["a", "ab", "bc", "é"]
    if kind in (*TEXTS, DICTIONARY):
        if pa.types.is_fixed_size_binary(kind):
            return list(pa.array([b"ab", b"bc"], kind))
        is_text = pa.types.is_large_string(kind) or kind in (pa.string(), DICTIONARY)
        return list(pa.array(texts if is_text else [text.encode() for text in texts], kind))
    fractions = map(Decimal, ("1.5", "1.25", "0.1"))
    numbers = (0, 1, 5, 127, 255, -1, *fractions, 2**24 + 1, 2**31, 2**53 + 1, 2**63)
    found = []
    for number in numbers:
        try:
            value = float(number) if pa.types.is_floating(kind) else number
            if pa.types.is_integer(kind) and not isinstance(number, int):
                continue
            found.append(pa.scalar(Decimal(value) if pa.types.is_decimal(kind) else value, kind))
        except (pa.ArrowInvalid, OverflowError):
            continue
    return found


def conditions(scalar: pa.Scalar[Any]) -> list[pc.Expression]:
    column: Any = pc.field("c")
    tests = [
        column == scalar, column != scalar, column < scalar, column <= scalar, column > scalar, column >= scalar,
        ~(column == scalar), ~(column < scalar), (column == scalar) & (pc.field("n") >= 0), scalar == column,
    ]  # fmt: skip
    if not pa.types.is_dictionary(scalar.type):
        tests.append(column.isin(pa.array([scalar.as_py() if scalar.type not in TIMES else scalar], scalar.type)))
    return tests


@pytest.mark.parametrize("kind", [kind for family in FAMILIES for kind in family], ids=str)
def test_no_pair_of_types_loses_a_row(kind: pa.DataType, tmp_path: Path) -> None:
    family = next(family for family in FAMILIES if kind in family)
    values = values_of(kind)
    column = pa.array([value.as_py() for value in values], kind) if kind not in TIMES + CLOCKS else _array(values, kind)
    data = pa.table({"c": column, "n": list(range(len(values)))})
    bloom = [] if pa.types.is_boolean(kind) else ["c"]
    path = write(tmp_path / "x.parquet", data, bloom, rows_per_group=1)
    stored = pq.read_table(path)
    every = [
        where for other in family if other != DICTIONARY for each in values_of(other) for where in conditions(each)
    ]
    for where in random.Random(str(kind)).sample(every, min(len(every), CONDITIONS)):
        with suppress(pa.ArrowException, PlanError):  # pyarrow refuses the pair
            expected = ds.dataset(stored).to_table(filter=where)["n"].to_pylist()
            assert bp.read_table(path, where, ["n"])["n"].to_pylist() == expected, str(where)


def _array(values: list[pa.Scalar[Any]], kind: pa.DataType) -> pa.Array:
    storage = pa.int32() if pa.types.is_time32(kind) else pa.int64()
    return pa.array([value.value for value in values], storage).cast(kind)


SKIPPING = [
    (pa.timestamp(unit, zone), pa.timestamp("us", zone)) for unit in UNITS for zone in (None, "UTC")
] + [
    (pa.timestamp("us"), pa.timestamp("ns")), (pa.timestamp("ns"), pa.timestamp("ns")),
    (pa.time64("ns"), pa.time64("us")), (pa.time32("ms"), pa.time64("us")), (pa.date64(), pa.date32()),
    (pa.int8(), pa.int64()), (pa.uint16(), pa.int64()),
    (pa.decimal128(20, 3), pa.decimal128(5, 1)), (pa.decimal256(50, 2), pa.decimal128(9, 2)),
    (pa.float32(), pa.float32()), (pa.large_string(), pa.string()), (pa.large_binary(), pa.binary()),
    (pa.binary(2), pa.binary()), (DICTIONARY, pa.string()),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "other"), SKIPPING, ids=str)
def test_a_literal_of_another_unit_or_width_skips(kind: pa.DataType, other: pa.DataType, tmp_path: Path) -> None:
    shared = [value for value in values_of(other) if _has(kind, value)]
    column = pa.array([value.as_py() for value in shared], kind) if kind not in TIMES + CLOCKS else None
    if column is None:
        column = _array(shared, other).cast(kind)
    path = write(tmp_path / "x.parquet", {"c": column}, ["c"], rows_per_group=1, fpp=0.0001)
    assert len(shared) > 1
    for scalar in shared:
        assert bp.plan(path, pc.field("c") == scalar).kept == 1, scalar
        assert bp.plan(path, (pc.field("c") == scalar) | (pc.field("c") == shared[0])).kept <= 2


def _has(kind: pa.DataType, value: pa.Scalar[Any]) -> bool:
    try:
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        return bool(value.cast(plain).cast(value.type) == value)
    except (pa.ArrowException, ValueError):
        return False
