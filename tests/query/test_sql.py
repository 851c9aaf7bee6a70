"""Parsing SQL text and lists of tuples to predicates."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.errors import PlanError
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.predicate import Always, leaves, to_sql
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.query.variants import VariantField


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", bp.Eq("a", 1)),
        ("a <=> 1", bp.EqNullSafe("a", 1)),
        ("a <=> NULL", bp.EqNullSafe("a", None)),
        ("a <> 1", bp.NotEq("a", 1)),
        ("a < 1", bp.Lt("a", 1)),
        ("a > 1", bp.Gt("a", 1)),
        ("5 < a", bp.Gt("a", 5)),
        ("5 > a", bp.Lt("a", 5)),
        ("a IN (1, 2, NULL)", bp.In("a", [1, 2, None])),
        ("a NOT IN (1)", bp.NotIn("a", [1])),
        ("a BETWEEN -1 AND 2", bp.And(bp.GtEq("a", -1), bp.LtEq("a", 2))),
        ("a NOT BETWEEN 1 AND 2", bp.Not(bp.And(bp.GtEq("a", 1), bp.LtEq("a", 2)))),
        ("a IS NULL", bp.IsNull("a")),
        ("a IS NOT NULL", bp.IsNotNull("a")),
        ("a IS TRUE", bp.EqNullSafe("a", True)),
        ("a IS DISTINCT FROM 1", bp.Not(bp.EqNullSafe("a", 1))),
        ("a LIKE 'abc%'", bp.StartsWith("a", "abc")),
        ("a LIKE 'abc'", bp.Eq("a", "abc")),
        ("a LIKE '%'", bp.StartsWith("a", "")),
        ("a NOT LIKE 'abc%'", bp.Not(bp.StartsWith("a", "abc"))),
        (r"a LIKE '50\%\_x%'", bp.StartsWith("a", "50%_x")),
        ("a LIKE NULL", bp.Eq("a", None)),
        ("startswith(a, 'x')", bp.StartsWith("a", "x")),
        ("a = 1 OR b = 2 AND c = 3", bp.Or(bp.Eq("a", 1), bp.And(bp.Eq("b", 2), bp.Eq("c", 3)))),
        ("(a = 1 OR b = 2) AND NOT c = 3", bp.And(bp.Or(bp.Eq("a", 1), bp.Eq("b", 2)), bp.Not(bp.Eq("c", 3)))),
        ("NOT a = 1 AND b = 2", bp.And(bp.Not(bp.Eq("a", 1)), bp.Eq("b", 2))),
        ("variant_get(a.v, '$.k', 'long') = 1", VariantField(["a", "v"], "$.k", "bigint", bp.Eq("v", 1))),
        ("2 < (try_variant_get(a, \"$['k.l'][0]\", 'int'))", VariantField("a", "$['k.l'][0]", "int", bp.Gt("a", 2))),
        ("variant_get(a, '$', 'dec(9, 2)') IN (1)", VariantField("a", "$", "decimal(9,2)", bp.In("a", [1]))),
        ("variant_get(a, '$.k', 'string') LIKE 'x%'", VariantField("a", "$.k", "string", bp.StartsWith("a", "x"))),
        (
            "variant_get(a, '$.k', 'int') BETWEEN 1 AND 2",
            bp.And(VariantField("a", "$.k", "int", bp.GtEq("a", 1)), VariantField("a", "$.k", "int", bp.LtEq("a", 2))),
        ),
        ("array_contains(a, 1)", bp.ContainsAny("a", [1])),
        ("array_contains(a, NULL)", Always(None)),
        ("arrays_overlap(a, array(1, NULL))", bp.ContainsAny("a", [1, None])),
        ("arrays_overlap(array('x'), map_values(a))", bp.ContainsAny("a", ["x"], of="value")),
        ("map_contains_key(a, 'k')", bp.ContainsAny("a", ["k"], of="key")),
        ("array_contains(map_keys(a), 'k')", bp.ContainsAny("a", ["k"], of="key")),
        ("exists(a, x -> x = 1)", bp.ContainsAny("a", [1])),
        ("exists(a, x -> x IN (1, 2))", bp.ContainsAny("a", [1, 2])),
        ("a['k'] = 'v'", bp.ItemIn("a", "k", ["v"])),
        ("'v' = (a.b['k'])", bp.ItemIn(("a", "b"), "k", ["v"])),
        ("a[0] IN (1, 2)", bp.ItemIn("a", 0, [1, 2])),
        ("element_at(a, -1) = 2", bp.ItemIn("a", -1, [2], first=1)),
        ("try_element_at(a, 'k') <> 2", bp.Not(bp.ItemIn("a", "k", [2], first=1))),
        ("a['k'] NOT IN (1)", bp.Not(bp.ItemIn("a", "k", [1]))),
        ("TRUE", Always(True)),
        ("FALSE OR NULL", bp.Or(Always(False), Always(None))),
        ("1 = 1 AND a = 2", bp.And(Always(True), bp.Eq("a", 2))),
        ("flag AND NOT other", bp.And(bp.Eq("flag", True), bp.Not(bp.Eq("other", True)))),
        ("a.b = 1", bp.Eq(("a", "b"), 1)),
        ("`a.b` = 1", bp.Eq("a.b", 1)),
        ("`a``b` = 1", bp.Eq("a`b", 1)),
        ("date = 1 AND timestamp = 2 AND user = 3", bp.And(bp.Eq("date", 1), bp.Eq("timestamp", 2), bp.Eq("user", 3))),
        ("a = 1 -- the first\n and b = 2", bp.And(bp.Eq("a", 1), bp.Eq("b", 2))),
    ],
)
def test_sql_text_becomes_a_predicate(text, expected):
    assert parse_where(text) == expected


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("x = 1 AND reverse(a) = 'b'", "REVERSE(a) = 'b'"), ("a = b + 1", "a = b + 1"),
        ("a IN (SELECT 1)", "a IN (SELECT 1)"), ("a IN (1, b)", "a IN (1, b)"), ("a LIKE 'a!%' ESCAPE '!'", "ESCAPE"),
        ("a LIKE b", "a LIKE b"), ("a ILIKE 'x%'", "a ILIKE 'x%'"), ("startswith(a, b)", "STARTSWITH(a, b)"),
        ("a['x'] < 1", "a['x'] < 1"), ("a['x'].b = 1", "a['x'].b = 1"),
        ("variant_get(a, '$.k') = 1", "VARIANT_GET(a, '$.k') = 1"),
        ("variant_get(a, b, 'int') = 1", "VARIANT_GET(a, b, 'int') = 1"),
        ("variant_get(a, '$.k', 'int') = b", "VARIANT_GET(a, '$.k', 'int') = b"),
        ("variant_get(a, '$.k', 'decimal(39,0)') = 1", "precision of the DECIMAL is 39"),
        ("variant_get(a, '$.k', 'decimal(5,6)') = 1", "scale of the DECIMAL is 6"),
        ("array_contains(a, b)", "ARRAY_CONTAINS(a, b)"), ("arrays_overlap(a, b)", "ARRAYS_OVERLAP(a, b)"),
        ("exists(a, x -> x > 1)", "EXISTS(a, x -> x > 1)"), ("exists(a, x -> y = 1)", "EXISTS(a, x -> y = 1)"),
        ("array_contains(array(1, 2), a)", "ARRAY_CONTAINS(ARRAY(1, 2), a)"),
        ("a = current_date()", "a = CURRENT_DATE"), ("a = 1 = TRUE", "a = 1 = TRUE"),
        ("CAST(a AS STRING) = '1'", "CAST(a AS STRING) = '1'"), ("a = :name", "a = :name"),
        ("NULL IS NULL", "NULL IS NULL"),
    ],
)  # fmt: skip
def test_error_quotes_unsupported_sql(text, piece):
    with pytest.raises(PlanError) as caught:
        parse_where(text)
    assert piece in str(caught.value)
    assert "in where" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a = 1 AND", "line 1, column 7, near 'AND' (something is missing after it)"), ("a = 1\nAND (b = 2", "line 2"),
        ("a = 1)", "line 1, column 6, near ')'"), ("a = = 1", "line 1"), ("WHERE a = 1", "without SELECT or WHERE"),
        ("SELECT * FROM t", "without SELECT or WHERE"), ("a = 'x", "cannot parse where"),
        ("a = X'zz'", "cannot parse where"),
    ],
)  # fmt: skip
def test_syntax_error_names_position_and_text(text, position):
    with pytest.raises(PlanError) as caught:
        parse_where(text)
    assert position in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_blank_text_is_an_error(text):
    with pytest.raises(PlanError, match="to read every row, leave it out"):
        parse_where(text)


@pytest.mark.parametrize("value", ["f(s).x", "named_struct('x', i).x", "(2).x", "2 .x", "((f(s)).x).y", "l[0].x"])
@pytest.mark.parametrize(
    "test", ["{} = 5", "5 = {}", "{} IN (1, 2)", "{} IS NULL", "{} LIKE 'a%'", "{}", "lower({}) = 'a'",
             "array_contains({}, 1)", "{} < i", "NOT {} BETWEEN 1 AND 2"]
)  # fmt: skip
def test_a_field_of_another_value_is_no_column(value, test):
    """Row groups were judged by the column that has the name of the field."""
    text = test.format(value)
    with pytest.raises(PlanError, match="cannot use"):
        parse_where(text)
    opaque = parse_where(text, partly=True)
    assert not list(leaves(opaque)), opaque


def test_a_field_of_a_column_in_parentheses_is_a_column():
    assert parse_where("(n).u = 2") == parse_where("((n.u)) = 2") == bp.Eq(("n", "u"), 2)


def test_text_that_sqlglot_cannot_write_is_an_error():
    for partly in (False, True):
        with pytest.raises(PlanError, match="cannot parse a part of where, which is no SQL of Spark"):
            parse_where("(1F(s))", partly=partly)


def test_deeply_nested_text_is_a_plan_error():
    for text in ("(" * 5_000 + "a = 1" + ")" * 5_000, "NOT " * 5_000 + "a = 1", "NOT " * 150 + "a = 1"):
        with pytest.raises(PlanError, match=r"nested (too deeply|deeper)"):
            parse_where(text)


def test_long_chains_and_lists_are_parsed():
    assert len(parse_where(" OR ".join(f"a = {i}" for i in range(2_000))).children) == 2_000
    assert parse_where(f"a IN ({', '.join(map(str, range(2_000)))})") == bp.In("a", range(2_000))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, None),
        (bp.Eq("a", 1), bp.Eq("a", 1)),
        ([("a", "=", 1)], bp.Eq("a", 1)),
        (("a", "=", 1), bp.Eq("a", 1)),
        ([("a", "==", 1), ("b", "<=", 2)], bp.And(bp.Eq("a", 1), bp.LtEq("b", 2))),
        ([[("a", "!=", 1), ("b", "<=>", None)], [("c", "NOT  IN", {5})]],
         bp.Or(bp.And(bp.NotEq("a", 1), bp.EqNullSafe("b", None)), bp.NotIn("c", [5]))),
        ([[("a", "<>", 1)]], bp.NotEq("a", 1)),
        ([(("s", "x"), "in", [1, 2])], bp.In(("s", "x"), [1, 2])),
        ([("a", "is null"), ("b", "IS NOT NULL", None)], bp.And(bp.IsNull("a"), bp.IsNotNull("b"))),
        ([("a", "startswith", "x"), bp.Eq("b", 1)], bp.And(bp.StartsWith("a", "x"), bp.Eq("b", 1))),
        ([["a", ">", 1], ["b", "=", 2]], bp.And(bp.Gt("a", 1), bp.Eq("b", 2))),
    ],
)  # fmt: skip
def test_lists_as_in_pyarrow_are_parsed(where, expected):
    assert parse_where(where) == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ([], "empty list"), ([[]], "empty list"), ([[("a", "=", 1)], []], "empty list"),
        ([("a", "=")], "the value after the operator '=' is missing"), ([("a", "eq", 1)], "unknown operator 'eq'"),
        ([("a", "start with", 1)], "did you mean 'startswith'"), ([("a",)], r"expected \(column, operator, value\)"),
        ([5], r"where contains the int 5; expected \(column, operator, value\)"),
        ([("a", "in", "xyz")], "IN takes a list"), ({"a": 1}, "expected SQL text, a list"),
        (5, "expected SQL text, a list"),
    ],
)  # fmt: skip
def test_malformed_lists_are_errors(where, message):
    with pytest.raises(PlanError, match=message):
        parse_where(where)


@pytest.mark.parametrize(
    "where", ['"a" = 5', "\"a\" = 'x'", '"a" > 5', '"a" IN (1, 2)', '"a" IS NULL', 'b = 1 AND NOT "a" = 5']
)
def test_a_column_in_double_quotes_is_an_error_that_says_so(where):
    with pytest.raises(PlanError, match="double quotes make text in Spark's SQL; write the column without quotes"):
        parse_where(where)


def test_text_in_double_quotes_is_text():
    assert parse_where('a = "x"') == bp.Eq("a", "x")
    assert parse_where('a = "x" AND 1 = 1') == bp.And(bp.Eq("a", "x"), Always(True))
    assert parse_where("'a' = 'b'") == Always(False)


_names = st.sampled_from(["a", "A", "a.b", "first name", "x`y", "select", "ünï", "date", "_1"])
_column = st.one_of(_names, st.tuples(_names, _names))
_literal = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.dates(),
    st.times().map(lambda value: value.replace(fold=0)),
    st.datetimes().map(lambda value: value.replace(fold=0)),
    st.datetimes(timezones=st.just(dt.timezone.utc)).map(lambda value: value.replace(fold=0)),
)
_comparison = st.builds(
    lambda kind, *parts: kind(*parts),
    st.sampled_from([bp.Eq, bp.NotEq, bp.EqNullSafe, bp.Lt, bp.LtEq, bp.Gt, bp.GtEq]),
    _column,
    _literal,
)
_leaf = st.one_of(
    _comparison,
    st.builds(
        lambda kind, *parts: kind(*parts), st.sampled_from([bp.In, bp.NotIn]), _column, st.lists(_literal, max_size=3)
    ),
    st.builds(lambda kind, column: kind(column), st.sampled_from([bp.IsNull, bp.IsNotNull]), _column),
    st.builds(bp.StartsWith, _column, st.none() | st.text(st.characters(exclude_categories=["Cs"]))),
    st.sampled_from([Always(True), Always(False), Always(None)]),
    st.builds(
        lambda kind, path, value: VariantField("v", path, "bigint", kind("v", value)),
        st.sampled_from([bp.Eq, bp.NotEq, bp.EqNullSafe, bp.Lt, bp.GtEq]),
        st.sampled_from(["$", "$.a", "$['a.b']", '$["it\'s"][3]']),
        st.none() | st.integers(),
    ),
)
_tree = st.recursive(
    _leaf,
    lambda child: st.one_of(
        st.builds(bp.Not, child),
        st.lists(child, max_size=3).map(lambda children: bp.And(*children)),
        st.lists(child, max_size=3).map(lambda children: bp.Or(*children)),
    ),
    max_leaves=6,
)


@given(_tree)
def test_every_predicate_round_trips_through_sql(predicate):
    assert repr(normalize(parse_where(to_sql(predicate)))) == repr(normalize(predicate))


def test_sqlglot_is_imported_only_for_text():
    code = (
        "import sys; from bloomparquet.query.sql.parse import parse_where; parse_where([('a', '=', 1)]); "
        "assert 'sqlglot' not in sys.modules; parse_where('a = 1'); assert 'sqlglot' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "offer"),
    [
        ("date(t.ts) = DATE '2024-05-17'", "Write a range of t.ts: t.ts >= '2026-01-31' AND t.ts < '2026-02-01'"),
        ("to_date(ts) IN ('2024-05-17')", "Write a range of ts: "),
        ("date_trunc('day', ts) > '2024-05-17'", "Write a range of ts: "),
        ("ts > now() - INTERVAL 1 DAY", "Write the time itself: TIMESTAMP '2026-01-31 12:00:00'"),
        ("ts > current_timestamp()", "Write the time itself: "), ("day = current_date", "Write the time itself: "),
        ("customer IN (C0004711)", "Write text in quotes: 'C0004711'"),
        ("customer = C0004711", "If C0004711 is text, write it in quotes: 'C0004711'"),
    ],
)  # fmt: skip
def test_an_error_offers_what_can_be_written_instead(text: str, offer: str) -> None:
    with pytest.raises(PlanError, match="it is not supported; ") as raised:
        parse_where(text)
    assert f". {offer}" in str(raised.value)


def test_an_unknown_function_is_an_error_that_says_what_is_supported() -> None:
    with pytest.raises(PlanError, match=r"^cannot use .SOUNDEX\(c\) = 'x'. in where: it is not supported; ") as raised:
        parse_where("soundex(c) = 'x'")
    assert "expected a column compared with" in str(raised.value)
    assert len(str(raised.value)) < 300
