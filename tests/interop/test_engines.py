"""polars, DuckDB, DataFusion and pandas read the kept row groups of a plan, and no other bytes of data."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support import changes
from tests.support.files import patch, write

Rows = list[dict[str, Any]]
Engine = Callable[[ds.Dataset], Rows]
FIRST_DAY = dt.date(2026, 1, 1)
WANTED = 4_007


def with_datafusion(events: ds.Dataset) -> Rows:
    context = datafusion.SessionContext()
    context.register_dataset("events", events)
    rows: Rows = context.sql(f"SELECT * FROM events WHERE id = {WANTED}").to_pylist()
    return rows


ENGINES: dict[str, Engine] = {
    "polars": lambda events: pl.scan_pyarrow_dataset(events).filter(pl.col("id") == WANTED).collect().to_dicts(),
    "DuckDB": lambda events: duckdb.from_arrow(events).filter(f"id = {WANTED}").to_arrow_table().to_pylist(),
    "DataFusion": with_datafusion,
    "pandas": lambda events: events.to_table(filter=pc.field("id") == WANTED).to_pandas().to_dict("records"),
}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three days, one of them unknown, of two row groups each of 1 MB. Only the last day has the wanted row. The data
    of the other row groups is overwritten: reading it is an error."""
    root = tmp_path_factory.mktemp("engines") / "events"
    days = {f"day={FIRST_DAY}": 0, "day=2026-01-02": 1, "day=__HIVE_DEFAULT_PARTITION__": 2}
    for day, number in days.items():
        ids = [2_000 * number + i for i in range(0, 4_000, 2)]
        ids[-1] = 9_999  # so that min and max exclude nothing
        ids[0] = ids[1_000] = 0
        if number == 2:
            ids[1_003] = WANTED
        payload = [os.urandom(1_000) for _ in ids]
        write(root / day / "0.parquet", {"id": ids, "payload": payload}, ["id"], rows_per_group=1_000)
        for row_group in (0, 1):
            if (number, row_group) != (2, 1):
                column = pq.ParquetFile(root / day / "0.parquet").metadata.row_group(row_group).column(1)
                patch(root / day / "0.parquet", column.dictionary_page_offset or column.data_page_offset, b"\xff" * 999)
    return str(root)


def bytes_read() -> int:
    """Bytes that this process has read from files so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_an_engine_reads_only_the_kept_row_groups(engine: Engine, events: str) -> None:
    plan = bp.plan(events, f"id = {WANTED}")
    assert (plan.kept, plan.total) == (1, 6)
    dataset = plan.to_dataset()
    assert [[group.id for group in fragment.row_groups] for fragment in dataset.get_fragments()] == [[1]]
    assert dataset.to_table(columns=[]).num_rows == 1_000
    engine(dataset)  # imports what it needs
    before = bytes_read()
    rows = engine(dataset)
    kept = sum(group.length for group in plan.kept_row_groups())
    assert kept <= bytes_read() - before < 1.5 * kept
    assert [(row["id"], row["day"]) for row in rows] == [(WANTED, None)]
    (expected,) = bp.read_table(events, f"id = {WANTED}").to_pylist()
    assert rows[0]["payload"] == expected["payload"]


@pytest.mark.parametrize("beside", [pa.string_view(), pa.string(), pa.large_string()], ids=str)
def test_engines_compare_text_that_is_stored_as_views(tmp_path: Path, beside: pa.DataType) -> None:
    """pyarrow has no comparison of views."""
    for i, kind in enumerate((pa.string_view(), beside)):
        text = [f"text number {1_000 * i + j}" for j in range(1_000)]
        blobs = [each.encode() for each in text]
        views = pa.table({"s": pa.array(text, kind), "b": pa.array(blobs, pa.binary_view()), "id": range(1_000)})
        write(tmp_path / "t" / f"{i}.parquet", views, rows_per_group=100)
    wanted = "text number 1007"
    kept = bp.plan(tmp_path / "t", f"s = '{wanted}'").to_dataset()
    assert {str(each) for each in kept.schema.types} == {"string", "binary", "int64"}
    value: str | bytes
    for name, value in (("s", wanted), ("b", wanted.encode())):
        literal = f"'{wanted}'" + "::BLOB" * isinstance(value, bytes)
        assert duckdb.from_arrow(kept).filter(f"{name} = {literal}").project("id").fetchall() == [(7,)]
        assert pl.scan_pyarrow_dataset(kept).filter(pl.col(name) == value).collect()["id"].to_list() == [7]
        assert kept.to_table(filter=pc.field(name) == value)["id"].to_pylist() == [7]
        assert value in kept.to_table(filter=pc.field("id") == 7)[name].to_pylist()
    context = datafusion.SessionContext()
    context.register_dataset("kept", kept)
    assert context.sql(f"SELECT id FROM kept WHERE s = '{wanted}'").to_pylist() == [{"id": 7}]


@pytest.mark.parametrize("merge_schema", [False, True])
def test_no_metadata_of_a_field_is_lost(tmp_path: Path, merge_schema: bool) -> None:
    def field(name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, nullable=False, metadata={"of": name})

    item = pa.struct([field("in", pa.string())])
    schema = pa.schema(
        [
            field("s", pa.struct([field("a", pa.string()), field("l", pa.list_(field("element", item)))])),
            field("m", pa.map_(pa.string(), field("value", pa.int64()))),
            field("d", pa.dictionary(pa.int32(), pa.string())),
            field("u", pa.uuid()),
        ]
    )
    for i, more in enumerate(([], [field("more", pa.int64())])):
        write(tmp_path / "t" / f"{i}.parquet", pa.schema([*schema, *more]).empty_table(), store_schema=True)
    stored = ds.dataset(tmp_path / "t" / "0.parquet").schema
    for got in (
        bp.plan(tmp_path / "t").to_dataset(merge_schema=merge_schema).schema,
        bp.read_table(tmp_path / "t", merge_schema=merge_schema).schema,
    ):
        for name in schema.names:
            assert _metadata(got.field(name)) == _metadata(stored.field(name))


def _metadata(field: pa.Field) -> list[Any]:
    """The metadata of a field, and of those below it."""
    children = [field.type.field(i) for i in range(field.type.num_fields)]
    return [field.metadata, field.nullable, *map(_metadata, children)]


def schema_cases() -> dict[str, list[pa.Array]]:
    """Columns of one name in two or more files."""
    uuids = pa.array([uuid.UUID(int=1).bytes], pa.uuid())
    moments = [dt.datetime(2026, 1, 1, 12, 30, 15, 5)]
    return {
        "missing": [pa.array([1]), pa.array([None])],
        "narrower integer": [pa.array([1, 2]), pa.array([3, None], pa.int32())],
        "wider integer": [pa.array([1], pa.int32()), pa.array([2**31 - 1])],
        "uuid": [uuids, uuids],
        "dictionary": [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"])],
        "large string": [pa.array(["a"], pa.large_string()), pa.array(["b"])],
        "string view": [pa.array(["a"], pa.string_view()), pa.array(["b"])],
        "fields of a struct": [pa.array([{"a": 1, "b": "x"}]), pa.array([{"b": "y"}]), pa.array([{"a": 2}])],
        "list": [pa.array([[1]]), pa.array([[2]], pa.list_(pa.int32()))],
        "decimal": [pa.array([Decimal("1.50")], pa.decimal128(10, 2)), pa.array([Decimal("1.5")])],
        "integer as float": [pa.array([1.5]), pa.array([2])],
        "unit of time": [pa.array(moments, pa.timestamp("ns")), pa.array(moments, pa.timestamp("us"))],
        "zone": [pa.array(moments, pa.timestamp("us", "UTC")), pa.array(moments, pa.timestamp("us", "Europe/Paris"))],
        "too fine": [pa.array(moments, pa.timestamp("us")), pa.array([1_001], pa.timestamp("ns"))],
        "text and bytes": [pa.array(["a"]), pa.array([b"b"])],
        "nothing in common": [pa.array(["a"]), pa.array([1])],
    }


@pytest.mark.parametrize("merge_schema", [False, True])
@pytest.mark.parametrize("int96", [False, True])
def test_a_data_set_has_the_rows_of_read_table(int96: bool, merge_schema: bool, tmp_path: Path) -> None:
    """`read_table` and the data set give the same table, or both raise an error."""
    for case, columns in schema_cases().items():
        path = tmp_path / case
        for i, column in enumerate(columns):
            data = pa.table({"c" if column.null_count < len(column) else "other": column})
            write(path / f"{i}.parquet", data, use_deprecated_int96_timestamps=int96, store_schema=i != 1)
        try:
            expected = bp.read_table(path, merge_schema=merge_schema)
        except bp.PlanError:
            with pytest.raises((bp.PlanError, pa.ArrowInvalid)):
                bp.plan(path).to_dataset(merge_schema=merge_schema).to_table()
        else:
            assert bp.plan(path).to_dataset(merge_schema=merge_schema).to_table().equals(expected), case


def test_a_column_of_another_case_is_an_error_not_nulls(tmp_path: Path) -> None:
    for i, name in enumerate(("id", "ID")):
        write(tmp_path / "t" / f"{i}.parquet", {name: [i]}, [name])
    with pytest.raises(bp.PlanError, match=r"1\.parquet: column 'id' is named 'ID' here"):
        bp.plan(str(tmp_path / "t"), "id = 1", case_sensitive=False).to_dataset()
    exact = bp.plan(str(tmp_path / "t"), case_sensitive=True).to_dataset().to_table()
    assert exact.column("id").to_pylist() == [0, None]


def test_what_pyarrow_cannot_read_by_row_groups_is_a_named_error(tmp_path: Path) -> None:
    changes.write(tmp_path / "x.orc", (0,), "a")
    with pytest.raises(bp.UnsupportedError, match=r"x\.orc is an ORC file; .*scan_batches"):
        bp.plan(str(tmp_path / "x.orc")).to_dataset()
    path, keys = str(tmp_path / "e.parquet"), bp.Keys(footer=bytes(range(16)))
    bp.write_table(pa.table({"id": [1]}), path, encryption=bp.Encryption(keys))
    with pytest.raises(bp.UnsupportedError, match=r"e\.parquet: the file is encrypted, .*scan_batches"):
        bp.plan(path, keys=keys).to_dataset()
    with pytest.raises(bp.EncryptionError):
        bp.plan(path).to_dataset()


@pytest.mark.parametrize("kind", changes.CHANGES)
@pytest.mark.parametrize("units", [changes.KEPT, changes.KEPT[::-1], changes.SKIPPED], ids=str)
def test_a_file_that_changed_since_the_plan_is_noticed(kind: str, units: tuple[int, ...], tmp_path: Path) -> None:
    """By `to_dataset`; after that by the engine, or else by `require_unchanged`."""
    path = tmp_path / "x.parquet"
    changes.write(path, units, "a")
    plan = bp.plan(str(path), changes.WHERE)
    dataset = plan.to_dataset()
    assert plan.kept == (units != changes.SKIPPED)
    plan.require_unchanged()
    changes.change(path, kind, units)
    with contextlib.suppress(OSError):  # pages are not where the planned footer says
        dataset.to_table()
    with pytest.raises(bp.FileChangedError, match=changes.CHANGED):
        plan.require_unchanged()
    if plan.kept:
        with pytest.raises((bp.FileChangedError, FileNotFoundError)):
            plan.to_dataset()
