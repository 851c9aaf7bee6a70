"""Data sets: paths that are files, directories, globs or lists, and partition directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support.files import hive, write


def files_of(path: Any, **options: Any) -> list[str]:
    return [Path(file.path).name for file in bp.Dataset.open(path, **options).files]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.parquet", "b[1].parquet", "sub/c.parquet", "_hidden.parquet", "_old/z.parquet", ".x.parquet"):
        write(tmp_path / name, {"id": [1]})
    return tmp_path


def test_path_is_a_file_directory_glob_or_list(folder: Path) -> None:
    assert files_of(folder / "a.parquet") == ["a.parquet"]
    assert files_of(str(folder)) == ["a.parquet", "b[1].parquet", "c.parquet"]
    assert files_of(str(folder) + "/") == ["a.parquet", "b[1].parquet", "c.parquet"]
    assert files_of(f"{folder}/?.parquet") == ["a.parquet"]
    assert files_of([folder / "sub", f"{folder}/a*"]) == ["c.parquet", "a.parquet"]
    assert files_of(folder.as_uri()) == ["a.parquet", "b[1].parquet", "c.parquet"]


def test_existing_name_wins_over_a_glob(folder: Path) -> None:
    assert files_of(folder / "b[1].parquet") == ["b[1].parquet"]
    memory = fsspec.filesystem("memory")
    memory.pipe("/brackets/b[1].parquet", (folder / "a.parquet").read_bytes())
    assert files_of("memory://brackets/b[1].parquet") == ["b[1].parquet"]


@pytest.mark.parametrize("pattern", ["**", "*", "**/*", "**/*.parquet", "sub*/**"])
def test_glob_names_each_file_once(pattern: str, folder: Path) -> None:
    files = files_of(f"{folder}/{pattern}")
    assert "c.parquet" in files
    assert len(files) == len(set(files))
    assert bp.read_table(f"{folder}/{pattern}").num_rows <= 6


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("{a,b[[]1]}.parquet", ["a.parquet", "b[1].parquet"]),
        ("{a,sub/c,gone}.parquet", ["a.parquet", "c.parquet"]),
        ("{x,y}.parquet", ["{x,y}.parquet"]),  # such a file is there
        ("{a,[{]x[,]y}*", ["a.parquet", "{x,y}.parquet"]),
    ],
)
def test_braces_are_alternatives(pattern: str, expected: list[str], remote: bool, folder: Path) -> None:
    data = Path(write(folder / "{x,y}.parquet", {"id": [1]})).read_bytes()
    for name in ("a.parquet", "b[1].parquet", "sub/c.parquet", "{x,y}.parquet"):
        fsspec.filesystem("memory").pipe(f"/t/{name}", data)
    assert files_of(f"{'memory://t' if remote else folder}/{pattern}") == expected


def test_missing_path_raises_os_error(tmp_path: Path) -> None:
    for path in (tmp_path / "gone", f"{tmp_path}/gone*", "memory://gone/nowhere", (tmp_path / "gone").as_uri()):
        with pytest.raises(FileNotFoundError, match="gone"):
            bp.plan(path)


def test_directory_without_data_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").write_bytes(b"")
    with pytest.raises(bp.PlanError, match=f"{tmp_path}.*no data files"):
        bp.plan(tmp_path)
    with pytest.raises(bp.PlanError, match="no path"):
        bp.plan([])


@pytest.mark.parametrize("name", ["_metadata", "_common_metadata"])
def test_a_summary_file_is_not_data(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pq.read_schema(write(tmp_path / "x.parquet", {"id": [1]}, ["id"]))
    pq.write_metadata(schema, tmp_path / name)
    summary = str(tmp_path / name)
    calls = (bp.plan, bp.read_table, bp.advise, bp.inspect, bp.build_index, bp.add_filters, bp.shrink_filters)
    for call in calls:
        with pytest.raises(
            bp.PlanError, match=f"{name} is a summary .* holds no rows; .* name the directory, {tmp_path}"
        ):
            call(summary)
    assert bp.plan(tmp_path).total == bp.plan(f"{tmp_path}/*").total == 1
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bp.PlanError, match=r"name the directory, \.$"):
        bp.plan(["x.parquet", name])


def test_paths_on_two_storages_are_an_error(folder: Path) -> None:
    fsspec.filesystem("memory").pipe("/two/a.parquet", (folder / "a.parquet").read_bytes())
    with pytest.raises(bp.PlanError, match="one storage"):
        bp.plan([folder / "a.parquet", "memory://two/a.parquet"])


def test_partition_values_are_text_per_file(tmp_path: Path) -> None:
    root = hive(tmp_path, {"day=2026-01-01/hour=3": {"id": [1]}, "day=__HIVE_DEFAULT_PARTITION__/hour=4": {"id": [2]}})
    dataset = bp.Dataset.open(root)
    assert dataset.partition_names == ("day", "hour")
    assert set(dataset.partition_values) == {("2026-01-01", "3"), (None, "4")}


@pytest.mark.parametrize("inner", ["", "/", "/."])
def test_partitions_begin_below_the_path(inner: str, tmp_path: Path) -> None:
    root = hive(tmp_path / "up=1" / "table", {"p=1": {"id": [1]}, "p=2": {"id": [2]}})
    assert bp.Dataset.open(root + inner).partition_names == ("p",)
    assert bp.Dataset.open(f"{root}/p=1").partition_names == ()
    assert bp.Dataset.open(f"{root}/p=1", base_path=root).partition_names == ("p",)
    assert bp.Dataset.open(f"{root}/p=*", base_path=root).partition_values == (("1",), ("2",))
    assert bp.Dataset.open(tmp_path).partition_names == ("up", "p")


def test_conflicting_partition_columns_are_an_error(tmp_path: Path) -> None:
    root = hive(tmp_path, {"p=1": {"id": [1]}, "q=2": {"id": [2]}})
    with pytest.raises(bp.PlanError, match=r"conflicting partition columns.*p=1.*q=2"):
        bp.plan(root)


def test_repeated_partition_name_is_an_error(tmp_path: Path) -> None:
    root = hive(tmp_path, {"p=1/p=2": {"id": [1]}})
    with pytest.raises(bp.PlanError, match="p"):
        bp.read_table(root, "p = 1")


@pytest.mark.parametrize("path", ["hv/p=007", ["hv/p=007", "hv/p=8"], "hv/*", "hv/p=007/x.parquet"])
def test_a_partition_directory_above_the_path_is_named(path: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("p=007/x", "p=8/y"):
        write(tmp_path / "hv" / f"{name}.parquet", {"id": [1], "q": [2]})
    for column in ("p", "P"):
        says = f"'{column}' is in none of the files; {column}= is a directory above the path: give the directory that "
        with pytest.raises(bp.PlanError, match=f"{says}holds it, 'hv', or set it as the base path"):
            bp.plan(path, f"{column} = 7", case_sensitive=column == "p")
    assert bp.read_table("hv", "p = 7").num_rows == 1
    assert bp.read_table(bp.Dataset.open(path, base_path="hv"), "p = 7").num_rows == 1
    with pytest.raises(bp.PlanError) as raised:
        bp.plan(path, "r = 7")
    assert "directory above" not in str(raised.value)
