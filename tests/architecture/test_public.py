"""The public surface: signatures that say what they take, versions, and plans that can be compared."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.support.files import write

ROOT = Path(__file__).resolve().parents[2]
SHARED = {
    "path", "where", "filesystem", "storage_options", "timezone", "case_sensitive", "on_filter_error", "skip_corrupt",
    "keys", "table_log", "index",
}  # fmt: skip


IDS = [i * 7919 % 1009 for i in range(1009)]


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    return write(tmp_path / "t" / "a.parquet", {"id": IDS}, ["id"], rows_per_group=100)


@pytest.mark.parametrize("function", [bp.plan, bp.read_table, bp.scan_batches, bp.count])
def test_signatures_name_every_parameter(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    assert not [name for name, each in parameters.items() if each.kind == each.VAR_KEYWORD]
    assert set(parameters) - SHARED <= {"columns", "merge_schema", "limit"}
    assert set(parameters) >= SHARED


def test_every_shared_keyword_works_in_all_functions(numbers: str) -> None:
    options: dict[str, Any] = {
        "filesystem": pa.fs.LocalFileSystem(),
        "timezone": "Europe/Zurich", "case_sensitive": False, "on_filter_error": "fail", "skip_corrupt": True,
        "storage_options": None, "keys": None, "table_log": "ignore", "index": "off",
    }  # fmt: skip
    assert set(options) | {"path", "where"} == SHARED
    assert bp.plan(numbers, "ID = 7", **options).kept == 1
    assert bp.read_table(numbers, "ID = 7", **options).to_pylist() == [{"id": 7}]
    assert bp.count(numbers, "ID = 7", **options) == 1
    assert bp.scan_batches(numbers, "ID = 7", **options).read_all().to_pylist() == [{"id": 7}]


def test_a_file_system_and_storage_options_exclude_each_other(numbers: str) -> None:
    for function in (bp.plan, bp.read_table, bp.scan_batches, bp.Dataset.open):
        with pytest.raises(bp.OptionError, match="both filesystem and storage_options"):
            function(numbers, filesystem=pa.fs.LocalFileSystem(), storage_options={})


def test_batches_come_as_a_reader_with_a_schema(numbers: str) -> None:
    reader = bp.scan_batches(numbers, "id < 0")
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == pa.schema([("id", pa.int64())])
    assert list(reader) == []
    assert sum(batch.num_rows for batch in bp.scan_batches(numbers, "id < 7", ["id"])) == 7


def test_errors_of_reading_batches_are_not_wrapped(numbers: str) -> None:
    reader = bp.scan_batches(numbers)
    Path(numbers).unlink()
    with pytest.raises(FileNotFoundError):
        reader.read_all()


def test_dropping_a_reader_early_closes_its_file(numbers: str) -> None:
    open_files = Path("/proc/self/fd")
    if not open_files.is_dir():
        pytest.skip("needs /proc")

    def is_open() -> bool:
        return any(os.path.realpath(descriptor) == os.path.realpath(numbers) for descriptor in open_files.iterdir())

    reader = bp.scan_batches(numbers)
    assert not is_open(), "nothing is read before a batch is asked for"
    assert reader.read_next_batch().num_rows == 100
    assert is_open()
    del reader
    assert not is_open()


def test_equal_plans_are_equal_and_have_one_hash(numbers: str) -> None:
    one, other = bp.plan(numbers, "id = 7"), bp.plan(numbers, bp.Eq("id", 7))
    assert (one.kept, one.skipped["bloom"]) == (other.kept, other.skipped["bloom"])
    assert one == other
    assert hash(one) == hash(other)
    assert {one: "x"}[other] == "x"
    assert one.row_groups == other.row_groups
    assert hash(bp.plan(numbers, bp.In("id", [1, 2]))) == hash(bp.plan(numbers, bp.In("id", [1, 2])))
    file_system = pa.fs.SubTreeFileSystem("/", pa.fs.LocalFileSystem())
    assert bp.plan(numbers, filesystem=file_system) == bp.plan(numbers, filesystem=file_system)


def test_plans_that_differ_are_not_equal(numbers: str, tmp_path: Path) -> None:
    plan = bp.plan(numbers, "id = 7")
    other = write(tmp_path / "b.parquet", {"id": IDS}, rows_per_group=100)
    assert plan != bp.plan(numbers, "id = 8")  # another predicate
    assert plan != bp.plan(numbers)
    assert plan != bp.plan([numbers, numbers], "id = 7")  # other files
    assert plan != bp.plan(other, "id = 7")
    assert plan != "id = 7"
    evidence = write(tmp_path / "c.parquet", {"id": IDS}, rows_per_group=100)
    before = bp.plan(evidence, "id = 7")
    bp.add_filters(evidence, bloom="id")
    after = bp.plan(evidence, "id = 7")
    assert before.row_groups != after.row_groups


def test_plans_over_partitions_are_equal_too(tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / "p" / f"day={day}" / "a.parquet", {"id": [day]})
    assert bp.plan(tmp_path / "p", "day = 1") == bp.plan(tmp_path / "p", "day = 1")
    assert bp.plan(tmp_path / "p", "day = 1") != bp.plan(tmp_path / "p", "day = 2")


def test_versions_equal_the_projects() -> None:
    import pyspark_bloomparquet

    (version,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert bp.__version__ == pyspark_bloomparquet.__version__ == version


def test_imports_exist_in_the_oldest_python() -> None:
    """Python 3.10; type checkers may import newer names from typing_extensions."""
    newer = {
        "typing": "assert_never LiteralString Never NotRequired override Required Self TypeIs TypeVarTuple Unpack",
        "enum": "StrEnum EnumType ReprEnum verify",
        "datetime": "UTC",
        "itertools": "batched",
        "contextlib": "chdir",
    }
    for path in (ROOT / "python").rglob("*.py"):
        for module, names in re.findall(r"^ *from (\w+) import ([^\n(]+|\([^)]*\))", path.read_text(), re.MULTILINE):
            assert not set(re.findall(r"\w+", names)) & set(newer.get(module, "").split()), path
