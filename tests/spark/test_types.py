"""Parquet schemas and their Spark schemas, including schemas that no available writer makes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.errors import UnsupportedError
from bloomparquet.query.columns import Annotation, SchemaNode
from pyspark_bloomparquet.read.arrow_to_spark import arrow_schema, to_spark_batch
from pyspark_bloomparquet.read.spark_schema import add_partitions, file_schema, merge


def leaf(
    name: str,
    physical: str,
    annotation: Annotation | None = None,
    repetition: str = "OPTIONAL",
    length: int | None = None,
) -> SchemaNode:
    return SchemaNode(name, repetition, physical, length, annotation)


def group(name: str, *children: SchemaNode, kind: str | None = None, repetition: str = "OPTIONAL") -> SchemaNode:
    return SchemaNode(name, repetition, annotation=Annotation(kind) if kind else None, children=children)


def infer(*children: SchemaNode) -> str:
    return file_schema(group("root", *children)).simpleString()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (leaf("c", "BYTE_ARRAY", Annotation("ENUM")), "string"),
        (leaf("c", "BYTE_ARRAY", Annotation("BSON")), "binary"),
        (leaf("c", "BYTE_ARRAY", Annotation("DECIMAL", precision=38, scale=2)), "decimal(38,2)"),
        (leaf("c", "FIXED_LEN_BYTE_ARRAY", Annotation("DECIMAL", precision=11, scale=2), length=5), "decimal(11,2)"),
        (leaf("c", "INT64", Annotation("TIME", "us", False)), "time(6)"),
        (leaf("c", "INT32", repetition="REPEATED"), "array<int>"),
        (group("c", leaf("x", "INT32", repetition="REPEATED"), repetition="REPEATED"), "array<struct<x:array<int>>>"),
        # two-level lists of older writers
        (group("c", leaf("element", "INT32", repetition="REPEATED"), kind="LIST"), "array<int>"),
        (group("c", group("array", leaf("x", "INT32"), repetition="REPEATED"), kind="LIST"), "array<struct<x:int>>"),
        (group("c", group("c_tuple", leaf("x", "INT32"), repetition="REPEATED"), kind="LIST"), "array<struct<x:int>>"),
        (
            group("c", group("e", leaf("x", "INT32"), leaf("y", "INT32"), repetition="REPEATED"), kind="LIST"),
            "array<struct<x:int,y:int>>",
        ),
        (group("c", group("list", leaf("element", "INT32"), repetition="REPEATED"), kind="LIST"), "array<int>"),
        (
            group(
                "c",
                group(
                    "kv",
                    leaf("key", "BYTE_ARRAY", Annotation("STRING"), "REQUIRED"),
                    leaf("v", "INT32"),
                    repetition="REPEATED",
                ),
                kind="MAP",
            ),
            "map<string,int>",
        ),
        (group("c", leaf("metadata", "BYTE_ARRAY"), leaf("value", "BYTE_ARRAY"), kind="VARIANT"), "variant"),
    ],
)
def test_a_column_has_the_type_that_spark_infers(node: SchemaNode, expected: str) -> None:
    assert infer(node) == f"struct<c:{expected}>"


@pytest.mark.parametrize(
    "node",
    [
        leaf("c", "INT64", Annotation("TIMESTAMP", "ns", True)),
        leaf("c", "INT32", Annotation("TIME", "ms", False)),
        leaf("c", "INT64", Annotation("TIME", "us", True)),
        leaf("c", "FIXED_LEN_BYTE_ARRAY", Annotation("UUID"), length=16),
        leaf("c", "FIXED_LEN_BYTE_ARRAY", Annotation("FLOAT16"), length=2),
        leaf("c", "FIXED_LEN_BYTE_ARRAY", Annotation("INTERVAL"), length=12),
        leaf("c", "INT32", Annotation("DECIMAL", precision=10, scale=0)),
        leaf("c", "FIXED_LEN_BYTE_ARRAY", Annotation("DECIMAL", precision=50, scale=0), length=21),
        leaf("c", "FIXED_LEN_BYTE_ARRAY", Annotation("DECIMAL", precision=12, scale=0), length=5),
        leaf("c", "BYTE_ARRAY", Annotation("OTHER")),
        group("c", leaf("x", "INT32"), kind="LIST"),
        group("c", leaf("x", "INT32", repetition="REPEATED"), leaf("y", "INT32"), kind="LIST"),
        group("c", group("kv", leaf("key", "INT32"), repetition="REPEATED"), kind="MAP"),
    ],
)
def test_a_column_without_a_spark_type_is_an_error(node: SchemaNode) -> None:
    with pytest.raises(UnsupportedError, match=r"column c\b.*spark\.read\.schema"):
        infer(node)


def test_the_schema_in_the_footer_wins_and_is_nullable() -> None:
    written = T.StructType([T.StructField("x", T.ArrayType(T.ShortType(), False), False, {"comment": "kept"})])
    schema = file_schema(
        group("root", leaf("x", "INT32")), {"org.apache.spark.sql.parquet.row.metadata": written.json()}
    )
    assert schema == T.StructType([T.StructField("x", T.ArrayType(T.ShortType(), True), True, {"comment": "kept"})])
    assert (
        file_schema(
            group("root", leaf("x", "INT32")), {"org.apache.spark.sql.parquet.row.metadata": "{"}
        ).simpleString()
        == "struct<x:int>"
    )


INT, LONG, TEXT = T.IntegerType(), T.LongType(), T.StringType()


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def test_merging_appends_columns_and_widens_decimals() -> None:
    left = struct(a=INT, s=struct(x=INT), d=T.DecimalType(5, 1), m=T.MapType(TEXT, struct(p=INT)))
    right = struct(B=TEXT, d=T.DecimalType(8, 1), s=struct(y=TEXT), m=T.MapType(TEXT, struct(q=INT)))
    expected = struct(
        a=INT, s=struct(x=INT, y=TEXT), d=T.DecimalType(8, 1), m=T.MapType(TEXT, struct(p=INT, q=INT)), B=TEXT
    )
    assert merge(left, right, case_sensitive=False) == expected
    assert merge(struct(a=INT), struct(A=INT), case_sensitive=False) == struct(a=INT)
    assert merge(struct(a=INT), struct(A=INT), case_sensitive=True) == struct(a=INT, A=INT)


@pytest.mark.parametrize("other", [LONG, T.DecimalType(5, 1), struct(x=INT), T.ArrayType(INT)])
def test_types_that_cannot_be_merged_are_an_error(other: T.DataType) -> None:
    with pytest.raises(UnsupportedError, match=r"column s\.a is int in one file and .* in another"):
        merge(struct(s=struct(a=INT)), struct(s=struct(a=other)), case_sensitive=False)


def test_a_partition_column_keeps_its_position_in_the_file() -> None:
    day = T.StructField("day", T.DateType())
    assert add_partitions(struct(a=INT, DAY=TEXT, b=INT), [day], case_sensitive=False).fieldNames() == ["a", "day", "b"]
    assert add_partitions(struct(a=INT, DAY=TEXT, b=INT), [day], case_sensitive=True).fieldNames() == [
        "a",
        "DAY",
        "b",
        "day",
    ]


def cast(array: pa.Array, kind: T.DataType, **keywords: Any) -> pa.Array:
    batch = pa.RecordBatch.from_arrays([array], names=["c"])
    schema = T.StructType([T.StructField("c", kind)])
    result = to_spark_batch(batch, schema, {}, **keywords)
    assert result.schema == arrow_schema(schema)
    result.validate(full=True)
    return result.column(0)


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (pa.array(["a", None]).dictionary_encode(), TEXT, ["a", None]),
        (pa.array([bytes(16)], pa.uuid()), T.BinaryType(), [bytes(16)]),
        (pa.array([7], pa.duration("us")), LONG, [7]),
        (pa.array([[1, 2], None, []], pa.large_list(pa.int32())), T.ArrayType(INT), [[1, 2], None, []]),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), T.ArrayType(INT), [[1, 2], None]),
        (pa.array([[1], None, [], [2, 3]], pa.list_view(pa.int32())), T.ArrayType(INT), [[1], None, [], [2, 3]]),
        (
            pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
            T.MapType(TEXT, INT),
            [[("k", 1)], None, []],
        ),
        (pa.array([{"x": 1, "y": "a"}, None]), struct(Y=TEXT, z=INT, x=LONG), [{"Y": "a", "z": None, "x": 1}, None]),
        (pa.array([[{"x": 1}], [None], None]), T.ArrayType(struct(x=LONG)), [[{"x": 1}], [None], None]),
    ],
)
def test_arrow_types_are_converted_to_sparks(array: pa.Array, kind: T.DataType, expected: list[Any]) -> None:
    assert cast(array, kind).to_pylist() == expected
    doubled = pa.concat_arrays([array, array]) if not isinstance(array, pa.ExtensionArray) else None
    if doubled is not None:  # a slice, whose child arrays start before it
        assert cast(doubled.slice(1, len(array)), kind).to_pylist() == (expected + expected)[1 : 1 + len(array)]


def test_strings_that_are_not_utf8_keep_their_bytes() -> None:
    column = to_spark_batch(pa.RecordBatch.from_arrays([pa.array([b"\xff"])], names=["c"]), struct(c=TEXT), {}).column(
        0
    )
    assert column.cast(pa.binary(), safe=False).to_pylist() == [b"\xff"]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1], pa.int64()), INT),
        (pa.array([300], pa.int32()), T.ByteType()),
        (pa.array(["1"]), INT),
        (pa.array([1]), TEXT),
        (pa.array([b"ab"], pa.binary(2)), TEXT),
        (pa.array([1.5]), T.FloatType()),
        (pa.array([Decimal("1.55")]), T.DecimalType(10, 1)),
        (pa.array([Decimal("12345.5")]), T.DecimalType(3, 1)),
        (pa.array([1_000], pa.timestamp("ns")), T.TimestampType()),
        (pa.array([1], pa.timestamp("us", "UTC")), T.TimestampNTZType()),
        (pa.array([[1]]), INT),
        (pa.array([1]), T.ArrayType(INT)),
        (pa.array([{"x": 1}]), T.MapType(TEXT, INT)),
        (pa.array([{"metadata": b"", "value": b"", "typed_value": 1}]), T.VariantType()),
    ],
)
def test_a_conversion_that_spark_lacks_is_an_error(array: pa.Array, kind: T.DataType) -> None:
    with pytest.raises(UnsupportedError, match=r"f\.parquet: column c"):
        cast(array, kind, path="f.parquet")


def test_missing_columns_and_partition_values_are_filled_in() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 2], "day": ["in the file", "as well"]})
    converted = to_spark_batch(batch, struct(day=TEXT, b=INT, A=LONG), {"DAY": pa.scalar("2026-01-01")})
    assert converted.to_pylist() == [{"day": "2026-01-01", "b": None, "A": 1}, {"day": "2026-01-01", "b": None, "A": 2}]
    assert to_spark_batch(batch, struct(), {}).num_rows == 2


def test_nulls_in_a_not_null_column_are_an_error() -> None:
    schema = T.StructType([T.StructField("a", LONG, False)])
    with pytest.raises(UnsupportedError, match="column a has nulls"):
        to_spark_batch(pa.RecordBatch.from_pydict({"a": [1, None]}), schema, {})
    inner = T.StructType([T.StructField("s", schema)])
    with pytest.raises(UnsupportedError, match=r"column s\.a has nulls"):
        to_spark_batch(pa.RecordBatch.from_pydict({"s": [{"a": None}]}), inner, {})
    assert to_spark_batch(pa.RecordBatch.from_pydict({"s": [None, {"a": 1}]}), inner, {}).to_pylist() == [
        {"s": None},
        {"s": {"a": 1}},
    ]
