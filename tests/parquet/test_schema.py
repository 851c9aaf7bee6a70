"""The schema tree: compared with pyarrow's, and parsed from hostile elements."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.parquet.metadata.schema import parse_schema
from bloomparquet.query.columns import Annotation, FileSchema
from tests.support.core import Field, Items, encode, read_footer
from tests.support.files import write

ALL = pa.schema(
    [
        ("i8", pa.int8()),
        ("u64", pa.uint64()),
        ("i32", pa.int32()),
        ("f16", pa.float16()),
        ("f32", pa.float32()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("fb", pa.binary(7)),
        ("d", pa.date32()),
        ("t", pa.time64("ns")),
        ("ts", pa.timestamp("ms")),
        ("tsz", pa.timestamp("us", "UTC")),
        ("dec", pa.decimal128(12, 2)),
        ("u", pa.uuid()),
        ("a.b", pa.int64()),
        ("a", pa.struct([("b", pa.int64()), ("c", pa.struct([("d", pa.string())]))])),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("j", pa.json_()),
        ("n", pa.null()),
    ]
)


def schema_of(path: str) -> FileSchema:
    return parse_schema(read_footer(path))[0]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("schema") / "x.parquet", ALL.empty_table())


def test_leaves_are_pyarrows_columns_in_order(everything: str) -> None:
    theirs = pq.read_metadata(everything).schema
    ours = schema_of(everything).leaves
    assert [leaf.index for leaf in ours] == list(range(len(theirs)))
    for i, leaf in enumerate(ours):
        column = theirs.column(i)
        assert ".".join(leaf.path) == column.path
        assert leaf.node.physical_type == column.physical_type
        assert (leaf.node.type_length or 0) == column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else True
        assert leaf.repeated == (column.max_repetition_level > 0)


def test_a_dot_in_a_name_does_not_split_the_path(everything: str) -> None:
    paths = [leaf.path for leaf in schema_of(everything).leaves]
    assert ("a.b",) in paths
    assert ("a", "b") in paths


def test_annotations_have_the_parameters_that_were_written(everything: str) -> None:
    annotations = {leaf.path[0]: leaf.node.annotation for leaf in schema_of(everything).leaves}
    assert annotations["i8"] == Annotation("INTEGER", bit_width=8, signed=True)
    assert annotations["u64"] == Annotation("INTEGER", bit_width=64, signed=False)
    assert annotations["i32"] is None
    assert annotations["f16"] == Annotation("FLOAT16")
    assert annotations["s"] == Annotation("STRING")
    assert annotations["b"] is None
    assert annotations["d"] == Annotation("DATE")
    assert annotations["t"] == Annotation("TIME", "ns", annotations["t"].adjusted_to_utc)
    assert annotations["ts"] == Annotation("TIMESTAMP", "ms", False)
    assert annotations["tsz"] == Annotation("TIMESTAMP", "us", True)
    assert annotations["dec"] == Annotation("DECIMAL", precision=12, scale=2)
    assert annotations["u"] == Annotation("UUID")
    assert annotations["j"] == Annotation("JSON")
    assert annotations["n"] == Annotation("UNKNOWN")


def element(name: str, **fields: Any) -> dict[int, Field]:
    numbers = {"type": 1, "length": 2, "repetition": 3, "children": 5}
    numbers |= {"converted": 6, "scale": 7, "precision": 8, "id": 9}
    parts = {numbers[key]: Field(5, value) for key, value in fields.items()}
    return dict(sorted({**parts, 4: Field(8, name.encode())}.items()))


def footer(*elements: dict[int, Field]) -> bytes:
    return encode({1: Field(5, 1), 2: Field(9, Items(12, list(elements)))})


@pytest.mark.parametrize(
    ("converted", "kind"),
    [
        (0, Annotation("STRING")),
        (4, Annotation("ENUM")),
        (6, Annotation("DATE")),
        (7, Annotation("TIME", "ms", True)),
        (9, Annotation("TIMESTAMP", "ms", True)),
        (10, Annotation("TIMESTAMP", "us", True)),
        (11, Annotation("INTEGER", bit_width=8, signed=False)),
        (14, Annotation("INTEGER", bit_width=64, signed=False)),
        (15, Annotation("INTEGER", bit_width=8, signed=True)),
        (18, Annotation("INTEGER", bit_width=64, signed=True)),
        (19, Annotation("JSON")),
        (20, Annotation("BSON")),
        (21, Annotation("INTERVAL")),
        (99, Annotation("OTHER")),
    ],
)
def test_converted_types_of_older_files(converted: int, kind: Annotation) -> None:
    schema, _ = parse_schema(
        footer(element("root", children=1), element("x", type=2, repetition=1, converted=converted))
    )
    assert schema.leaves[0].node.annotation == kind


def test_a_decimal_of_older_files_keeps_its_scale() -> None:
    schema, _ = parse_schema(
        footer(element("root", children=1), element("x", type=1, converted=5, scale=3, precision=9))
    )
    assert schema.leaves[0].node.annotation == Annotation("DECIMAL", precision=9, scale=3)


@pytest.mark.parametrize(("stored", "field_id"), [(-1, None), (-(2**31), None), (0, 0), (7, 7)])
def test_a_negative_field_id_is_none(stored: int, field_id: int | None) -> None:
    schema, _ = parse_schema(footer(element("root", children=1, id=stored), element("x", type=1, id=stored)))
    assert schema.leaves[0].node.field_id == field_id


STRUCT, NUMBER = Field(12, {}), Field(6, 0)


@pytest.mark.parametrize(
    "logical",
    [
        *({8: Field(12, {1: Field(1, True), 2: Field(12, unit)})}
          for unit in ({}, {2: NUMBER}, {2: NUMBER, 3: STRUCT}, {2: STRUCT, 3: STRUCT}, {9: STRUCT})),
        {1: STRUCT, 4: STRUCT},
        {99: STRUCT},
    ],
    ids=str,
)  # fmt: skip
def test_a_union_without_a_single_known_member_says_nothing(logical: dict[int, Field]) -> None:
    """pyarrow leaves out a member of another type, and takes one of several."""
    leaf = {**element("x", type=2, repetition=1, converted=10), 10: Field(12, logical)}
    schema, _ = parse_schema(footer(element("root", children=1), leaf))
    assert schema.leaves[0].node.annotation == Annotation("OTHER")


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([], "no schema"),
        ([element("root", children=2), element("x", type=1)], "more children"),
        ([element("root", children=1), element("x", type=1), element("y", type=1)], "covers 2 of its 3"),
        ([element("root", children=1), element("x", type=77)], "physical type 77"),
        ([element("root", children=1), element("x", type=1, repetition=9)], "repetition 9"),
        ([element("root", children=2**31 - 1), element("x", type=1)], "more children"),
        ([element("root", children=-1), element("x", type=1)], "not negative"),
    ],
    ids=["none", "too few", "too many", "type", "repetition", "huge", "negative"],
)
def test_elements_that_form_no_tree_are_an_error(elements: list[dict[int, Field]], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_schema(footer(*elements))


def test_a_very_deep_schema_is_an_error() -> None:
    with pytest.raises(LimitError, match="deeper"):
        parse_schema(footer(*(element("g", children=1) for _ in range(5000)), element("x", type=1)))
