"""Lists and maps in every layout of Parquet: which leaf column holds the elements, the keys and the values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.query.columns import Annotation, FileSchema, LeafColumn, SchemaNode
from bloomparquet.query.resolve import NoLeaf, find_element
from tests.support.core import Field, column_metadata, edit_footer, kept_indexes, rows_of

PATH = 3  # field of ColumnMetaData
REPETITION, NAME = 3, 4  # fields of SchemaElement
I32, BINARY = 5, 8


def two_levels(metadata: dict[int, Field]) -> None:
    """``c (LIST) { repeated group list { required element } }`` becomes ``c (LIST) { repeated element }``."""
    elements = metadata[2].value.values
    elements[2:4] = [elements[3] | {REPETITION: Field(I32, 2)}]
    _rename(metadata, [b"c", b"element"])


def without_annotation(metadata: dict[int, Field]) -> None:
    """A required list becomes ``repeated c``."""
    elements = metadata[2].value.values
    elements[1:4] = [elements[3] | {REPETITION: Field(I32, 2), NAME: Field(BINARY, b"c")}]
    _rename(metadata, [b"c"])


def bag(metadata: dict[int, Field]) -> None:
    """The names of Hive and of older Spark."""
    elements = metadata[2].value.values
    elements[2][NAME], elements[3][NAME] = Field(BINARY, b"bag"), Field(BINARY, b"array_element")
    _rename(metadata, [b"c", b"bag", b"array_element"])


def _rename(metadata: dict[int, Field], path: list[bytes]) -> None:
    for row_group in range(2):
        chunk = column_metadata(metadata, row_group)
        chunk[PATH] = Field(chunk[PATH].kind, chunk[PATH].value._replace(values=path))


@pytest.mark.parametrize("edit", [None, two_levels, without_annotation, bag])
def test_lists_of_every_layout(edit: Any, tmp_path: Path) -> None:
    kind = pa.list_(pa.field("element", pa.int32(), nullable=False))
    schema = pa.schema([pa.field("c", kind, nullable=edit is not without_annotation)])
    path = str(tmp_path / "x.parquet")
    with pq.ParquetWriter(path, schema, bloom_filter_options={"c.list.element": {"ndv": 4}}) as writer:
        for lists in ([[1, 9], []], [[2], [3, 8]]):
            writer.write_table(pa.table({"c": pa.array(lists, kind)}, schema))
    if edit is not None:
        edit_footer(path, edit)
    assert rows_of(bp.read_table(path, "array_contains(c, 9)"), "c") == [[1, 9]]
    assert rows_of(bp.read_table(path, "c[1] = 8"), "c") == [[3, 8]]
    assert kept_indexes(bp.plan(path, "array_contains(c, 2)")) == {1}
    assert bp.plan(path, "array_contains(c, 7)").skipped.total() == 2
    assert bp.plan(path, "array_contains(c, 5000000000)").kept == 0


def group(name: str, *children: SchemaNode, kind: str | None = None, repetition: str = "OPTIONAL") -> SchemaNode:
    return SchemaNode(name, repetition, annotation=Annotation(kind) if kind else None, children=children)


def plain(name: str, repetition: str = "OPTIONAL") -> SchemaNode:
    return SchemaNode(name, repetition, "INT64")


def repeated(name: str, *children: SchemaNode, kind: str | None = None) -> SchemaNode:
    return group(name, *children, kind=kind, repetition="REPEATED")


PAIR = repeated("entries", plain("k"), plain("v"))


@pytest.mark.parametrize(
    ("node", "path", "part", "expected"),
    [
        (group("c", repeated("list", plain("element")), kind="LIST"), "c", "element", "c.list.element"),
        (group("c", plain("x", "REPEATED"), kind="LIST"), "c", "element", "c.x"),
        (group("c", repeated("array", plain("x")), kind="LIST"), "c.x", "element", "c.array.x"),
        (group("c", repeated("c_tuple", plain("x")), kind="LIST"), "c.x", "element", "c.c_tuple.x"),
        (group("c", repeated("list", plain("x"), plain("y")), kind="LIST"), "c.y", "element", "c.list.y"),
        (repeated("c", plain("x"), plain("y")), "c.y", "element", "c.y"),
        (group("s", plain("c", "REPEATED")), "s.c", "element", "s.c"),
        (group("c", PAIR, kind="MAP"), "c", "key", "c.entries.k"),
        (group("c", PAIR, kind="MAP"), "c", "value", "c.entries.v"),
        # Neither a leaf with one value for each element, nor certain to be absent.
        (group("c", PAIR, kind="MAP"), "c", "element", None),
        (group("c", PAIR, kind="LIST"), "c", "key", None),
        (group("c", PAIR, kind="LIST"), "c.K", "element", None),
        (
            group("c", repeated("list", group("e", repeated("l", plain("x")), kind="LIST")), kind="LIST"),
            "c",
            "element",
            None,
        ),
        (group("c", repeated("list", plain("e", "REPEATED")), kind="LIST"), "c", "element", None),
        (group("c", repeated("list", group("e", plain("x", "REPEATED"))), kind="LIST"), "c.x", "element", None),
        (repeated("c", repeated("list", plain("x")), kind="LIST"), "c", "element", None),
        (plain("c"), "c", "element", None),
        (group("c", repeated("list", plain("x")), kind="OTHER"), "c", "element", None),
        (group("c", repeated("entries", PAIR), kind="MAP"), "c", "key", None),
    ],
)
def test_leaf_of_the_elements(node: SchemaNode, path: str, part: Any, expected: str | None) -> None:
    schema = FileSchema(SchemaNode("", "REQUIRED", children=(node,)))
    leaf = find_element(schema, tuple(path.split(".")), part, case_sensitive=True)
    assert (".".join(leaf.path) if isinstance(leaf, LeafColumn) else leaf) == (expected or NoLeaf.UNKNOWN)
    assert find_element(schema, ("other",), part, case_sensitive=True) is NoLeaf.ABSENT
