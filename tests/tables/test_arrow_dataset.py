"""`bp.dataset`: the methods of a pyarrow data set, with the rows of `read_table`, whatever the files are."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

import bloomparquet as bp
from bloomparquet.reading.scan import plan_scan
from bloomparquet.tables.arrow_dataset import ArrowDataset
from bloomparquet.tables.arrow_view import ArrowView
from tests.support import changes, files
from tests.support.iceberg_tables import rows as iceberg_rows
from tests.support.iceberg_tables import with_filters
from tests.tables.test_delta import make

PER_FILE, FILES = 1_000, 4
IDS = [i * 7919 % (PER_FILE * FILES) for i in range(PER_FILE * FILES)]
DATA = pa.table({"id": IDS, "word": [f"w{i}" for i in IDS], "v": [i / 4 for i in IDS]})
WANTED = IDS[2_345]
ONE = pc.field("id") == WANTED


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    parts = {f"day={i + 1}": DATA.slice(i * PER_FILE, PER_FILE) for i in range(FILES)}
    return files.hive(tmp_path_factory.mktemp("t") / "events", parts, ["id", "word"], rows_per_group=100)


def plain(root: str) -> ds.Dataset:
    return ds.dataset(root, partitioning=ds.partitioning(flavor="hive"))


READS: dict[str, Callable[[Any], Any]] = {
    "to_table": lambda d: d.to_table(),
    "filter": lambda d: d.to_table(filter=ONE),
    "columns": lambda d: d.to_table(columns=["word", "day", "word"], filter=ONE),
    "expressions": lambda d: d.to_table(
        columns={"x": pc.field("v") * 2, "one": pc.scalar(1)}, filter=pc.field("id") < 9
    ),
    "no columns": lambda d: d.to_table(columns=[]).num_rows,
    "to_batches": lambda d: pa.Table.from_batches(d.to_batches(columns=["id"], filter=pc.field("v") > 990)),
    "batches of expressions": lambda d: pa.Table.from_batches(d.to_batches(columns={"x": pc.field("id")}, filter=ONE)),
    "batch_size": lambda d: [batch.num_rows for batch in d.to_batches(batch_size=50)][:3],
    "scanner": lambda d: d.scanner(
        columns=["id"], filter=ONE, batch_size=10, use_threads=False, memory_pool=None
    ).to_table(),
    "reader": lambda d: d.scanner(filter=pc.field("v") > 900).to_reader().read_all(),
    "projected": lambda d: d.scanner(columns={"y": pc.field("id")}).projected_schema,
    "head": lambda d: d.head(7, columns=["id"]),
    "head of expressions": lambda d: d.head(7, columns={"x": pc.field("id") + 1}),
    "head with a filter": lambda d: d.head(5, filter=pc.field("v") > 900),
    "take": lambda d: d.take([2_005, 3, 3], columns=["id", "day"]),
    "take nothing": lambda d: d.take([], columns=["id"]),
    "take of a filter": lambda d: d.take([1, 0], columns={"x": pc.field("id")}, filter=pc.field("v") > 900),
    "count_rows": lambda d: (d.count_rows(), d.count_rows(filter=ONE), d.filter(ONE).count_rows()),
    "filter twice": lambda d: (
        d.filter(pc.field("v") > 100).filter(pc.field("day") == 2).to_table(filter=pc.field("id") < 500)
    ),
    "sort_by": lambda d: d.filter(pc.field("id") < 50).sort_by([("id", "descending")]).to_table(),
    "join": lambda d: d.join(pa.table({"id": [WANTED, 3]}), "id", join_type="inner").to_table().sort_by("id"),
    "join_asof": lambda d: d.sort_by("id").to_table(columns=["id"]).num_rows,
    "fragments": lambda d: [len(each.to_table(filter=pc.field("id") < 9)) for each in d.get_fragments()],
    "fragments of a filter": lambda d: [each.count_rows() for each in d.get_fragments(filter=pc.field("day") == 2)],
    "other filters of fragments": lambda d: [
        [len(each.to_table(filter=other, columns=["v"])) for other in (None, ONE, pc.field("id") < 9)]
        for each in d.get_fragments(filter=ONE & (pc.field("day") == 3))
    ],
    "head of a fragment": lambda d: next(iter(d.get_fragments())).head(2, columns=["id"]),
    "scanner of a fragment": lambda d: next(iter(d.get_fragments())).scanner(columns=["id"]).to_table(),
    "take of a fragment": lambda d: next(iter(d.get_fragments())).take([5], columns=["id"]),
    "replace_schema": lambda d: d.replace_schema(pa.schema([("v", pa.float64()), ("id", pa.int64())])).to_table(),
    "null": lambda d: d.to_table(filter=pc.scalar(None).cast(pa.bool_())),
    "schema": lambda d: d.schema.remove_metadata(),
}


@pytest.mark.parametrize("name", READS)
def test_a_method_returns_what_that_of_pyarrow_returns(name: str, root: str) -> None:
    assert READS[name](bp.dataset(root)) == READS[name](plain(root))


def test_it_is_a_pyarrow_data_set_and_one_of_ours(root: str) -> None:
    events = bp.dataset(root)
    assert isinstance(events, ds.Dataset)
    assert isinstance(events, bp.Dataset)
    assert bp.read_table(events, f"id = {WANTED}").equals(events.read_table(f"id = {WANTED}"))
    assert events.plan(f"id = {WANTED}").kept == 1
    assert [Path(file).parent.name for file in events.plan(f"id = {WANTED}").files()] == ["day=3"]
    assert events.plan("id = -1").files() == []
    assert bp.dataset(bp.Dataset.open(root)).to_table().equals(events.to_table())
    assert events != bp.dataset(root)
    assert len({events, events.filter(ONE)}) == 2


def test_a_part_of_it_is_not_read_as_a_whole(root: str) -> None:
    """The functions of this package know no filter of a data set, and would return the other rows, too."""
    for part in (bp.dataset(root).filter(ONE), bp.dataset(root).replace_schema(pa.schema([("id", pa.int64())]))):
        assert isinstance(part, ds.Dataset)
        assert not isinstance(part, bp.Dataset)
        with pytest.raises(bp.OptionError, match="expected a file, a directory"):
            bp.read_table(part)  # type: ignore[arg-type]
    assert repr(bp.dataset(root).filter(ONE)).endswith(f"partition columns: day), where (id == {WANTED})")


def test_every_public_method_of_pyarrow_is_ours() -> None:
    """A method that is inherited would scan the C++ data set, which refuses."""
    inherited = {"children", "partition_expression"}
    public = {name for name in dir(ds.UnionDataset) if not name.startswith("_")}
    assert public - inherited <= set(vars(ArrowView))


def test_what_scans_it_in_cpp_is_an_error_with_the_remedy(root: str) -> None:
    events = bp.dataset(root)
    scans: list[Callable[[], Any]] = [
        lambda: ds.Scanner.from_dataset(events).to_table(),
        lambda: ds.Scanner.from_dataset(events).count_rows(),
        lambda: acero.Declaration("scan", acero.ScanNodeOptions(events)).to_table(),
        events.children[0].to_table,
    ]
    for scan in scans:
        with pytest.raises(bp.UnsupportedError, match=r"pass on its to_table\(\) or scanner"):
            scan()


def test_the_last_plan_is_that_of_the_last_scan(root: str, caplog: pytest.LogCaptureFixture) -> None:
    events = bp.dataset(root)
    assert events.last_plan() is None
    with caplog.at_level(logging.INFO, "bloomparquet"):
        events.to_table(filter=ONE)
    plan = events.last_plan()
    assert plan is not None
    assert (plan.kept, plan.total) == (1, PER_FILE * FILES // 100)
    assert f"Dataset(4 files in {root}/; partition columns: day): {plan!r}" in caplog.messages
    assert "1 of 40 row groups" in plan._repr_html_()
    events.filter(pc.field("day") == 2).count_rows()
    plan = events.last_plan()
    assert plan is not None
    assert plan.skipped == {"partition": 3}


ERRORS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "column": (lambda d: d.to_table(columns=["nothing"]), bp.PlanError, "nothing"),
    "columns": (lambda d: d.to_table(columns="id"), bp.OptionError, "expected a list of names"),
    "field": (lambda d: d.to_table(filter=pc.field("no") == 1), bp.PlanError, "no column no; the columns are id"),
    "type": (lambda d: d.to_table(filter=pc.field("word") == 1), bp.PlanError, "does not fit"),
    "text": (lambda d: d.to_table(filter="id = 1"), bp.PlanError, "expected an expression of pyarrow"),
    "option": (lambda d: d.to_table(fliter=ONE), TypeError, "fliter"),
    "schema": (lambda d: d.replace_schema(pa.schema([("id", pa.int8())])), bp.PlanError, "expected type int8"),
    "take": (lambda d: d.take([PER_FILE * FILES]), IndexError, "there are 4000 rows"),
    "head": (lambda d: d.head(-1), bp.OptionError, "expected a number of rows"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_input_is_a_named_error(name: str, root: str) -> None:
    call, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        call(bp.dataset(root))


def test_it_is_pickled(root: str) -> None:
    events = bp.dataset(root, timezone="Europe/Berlin", merge_schema=True).filter(pc.field("day") == 2)
    again = pickle.loads(pickle.dumps(events))
    assert again.to_table().equals(events.to_table())
    assert again.view.options.timezone == "Europe/Berlin"
    assert pickle.loads(pickle.dumps(again.replace_schema(pa.schema([("id", pa.int64())])))).schema.names == ["id"]


def _count(events: ArrowDataset) -> tuple[int, int]:
    return events.count_rows(filter=ONE), duckdb.from_arrow(events).filter(f"id = {WANTED}").shape[0]


def test_it_is_read_in_other_processes(root: str) -> None:
    events = bp.dataset(root)
    assert events.to_table().num_rows == PER_FILE * FILES
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_count, [events] * 3) == [(1, 1)] * 3
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(methodcaller("count_rows", filter=ONE), [events]) == 1


def test_several_threads_read_it_at_once(root: str) -> None:
    events, are_right = bp.dataset(root), []

    def read(number: int) -> None:
        for i in range(number, 160, 8):
            one = events.to_table(columns=["word"], filter=pc.field("id") == i)
            are_right.append(one["word"].to_pylist() == [f"w{i}"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))
    assert are_right == [True] * 160


def test_queries_do_not_wait_for_each_other_in_threads_of_arrow(root: str) -> None:
    """Readers that are dropped and two scans of one query, where Arrow has one thread."""
    program = f"""if True:
        import duckdb
        import pyarrow as pa
        import pyarrow.compute as pc
        import bloomparquet as bp
        pa.set_cpu_count(1)
        events = bp.dataset({root!r})
        for _ in range(10):
            events.scanner(filter=pc.field("v") >= 0).to_reader().read_next_batch()
            next(events.to_batches(columns={{"x": pc.field("v") + 1}}))
        print(duckdb.sql("SELECT count(*) FROM events a JOIN events b USING (id) WHERE a.id < 500").fetchall())
    """
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("[(500,)]\n", "")


@pytest.mark.parametrize("kind", changes.CHANGES)
@pytest.mark.parametrize("suffix", changes.FORMATS)
def test_a_file_that_changed_is_an_error(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{suffix}"
    for units in (changes.KEPT, changes.SKIPPED):
        changes.write(path, units, "a")
        events = bp.dataset(path)
        wanted = pc.field("id") >= changes.FIRST
        assert events.to_table(filter=wanted).equals(bp.read_table(path, changes.WHERE))
        changes.change(path, kind, units)
        for read in (events.to_table, events.count_rows):
            with pytest.raises((bp.FileChangedError, FileNotFoundError), match=r"changed since|No such file"):
                read(filter=wanted)
        with pytest.raises(duckdb.Error, match=r"changed since|No such file"):
            duckdb.from_arrow(events).filter(f"id >= {changes.FIRST}").fetchall()


def test_a_fragment_is_planned_once(root: str) -> None:
    events, where = bp.dataset(root), ONE | (pc.field("day") == 1)
    with patch("bloomparquet.tables.arrow_view.plan_scan", side_effect=plan_scan) as planned:
        fragments = list(events.get_fragments(filter=where))
        assert [len(each.to_table(filter=where)) for each in fragments] == [PER_FILE, 1]
    assert planned.call_count == 1


def test_encrypted_files_are_read_and_keys_are_not_pickled(tmp_path: Path) -> None:
    path, keys = str(tmp_path / "e.parquet"), bp.Keys(footer=bytes(range(16)))
    bp.write_table(DATA, path, bloom=["id"], row_group_size=100, encryption=bp.Encryption(keys))
    events = bp.dataset(path, keys=keys)
    assert duckdb.sql(f"SELECT word FROM events WHERE id = {WANTED}").fetchall() == [(f"w{WANTED}",)]
    plan = events.last_plan()
    assert plan is not None
    assert plan.kept == 1
    with pytest.raises(TypeError):
        pickle.dumps(events)
    for read in (bp.dataset(path).to_table, lambda: list(bp.dataset(path).get_fragments())):
        with pytest.raises(bp.EncryptionError):
            read()


def test_deleted_rows_of_delta_tables_are_gone(tmp_path: Path) -> None:
    path = make(tmp_path / "t", {"id": list(range(100))})
    DeltaTable(path).delete("id = 7")
    for events in (bp.dataset(DeltaTable(path)), bp.dataset(bp.Dataset.from_delta(path))):
        assert events.to_table(filter=pc.field("id") < 10)["id"].to_pylist() == [0, 1, 2, 3, 4, 5, 6, 8, 9]
        assert events.count_rows() == 99


def test_a_scan_of_an_iceberg_table_is_a_data_set(table: Table) -> None:
    with_filters(table, iceberg_rows(), "id", "name")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    scan = table.scan(row_filter=EqualTo("name", value="n15"), selected_fields=("id", "day"))
    events = bp.dataset(scan)
    assert events.schema.names == scan.to_arrow().schema.names
    assert events.to_table().to_pylist() == scan.to_arrow().to_pylist() != []
    plan = events.last_plan()
    assert plan is not None
    assert plan.skipped == {"bloom": 2}
    table.delete(EqualTo("id", value=3))
    assert bp.dataset(table).count_rows() == table.scan().count()
    old = table.scan(snapshot_id=snapshot.snapshot_id)
    assert bp.dataset(old).count_rows() == old.count() == table.scan().count() + 1
    with pytest.raises(bp.UnsupportedError, match="has a limit"):
        bp.dataset(table.scan(limit=3))


def test_files_of_other_types_and_columns(tmp_path: Path) -> None:
    """The first file's columns, or with `merge_schema` those of all, in fragments too."""
    root = tmp_path / "t"
    files.write(root / "0.parquet", {"id": pa.array([1, 2], pa.int64())}, ["id"])
    files.write(root / "1.parquet", {"id": pa.array([2, 3], pa.int32()), "more": ["x", "y"]}, ["id"])
    files.write(root / "2.parquet", {"more": ["z"]}, ["more"])
    events, merged = bp.dataset(root), bp.dataset(root, merge_schema=True)
    two = pc.field("id") == 2
    assert events.to_table(filter=two).equals(bp.read_table(root, "id = 2"))
    assert merged.to_table(filter=two).equals(bp.read_table(root, "id = 2", merge_schema=True))
    assert merged.to_table(filter=pc.field("more") == "z").to_pylist() == [{"id": None, "more": "z"}]
    by_fragments = [each.to_table(filter=two) for each in merged.get_fragments(filter=two)]
    assert pa.concat_tables(by_fragments).equals(merged.to_table(filter=two))
    assert [each.to_table().num_rows for each in events.get_fragments()] == [2, 2, 1]
