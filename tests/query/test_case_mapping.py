"""Predicates on ``lower(column)`` and ``upper(column)``: their SQL, their normal form, and their truth for a row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.query.case_mapping import needs_expression_filters
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.predicate import to_sql
from bloomparquet.query.sql.parse import parse_where

X = bp.CaseIn("c", "lower", ["x"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lower(c) = 'x'", X), ("'x' = (LCASE(c))", X), ("upper(s.c) = 'X'", bp.CaseIn(("s", "c"), "upper", ["X"])),
        ("ucase(`a.b`) IN ('X', NULL)", bp.CaseIn("a.b", "upper", ["X", None])), ("lower(c) NOT IN ('x')", bp.Not(X)),
        ("lower(c) <> 'x'", bp.Not(X)), ("lower(c) = NULL", bp.CaseIn("c", "lower", [None])),
        ("lower(c) <=> 'x'", bp.And(bp.IsNotNull("c"), X)), ("'x' <=> lower(c)", bp.And(bp.IsNotNull("c"), X)),
        ("lower(c) <=> NULL", bp.IsNull("c")), ("lower(c) IS DISTINCT FROM 'x'", bp.Not(bp.And(bp.IsNotNull("c"), X))),
        ("NOT lower(c) = 'x' OR d = 1", bp.Or(bp.Not(X), bp.Eq("d", 1))),
    ],
)  # fmt: skip
def test_sql_text_becomes_a_predicate(text: str, expected: bp.Predicate) -> None:
    assert parse_where(text) == expected
    assert parse_where(to_sql(expected)) == expected


@pytest.mark.parametrize("text", ["lower(l[0]) = 'x'", "lower('X') = 'x'", "lower(rand()) = 'x'"])
def test_other_uses_are_errors_that_quote_them(text: str) -> None:
    with pytest.raises(bp.PlanError, match=r"cannot use .*it is not supported; expected"):
        parse_where(text)


def test_only_lower_and_upper_are_cases() -> None:
    with pytest.raises(bp.PlanError, match="'title'; expected 'lower' or 'upper'"):
        bp.CaseIn("c", "title", ["X"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("lower(c) = 'x'", True), ("lower(c) = 'x' AND c IS NOT NULL", True),
        ("lower(c) <> 'x' AND upper(d) = 'X'", True), ("lower(c) <=> 'x'", True), ("lower(c) = 'x' OR a = 1", True),
        ("lower(c) = 'x' AND a = 1", False), ("lower(c) = 'x' OR a = 1 OR upper(d) = 'X'", True),
        ("NOT (lower(c) = 'x' OR a <> 1)", False), ("lower(c) = NULL AND c IS NOT NULL", False),
        ("c IS NOT NULL", False), ("a = 1", False),
    ],
)  # fmt: skip
def test_whether_other_evidence_can_exclude(where: str, expected: bool) -> None:
    assert needs_expression_filters(parse_where(where)) is expected  # type: ignore[arg-type]


_text = st.text(st.sampled_from("aAkKiI ßſKİıΣσςΑé́ŉﬁǅ𐐀."), max_size=5)
_cells = st.lists(st.none() | _text, max_size=8)
_values = st.lists(st.none() | _text, max_size=3)


@given(_cells, st.sampled_from(["lower", "upper"]), _values, st.integers(0, 8), st.data())
def test_mask_follows_the_logic_of_null(cells: list[str | None], case: Any, values: Any, cut: int, data: Any) -> None:
    mapped = [cell and (cell.lower() if case == "lower" else cell.upper()) for cell in cells]
    if any(mapped) and data.draw(st.booleans()):
        values = [*values, data.draw(st.sampled_from([each for each in mapped if each is not None]))]

    def expected(cell: str | None) -> bool | None:
        if not values:
            return False
        return None if cell is None else cell in values or (None if None in values else False)

    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
    predicate = bp.CaseIn("c", case, values)
    for kind in kinds:
        table = pa.table({"c": pa.array(cells, pa.string()).cast(kind)})
        chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
        assert mask(predicate, chunked).to_pylist() == list(map(expected, mapped))
        inverted = [None if value is None else not value for value in map(expected, mapped)]
        assert mask(~predicate, chunked).to_pylist() == inverted
        assert mask(parse_where(to_sql(predicate)), chunked).to_pylist() == list(map(expected, mapped))  # type: ignore[arg-type]


def test_bytes_that_are_no_text_match_nothing_but_raise_no_error() -> None:
    column = pa.array([b"\xff", b"A\xc3", b"A"]).view(pa.string())
    table = pa.table({"c": column})
    assert mask(bp.CaseIn("c", "lower", ["a"]), table).to_pylist() == [False, False, True]


@pytest.mark.parametrize("column", [pa.array([1]), pa.array([b"x"]), pa.array([["x"]])])
def test_columns_that_are_no_text_are_an_error(column: pa.Array) -> None:
    with pytest.raises(bp.PlanError, match="column 'c' is of type"):
        mask(X, pa.table({"c": column}))
