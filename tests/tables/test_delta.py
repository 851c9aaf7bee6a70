"""States of a Delta Lake table in which a live row could be skipped, or a dead one returned."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

import bloomparquet as bp
from tests.support import delta_log, files

SMALL_GROUPS = WriterProperties(max_row_group_size=10)
IDS = list(range(100))


def make(
    path: Path, data: dict[str, Any], *, mapping: str | None = None, vectors: bool = False, **options: Any
) -> Path:
    """A table with row groups of ten rows."""
    configuration = {} if mapping is None else {"delta.columnMapping.mode": mapping}
    write_deltalake(
        path, pa.table(data), configuration=configuration, writer_properties=SMALL_GROUPS, mode="append", **options
    )
    if vectors:
        features = ["deletionVectors", *(["columnMapping"] if mapping else [])]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
        delta_log.commit(path, {"protocol": {**protocol, "writerFeatures": features}})
    return path


def rename(old: str, new: str) -> Callable[[list[Any], list[str]], None]:
    def change(fields: list[Any], partitions: list[str]) -> None:
        next(field for field in fields if field["name"] == old)["name"] = new

    return change


def add_field(name: str, number: int) -> Callable[[list[Any], list[str]], None]:
    ids = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return lambda fields, _: fields.append({"name": name, "type": "long", "nullable": True, "metadata": ids})


def edit_file(table: Path, **changes: Any) -> None:
    """Change what the first commit says of its file."""
    log = table / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).update(changes)
    log.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("mapping", [None, "name", "id"])
def test_skipped_row_groups_count_in_deletion_vectors(tmp_path: Path, inline: bool, mapping: str | None) -> None:
    table = make(tmp_path / "t", {"id": IDS}, mapping=mapping, vectors=True)
    deleted = [0, 9, 10, 37, 55, 56, 99]
    delta_log.delete_rows(table, delta_log.actions(table, "add")[0]["path"], deleted, inline=inline)
    dataset = bp.Dataset.from_delta(table)
    for value in {*deleted, *range(0, 100, 4), 38, 54, 57}:
        plan = dataset.plan(bp.Eq("id", value))
        assert (plan.kept, plan.skipped["statistics"]) == (1, 9)
        assert dataset.read_table(bp.Eq("id", value))["id"].to_pylist() == [value] * (value not in deleted)
    assert dataset.read_table("id < 12 OR id > 95", []).num_rows == 9 + 3
    assert dataset.read_table(columns=["id"])["id"].to_pylist() == [value for value in IDS if value not in deleted]


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_a_reused_name_is_another_column(tmp_path: Path, mapping: str) -> None:
    table = make(tmp_path / "t", {"id": IDS, "a": IDS}, mapping=mapping)
    delta_log.change_schema(table, rename("a", "b"))
    delta_log.change_schema(table, add_field("a", 3))
    dataset = bp.Dataset.from_delta(table)
    assert dataset.read_table("b = 55").to_pylist() == [{"id": 55, "b": 55, "a": None}]
    assert dataset.plan("b = 55").kept == 1
    assert (dataset.plan("a = 55").kept, dataset.read_table("a = 55").num_rows) == (0, 0)
    assert dataset.read_table("a IS NULL AND B = 7", case_sensitive=False)["id"].to_pylist() == [7]
    assert dataset.plan("b = 55 AND abs(id) = b").kept == 1
    with pytest.raises(bp.PlanError, match="column 'c'"):
        dataset.plan("c = 1")


def test_statistics_in_the_log_skip_nothing(tmp_path: Path) -> None:
    table = make(tmp_path / "t", {"id": IDS})
    wrong = {"numRecords": 3, "minValues": {"id": 7000}, "maxValues": {"id": 7000}, "nullCount": {"id": 3}}
    edit_file(table, stats=json.dumps(wrong))
    dataset = bp.Dataset.from_delta(table)
    assert dataset.read_table("id = 55")["id"].to_pylist() == [55]
    assert dataset.read_table().num_rows == 100


def test_only_files_of_the_version_are_read(tmp_path: Path) -> None:
    table = make(tmp_path / "t", {"id": IDS})
    write_deltalake(table, pa.table({"id": [1]}), mode="overwrite")
    make(table, {"id": [2]})
    DeltaTable(table).create_checkpoint()
    files.write(table / "stray.parquet", {"id": [3]})
    expected = {0: IDS, 1: [1], 2: [1, 2], None: [1, 2]}
    for version, ids in expected.items():
        dataset = bp.Dataset.from_delta(table, version=version)
        assert sorted(dataset.read_table()["id"].to_pylist()) == ids
        assert dataset.read_table("id = 3").num_rows == (version == 0)
    opened = DeltaTable(table, version=1)
    assert bp.Dataset.from_delta(opened).read_table()["id"].to_pylist() == [1]
    assert bp.Dataset.from_delta(opened, version=0).read_table().num_rows == 100
    assert opened.version() == 1


def test_partition_values_come_from_the_log(tmp_path: Path) -> None:
    texts = ["a b", "x/y=z%20", "é", None, "__HIVE_DEFAULT_PARTITION__"]
    table = make(tmp_path / "t", {"id": range(5), "p": texts}, partition_by=["p"])
    dataset = bp.Dataset.from_delta(table)
    for i, text in enumerate(texts[:3]):
        assert dataset.read_table(bp.Eq("p", text)).to_pylist() == [{"id": i, "p": text}]
        assert dataset.plan(bp.Eq("p", text)).skipped["partition"] == len(dataset.files) - 1
    assert {row["id"] for row in dataset.read_table("p IS NULL").to_pylist()} >= {3}
    rows = dataset.to_dataset("id >= 0").to_table().sort_by("id")
    assert rows.equals(dataset.read_table().sort_by("id"))


def test_absolute_paths_and_names_with_other_case_are_found(tmp_path: Path) -> None:
    table = make(tmp_path / "t", {"id": IDS})
    elsewhere = Path(files.write(tmp_path / "else where" / "a%20b.parquet", {"ID": range(200, 300)}, rows_per_group=10))
    edit_file(table, path=elsewhere.parent.as_uri() + "/a%2520b.parquet", size=elsewhere.stat().st_size, stats=None)
    dataset = bp.Dataset.from_delta(table)
    assert [file.path for file in dataset.files] == [str(elsewhere)]
    assert (dataset.plan("id = 250").kept, dataset.read_table("id = 250").to_pylist()) == (1, [{"id": 250}])
    with pytest.raises(bp.UnsupportedError, match="other names"):
        dataset.to_dataset("id = 250")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda file: file.unlink(), FileNotFoundError, "vacuumed"),
        (lambda file: os.truncate(file, 100), bp.FileChangedError, "has 100 bytes"),
    ],
)
def test_a_file_that_is_not_the_logs_is_an_error(tmp_path: Path, change: Any, error: Any, message: str) -> None:
    table = make(tmp_path / "t", {"id": IDS})
    dataset = bp.Dataset.from_delta(table)
    change(Path(dataset.files[0].path))
    with pytest.raises(error, match=message):
        bp.Dataset.from_delta(table)
    with pytest.raises((FileNotFoundError, bp.BloomParquetError)):
        dataset.read_table("id = 5")


def test_a_lost_deletion_vector_is_an_error(tmp_path: Path) -> None:
    table = make(tmp_path / "t", {"id": IDS}, vectors=True)
    delta_log.delete_rows(table, delta_log.actions(table, "add")[0]["path"], [5], inline=False)
    next(table.glob("deletion_vector_*")).unlink()
    with pytest.raises(bp.FormatError, match="which rows are live"):
        bp.Dataset.from_delta(table)


def test_files_without_field_ids_are_an_error_by_id(tmp_path: Path) -> None:
    table = make(tmp_path / "t", {"id": IDS}, mapping="id")
    (file,) = table.rglob("*.parquet")
    files.write(file, {"id": IDS})
    edit_file(table, size=file.stat().st_size)
    dataset = bp.Dataset.from_delta(table)
    for read, where in ((dataset.plan, "id = 5"), (dataset.read_table, "id = 5"), (dataset.read_table, None)):
        with pytest.raises(bp.FormatError, match=rf"{file.name}.*no field ids"):
            read(where)


@pytest.mark.parametrize(
    ("feature", "kind", "message"),
    [("variantType", "variant", "column v has the type variant"), ("not-yet-invented", "long", "not-yet-invented")],
)
def test_unsupported_features_and_types_are_named(tmp_path: Path, feature: str, kind: str, message: str) -> None:
    table = make(tmp_path / "t", {"id": IDS})
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature], "writerFeatures": [feature]}
    delta_log.commit(table, {"protocol": protocol})
    new = {"name": "v", "type": kind, "nullable": True, "metadata": {}}
    delta_log.change_schema(table, lambda fields, _: fields.append(new))
    with pytest.raises(bp.UnsupportedError, match=message):
        bp.Dataset.from_delta(table)


def test_an_empty_table_has_its_columns(tmp_path: Path) -> None:
    table = make(tmp_path / "t", {"id": IDS, "p": IDS}, partition_by=["p"])
    DeltaTable(table).delete()
    shutil.rmtree(table / "p=0")
    dataset = bp.Dataset.from_delta(table)
    assert (dataset.plan("p = 3 AND id = 3").total, dataset.read_table("p = 3").schema.names) == (0, ["id", "p"])
    assert dataset.to_dataset().to_table().num_rows == 0
