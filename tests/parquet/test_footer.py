"""Footers: requests, shared profiles, writer traits, and the fields of column chunks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.errors import FormatError
from bloomparquet.parquet.metadata.footer import parse_footer, read_footers
from bloomparquet.storage.files import LocalStorage, ReadCount
from tests.support.core import (
    BLOOM_LENGTH,
    BLOOM_OFFSET,
    Field,
    Items,
    column_metadata,
    decode,
    edit_footer,
    encode,
    read_footer,
    replace_footer,
)
from tests.support.files import write


def footers(paths: list[str], count: ReadCount | None = None, **options: Any) -> list[Any]:
    storage = LocalStorage()
    files = [storage.list_files(path, recursive=False)[0] for path in paths]
    return list(read_footers(storage, files, ReadCount() if count is None else count, keys=None, **options))


def test_one_request_reads_a_footer_that_fits_in_the_first_guess(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i}.parquet", {"id": list(range(5000))}) for i in range(5)]
    count = ReadCount()
    read = footers(paths, count)
    assert count.requests == 5
    assert [rows for footer in read for rows in footer.rows] == [5000] * 5


def test_a_long_footer_takes_a_second_request(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {f"column_{i}": [i] for i in range(600)}, rows_per_group=1)
    size = len(read_footer(path))
    assert size > 16 * 1024
    count = ReadCount()
    (footer,) = footers([path], count)
    assert count.requests == 2
    assert count.bytes < size + 16 * 1024 + 64
    assert footer.raw == read_footer(path)


def test_only_files_of_one_schema_share_a_profile(tmp_path: Path) -> None:
    same = [write(tmp_path / f"{i}.parquet", {"id": [i]}) for i in range(3)]
    other = write(tmp_path / "other.parquet", {"id": pa.array([1], pa.int32())})
    a, b, c, d = footers([*same, other])
    assert a.profile is b.profile is c.profile
    assert d.profile is not a.profile
    assert d.profile.schema.leaves[0].node.physical_type == "INT32"


def test_a_schema_that_begins_like_another_is_its_own(tmp_path: Path) -> None:
    """Schemas are recognised by their leading bytes."""
    short = write(tmp_path / "a.parquet", {"id": [1]})
    long = write(tmp_path / "b.parquet", {"id": [1], "name": ["x"]})
    for order in ([short, long], [long, short]):
        assert [len(footer.profile.schema.leaves) for footer in footers(order)] == [
            1 + (path == long) for path in order
        ]


def test_key_values_that_are_no_text_are_empty(tmp_path: Path) -> None:
    """As fastparquet 0.8 writes them."""
    path = write(tmp_path / "x.parquet", pa.table({"c": [1]}).replace_schema_metadata({"text": "a"}), bloom=["c"])

    def add_pairs(tree: dict[int, Field]) -> None:
        values = {b"number": Field(6, 1), b"truth": Field(1, True), b"none": None}
        for key, value in values.items():
            tree[5].value.values.append({1: Field(8, key)} | ({} if value is None else {2: value}))

    edit_footer(path, add_pairs)
    (footer,) = footers([path])
    pairs = {key: value for key, value in footer.key_values.items() if not key.startswith("ARROW")}
    assert pairs == {"text": "a", "number": "", "truth": "", "none": ""}
    assert bp.plan(path, "c = 2").kept == 0
    assert bp.read_table(path, "c = 1").num_rows == 1
    bp.add_filters(path, bloom=["c"])
    assert bp.read_table(path, "c = 1").num_rows == 1


@pytest.mark.parametrize(("key", "is_legacy"), [("org.apache.spark.legacyINT96", True), ("org.apache.spark", False)])
def test_sparks_int96_of_another_calendar_is_noted(key: str, is_legacy: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", pa.table({"x": [1]}).replace_schema_metadata({key: ""}))
    assert footers([path])[0].profile.traits.legacy_int96 is is_legacy


def test_a_column_order_is_a_single_known_member(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": [1]})
    for order, is_known in (
        ({1: Field(12, {})}, True), ({1: Field(6, 0)}, False), ({1: Field(12, {}), 2: Field(12, {})}, False),
        ({2: Field(12, {})}, False), ({}, False),
    ):  # fmt: skip

        def set_order(tree: dict[int, Field], order: dict[int, Field] = order) -> None:
            tree[7] = Field(9, Items(12, [order]))

        edit_footer(path, set_order)
        assert footers([path])[0].profile.traits.column_orders == (is_known,)


def test_footers_equal_what_pyarrow_reads(parquet_testing_dir: Path, tmp_path: Path) -> None:
    nested = pa.table(
        {
            "l": [[1, 2], None],
            "s": [{"x": 1, "y": "a"}, None],
            "t": ["a" * 300, "b"],
            "f": [0.5, None],
            "b": [True, None],
        }
    )
    made = write(tmp_path / "x.parquet", nested, ["t", "s.x"], rows_per_group=1)
    plain = write(tmp_path / "y.parquet", nested, rows_per_group=1, write_statistics=False)
    for path in (*map(str, sorted(parquet_testing_dir.glob("*.parquet"))), made, plain):
        (footer,) = footers([path])
        theirs = pq.read_metadata(path)
        assert footer.to_arrow().equals(theirs), path
        assert list(footer.rows) == [theirs.row_group(i).num_rows for i in range(theirs.num_row_groups)]
        for i in range(theirs.num_row_groups):
            for j in range(theirs.num_columns):
                ours, chunk = footer.read_chunk(i, j), theirs.row_group(i).column(j)
                assert ours.values == chunk.num_values
                assert (ours.bloom_offset, ours.bloom_length) == (chunk.bloom_filter_offset, chunk.bloom_filter_length)
                if chunk.statistics is not None and chunk.statistics.has_null_count:
                    assert ours.nulls == chunk.statistics.null_count
                if (
                    chunk.statistics is not None
                    and chunk.statistics.has_min_max
                    and chunk.physical_type == "BYTE_ARRAY"
                ):
                    low, high = ours.min_value, ours.max_value
                    assert (low, high) == (chunk.statistics.min_raw, chunk.statistics.max_raw)
                if chunk.statistics is None:
                    assert (ours.nulls, ours.min_value, ours.max_value, ours.deprecated_min) == (None,) * 4


def test_chunks_of_different_forms_are_read(tmp_path: Path) -> None:
    """With and without statistics and filters, with lengths of one byte or five, in any order."""
    path = write(
        tmp_path / "x.parquet", {"x": [str(i) * (1 + 90 * (i % 3)) for i in range(12)]}, ["x"], rows_per_group=1
    )

    def vary(metadata: dict[int, Field]) -> None:
        for i in range(12):
            chunk = column_metadata(metadata, i)
            if i % 4 == 1:
                del chunk[12]
            if i % 4 == 2:
                del chunk[BLOOM_OFFSET], chunk[BLOOM_LENGTH]
            if i % 4 == 3:
                chunk[5] = Field(6, 10**12 + i)
                chunk[12].value.pop(3, None)

    edit_footer(path, vary)
    (footer,) = footers([path])
    for i in (*range(12), *reversed(range(12))):
        chunk = column_metadata(decode(read_footer(path)), i)
        fields = footer.read_chunk(i, 0)
        statistics = chunk[12].value if 12 in chunk else {}
        assert fields.values == chunk[5].value
        assert fields.bloom_offset == (chunk[BLOOM_OFFSET].value if BLOOM_OFFSET in chunk else None)
        assert fields.nulls == (statistics[3].value if 3 in statistics else None)
        assert fields.min_value == (statistics[6].value if 6 in statistics else None)


@pytest.mark.parametrize("others", [0, 80, 400])
def test_a_number_of_another_type_is_left_out(others: int, tmp_path: Path) -> None:
    """As pyarrow and Spark leave it out: what they do not believe proves nothing."""
    path = write(tmp_path / "x.parquet", {"x": [1, None, 3, 4]}, ["x"], rows_per_group=1)
    for i in range(others):
        shutil.copy(path, tmp_path / f"{i}.parquet")

    def change(tree: dict[int, Field]) -> None:
        chunk = column_metadata(tree, 1)
        chunk[12].value[3] = Field(5, 0)  # null_count
        chunk[BLOOM_LENGTH] = Field(6, chunk[BLOOM_LENGTH].value)
        tree[4].value.values[1][6] = Field(5, 7)  # total_compressed_size

    edit_footer(path, change)
    (footer,) = footers([path])
    fields = footer.read_chunk(1, 0)
    assert [size is None for size in footer.sizes] == [False, True, False, False]
    assert (fields.nulls, fields.bloom_length, fields.values) == (None, None, 1)
    kept = [group.index for group in bp.plan(tmp_path, "x IS NULL").kept_row_groups() if group.path == path]
    assert kept == [1]
    assert pq.read_metadata(path).row_group(1).column(0).statistics.has_null_count is False


def test_a_row_group_that_lacks_a_column_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": [1], "y": [2]})
    edit_footer(path, lambda metadata: metadata[4].value.values[0][1].value.values.pop())
    with pytest.raises(FormatError, match=r"x\.parquet: .*1 column chunks.*2 leaf columns"):
        footers([path])


class Repeated(dict[int, Field]):
    """The fields of a struct, and after them other ones."""

    def __init__(self, fields: dict[int, Field], *again: tuple[int, Field]) -> None:
        super().__init__(fields)
        self.again = again

    def items(self) -> Any:
        return [*super().items(), *self.again]


def _repeat(tree: dict[int, Field], where: str) -> dict[int, Field]:
    groups = tree[4].value.values
    chunks, chunk = groups[1][1].value.values, column_metadata(tree, 1)
    if where == "statistics":
        chunk[12] = Field(12, Repeated(chunk[12].value, (3, Field(5, 0))))  # null_count, as another type
    elif where == "metadata":
        chunks[0][3] = Field(12, Repeated(chunk, (5, Field(6, 0))))  # num_values
    elif where == "chunk":
        chunks[0] = Repeated(chunks[0], (3, groups[0][1].value.values[0][3]))  # meta_data
    elif where == "row group":
        groups[1] = Repeated(groups[1], (1, groups[0][1]))  # columns
    elif where == "rows":
        groups[1] = Repeated(groups[1], (3, Field(6, 0)))  # num_rows
    else:
        return Repeated(tree, (2, tree[2]) if where == "schema" else (4, Field(9, Items(12, groups[:1]))))
    return tree


@pytest.mark.parametrize("where", ["statistics", "metadata", "chunk", "row group", "rows", "schema", "row groups"])
@pytest.mark.parametrize("others", [1, 60])
def test_a_field_that_occurs_twice_is_damage(where: str, others: int, tmp_path: Path) -> None:
    """Readers differ in which one they believe: rows that another reader returns would be skipped."""
    path = write(tmp_path / "x.parquet", {"x": [1, None, 3, 4]}, rows_per_group=1)
    for i in range(others):
        shutil.copy(path, tmp_path / f"{i}.parquet")
    replace_footer(path, encode(_repeat(decode(read_footer(path)), where)))
    with pytest.raises(FormatError, match=r"x\.parquet: .* occurs twice"):
        bp.plan(tmp_path, "x IS NULL")
    plan = bp.plan(tmp_path, "x IS NULL", skip_corrupt=True)
    assert ([file.path for file in plan.left_out], plan.kept) == ([path], others)


def test_files_of_one_profile_keep_their_writers(tmp_path: Path) -> None:
    """pyarrow works around the known bugs of old writers."""
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [1]}), path)
    footers = []
    for writer in (b"writer 1", b"writer 2"):
        edit_footer(path, lambda metadata, writer=writer: metadata.update({6: Field(8, writer)}))
        footers.append(parse_footer(read_footer(path)))
    assert footers[0].profile is footers[1].profile
    assert [footer.created_by for footer in footers] == [b"writer 1", b"writer 2"]
