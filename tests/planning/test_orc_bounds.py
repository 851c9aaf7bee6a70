"""Bounds and null counts of ORC files include all values, or prove nothing where writers err."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER_UTF8, ROW_INDEX
from tests.support.orc import OrcFile, forge
from tests.support.orc_forged import (
    bounds,
    doubles,
    filter_stream,
    kept_row_groups,
    longs,
    row_index_entry,
    with_filters,
    with_statistics,
)
from tests.support.orc_rewriting import drop_statistics, write


def test_nan_is_never_excluded(tmp_path: Path) -> None:
    path = with_filters(tmp_path / "x.orc", Kind.DOUBLE, doubles(1.0), doubles(2.0))
    assert kept_row_groups(bp.plan(path, bp.Eq("c0", math.nan))) == 2
    assert kept_row_groups(bp.plan(path, bp.In("c0", (math.nan, 5.0)))) == 2
    data = write(tmp_path / "y.orc", pa.table({"x": [1.0] * 100 + [math.nan] * 100 + [3.0] * 100}))
    assert kept_row_groups(bp.plan(data, "x > 5D")) == 3
    assert kept_row_groups(bp.plan(data, bp.NotEq("x", 1.0))) == 3
    assert kept_row_groups(bp.plan(data, "x < 0D")) == 1  # the row group of NaN has no bounds


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_a_row_group_that_begins_with_nan_hides_no_value(tmp_path: Path, kind: pa.DataType) -> None:
    """The writer takes the bounds of the stripe from its other row groups."""
    values = [float(i % 10 + 1) for i in range(100)] + [math.nan] + [100.0] * 98 + [-7.0] + [5.0] * 100
    path = write(tmp_path / "x.orc", pa.table({"x": pa.array(values, kind)}))
    whole = OrcFile.open(path).tail.stripe_statistics(0, 1)
    assert (whole.minimum, whole.maximum) == (1.0, 10.0)  # if not, writers were fixed: nothing to test
    for where in ("x = 100D", "x = -7D", "x < 0D", "x BETWEEN 99D AND 101D", "x IN (-7D, 1000D)"):
        assert bp.plan(path, where).kept == 1, where
    drop_statistics(path, stripes=False)
    assert kept_row_groups(bp.plan(path, "x = 100D")) == (3 if kind == pa.float32() else 1)


def test_strings_with_nul_may_exceed_cpps_bounds(tmp_path: Path) -> None:
    """C++ compares strings only up to a NUL."""
    groups = [["a\0m", "a\0z", "a\0a"], ["a\0bbb", "a\0z", "b"], ["\0m", "\0\0", "\0z\0"], ["c", "a\0", "a\0\0", "a"]]
    for i, values in enumerate(groups):
        path = write(tmp_path / f"{i}.orc", pa.table({"x": values}))
        for value in values:
            for predicate in (
                bp.Eq("x", value), bp.LtEq("x", value), bp.GtEq("x", value), bp.StartsWith("x", value),
                bp.In("x", [value]), bp.And(bp.GtEq("x", value), bp.LtEq("x", value)),
                bp.NotEq("x", "a\0m"), bp.Not(bp.StartsWith("x", "a\0m")),
            ):  # fmt: skip
                assert bp.plan(path, predicate).kept == 1, (predicate, values)
    assert bp.plan(tmp_path / "0.orc", "x > 'b'").kept == bp.plan(tmp_path / "0.orc", "x < 'a'").kept == 0
    assert bp.plan(tmp_path / "3.orc", "x > 'd'").kept == 0


@pytest.mark.parametrize("level", ["row groups", "stripes"])
@pytest.mark.parametrize(
    ("kind", "statistics", "held", "absent"),
    [
        (Kind.LONG, bounds(-5, 2**62), [-5, 2**62, 0, Decimal("-5.0")], [-6, 2**62 + 1, 2**70, 0.5]),
        (Kind.DATE, bounds(0, 10, "date"), [dt.date(1970, 1, 1), dt.date(1970, 1, 11)], [dt.date(1969, 12, 31)]),
        (Kind.DOUBLE, bounds(-0.0, 1.5, "double") | {}, [0.0, -0.0, 1.5], []),
        (Kind.STRING, bounds(b"b", b"d", "string"), ["b", "bzz", "d"], ["a", "da", "", "d\0"]),
        (Kind.DECIMAL, bounds(b"-1.5", b"100", "decimal"), [Decimal("-1.50"), 100, Decimal("99.99")],
         [Decimal("-1.51"), Decimal("100.01")]),
        (Kind.STRING, {"string_statistics": {"lower_bound": b"x" * 1024, "upper_bound": b"x" * 1023 + b"y"}},
         ["x" * 1024, "x" * 2000, "x" * 1023 + "y"], ["x" * 1023, "y", "x" * 1023 + "ya"]),
    ],
)  # fmt: skip
def test_bounds_include_their_ends(
    tmp_path: Path, level: str, kind: int, statistics: dict[str, Any], held: Sequence[Any], absent: Sequence[Any]
) -> None:
    more = {"precision": 9, "scale": 2} if kind == Kind.DECIMAL else {}
    path = with_statistics(tmp_path / "x.orc", kind, statistics, level=level, **more)
    for value in held:
        for predicate in (bp.Eq("c0", value), bp.GtEq("c0", value), bp.LtEq("c0", value), bp.In("c0", [value])):
            assert bp.plan(path, predicate).kept == 1, predicate
    for value in absent:
        assert bp.plan(path, bp.Eq("c0", value)).kept == 0, value


@pytest.mark.parametrize(
    ("minimum", "maximum", "kept_where"),
    [
        ("\ufffd", "\ufffd", ["c0 < 'é'", "c0 > '\uffff'", "c0 <> '\ufffd'", "c0 = 'z'"]),
        ("a\ufffd", "b\ufffdz", ["c0 <= 'aé'", "c0 > 'b\uffff'", "c0 LIKE 'a%'", "c0 NOT LIKE 'a\ufffd%'"]),
        ("a", "k\ufffd", ["c0 = 'k\U0010ffff'"]),
    ],
)
def test_bytes_that_are_not_utf8_may_exceed_javas_bounds(
    tmp_path: Path, minimum: str, maximum: str, kept_where: list[str]
) -> None:
    """Java stores a replacement character for them, and for an impossible code point that it made."""
    path = with_statistics(tmp_path / "x.orc", Kind.STRING, bounds(minimum.encode(), maximum.encode(), "string"))
    for where in kept_where:
        assert bp.plan(path, where).kept == 1, where
    assert minimum == "\ufffd" or bp.plan(path, "c0 < 'a'").kept == bp.plan(path, "c0 > 'l'").kept == 0


def test_integers_beyond_their_type_are_read_truncated(tmp_path: Path) -> None:
    """Java stores and hashes 70000 in a SMALLINT, and readers return 4464."""
    path = with_statistics(tmp_path / "x.orc", Kind.SHORT, bounds(70_000, 70_000))
    assert bp.plan(path, "c0 = 4464").kept == bp.plan(path, "c0 <> 70000").kept == 1
    assert bp.plan(with_statistics(tmp_path / "y.orc", Kind.SHORT, bounds(0, 70)), "c0 = 4464").kept == 0
    entries = messages.RowIndex()
    entries.entry.add().MergeFromString(row_index_entry(number_of_values=10, has_null=False, **bounds(-70_000, 70_000)))
    streams = {(ROW_INDEX, 1): entries.SerializeToString(), (BLOOM_FILTER_UTF8, 1): filter_stream(longs(70_000))}
    assert bp.plan(forge(tmp_path / "z.orc", streams, kinds=[Kind.INT]), "c0 = 4464").kept == 0
    assert bp.plan(forge(tmp_path / "z.orc", streams, kinds=[Kind.SHORT]), "c0 = 4464").kept == 1


@pytest.mark.parametrize(
    ("statistics", "null", "some"),
    [
        ({"number_of_values": 10, "has_null": False}, 0, 1),
        ({"number_of_values": 0, "has_null": True}, 1, 0),
        ({"number_of_values": 4, "has_null": True}, 1, 1),
        ({"number_of_values": 4, "has_null": False}, 1, 1),  # a contradiction
        ({"number_of_values": 0, "has_null": False}, 1, 1),
        ({"number_of_values": 11, "has_null": False}, 1, 1),
        ({"number_of_values": 10, "has_null": True}, 1, 1),
    ],
)
def test_consistent_null_counts_are_believed(tmp_path: Path, statistics: dict[str, Any], null: int, some: int) -> None:
    path = with_statistics(tmp_path / "x.orc", Kind.LONG, statistics)
    assert bp.plan(path, "c0 IS NULL").kept == bp.plan(path, "c0 <=> NULL").kept == null
    assert bp.plan(path, "c0 IS NOT NULL").kept == bp.plan(path, "c0 = 7").kept == bp.plan(path, "c0 <> 7").kept == some
    assert bp.plan(path, "NOT c0 <=> 7").kept == 1


def test_swapped_or_mistyped_bounds_prove_nothing(tmp_path: Path) -> None:
    for number, (kind, statistics) in enumerate(
        [
            (Kind.LONG, bounds(9, 1)), (Kind.LONG, bounds(b"a", b"b", "string")), (Kind.STRING, bounds(1, 2)),
            (Kind.DOUBLE, bounds(1, 2)), (Kind.LONG, {"int_statistics": {"minimum": 1}}),
            (Kind.LONG, {"int_statistics": {}}), (Kind.DATE, bounds(1, 2)), (Kind.CHAR, bounds(b"a", b"b", "string")),
        ]
    ):  # fmt: skip
        path = with_statistics(tmp_path / f"{number}.orc", kind, statistics, maximum_length=3)
        literal = {Kind.STRING: "'x'", Kind.CHAR: "'x'", Kind.DATE: "DATE '2020-01-01'"}.get(kind, "100")  # type: ignore[call-overload]
        assert bp.plan(path, f"c0 = {literal}").kept == bp.plan(path, f"c0 > {literal}").kept == 1
