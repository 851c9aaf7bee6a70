"""The row filter against an oracle in plain Python, which evaluates row by row and shares no code with it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.errors import PlanError
from bloomparquet.query.domains import comparable
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.predicate import Always
from tests.differential import writers
from tests.differential.cases import cases, data_sets
from tests.differential.kinds import KINDS
from tests.differential.oracle import rows_of, truth

EPOCH = dt.datetime(1970, 1, 1)


KLEENE = [
    Always(True),
    Always(False),
    Always(None),
    bp.IsNull("absent"),
    bp.StartsWith("absent", "a"),
    bp.NotIn("absent", []),
]


def _assert_mask(draws: st.DataObject, only: str | None) -> None:
    """The mask of random predicates, and of their normal forms, has the truth of each row."""
    names = None if only is None else [only]
    data = draws.draw(data_sets(spark=False, max_files=1, plain=True, only=names), label="data")
    table, kinds = writers.to_table(data.files[0], 0), data.schema_kinds()
    rows = [row | {("absent",): None} for row in rows_of(data)]
    variants = [table, pa.concat_tables([table.slice(0, 3), table.slice(3)]), *_views(table)]
    chosen = [case.predicate for case in draws.draw(cases(data, spark=False), label="cases")]
    for predicate in [*chosen, bp.And(bp.Not(chosen[0]), bp.Or(chosen[-1], draws.draw(st.sampled_from(KLEENE))))]:
        expected = [truth(predicate, row, kinds, data.timezone) for row in rows]
        for each in variants:
            assert mask(predicate, each, timezone=data.timezone).to_pylist() == expected, predicate
        normal = mask(normalize(predicate), table, timezone=data.timezone).to_pylist()
        assert [value is True for value in normal] == [value is True for value in expected], predicate


def _views(table: pa.Table) -> list[pa.Table]:
    views = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
    fields = [field.with_type(views.get(field.type, field.type)) for field in table.schema]
    return [table.cast(pa.schema(fields))] if any(field.type in views.values() for field in fields) else []


@given(st.data())
def test_mask_agrees_with_the_oracle_on_every_row(draws: st.DataObject) -> None:
    _assert_mask(draws, None)


@pytest.mark.parametrize("kind", KINDS)
def test_mask_agrees_with_the_oracle_for_every_type(kind: str) -> None:
    @settings(max_examples=max(1, settings().max_examples // 20))
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        _assert_mask(draws, kind)

    check()


def _evaluate(
    predicate: bp.Predicate, cells: Any, kind: pa.DataType | None = None, **options: Any
) -> list[bool | None]:
    return mask(predicate, pa.table({"a": pa.array(cells, kind)}), **options).to_pylist()


def test_timestamp_literals_are_not_rounded():
    cells = [EPOCH, EPOCH + dt.timedelta(milliseconds=1)]
    between = EPOCH + dt.timedelta(microseconds=500)
    assert _evaluate(bp.Eq("a", between), cells, pa.timestamp("ms")) == [False, False]
    assert _evaluate(bp.Lt("a", between), cells, pa.timestamp("ms")) == [True, False]
    assert _evaluate(bp.GtEq("a", between), cells, pa.timestamp("ms")) == [False, True]
    assert _evaluate(bp.LtEq("a", EPOCH), cells[:1], pa.timestamp("s")) == [True]
    assert _evaluate(bp.Eq("a", "1970-01-01 00:00:00.000000001"), [0, 1], pa.timestamp("ns")) == [False, True]


def test_comparison_with_null_gives_booleans():
    for predicate in (bp.Eq("a", None), bp.Lt("a", None), bp.In("a", [None]), bp.StartsWith("b", None)):
        result = mask(predicate, pa.table({"a": [1, None], "b": ["x", None]}))
        assert (result.type, result.to_pylist()) == (pa.bool_(), [None, None])


def test_null_and_run_end_encoded_columns():
    assert _evaluate(bp.Eq("a", 1), [None, None]) == [None, None]
    assert _evaluate(bp.IsNull("a"), [None, None]) == [True, True]
    runs = pa.compute.run_end_encode(pa.array([1, 1, None, 2]))
    assert mask(bp.GtEq("a", 2), pa.record_batch({"a": runs})).to_pylist() == [False, False, None, True]
    assert mask(bp.IsNull("a"), pa.record_batch({"a": runs})).to_pylist() == [False, False, True, False]


def test_nulls_inside_a_dictionary_are_nulls():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["x", None]))
    batch = pa.record_batch({"a": array})
    assert mask(bp.Eq("a", "x"), batch).to_pylist() == [True, None, None]
    assert mask(bp.IsNull("a"), batch).to_pylist() == [False, True, True]


def test_lists_support_only_null_tests():
    cells = [[1], None]
    assert _evaluate(bp.IsNull("a"), cells) == [False, True]
    for predicate in (bp.Eq("a", 1), bp.Eq("a", None), bp.In("a", []), bp.StartsWith("a", "x")):
        with pytest.raises(PlanError, match="only IS NULL and IS NOT NULL"):
            _evaluate(predicate, cells)
    with pytest.raises(PlanError, match="only structs have fields"):
        _evaluate(bp.Eq(("a", "element"), 1), cells)


def test_case_sensitivity_of_names():
    table = pa.table({"UserId": [1], "St": [{"X": 2}]})
    assert mask(bp.Eq("userid", 1), table).to_pylist() == [None]
    assert mask(bp.And(bp.Eq("userid", 1), bp.Eq("st.x", 2)), table, case_sensitive=False).to_pylist() == [True]
    twins = pa.table({"ID": [1], "id": [2]})
    assert mask(bp.Eq("id", 2), twins, case_sensitive=False).to_pylist() == [True]
    with pytest.raises(PlanError, match="ambiguous: it could be any of 'ID', 'id'"):
        mask(bp.Eq("Id", 2), twins, case_sensitive=False)
    with pytest.raises(PlanError, match="ambiguous"):
        mask(bp.Eq("a", 1), pa.table([[1], [2]], names=["a", "a"]))


@pytest.mark.parametrize(
    ("predicate", "cells", "words"),
    [
        (bp.Eq("a", "x"), [1], ["column 'a'", "int64", "the str 'x'", "expected a number"]),
        (bp.In("a", [1, "5"]), [1], ["column 'a'", "int64", "the str '5'", "write 5 without quotes"]),
        (bp.Lt("a", 5), ["x"], ["column 'a'", "string", "the int 5", "write '5' in quotes"]),
        (bp.Eq("a", 1), [True], ["column 'a'", "bool", "TRUE or FALSE"]),
        (bp.StartsWith("a", "x"), [1], ["startswith needs a column of text", "'a'", "int64"]),
    ],
)
def test_literal_of_wrong_type_is_an_error(predicate, cells, words):
    with pytest.raises(PlanError) as caught:
        _evaluate(predicate, cells)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.decimal128(12, 2), pa.timestamp("us", "UTC")])
def test_long_in_list_is_one_lookup(kind):
    make: dict[str, Callable[[int], Any]] = {
        "int64": int,
        "string": str,
        "decimal128(12, 2)": lambda i: Decimal(i) / 4,
        "timestamp[us, tz=UTC]": lambda i: EPOCH + dt.timedelta(seconds=i),
    }
    values = [make[str(kind)](i) for i in range(10_000)]
    cells = pa.array(
        [*(v.replace(tzinfo=dt.timezone.utc) if isinstance(v, dt.datetime) else v for v in values), None] * 20, kind
    )
    table = pa.table({"a": cells})
    began = time.process_time()
    result = mask(bp.In("a", values[::2]), table)
    assert time.process_time() - began < 2
    assert result.combine_chunks().true_count == 100_000
    assert result.null_count == 20


@pytest.mark.parametrize("make", [pa.decimal128, pa.decimal256])
def test_decimals_beyond_their_precision_are_compared(make: Any) -> None:
    """No type checks that a file's numbers have at most as many digits as the file says."""
    column = pa.array([Decimal("700.00"), Decimal("1.00"), None], make(5, 2)).view(make(4, 2))
    for table in (pa.table({"x": column}), pa.record_batch({"x": column})):
        for predicate, expected in (
            (bp.Lt("x", Decimal("100.00")), [False, True, None]),
            (bp.Gt("x", Decimal(100)), [True, False, None]),
            (bp.Eq("x", Decimal("700.00")), [True, False, None]),
            (bp.In("x", (Decimal("700.00"), 5)), [True, False, None]),
            (bp.Lt("x", 10**80), [True, True, None]),
        ):
            assert mask(predicate, table).to_pylist() == expected, predicate
    assert mask(bp.Eq("x", 1), pa.table({"x": pa.chunked_array([], make(4, 2))})).to_pylist() == []
    assert comparable(column).type.bit_width == column.type.bit_width  # no copy of another width


@pytest.mark.parametrize(("make", "digits"), [(pa.decimal128, 38), (pa.decimal256, 76)])
def test_the_greatest_decimals_are_compared(make: Any, digits: int) -> None:
    greatest = 10**digits - 1
    table = pa.table({"x": pa.array([greatest, -greatest], pa.decimal256(digits, 0)).cast(make(digits, 0))})
    assert mask(bp.Eq("x", greatest), table).to_pylist() == [True, False]
    assert mask(bp.Eq("x", -greatest), table).to_pylist() == [False, True]
