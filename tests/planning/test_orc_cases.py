"""Filters of ORC files by writer: hashed values are kept, and unknown hashes skip nothing."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.orc as orc
import pytest

import bloomparquet as bp
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import Hashes
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER, BLOOM_FILTER_UTF8, ROW_INDEX
from tests.support.orc import OrcFile, forge
from tests.support.orc_forged import (
    bounds,
    doubles,
    filter_stream,
    kept_row_groups,
    longs,
    millis,
    row_index_entry,
    texts,
    with_filters,
    with_old_stream,
    with_statistics,
)

DAY = 86_400
UTC = dt.timezone.utc

# What ORC Java hashes by type: (kind, attributes, values, their hashes, an absent value).
JAVA: dict[str, tuple[int, dict[str, Any], Sequence[Any], Sequence[Hashes], Any]] = {
    "tinyint": (Kind.BYTE, {}, [5, -128], [longs(5), longs(-128)], 6),
    "smallint": (Kind.SHORT, {}, [-5, 3000], [longs(-5), longs(3000)], 5),
    "int": (Kind.INT, {}, [0, 2**31 - 1], [longs(0), longs(2**31 - 1)], 2**31),
    "bigint": (Kind.LONG, {}, [-(2**63), 18_000_000_000], [longs(-(2**63)), longs(18_000_000_000)], 2**64),
    "float": (Kind.FLOAT, {}, [float(np.float32(0.1)), -1.5], [doubles(float(np.float32(0.1))), doubles(-1.5)], 0.1),
    "double": (Kind.DOUBLE, {}, [0.1, math.inf], [doubles(0.1), doubles(math.inf)], -math.inf),
    "date": (Kind.DATE, {}, [dt.date(1582, 10, 26), dt.date(9999, 12, 31)], [longs(-141_416), longs(2_932_896)],
             dt.date(2024, 1, 1)),
    "decimal": (Kind.DECIMAL, {"precision": 9, "scale": 2}, [Decimal("1.50"), Decimal("-0.01")],
                [texts("1.5"), texts("-0.01")], Decimal("1.505")),
    "long decimal": (Kind.DECIMAL, {"precision": 38, "scale": 10}, [Decimal(0), Decimal(10) ** 27],
                     [texts("0"), texts("1" + "0" * 27)], Decimal("1e-10")),
    "string": (Kind.STRING, {}, ["käse", ""], [texts("käse"), texts("")], "kase"),
    "varchar": (Kind.VARCHAR, {"maximum_length": 4}, ["käse", "a "], [texts("käse"), texts("a ")], "käsek"),
    "binary": (Kind.BINARY, {}, [b"\x00", b"\xff\xfe"], [texts(b"\x00"), texts(b"\xff\xfe")], b""),
    "ntz": (Kind.LONG, {"spark": "timestamp_ntz"}, [dt.datetime(2024, 5, 17, 1, 2, 3, 4), dt.datetime(1900, 1, 2)],
            [longs(1_715_907_723_000_004), longs(-25_566 * DAY * 10**6)], dt.datetime(2024, 5, 17, 1, 2, 3, 5)),
    "timestamp": (Kind.TIMESTAMP, {}, [dt.datetime(2024, 5, 17, 1, 2, 3, 4567), dt.datetime(9999, 12, 31)],
                  [longs(millis(dt.datetime(2024, 5, 17, 1, 2, 3, 4567))), longs(2_932_896 * DAY * 1000)],
                  dt.datetime(2024, 5, 17, 3)),
    "instant": (Kind.TIMESTAMP_INSTANT, {}, [dt.datetime(2024, 5, 17, tzinfo=UTC), dt.datetime(1969, 1, 1, 0, 0, 0, 1)],
                [longs(millis(dt.datetime(2024, 5, 17))), longs(-365 * DAY * 1000)], dt.datetime(2024, 5, 18)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(JAVA))
def test_a_value_hashed_by_java_keeps_only_its_row_group(tmp_path: Path, name: str) -> None:
    kind, attributes, values, hashes, absent = JAVA[name]
    path = with_filters(tmp_path / "x.orc", kind, *hashes, **attributes)
    for value in values:
        plan = bp.plan(path, bp.Eq("c0", value))
        assert (kept_row_groups(plan), plan.total) == (1, 1)
        assert kept_row_groups(bp.plan(path, bp.In("c0", (absent, value, None)))) == 1
        assert kept_row_groups(bp.plan(path, bp.EqNullSafe("c0", value))) == 1
        assert kept_row_groups(bp.plan(path, bp.NotEq("c0", value))) == 2
        assert kept_row_groups(bp.plan(path, bp.NotIn("c0", (value,)))) == 2
    assert kept_row_groups(bp.plan(path, bp.Eq("c0", absent))) == 0
    assert kept_row_groups(bp.plan(path, bp.In("c0", values))) == 2


def test_a_decimal_has_one_text_however_it_is_written(tmp_path: Path) -> None:
    path = with_filters(tmp_path / "x.orc", Kind.DECIMAL, texts("1.5", "100", "0"), precision=9, scale=2)
    for value in ("1.5", "1.50", "1.500000", "15e-1", "1e2", "100", "0", "-0", "0.000"):
        assert kept_row_groups(bp.plan(path, bp.Eq("c0", Decimal(value)))) == 1, value
    for literal in (1.5, 100, 100.0, 0, -0.0):
        assert kept_row_groups(bp.plan(path, bp.Eq("c0", literal))) == 1, literal
    for value in ("1.501", "0.001", "1e9", "1e-20"):
        assert kept_row_groups(bp.plan(path, bp.Eq("c0", Decimal(value)))) == 0, value


def test_chars_match_with_and_without_blanks(tmp_path: Path) -> None:
    path = with_filters(tmp_path / "x.orc", Kind.CHAR, texts("ab   "), texts("käse "), maximum_length=5)
    for value in ("ab", "ab ", "ab   ", "ab      "):
        assert kept_row_groups(bp.plan(path, bp.Eq("c0", value))) >= 1, value
    assert kept_row_groups(bp.plan(path, bp.Eq("c0", "käse"))) == 1
    assert kept_row_groups(bp.plan(path, bp.Eq("c0", "kase"))) == 0
    other = with_statistics(tmp_path / "y.orc", Kind.CHAR, bounds(b"ab   ", b"ab   ", "string"), maximum_length=5)
    for where in ("c0 = 'ab'", "c0 <= 'ab'", "c0 <> 'ab   '", "c0 < 'ab '", "c0 NOT LIKE 'ab %'"):
        assert bp.plan(other, where).kept == 1, where


def test_of_both_streams_the_utf8_one_is_used(tmp_path: Path) -> None:
    old = with_old_stream(tmp_path / "old.orc", Kind.STRING, texts("b"))
    file = OrcFile.open(old)
    offset, length = file.stripes[0].streams[BLOOM_FILTER, 1]
    raw = old.read_bytes()[offset : offset + length]
    streams = {(BLOOM_FILTER, 1): raw, (BLOOM_FILTER_UTF8, 1): filter_stream(texts("a"))}
    path = forge(tmp_path / "x.orc", streams, kinds=[Kind.STRING])
    assert bp.plan(path, "c0 = 'a'").kept == 1
    assert bp.plan(path, "c0 = 'b'").kept == 0


def test_files_before_the_first_release_are_kept(orc_examples_dir: Path) -> None:
    path = orc_examples_dir / "over1k_bloom.orc"
    table = orc.read_table(path)
    for name in table.column_names:
        for value in dict.fromkeys(table[name].to_pylist()[::97]):
            if value is not None:
                plan = bp.plan(path, bp.Eq(name, value))
                assert plan.kept >= 1, (name, value)


def test_a_bad_filter_of_cpp_hides_nothing(orc_examples_dir: Path) -> None:
    path = orc_examples_dir / "bad_bloom_filter_1.6.0.orc"
    table = orc.read_table(path)
    for name in table.column_names:
        for value in table[name].to_pylist():
            assert bp.plan(path, bp.Eq(name, value)).kept == 1, value
    assert bp.read_table(path, "id = 18000000000").to_pydict() == {"id": [18_000_000_000], "name": ["Mike"]}


def test_an_empty_filter_over_values_is_not_believed(tmp_path: Path) -> None:
    empty = np.array([], np.uint64)
    path = with_filters(tmp_path / "x.orc", Kind.LONG, empty, longs(1))
    plan = bp.plan(path, "c0 = 5")
    assert kept_row_groups(plan) == 1
    assert not plan.errors  # the row group may hold only nulls

    def of(*values: int) -> bytes:
        indexes = messages.RowIndex()
        for each in values:
            indexes.entry.add().MergeFromString(row_index_entry(number_of_values=each, has_null=each < 10))
        return bytes(indexes.SerializeToString())

    for values, kept, errors in (((10, 10), 1, 1), ((0, 0), 0, 0), ((3, 3), 1, 1), ((0, 10), 0, 0)):
        streams = {(ROW_INDEX, 1): of(*values), (BLOOM_FILTER_UTF8, 1): filter_stream(empty, longs(1))}
        other = forge(tmp_path / f"{values}.orc", streams, rows=20)
        plan = bp.plan(other, "c0 = 5")
        assert (kept_row_groups(plan), len(plan.errors)) == (kept, errors)
        assert bp.plan(other, "c0 = 5").errors == plan.errors  # repeated from the cache
    streams = {(ROW_INDEX, 1): of(0, 10), (BLOOM_FILTER_UTF8, 1): filter_stream(longs(1), empty)}
    plan = bp.plan(forge(tmp_path / "last.orc", streams, rows=20), "c0 = 5")
    assert (kept_row_groups(plan), len(plan.errors)) == (1, 1)
