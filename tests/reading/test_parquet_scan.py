"""`read_table` and `scan_batches` of Parquet files: Arrow's types, INT96, UUID, and what only Parquet has."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support.files import write, write_groups

UTC = dt.timezone.utc


def test_batches_are_bounded(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": np.arange(300_000)}, rows_per_group=150_000)
    assert max(batch.num_rows for batch in bp.scan_batches(path)) <= 64 * 1024
    assert bp.read_table(path).num_rows == 300_000


def test_rows_come_in_the_order_of_files(tmp_path: Path) -> None:
    """Also beside an empty row group."""
    for i in (20, 0, 10):
        write_groups(
            tmp_path / f"{i:02}.parquet", [pa.table({"x": pa.array(x, pa.int64())}) for x in ([i], [], [i + 1])]
        )
    assert bp.read_table(tmp_path)["x"].to_pylist() == [0, 1, 10, 11, 20, 21]
    assert bp.read_table([tmp_path / "20.parquet", tmp_path / "00.parquet"], "x <> 1")["x"].to_pylist() == [20, 21, 0]


def test_files_may_differ_in_the_case_of_a_name(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", {"id": [1]})
    write(tmp_path / "2.parquet", {"ID": [1]})
    everything = bp.read_table(tmp_path, case_sensitive=False)
    assert everything.to_pydict() == {"id": [1, 1]}
    assert bp.read_table(tmp_path, "id = 1", case_sensitive=False).num_rows == 2
    assert bp.read_table(tmp_path, "id IS NULL", case_sensitive=False).num_rows == 0
    assert bp.read_table(tmp_path).to_pydict() == {"id": [1, None]}
    assert bp.read_table(tmp_path, "id IS NULL").num_rows == 1


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("name", ["s", "S"])
def test_the_remedy_for_fields_that_differ_in_case_helps(name: str, merge: bool, tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", {"s": [{"a": 1}]})
    write(tmp_path / "2.parquet", {name: [{"A": 2}]})
    with pytest.raises(bp.PlanError, match=r"separately, or write them again with one spelling of each name$"):
        bp.read_table(tmp_path, "s.a = 2", merge_schema=merge, case_sensitive=False)


def test_int96_is_an_instant(tmp_path: Path, parquet_testing_dir: Path) -> None:
    moment = dt.datetime(2024, 5, 17, 10)
    path = write(
        tmp_path / "x.parquet",
        {"x": pa.array([moment], pa.timestamp("us"))},
        ["x"],
        use_deprecated_int96_timestamps=True,
    )
    result = bp.read_table(path, bp.Eq("x", moment.replace(tzinfo=UTC)))
    assert result.schema.field("x").type == pa.timestamp("us", "UTC")
    assert result.column("x").to_pylist() == [moment.replace(tzinfo=UTC)]
    assert bp.read_table(path, "x > TIMESTAMP '2024-05-17 12:00:00'", timezone="Europe/Berlin").num_rows == 0
    assert bp.read_table(path, "x = TIMESTAMP '2024-05-17 12:00:00'", timezone="Europe/Berlin").num_rows == 1
    spark = str(parquet_testing_dir / "int96_from_spark.parquet")
    everything = bp.read_table(spark)
    assert everything.num_rows == pq.read_metadata(spark).num_rows
    assert everything.schema.field(0).type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (pa.array([b"\x01" * 16, b"\x02" * 16, None], pa.uuid()), b"\x02" * 16),
        (pa.array(["a", "b"], pa.string_view()), "b"),
        (pa.array([1, 2], pa.duration("us")), 2),
        (pa.array([decimal.Decimal("1.1"), decimal.Decimal("2.2")], pa.decimal256(60, 5)), decimal.Decimal("2.2")),
        (pa.array([decimal.Decimal("1.1"), decimal.Decimal("2.2")], pa.decimal32(5, 1)), decimal.Decimal("2.2")),
        (pa.array(['{"a": 1}', '{"a":1}'], pa.json_()), '{"a":1}'),
        (pa.array([1.5, 2.5], pa.float16()), 2.5),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_arrow_types_are_filtered(array: pa.Array, value: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": array})
    try:
        result = bp.read_table(path, bp.Eq("x", value))
    except bp.PlanError:
        assert pa.types.is_duration(array.type), "a duration has no literal"
        return
    assert result.num_rows == 1
    assert bp.read_table(path, bp.IsNull("x")).num_rows == array.null_count
    assert bp.read_table(path, bp.NotEq("x", value)).num_rows == len(array) - array.null_count - 1


def test_int96_inside_lists_and_structs_is_an_instant(tmp_path: Path) -> None:
    moment = dt.datetime(2024, 1, 1)
    table = pa.table(
        {
            "st": pa.array([{"t": moment}], pa.struct([("t", pa.timestamp("us"))])),
            "l": pa.array([[moment]], pa.list_(pa.timestamp("us"))),
        }
    )
    path = write(tmp_path / "x.parquet", table, use_deprecated_int96_timestamps=True)
    aware = moment.replace(tzinfo=UTC)
    assert bp.read_table(path, bp.Eq(("st", "t"), aware)).to_pydict() == {"st": [{"t": aware}], "l": [[aware]]}
    assert bp.read_table(path, bp.Eq(("st", "t"), aware), columns=["l"]).num_rows == 1


def test_dictionaries_in_structs_over_several_row_groups(tmp_path: Path) -> None:
    struct = pa.StructArray.from_arrays([pa.array(["a", "b", "a"]).dictionary_encode()], ["d"])
    path = write(tmp_path / "x.parquet", {"s": struct, "id": [1, 2, 3]}, rows_per_group=1)
    assert bp.read_table(path).num_rows == 3
    assert bp.read_table(path, "s.d = 'a'", columns=["id"]).to_pydict() == {"id": [1, 3]}


def test_a_uuid_is_found_by_text_without_an_arrow_schema(tmp_path: Path) -> None:
    values = [UUID(int=i) for i in range(10)]
    table = pa.table({"u": pa.array([value.bytes for value in values], pa.uuid())})
    pq.write_table(table, tmp_path / "x.parquet", store_schema=False)
    assert bp.read_table(tmp_path, f"u = '{values[3]}'").num_rows == 1


def test_a_uuid_stays_a_uuid_in_a_merged_schema(tmp_path: Path) -> None:
    values = pa.array([UUID(int=i).bytes for i in range(4)], pa.uuid())
    pq.write_table(pa.table({"u": values}), tmp_path / "1.parquet", store_schema=False)
    pq.write_table(pa.table({"u": values, "x": [1, 2, 3, 4]}), tmp_path / "2.parquet")
    assert bp.read_table(tmp_path, f"u = '{UUID(int=3)}'", merge_schema=True)["x"].to_pylist() == [None, 4]


@pytest.mark.parametrize("uuid_first", [True, False])
def test_16_bytes_are_a_uuid_where_another_file_says_so(uuid_first: bool, tmp_path: Path) -> None:
    """A text is then the text of a UUID, also in the file that has only bytes: it must not be skipped."""
    keys = [UUID(int=n) for n in range(9)]
    for i, kind in enumerate([pa.uuid(), pa.binary(16)] if uuid_first else [pa.binary(16), pa.uuid()]):
        column = pa.array([key.bytes for key in keys], kind)
        struct = (
            {"s": pa.StructArray.from_arrays([column], ["x"])} if uuid_first else {}
        )  # Arrow merges no such structs
        write(tmp_path / f"{i}.parquet", {"u": column, **struct}, ["u", *(f"{name}.x" for name in struct)])
    if not uuid_first:
        with pytest.raises(bp.PlanError, match="or give merge_schema=True"):
            bp.read_table(tmp_path)
    for column in ("u", "s.x") if uuid_first else ("u",):
        options: Any = {"columns": ["u"], "merge_schema": not uuid_first}
        for value in (keys[4], str(keys[4]), keys[4].bytes):
            assert bp.read_table(tmp_path, bp.Eq(column, value), **options)["u"].to_pylist() == [keys[4]] * 2
            assert bp.read_table(tmp_path, bp.NotEq(column, value), **options).num_rows == 16
            assert bp.read_table(tmp_path, bp.Lt(column, value), **options).num_rows == 8
        assert bp.plan(tmp_path, bp.Eq(column, UUID(int=99))).kept == 0
