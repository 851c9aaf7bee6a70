"""Min, max and null counts: what they exclude, and what they must not exclude."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.query.evaluate.mask import mask
from tests.support.core import BINARY, Field, column_metadata, edit_footer, kept_indexes
from tests.support.files import write, write_groups


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Row groups 0: 0..9, 1: 10..19, 2: 20..29, 3: nulls only, 4: 5 with a null, 5: the constant 7."""
    folder = tmp_path_factory.mktemp("statistics")
    groups = [list(range(10)), list(range(10, 20)), list(range(20, 30)), [None, None], [5, None], [7, 7]]
    return write_groups(folder / "x.parquet", [{"x": pa.array(group, pa.int64())} for group in groups])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("x = 15", {1}),
        ("x <=> 15", {1}),
        ("x <=> NULL", {3, 4}),
        ("x IS NULL", {3, 4}),
        ("x IS NOT NULL", {0, 1, 2, 4, 5}),
        ("x < 10", {0, 4, 5}),
        ("x < 0", set()),
        ("x >= 29", {2}),
        ("x >= 9.5", {1, 2}),
        ("x <> 7", {0, 1, 2, 4}),
        ("x NOT IN (5, 7)", {0, 1, 2}),
        ("x IN (5, NULL)", {0, 4}),
        ("NOT x <=> 7", {0, 1, 2, 3, 4}),
        ("NOT (x < 10)", {1, 2}),
        ("NOT (x < 10 OR x > 19)", {1}),
        ("x BETWEEN 8 AND 11", {0, 1}),
        ("x < 99999999999999999999", {0, 1, 2, 4, 5}),
        ("x <> 99999999999999999999", {0, 1, 2, 4, 5}),
    ],
)
def test_bounds_and_null_counts_exclude_row_groups(where: str, expected: set[int], numbers: str) -> None:
    assert kept_indexes(bp.plan(numbers, where)) == expected


def test_truncated_bounds_exclude_no_match(tmp_path: Path) -> None:
    """Writers may truncate bounds: the lower one to a prefix, the upper one to a prefix with a higher last byte."""
    path = write(tmp_path / "x.parquet", {"s": ["abcdef", "abczzz", "abd"]})

    def cut(metadata: dict[int, Field]) -> None:
        statistics = column_metadata(metadata)[12].value
        statistics[5], statistics[6] = Field(BINARY, b"abe"), Field(BINARY, b"abc")
        statistics.pop(7, None)
        statistics.pop(8, None)

    edit_footer(path, cut)
    for where in ("s = 'abcdef'", "s LIKE 'abcz%'", "s < 'abcdefg'", "s > 'abczz'", "s NOT LIKE 'abc%'", "s <> 'abd'"):
        assert bp.plan(path, where).kept == 1, where
    assert bp.plan(path, "s = 'abb'").kept == 0


@pytest.mark.parametrize(("low", "high"), [(b"\x05", b"\x01"), (b"\x01\x02\x03\x04\x05", b"\x09"), (b"", b"")])
def test_invalid_bounds_exclude_nothing(low: bytes, high: bytes, tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.parquet",
        {"s": pa.array([b"\x02", b"\x04"], pa.binary()), "d": pa.array([Decimal(2), Decimal(4)], pa.decimal128(20, 0))},
    )

    def spoil(metadata: dict[int, Field]) -> None:
        for column in (0, 1):
            statistics = column_metadata(metadata, 0, column)[12].value
            statistics[5], statistics[6] = Field(BINARY, high), Field(BINARY, low)

    edit_footer(path, spoil)
    if low > high:
        assert bp.plan(path, bp.Eq("s", b"\x02")).kept == 1
    assert bp.plan(path, bp.Eq("d", Decimal(2))).kept == 1  # not as many bytes as the column has


@pytest.mark.parametrize(
    "forget",
    [lambda chunk: chunk[12].value.pop(3), lambda chunk: chunk.pop(5), lambda chunk: chunk.pop(12)],
    ids=["null_count", "num_values", "statistics"],
)
def test_missing_counts_exclude_nothing(forget: Callable[[dict[int, Field]], Any], tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": [1, None], "n": pa.array([None, None], pa.int64()), "y": [3, 5]})
    edit_footer(path, lambda metadata: [forget(column_metadata(metadata, 0, column)) for column in range(3)] and None)
    for where in (
        "x IS NULL", "x <=> NULL", "n IS NULL", "n IS NOT NULL", "n = 1", "y = 3", "y IS NOT NULL", "y > 3", "y <> 3",
    ):  # fmt: skip
        assert bp.plan(path, where).kept == 1, where


def test_unsigned_bounds_compare_as_unsigned(tmp_path: Path) -> None:
    for kind, bits in ((pa.uint32(), 32), (pa.uint64(), 64), (pa.uint8(), 8)):
        big = 2**bits - 1
        path = write_groups(
            tmp_path / "x.parquet",
            [{"x": pa.array([1, big], kind)}, {"x": pa.array([3, 4], kind)}, {"x": pa.array([big], kind)}],
        )
        assert kept_indexes(bp.plan(path, bp.Eq("x", big))) == {0, 2}
        assert kept_indexes(bp.plan(path, bp.Gt("x", 4))) == {0, 2}
        assert kept_indexes(bp.plan(path, bp.Lt("x", 3))) == {0}
        assert kept_indexes(bp.plan(path, bp.Lt("x", 0))) == set()
        assert kept_indexes(bp.plan(path, bp.GtEq("x", -1))) == {0, 1, 2}


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), st.integers(-5, 5)),
    "float": (pa.float64(), st.sampled_from([-0.0, 0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 2.0**53])),
    "float32": (pa.float32(), st.sampled_from([-0.0, 0.0, 0.5, math.nan, math.inf, 1.0])),
    "decimal": (pa.decimal128(4, 1), st.decimals(-5, 5, places=1)),
    "string": (pa.string(), st.text(alphabet="abä\0\U0001f600", max_size=3)),
    "date": (pa.date32(), st.dates(dt.date(1580, 1, 1), dt.date(1584, 1, 1))),
    "moment": (pa.timestamp("us"), st.datetimes(dt.datetime(1899, 12, 28), dt.datetime(1900, 1, 5))),
    "boolean": (pa.bool_(), st.booleans()),
}
MAKERS = [bp.Eq, bp.NotEq, bp.EqNullSafe, bp.Lt, bp.LtEq, bp.Gt, bp.GtEq]


@given(st.sampled_from([*COLUMNS]), st.data())
def test_rows_are_equal_with_and_without_evidence(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    kind, values = COLUMNS[name]
    groups = data.draw(st.lists(st.lists(st.none() | values, min_size=1, max_size=4), min_size=1, max_size=4))
    leaves = [
        maker("x", data.draw(values)) for maker in data.draw(st.lists(st.sampled_from(MAKERS), min_size=1, max_size=3))
    ]
    leaves.append(bp.In("x", data.draw(st.lists(st.none() | values, max_size=3))))
    leaves.append(bp.NotIn("x", data.draw(st.lists(st.none() | values, max_size=3))))
    if name == "string":
        leaves.append(bp.StartsWith("x", data.draw(values)))
    chosen = data.draw(st.lists(st.sampled_from(leaves), min_size=1, max_size=3))
    both, either = bp.And(*chosen), bp.Or(*chosen)
    tables = [pa.table({"x": pa.array(group, kind)}) for group in groups]
    path = write_groups(tmp_path_factory.mktemp("random") / "x.parquet", tables, [] if name == "boolean" else ["x"])
    whole = pa.concat_tables(tables)
    for predicate in (both, either, ~either, ~both, bp.And(either, ~chosen[0])):
        expected = whole.filter(mask(predicate, whole))
        assert repr(bp.read_table(path, predicate).to_pydict()) == repr(expected.to_pydict()), predicate
