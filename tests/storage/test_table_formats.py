"""Tables with a log (Delta Lake, Iceberg, Hudi) are neither read as plain files nor written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.orc as orc
import pytest

import bloomparquet as bp
from tests.support import files, table_logs
from tests.support.commands import Run
from tests.support.table_logs import CASES

KINDS = [
    ("_delta_log/00000000000000000000.json", "Delta Lake"),
    (".hoodie/hoodie.properties", "Hudi"),
    ("metadata/v3.metadata.json", "Iceberg"),
    ("metadata/version-hint.text", "Iceberg"),
]


@pytest.mark.parametrize(("log", "kind"), KINDS)
@pytest.mark.parametrize("inner", ["part-0.parquet", "data/day=2026-01-01/part-0.parquet"])
def test_filters_are_not_added_to_a_table_with_a_log(tmp_path: Path, log: str, kind: str, inner: str) -> None:
    path = Path(files.write(tmp_path / "table" / inner, {"v": range(100)}))
    (tmp_path / "table" / log).parent.mkdir(parents=True)
    (tmp_path / "table" / log).touch()
    before = path.read_bytes()
    for src in (tmp_path / "table", path, str(tmp_path / "table" / "**" / "*.parquet")):
        for change in (lambda src=src: bp.add_filters(src, bloom="v"), lambda src=src: bp.shrink_filters(src)):
            with pytest.raises(bp.UnsupportedError, match=f"table is a table of {kind}"):
                change()
    assert path.read_bytes() == before
    outcomes = bp.add_filters(path, tmp_path / "elsewhere.parquet", bloom="v")
    assert [outcome.action for outcome in outcomes] == ["added"]


def test_no_destination_and_no_link_reaches_a_table(tmp_path: Path) -> None:
    path = Path(files.write(tmp_path / "delta" / "part-0.parquet", {"v": range(100)}))
    (tmp_path / "delta" / "_delta_log").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "part-0.parquet").symlink_to(path)
    other = files.write(tmp_path / "other.parquet", {"v": range(100)})
    before = path.read_bytes()
    for src, dst in ((path.parent, path.parent), (tmp_path / "links", None), (other, path)):
        with pytest.raises(bp.UnsupportedError, match="delta is a table of Delta Lake"):
            bp.add_filters(src, dst, bloom="v")
    assert path.read_bytes() == before


ROWS = pa.table({"v": list(range(100))})
READS: dict[str, Callable[..., object]] = {
    "plan": lambda path, **options: bp.plan(path, "v = 7", **options).total,
    "read_table": lambda path, **options: bp.read_table(path, "v = 7", **options).num_rows,
    "scan_batches": lambda path, **options: sum(batch.num_rows for batch in bp.scan_batches(path, **options)),
    "inspect": lambda path, **options: bp.inspect(path, **options).num_rows,
    "probe": lambda path, **options: bp.probe(path, column="v", value=7, **options),
}


@pytest.fixture(scope="module", params=["parquet", "orc"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    """A file of one row group with a filter, and its suffix."""
    path = tmp_path_factory.mktemp("data") / f"a.{request.param}"
    if request.param == "orc":
        orc.write_table(ROWS, str(path), bloom_filter_columns=[1])
    else:
        files.write(path, ROWS, ["v"])
    return path.read_bytes(), path.suffix


@pytest.mark.parametrize("name", CASES)
def test_tables_with_a_log_are_not_read_as_files(tmp_path: Path, data: tuple[bytes, str], name: str) -> None:
    case = CASES[name]
    path = table_logs.make(tmp_path, case, *data)
    expected = bp.read_table(path, table_log="ignore").num_rows
    assert expected >= 100
    if case.kind is None:
        assert bp.read_table(path).num_rows == expected
        return
    with pytest.raises(bp.UnsupportedError, match=f"is a table of {case.kind}: its log, .* says which files"):
        bp.read_table(path)


@pytest.mark.parametrize("read", READS)
def test_every_function_refuses_unless_told_to_ignore(tmp_path: Path, data: tuple[bytes, str], read: str) -> None:
    table_logs.make(tmp_path, CASES["a partition of a table"], *data)
    for path in (tmp_path / "t", tmp_path / "t" / "p=1", str(tmp_path / "t" / "*" / "*"), [tmp_path / "t" / "p=1"]):
        with pytest.raises(bp.UnsupportedError, match="t is a table of Delta Lake") as error:
            READS[read](path)
        assert 'spark.read.format("delta").load(' in str(error.value)
        assert READS[read](path, table_log="ignore")
    with pytest.raises(bp.OptionError, match="table_log is 'ingore'; expected 'error' or 'ignore'"):
        READS[read](tmp_path / "t", table_log="ingore")


@pytest.mark.parametrize("read", READS)
def test_a_named_file_is_inspected_and_not_read(tmp_path: Path, data: tuple[bytes, str], read: str) -> None:
    path = table_logs.make(tmp_path, CASES["a file of a table"], *data)
    if read in ("inspect", "probe"):
        assert READS[read](path) == READS[read](path, table_log="ignore")
    else:
        with pytest.raises(bp.UnsupportedError, match="t is a table of Delta Lake"):
            READS[read](path)


def test_copies_of_a_whole_table_are_refused(tmp_path: Path) -> None:
    """A copy would contain deleted rows, and no log."""
    files.write(tmp_path / "t" / "a.parquet", ROWS)
    (tmp_path / "t" / "_delta_log").mkdir()
    for change in (bp.add_filters, bp.shrink_filters):
        with pytest.raises(bp.UnsupportedError, match=r"t is a table of Delta Lake.* name the files one by one"):
            change(tmp_path / "t", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_no_file_is_written_into_a_table(tmp_path: Path) -> None:
    data = Path(files.write(tmp_path / "t" / "p=1" / "a.parquet", ROWS))
    (tmp_path / "t" / "_delta_log").mkdir()
    (tmp_path / "link").symlink_to(data.parent)
    before = data.read_bytes()
    for path in (data, data.parent / "new.parquet", tmp_path / "t" / "p=2" / "new.parquet", tmp_path / "link" / "new"):
        with pytest.raises(bp.UnsupportedError, match=r"t is a table of Delta Lake.* Nothing was written"):
            bp.write_table(ROWS, path)
        assert not list(tmp_path.rglob("*new*"))
    assert data.read_bytes() == before


def test_tables_on_other_storage_are_found(tmp_path: Path, memory: Any) -> None:
    data = Path(files.write(tmp_path / "a.parquet", ROWS)).read_bytes()
    for name, case in CASES.items():
        if any("->" in entry for entry in case.entries) or ".." in case.path:
            continue
        root = f"/logs/{name}"
        for entry in case.entries:
            path = f"{root}/{entry.replace('{data}', '.parquet')}"
            memory.makedirs(path.rpartition("/")[0], exist_ok=True)
            if not path.endswith("/"):
                memory.pipe(path, data if path.endswith(".parquet") else b"")
        url = f"memory:/{root}/{case.path.replace('{data}', '.parquet')}"
        assert bp.read_table(url, table_log="ignore").num_rows >= 100
        # On remote storage, tables are assumed not to begin in a partition directory: each check is a request.
        if case.kind is None:
            assert bp.read_table(url).num_rows >= 100, name
        else:
            with pytest.raises(bp.UnsupportedError, match=f"is a table of {case.kind}"):
                bp.read_table(url)


def test_a_log_at_the_root_of_a_file_system_is_found(tmp_path: Path) -> None:
    files.write(tmp_path / "t" / "a.parquet", ROWS)
    (tmp_path / "t" / "_delta_log").mkdir()
    below = pyarrow.fs.SubTreeFileSystem(str(tmp_path / "t"), pyarrow.fs.LocalFileSystem())
    for path in ("a.parquet", "*.parquet", "", "/"):
        with pytest.raises(bp.UnsupportedError, match="is a table of Delta Lake"):
            bp.read_table(path, filesystem=below)
    assert bp.read_table("a.parquet", filesystem=below, table_log="ignore").num_rows == 100


@pytest.mark.parametrize("remote", [False, True])
def test_a_streams_directory_is_not_read_as_files(tmp_path: Path, memory: Any, remote: bool) -> None:
    data = Path(files.write(tmp_path / "sink" / "p=1" / "a.parquet", ROWS))
    (tmp_path / "sink" / "_spark_metadata").mkdir()
    (tmp_path / "sink" / "_spark_metadata" / "0").write_text("v1")
    root = str(tmp_path / "sink")
    if remote:
        memory.pipe("/sink/p=1/a.parquet", data.read_bytes())
        memory.pipe("/sink/_spark_metadata/0", b"v1")
        root = "memory://sink"
    with pytest.raises(bp.UnsupportedError, match="was written by a Spark stream"):
        bp.read_table(root)
    # As in Spark, the log applies only to the directory as a whole.
    for path in (f"{root}/p=1", f"{root}/*/a.parquet", f"{root}/p=1/a.parquet"):
        assert bp.read_table(path).num_rows == 100
    assert bp.read_table(root, table_log="ignore").num_rows == 100
    with pytest.raises(bp.UnsupportedError, match="Nothing was written"):
        bp.add_filters(f"{root}/p=1/a.parquet", bloom="v")


def test_many_remote_directories_take_one_listing(memory: Any) -> None:
    requests: list[str] = []

    class Counted(pyarrow.fs.FSSpecHandler):
        def get_file_info(self, paths: list[str]) -> object:
            requests.extend(paths)
            return super().get_file_info(paths)

    for i in range(100):
        memory.pipe(f"/wide/{i}/a.parquet", b"x")
    paths = [f"/wide/{i}/a.parquet" for i in range(100)]
    filesystem = pyarrow.fs.PyFileSystem(Counted(memory))
    bp.Dataset.open(paths, filesystem=filesystem, table_log="ignore")
    plain = len(requests)
    bp.Dataset.open(paths, filesystem=filesystem)
    assert len(requests) - 2 * plain < 10
    memory.pipe("/wide/77/_delta_log/0.json", b"{}")
    with pytest.raises(bp.UnsupportedError, match="wide/77 is a table of Delta Lake"):
        bp.Dataset.open(paths, filesystem=filesystem)


def test_a_directory_below_a_forbidden_one_is_read(tmp_path: Path, memory: Any) -> None:
    class Restricted(pyarrow.fs.FSSpecHandler):
        def get_file_info(self, paths: list[str]) -> object:
            for path in paths:
                if not path.strip("/").startswith("restricted/mine"):
                    raise OSError(f"When getting information for key '{path}': AWS Error ACCESS_DENIED")
            return super().get_file_info(paths)

    memory.pipe("/restricted/mine/t/a.parquet", Path(files.write(tmp_path / "a.parquet", ROWS)).read_bytes())
    filesystem = pyarrow.fs.PyFileSystem(Restricted(memory))
    assert bp.read_table("/restricted/mine/t", filesystem=filesystem).num_rows == 100


def test_the_command_line_refuses_unless_told_to_ignore(tmp_path: Path, run: Run) -> None:
    path = Path(files.write(tmp_path / "t" / "a.parquet", ROWS, ["v"]))
    (tmp_path / "t" / "_delta_log").mkdir()
    where = ["--where", "v = 7"]
    for command in (["plan", *where], ["read", *where], ["inspect"], ["advise"], ["probe", "--column=v", "--value=7"]):
        result = run(command[0], str(path.parent), *command[1:])
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"error: {path.parent} is a table of Delta Lake: its log")
        assert "--ignore-table-log" in result.err
        assert f'bloomparquet.Dataset.from_delta("{path.parent}"), which has plan, read_table, advise and' in result.err
        assert run(command[0], str(path.parent), *command[1:], "--ignore-table-log").code == 0
    result = run("read", str(path.parent), "--where", "v = 7", "--json", "--ignore-table-log")
    assert json.loads(result.out) == {"v": 7}
    opened = f'bloomparquet.Dataset.from_delta("{path.parent}")'
    assert f"{opened}, which has plan, read_table, advise and build" in run("index", "build", str(path.parent)).err
    assert f"{opened}.build_index(" in run("add", str(path.parent), "--columns", "v").err
