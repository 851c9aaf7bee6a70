"""Predicates on fields of shredded VARIANT columns: what they skip, and what they must not skip."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.query.columns import Annotation, SchemaNode
from bloomparquet.query.predicate import Comparison, Eq, Gt, GtEq, In, Lt, LtEq
from bloomparquet.query.shredded import implied_test
from bloomparquet.query.variants import VariantField
from tests.support.core import kept_indexes, plan_with
from tests.support.files import hive, write, write_groups

METADATA = b"\x01\x00\x00"
OTHER = b"\x0c\x07"  # a value of a type that is not shredded: the int8 7
OBJECT = b"\x02\x01\x00\x00\x02\x0c\x07"  # an object with one field that is not shredded
LEAF = "v.typed_value.a.typed_value"


def residual_and(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("value", pa.binary()), ("typed_value", kind)])


def variant(kind: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field("metadata", pa.binary(), False), *residual_and(kind)])


def fields(**kinds: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, residual_and(kind), False) for name, kind in kinds.items()])


def row(typed: Any, value: bytes | None = None) -> dict[str, Any]:
    return {"metadata": METADATA, "value": value, "typed_value": typed}


def a(typed: Any, residual: bytes | None = None, value: bytes | None = None) -> dict[str, Any]:
    """An object with the field `a`; `value` has its other fields."""
    return row({"a": {"value": residual, "typed_value": typed}}, value)


GROUPS = {
    "typed": [a(1), a(5)],
    "typed, with other fields that are not": [a(1, value=OBJECT), a(5, value=OBJECT)],
    "typed or missing": [a(1), a(5), a(None)],
    "null": [None, None],
    "typed, or of another type": [a(1), a(5), a(None, residual=OTHER)],
    "typed, or no object": [a(1), a(5), row(None, value=OTHER)],
    "typed or missing, with other fields that are not": [a(1), a(5), a(None, value=OBJECT)],
    "of other types": [a(None, residual=OTHER)],
}
NAMES = list(GROUPS)


def table(rows: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"v": pa.array(rows, kind)})


@pytest.fixture(scope="module", params=[True, False])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("variants") / "x.parquet"
    tables = [table(rows, variant(fields(a=pa.int64()))) for rows in GROUPS.values()]
    return write_groups(file, tables, [LEAF] if request.param else [])


UNPROVEN = set(NAMES[4:])
WITHIN = set(NAMES[:3])  # proven, and with values from 1 to 5


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        ("= 5", WITHIN),
        ("= 9", set()),
        ("<=> 9", set()),
        ("IN (0, 9)", set()),
        ("= 5.5", set()),
        ("< 1", set()),
        ("< 2", WITHIN),
        (">= 6", set()),
        ("BETWEEN 5 AND 9", WITHIN),
        ("<> 9", WITHIN),
        ("IS NOT NULL", WITHIN),
        ("IS NULL", set(NAMES)),
        ("<=> NULL", set(NAMES)),
        ("= NULL", None),
    ],
)
def test_only_with_proof_is_a_row_group_skipped(test: str, kept: set[str] | None, path: str) -> None:
    plan = bp.plan(path, f"variant_get(v, '$.a', 'bigint') {test}")
    expected = set() if kept is None else kept | UNPROVEN
    assert {NAMES[i] for i in kept_indexes(plan)} == expected
    negated = bp.plan(path, f"NOT (variant_get(v, '$.a', 'bigint') {test})")
    assert kept is None or UNPROVEN.issubset(NAMES[i] for i in kept_indexes(negated))


def test_filters_exclude_what_is_within_the_bounds(path: str) -> None:
    has_filters = pq.ParquetFile(path).metadata.row_group(0).column(3).bloom_filter_offset is not None
    plan = bp.plan(path, "variant_get(v, '$.a', 'bigint') IN (3, 4) AND variant_get(v, '$.a', 'int') <=> 3")
    assert {NAMES[i] for i in kept_indexes(plan)} == (UNPROVEN if has_filters else UNPROVEN | WITHIN)
    assert plan.skipped["bloom"] == (3 if has_filters else 0)


def test_without_null_counts_nothing_is_proven(tmp_path: Path) -> None:
    rows = table([a(1), a(5)], variant(fields(a=pa.int64())))
    for statistics in (False, [LEAF], ["v.value", "v.typed_value.a.value"]):  # one of these two suffices
        path = write(tmp_path / "x.parquet", rows, [LEAF], write_statistics=statistics)
        assert bp.plan(path, "variant_get(v, '$.a', 'bigint') = 9").kept == (not statistics)


NEW_YEAR = "TIMESTAMP'2026-01-01 00:00:00Z'"
# The stored type and its values; the types as which a value that is not there is looked up; whether that skips.
KINDS: list[tuple[pa.DataType, list[Any], dict[str, tuple[str, bool]]]] = [
    (pa.int8(), [1, 2], {"tinyint": ("9", True), "bigint": ("9", True), "float": ("9.0F", True)}),
    (pa.int32(), [1, 2], {"int": ("9", True), "double": ("9.5D", True), "string": ("''", False)}),
    (pa.int32(), [1, 2], {"float": ("9F", False)}),
    (pa.int64(), [1, 2], {"int": ("9", True), "decimal(10,2)": ("9.00", True), "double": ("9D", True)}),
    (pa.int64(), [1, 2], {"float": ("9F", False), "boolean": ("false", False), "timestamp": (NEW_YEAR, False)}),
    (pa.uint32(), [1, 2], {"bigint": ("9", False), "double": ("9D", False)}),
    (pa.decimal128(9, 2), [Decimal("1.25")], {"decimal(12,3)": ("1.255", True), "decimal(12,1)": ("1.3", False)}),
    (pa.decimal128(18, 1), [Decimal("1.5")], {"double": ("1.6D", True), "bigint": ("2", False)}),
    (pa.decimal128(30, 0), [Decimal(7)], {"bigint": ("9", True), "decimal(38,0)": ("9", True), "double": ("9D", True)}),
    (pa.float32(), [1.5], {"float": ("2.5F", True), "double": ("2.5D", True), "decimal(10,2)": ("2.50", False)}),
    (pa.float64(), [1.5], {"double": ("2.5D", True), "float": ("2.5F", False), "bigint": ("9", False)}),
    (pa.string(), ["4", "x"], {"string": ("'y'", True), "bigint": ("9", False), "date": ("DATE'2026-01-01'", False)}),
    (pa.binary(), [b"4"], {"binary": ("X'35'", True), "string": ("'5'", False)}),
    (pa.bool_(), [True], {"boolean": ("false", True), "int": ("0", False)}),
    (pa.date32(), [1], {"date": ("DATE'2026-01-01'", True), "timestamp": (NEW_YEAR, False)}),
    (pa.timestamp("us", "UTC"), [1], {"timestamp": (NEW_YEAR, True), "date": ("DATE'2026-01-01'", False)}),
    (pa.timestamp("ns", "UTC"), [1], {"timestamp": (NEW_YEAR, False)}),
    (pa.timestamp("us"), [1], {"timestamp_ntz": ("TIMESTAMP_NTZ'2026-01-01 00:00:00'", False)}),
    (pa.binary(16), [bytes(16)], {"binary": ("X'35'", False), "string": ("'5'", False)}),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "values", "lookups"), KINDS, ids=[str(kind[0]) for kind in KINDS])
def test_only_casts_that_keep_values_skip(
    stored: pa.DataType, values: list[Any], lookups: dict[str, tuple[str, bool]], tmp_path: Path
) -> None:
    rows = table([a(value) for value in values], variant(fields(a=stored)))
    path = write(tmp_path / "x.parquet", rows, [] if pa.types.is_boolean(stored) else [LEAF])
    for kind, (literal, skips) in lookups.items():
        assert bp.plan(path, f"variant_get(v, '$.a', '{kind}') = {literal}").kept == (not skips), kind


NUMBERS = st.integers(-(10**18), 10**18)


@given(NUMBERS, st.integers(0, 18), st.integers(-2, 2))
def test_no_decimal_that_is_rounded_to_a_double_is_lost(unscaled: int, scale: int, ulps: int) -> None:
    """Spark's cast may be off by an ulp or two."""
    stored = Fraction(unscaled, 10**scale)
    double = float(stored) + ulps * math.ulp(float(stored))
    annotation = Annotation("DECIMAL", precision=18, scale=scale)
    node = SchemaNode("typed_value", "OPTIONAL", "INT64", annotation=annotation)
    for build in (Eq, Lt, LtEq, Gt, GtEq):
        literal = {Lt: math.nextafter(double, math.inf), Gt: math.nextafter(double, -math.inf)}.get(build, double)
        test = implied_test(VariantField("v", "$.a", "double", build("v", literal)), node)
        if isinstance(test, In):
            assert stored in [Fraction(value) for value in test.values if isinstance(value, Decimal)]
        elif test is not None:
            assert isinstance(test, Comparison)
            assert isinstance(test.value, Decimal)
            bound = Fraction(test.value)
            assert stored <= bound if isinstance(test, LtEq) else stored >= bound
        else:
            assert build is Eq


@pytest.mark.parametrize("scale", [-1, 77, 2**31 - 1])
def test_a_damaged_scale_proves_nothing(scale: int) -> None:
    node = SchemaNode("x", "OPTIONAL", "INT64", annotation=Annotation("DECIMAL", precision=18, scale=scale))
    for test in (Eq("v", 1.5), In("v", (1.5, 2.5)), Lt("v", 1.5), GtEq("v", 1.5)):
        assert implied_test(VariantField("v", "$.a", "double", test), node) is None


def test_names_of_fields_are_exact(tmp_path: Path) -> None:
    kind = fields(**{"A": pa.int64(), "b.c": pa.int64(), "o": fields(x=pa.int64(), X=pa.int64())})
    one = {"value": None, "typed_value": 1}
    typed = {"A": one, "b.c": one, "o": {"value": None, "typed_value": {"x": one, "X": one}}}
    data = {"id": [1], "st": pa.array([{"V": row(typed)}], pa.struct([("V", variant(kind))]))}
    path = write(tmp_path / "x.parquet", data)
    skipped = {
        "$.A": 1, "$['A']": 1, '$["b.c"]': 1, "$['b.c']": 1, "$.a": 0, "$.b.c": 0, "$.o.x": 0, "$.o": 0, "$": 0,
        "$.A.x": 0, "$.A[0]": 0, "$.zz": 0,
    }  # fmt: skip
    for field, count in skipped.items():
        test = VariantField(("ST", "v"), field, "bigint", bp.Eq("v", 9))
        assert plan_with(path, test, case_sensitive=False).skipped.total() == count, field
        assert plan_with(path, VariantField(("st", "V"), field, "int", bp.Eq("v", 1))).kept == 1


def test_a_variant_of_single_values(tmp_path: Path) -> None:
    path = write_groups(tmp_path / "x.parquet", [table(rows, variant(pa.int64())) for rows in (
        [row(1), row(5)], [row(1), row(5), None], [row(1), row(None, OTHER)])])  # fmt: skip
    assert kept_indexes(bp.plan(path, "variant_get(v, '$', 'bigint') = 9")) == {2}
    assert kept_indexes(bp.plan(path, "variant_get(v, '$', 'bigint') = 5")) == {0, 1, 2}
    assert bp.plan(path, "variant_get(v, '$.a', 'bigint') = 9").kept == 3


def test_files_of_other_shapes_are_kept(tmp_path: Path) -> None:
    """Not shredded; a list; without the column; with names that the specification does not have."""
    plain = pa.struct([pa.field("metadata", pa.binary(), False), ("value", pa.binary())])
    extra = pa.struct([*variant(fields(a=pa.int64())), ("more", pa.int64())])
    write(tmp_path / "0.parquet", table([{"metadata": METADATA, "value": OTHER}], plain))
    write(
        tmp_path / "1.parquet",
        table([row([{"value": None, "typed_value": 1}])], variant(pa.list_(residual_and(pa.int64())))),
    )
    write(tmp_path / "2.parquet", {"w": [1]})
    write(tmp_path / "3.parquet", table([a(1) | {"more": 1}], extra))
    plan = bp.plan(tmp_path, "variant_get(v, '$.a', 'bigint') = 9")
    assert [group.kept for group in plan.row_groups] == [True, True, False, True]
    assert bp.plan(tmp_path, "variant_get(v, '$[0]', 'bigint') = 9").kept == 3
    assert bp.plan(tmp_path, "variant_get(v, '$.a', 'bigint') IS NULL").kept == 4


def test_rows_are_left_to_spark(path: str) -> None:
    for function in (bp.read_table, bp.scan_batches):
        with pytest.raises(bp.UnsupportedError, match=r"variant_get\(v, .* = 9: pyarrow does not read the fields"):
            function(path, "v IS NOT NULL AND variant_get(v, '$.a', 'bigint') = 9")


def test_other_columns_are_refused(tmp_path: Path) -> None:
    root = hive(tmp_path / "h", {"p=1": {"id": [1], "st": [{"value": 1}]}})
    for column in ("id", "st", "p"):
        with pytest.raises(bp.PlanError, match=f"column '{column}' is no VARIANT; variant_get"):
            bp.plan(root, f"variant_get({column}, '$.a', 'int') = 1")
        field = VariantField(column, "$.a", "int", bp.Eq("v", 1))
        assert plan_with(root, field, strict=False).kept == plan_with(root, None, pushed=field).kept == 1
