"""The row filter against an oracle in plain Python, which evaluates row by row and shares no code with it."""

from __future__ import annotations

import datetime as dt
import math
import operator
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.errors import PlanError
from bloomparquet.query.evaluate import bind_mask, mask
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.predicate import (
    Always,
    And,
    Eq,
    EqNullSafe,
    Gt,
    GtEq,
    In,
    IsNotNull,
    IsNull,
    Lt,
    LtEq,
    Not,
    NotEq,
    NotIn,
    Or,
    Predicate,
    StartsWith,
)

ZONE = "America/New_York"
UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1)


# ---- the oracle ----


def _number(value: Any) -> tuple[bool, Any]:
    """A sort key in Spark's order of numbers: NaN is last, all others are exact."""
    if isinstance(value, float):
        return (True, 0) if math.isnan(value) else (False, value if math.isinf(value) else Fraction(value))
    return False, Fraction(value)


def _micros(moment: dt.datetime) -> int:
    return (moment - (EPOCH.replace(tzinfo=UTC) if moment.tzinfo else EPOCH)) // dt.timedelta(microseconds=1)


def _instant(literal: Any) -> int:
    literal = dt.datetime.fromisoformat(literal) if isinstance(literal, str) else literal
    return _micros(literal if literal.tzinfo else literal.replace(tzinfo=ZoneInfo(ZONE)))


@dataclass(frozen=True)
class Column:
    """A column of the tables: its type, the cells and literals to draw, and functions that give their sort keys."""

    kind: pa.DataType
    cells: list[Any]
    literals: list[Any]
    cell: Callable[[Any], Any] = _number
    literal: Callable[[Any], Any] = _number
    to_arrow: Callable[[list[Any], pa.DataType], pa.Array] = pa.array


FLOATS = [
    0.0,
    -0.0,
    0.1,
    0.5,
    -1.5,
    1e300,
    -1e300,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    2.0**53,
    2.0**53 + 2,
    2.0**53 + 4,
]
FLOAT32 = [0.0, -0.0, 0.5, struct.unpack("f", struct.pack("f", 0.1))[0], math.nan, math.inf]
NUMBERS = [
    0.5,
    -0.0,
    1.0,
    127.5,
    1e30,
    -1e30,
    math.nan,
    math.inf,
    -math.inf,
    2**53 + 1,
    2**53 + 3,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
    10**400,
    -(10**400),
]
CENTS = [Decimal(cents) / 100 for cents in (-300, -150, -1, 0, 1, 10, 150, 151, 300)]
TEXTS = ["", "a", "ab", "b", "é", "中", "ab\0", "Z", "\U0001f600", "\uffff"]
DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date.min, dt.date.max, dt.date(1969, 12, 31)]
MOMENTS = [
    EPOCH,
    EPOCH + dt.timedelta(microseconds=1),
    EPOCH - dt.timedelta(microseconds=1),
    EPOCH + dt.timedelta(hours=5),
    dt.datetime(2024, 3, 10, 2, 30),
    dt.datetime(2024, 11, 3, 1, 30),
    dt.datetime(1, 1, 3),
    dt.datetime(9999, 12, 30),
]
IDS = [UUID(int=0), UUID(int=1), UUID(int=2**127)]


def _integers(kind: pa.DataType, low: int, high: int) -> Column:
    cells = sorted({low, low + 1, max(low, -2), 0, 1, 2, high - 1, high})
    near = [low - 1, high + 1, Decimal(high), Decimal("1.5"), Decimal("-0.5"), low + 0.5]
    return Column(kind, cells, [*cells, *near, *NUMBERS])


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=UTC)


def _from_text(kind: Any) -> Callable[[Any], Any]:
    return lambda literal: kind.fromisoformat(literal) if isinstance(literal, str) else literal


def _bytes(literal: Any) -> bytes:
    return literal.encode() if isinstance(literal, str) else literal


COLUMNS = {
    "i8": _integers(pa.int8(), -128, 127),
    "u32": _integers(pa.uint32(), 0, 2**32 - 1),
    "i64": _integers(pa.int64(), -(2**63), 2**63 - 1),
    "u64": _integers(pa.uint64(), 0, 2**64 - 1),
    "f64": Column(
        pa.float64(), FLOATS, [*FLOATS, *NUMBERS, Decimal("0.1"), Decimal("-1e-500"), 1],
        literal=lambda v: _number(float(v) if isinstance(v, Decimal) else v),
    ),
    "f32": Column(pa.float32(), FLOAT32, [*FLOAT32, *FLOATS, *NUMBERS]),
    "f16": Column(pa.float16(), [0.0, -0.0, 0.5, math.nan], [*FLOATS, *NUMBERS]),
    "dec": Column(
        pa.decimal128(12, 2), [*CENTS, Decimal("9999999999.99")],
        [*CENTS, Decimal("1.505"), Decimal("1e50"), Decimal("9999999999.995"), 0.1, 1, -3, *NUMBERS],
        literal=lambda v: _number(Decimal(repr(v)) if isinstance(v, float) and math.isfinite(v) else v),
    ),
    "dec9": Column(pa.decimal32(9, 2), CENTS, [*CENTS, Decimal("1.505")]),
    "dec76": Column(
        pa.decimal256(76, 10), [Decimal(10) ** 65, Decimal("0.1"), Decimal(-1)],
        [10**65, 10**65 + 1, Decimal("0.1"), 10**66, -1, -(10**66)],
    ),
    "s": Column(pa.string(), TEXTS, TEXTS, str.encode, str.encode),
    "ls": Column(pa.large_string(), TEXTS, TEXTS, str.encode, str.encode),
    "sv": Column(pa.string_view(), TEXTS, TEXTS, str.encode, str.encode),
    "dict": Column(
        pa.dictionary(pa.int32(), pa.string()), TEXTS, TEXTS, str.encode, str.encode,
        lambda cells, _: pa.array(cells, pa.string()).dictionary_encode(),
    ),
    "b": Column(pa.binary(), [b"", b"\0", b"\xff", b"ab"], [b"", b"\0", b"\xff", b"\xff\0", "ab", "é"], bytes, _bytes),
    "bv": Column(pa.binary_view(), [b"", b"\xff", b"ab"], [b"", b"\xff", "ab"], bytes, _bytes),
    "fixed": Column(pa.binary(2), [b"ab", b"\xff\0"], [b"ab", b"a", b"abc", "ab", b"\xff\0"], bytes, _bytes),
    "id": Column(
        pa.uuid(), IDS, [*IDS, str(IDS[1]), IDS[2].bytes], lambda v: v.bytes,
        lambda v: v if isinstance(v, bytes) else UUID(str(v)).bytes,
        lambda cells, kind: pa.array([c and c.bytes for c in cells], pa.binary(16)).cast(kind),
    ),
    "flag": Column(pa.bool_(), [False, True], [False, True], int, int),
    "day": Column(
        pa.date32(), DAYS, [*DAYS, "2024-01-02"], dt.date.toordinal, lambda v: _from_text(dt.date)(v).toordinal()
    ),
    "clock": Column(
        pa.time64("us"), [dt.time(), dt.time(1, microsecond=1)],
        [dt.time(), dt.time(1), dt.time(1, microsecond=1), "01:00:00.000001"], dt.time.isoformat,
        lambda v: _from_text(dt.time)(v).isoformat(),
    ),
    "ntz": Column(
        pa.timestamp("us"), MOMENTS, [*MOMENTS, str(MOMENTS[1])], _micros, lambda v: _micros(_from_text(dt.datetime)(v))
    ),
    "tz": Column(
        pa.timestamp("us", "UTC"), [_in_utc(moment) for moment in MOMENTS],
        [*MOMENTS, *map(_in_utc, MOMENTS), str(MOMENTS[3]), str(_in_utc(MOMENTS[3]))], _micros, _instant,
    ),
    "ms": Column(pa.timestamp("ms"), [v.replace(microsecond=0) for v in MOMENTS], MOMENTS, _micros, _micros),
    "sec": Column(pa.timestamp("s"), [v.replace(microsecond=0) for v in MOMENTS], MOMENTS, _micros, _micros),
}  # fmt: skip
PATHS: dict[tuple[str, ...], str] = {(name,): name for name in COLUMNS}
PATHS |= {("st", "x"): "i8", ("st", "in ner", "s"): "s", ("a.b",): "i64", ("st.x",): "i8", ("absent",): "s"}

Kleene = bool | None
_COMPARE = {Lt: operator.lt, LtEq: operator.le, Gt: operator.gt, GtEq: operator.ge, Eq: operator.eq, NotEq: operator.ne}


def _oracle(node: Predicate, row: dict[tuple[str, ...], Any]) -> Kleene:
    match node:
        case Always(value):
            return value
        case Not(child):
            value = _oracle(child, row)
            return None if value is None else not value
        case And(children) | Or(children):
            results = [_oracle(child, row) for child in children]
            decisive = isinstance(node, Or)
            return decisive if decisive in results else None if None in results else not decisive
        case IsNull(column):
            return row[column] is None
        case IsNotNull(column):
            return row[column] is not None
        case In(column, values):
            return _oracle(Or(*(Eq(column, value) for value in values)), row)
        case NotIn(column, values):
            return _oracle(Not(In(column, values)), row)
        case EqNullSafe(column, None):
            return row[column] is None
        case EqNullSafe(column, value):
            return row[column] is not None and _oracle(Eq(column, value), row)
        case StartsWith(column, prefix):
            cell = row[column]
            if cell is None or prefix is None:
                return None
            return (cell if isinstance(cell, bytes) else cell.encode()).startswith(prefix.encode())
        case (
            Eq(column, value)
            | NotEq(column, value)
            | Lt(column, value)
            | LtEq(column, value)
            | Gt(column, value)
            | GtEq(column, value)
        ):
            if row[column] is None or value is None:
                return None
            kind = COLUMNS[PATHS[column]]
            return _COMPARE[type(node)](kind.cell(row[column]), kind.literal(value))
    raise AssertionError(node)


# ---- random tables and trees ----


@st.composite
def _leaves(draw: st.DrawFn) -> Predicate:
    path = draw(st.sampled_from(list(PATHS)))
    column = COLUMNS[PATHS[path]]
    shape = draw(st.sampled_from([Eq, NotEq, EqNullSafe, Lt, LtEq, Gt, GtEq, In, NotIn, IsNull, IsNotNull, StartsWith]))
    literal = st.sampled_from([*column.literals, None])
    if shape in (In, NotIn):
        return shape(path, draw(st.lists(literal, max_size=4)))
    if shape in (IsNull, IsNotNull):
        return shape(path)
    if shape is StartsWith:
        path = draw(st.sampled_from([("s",), ("b",), ("sv",), ("dict",), ("st", "in ner", "s")]))
        return shape(path, draw(st.sampled_from([*TEXTS, None])))
    return shape(path, draw(literal))


_trees = st.recursive(
    _leaves() | st.sampled_from([Always(True), Always(False), Always(None)]),
    lambda child: st.one_of(
        st.builds(Not, child),
        st.lists(child, max_size=3).map(lambda children: And(*children)),
        st.lists(child, max_size=3).map(lambda children: Or(*children)),
    ),
    max_leaves=8,
)


@st.composite
def _tables(draw: st.DrawFn) -> tuple[pa.Table, list[dict[tuple[str, ...], Any]]]:
    size = draw(st.integers(0, 6))

    def column(name: str) -> tuple[list[Any], pa.Array]:
        kind = COLUMNS[name]
        cells = draw(st.lists(st.sampled_from([*kind.cells, None]), min_size=size, max_size=size))
        return cells, kind.to_arrow(cells, kind.kind)

    drawn = {path: column(name) for path, name in PATHS.items() if path not in (("st.x",), ("absent",))}
    hidden = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    inner = pa.StructArray.from_arrays([drawn["st", "in ner", "s"][1]], ["s"])
    outer = pa.StructArray.from_arrays([drawn["st", "x"][1], inner], ["x", "in ner"], mask=pa.array(hidden, pa.bool_()))
    table = pa.table({".".join(path): array for path, (_, array) in drawn.items() if len(path) == 1} | {"st": outer})
    rows = []
    for index in range(size):
        row = {path: cells[index] for path, (cells, _) in drawn.items()}
        if hidden[index]:
            row["st", "x"] = row["st", "in ner", "s"] = None
        rows.append(row | {("st.x",): row["st", "x"], ("absent",): None})
    return table, rows


@given(_tables(), _trees, st.integers(0, 6))
def test_mask_agrees_with_the_oracle_on_every_row(drawn, predicate, cut):
    table, rows = drawn
    expected = [_oracle(predicate, row) for row in rows]
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    assert mask(predicate, chunked, timezone=ZONE).to_pylist() == expected
    batch = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    assert mask(predicate, batch[0], timezone=ZONE).to_pylist() == expected


@given(_tables(), _trees)
def test_normal_form_is_true_for_the_same_rows(drawn, predicate):
    table, rows = drawn
    normal = normalize(predicate)
    expected = [_oracle(predicate, row) is True for row in rows]
    assert [_oracle(normal, row) is True for row in rows] == expected
    assert [value is True for value in mask(normal, table, timezone=ZONE).to_pylist()] == expected


@pytest.mark.parametrize("name", COLUMNS)
def test_every_comparison_of_every_type_near_its_limits(name):
    column = COLUMNS[name]
    cells = [*column.cells, None]
    batch = pa.record_batch({name: column.to_arrow(cells, column.kind)})
    for literal in [*column.literals, None]:
        for predicate in (
            *(shape(name, literal) for shape in (Eq, NotEq, EqNullSafe, Lt, LtEq, Gt, GtEq)),
            *(
                shape(name, values)
                for shape in (In, NotIn)
                for values in ([literal], [literal, column.literals[0], None])
            ),
        ):
            expected = [_oracle(predicate, {(name,): cell}) for cell in cells]
            assert mask(predicate, batch, timezone=ZONE).to_pylist() == expected, predicate


# ---- single cases ----


def _evaluate(predicate: Predicate, cells: Any, kind: pa.DataType | None = None, **options: Any) -> list[Kleene]:
    return mask(predicate, pa.table({"a": pa.array(cells, kind)}), **options).to_pylist()


def test_nan_is_greatest_and_both_zeros_are_equal():
    payload = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    cells = [math.nan, payload, math.inf, -0.0, 0.0, None]
    assert _evaluate(Eq("a", math.nan), cells) == [True, True, False, False, False, None]
    assert _evaluate(In("a", [math.nan, 0.0]), cells) == [True, True, False, True, True, None]
    assert _evaluate(Gt("a", math.inf), cells) == [True, True, False, False, False, None]
    assert _evaluate(Lt("a", math.nan), cells) == [False, False, True, True, True, None]
    assert _evaluate(Eq("a", -0.0), cells) == [False, False, False, True, True, None]


def test_big_integers_are_not_compared_as_floats():
    cells = [2**53, 2**53 + 1]
    assert _evaluate(Eq("a", float(2**53)), cells) == [True, False]
    assert _evaluate(Gt("a", float(2**53)), cells) == [False, True]
    assert _evaluate(Eq("a", 2**53 + 1), [float(2**53)]) == [False]
    assert _evaluate(Lt("a", 2**53 + 1), [float(2**53)]) == [True]


def test_float_columns_compare_with_nearest_double():
    assert _evaluate(Eq("a", Decimal("0.1")), [0.1], pa.float64()) == [True]
    assert _evaluate(Eq("a", Decimal("0.1")), [0.1], pa.float32()) == [
        False
    ]  # as in Spark: float 0.1 is not double 0.1
    assert _evaluate(Eq("a", Decimal("0.5")), [0.5], pa.float32()) == [True]


def test_decimal_columns_compare_with_text_of_float():
    cells = [Decimal("19.99"), Decimal("20.00")]
    assert _evaluate(Eq("a", 19.99), cells, pa.decimal128(12, 2)) == [True, False]
    assert _evaluate(Gt("a", 19.99), cells, pa.decimal128(12, 2)) == [False, True]


def test_timestamp_literals_are_not_rounded():
    cells = [EPOCH, EPOCH + dt.timedelta(milliseconds=1)]
    between = EPOCH + dt.timedelta(microseconds=500)
    assert _evaluate(Eq("a", between), cells, pa.timestamp("ms")) == [False, False]
    assert _evaluate(Lt("a", between), cells, pa.timestamp("ms")) == [True, False]
    assert _evaluate(GtEq("a", between), cells, pa.timestamp("ms")) == [False, True]
    assert _evaluate(Eq("a", "1970-01-01 00:00:00.000000001"), [0, 1], pa.timestamp("ns")) == [False, True]


def test_date64_compares_as_date():
    cells = [dt.date(2024, 5, 17), dt.date(2024, 5, 18)]
    assert _evaluate(LtEq("a", dt.date(2024, 5, 17)), cells, pa.date64()) == [True, False]


def test_null_and_run_end_encoded_columns():
    assert _evaluate(Eq("a", 1), [None, None]) == [None, None]
    assert _evaluate(IsNull("a"), [None, None]) == [True, True]
    runs = pa.compute.run_end_encode(pa.array([1, 1, None, 2]))
    assert mask(GtEq("a", 2), pa.record_batch({"a": runs})).to_pylist() == [False, False, None, True]
    assert mask(IsNull("a"), pa.record_batch({"a": runs})).to_pylist() == [False, False, True, False]


def test_nulls_inside_a_dictionary_are_nulls():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["x", None]))
    batch = pa.record_batch({"a": array})
    assert mask(Eq("a", "x"), batch).to_pylist() == [True, None, None]
    assert mask(IsNull("a"), batch).to_pylist() == [False, True, True]


def test_lists_support_only_null_tests():
    cells = [[1], None]
    assert _evaluate(IsNull("a"), cells) == [False, True]
    for predicate in (Eq("a", 1), Eq("a", None), In("a", []), StartsWith("a", "x")):
        with pytest.raises(PlanError, match="only IS NULL and IS NOT NULL"):
            _evaluate(predicate, cells)
    with pytest.raises(PlanError, match="only structs have fields"):
        _evaluate(Eq(("a", "element"), 1), cells)


def test_dotted_name_is_a_column_before_it_is_a_path():
    both = pa.table({"a.b": [1], "a": [{"b": 2}]})
    assert mask(Eq("a.b", 1), both).to_pylist() == [True]
    assert mask(Eq(("a", "b"), 2), both).to_pylist() == [True]
    assert mask(Eq("a.b", 2), both.drop_columns("a.b")).to_pylist() == [True]


def test_case_sensitivity_of_names():
    table = pa.table({"UserId": [1], "St": [{"X": 2}]})
    assert mask(Eq("userid", 1), table).to_pylist() == [None]
    assert mask(And(Eq("userid", 1), Eq("st.x", 2)), table, case_sensitive=False).to_pylist() == [True]
    twins = pa.table({"ID": [1], "id": [2]})
    assert mask(Eq("id", 2), twins, case_sensitive=False).to_pylist() == [True]
    with pytest.raises(PlanError, match="ambiguous: it could be any of 'ID', 'id'"):
        mask(Eq("Id", 2), twins, case_sensitive=False)
    with pytest.raises(PlanError, match="ambiguous"):
        mask(Eq("a", 1), pa.table([[1], [2]], names=["a", "a"]))


@pytest.mark.parametrize(
    ("predicate", "cells", "words"),
    [
        (Eq("a", "x"), [1], ["column 'a'", "int64", "the str 'x'", "expected a number"]),
        (In("a", [1, "5"]), [1], ["column 'a'", "int64", "the str '5'", "write 5 without quotes"]),
        (Lt("a", 5), ["x"], ["column 'a'", "string", "the int 5", "write '5' in quotes"]),
        (Eq("a", 1), [True], ["column 'a'", "bool", "TRUE or FALSE"]),
        (StartsWith("a", "x"), [1], ["startswith needs a column of text", "'a'", "int64"]),
    ],
)
def test_literal_of_wrong_type_is_an_error(predicate, cells, words):
    with pytest.raises(PlanError) as caught:
        _evaluate(predicate, cells)
    assert all(word in str(caught.value) for word in words)


def test_bound_predicate_serves_many_batches():
    table = pa.table({"a": list(range(10)), "b": ["x", None] * 5})
    masked = bind_mask(And(GtEq("a", 3), Eq("b", "x")), table.schema)
    values = [value for batch in table.to_batches(max_chunksize=3) for value in masked(batch).to_pylist()]
    assert values == mask(And(GtEq("a", 3), Eq("b", "x")), table).to_pylist()
    assert table.filter(masked(table)).column("a").to_pylist() == [4, 6, 8]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.decimal128(12, 2), pa.timestamp("us", "UTC")])
def test_long_in_list_is_one_lookup(kind):
    make: dict[str, Callable[[int], Any]] = {
        "int64": int,
        "string": str,
        "decimal128(12, 2)": lambda i: Decimal(i) / 4,
        "timestamp[us, tz=UTC]": lambda i: EPOCH + dt.timedelta(seconds=i),
    }
    values = [make[str(kind)](i) for i in range(10_000)]
    cells = pa.array([*(v.replace(tzinfo=UTC) if isinstance(v, dt.datetime) else v for v in values), None] * 20, kind)
    table = pa.table({"a": cells})
    began = time.perf_counter()
    result = mask(In("a", values[::2]), table)
    assert time.perf_counter() - began < 2
    assert result.combine_chunks().true_count == 100_000
    assert result.null_count == 20
