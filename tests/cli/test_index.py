"""The commands of the index: what they print, what they make, and that their help is whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pyspark_bloomparquet.cli import cli  # with the command `jar`
from tests.support import files
from tests.support.commands import Run

GROUPS = 4


def write(path: Path, number: int) -> str:
    """Four row groups of 100 ids, which only filters tell apart; `name` has no filter."""
    ids = [number * 400 + i * 7 % 400 for i in range(400)]
    return files.write(path, {"id": ids, "name": [f"N{i}" for i in ids]}, ["id"], rows_per_group=100, fpp=1e-5)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number in range(3):
        write(tmp_path / "data" / f"{number}.parquet", number)
    return tmp_path / "data"


def plan(run: Run, *arguments: object) -> dict[str, Any]:
    result = run("plan", *arguments, "--json")
    assert result.code == 0
    (line,) = result.lines()
    return line


def test_build_plan_refresh_show_drop(run: Run, data: Path) -> None:
    before = plan(run, data, "--where", "id = 7")
    (built,) = run("index", "build", data, "--json").lines()
    directory = str(data / "_bloomparquet_index")
    size = sum(file.stat().st_size for file in Path(directory).glob("*.segment"))
    expected = {"directory": directory, "columns": None, "files": 3, "row_groups": 12, "segments": 1, "bytes": size}
    assert built == {**expected, "left_out": {}}
    indexed = plan(run, data, "--where", "id = 7")
    assert (before["indexed_files"], before["bloom_bytes_read"] > 0) == (0, True)
    assert (indexed["indexed_files"], indexed["bloom_bytes_read"]) == (3, 0)
    assert indexed["row_groups"] == before["row_groups"]
    assert "3 of 3 files by the index." in run("plan", data, "--where", "id = 7").out
    assert plan(run, data, "--where", "id = 7", "--index", "off")["indexed_files"] == 0

    write(data / "new.parquet", 9)
    os.utime(data / "1.parquet", ns=(1, 1))
    assert plan(run, data, "--where", "id = 3607")["opened_files"]["kept"] == 1
    (shown,) = run("index", "show", data, "--json").lines()
    assert shown == {**expected, "left_out": {}, "covered": 2, "outdated": 2}
    text = run("index", "show", data)
    said = [line.split("  ")[-1].strip() for line in text.out.splitlines() if "now" in line or "changed" in line]
    assert said == ["2 of 4 files", "2 files"]
    assert text.out.splitlines()[-1] == f"To index them: bloomparquet index refresh {data}"
    assert run("index", "refresh", data).out.startswith("Refreshed the index.\n")
    (shown,) = run("index", "show", data, "--json").lines()
    assert (shown["covered"], shown["outdated"], shown["segments"]) == (4, 0, 2)

    assert run("index", "drop", data).out == "The index was deleted.\n"
    assert run("index", "drop", data, "--json").lines() == [{"dropped": False}]
    assert not Path(directory).exists()


def test_relative_and_absolute_paths_are_the_same(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    absolute = ("plan", data, "--json", "--index")
    for built, given, indexes in (
        (("data",), "data", ["auto", "data/_bloomparquet_index", data / "_bloomparquet_index"]),
        (("data", "--to", "ix"), "data/", ["ix", "./ix/", data.parent / "ix"]),
        ((data, "--to", "iy"), "./data", ["iy", data.parent / "iy"]),
    ):
        assert run("index", "build", *built).code == 0
        for index in indexes:
            assert plan(run, given, "--index", index)["indexed_files"] == 3, (given, index)
            assert run(*absolute, index).lines()[0]["indexed_files"] == 3, index
    monkeypatch.chdir(data)
    run("index", "drop", ".")
    assert run("index", "build", "0.parquet", "--json").lines()[0]["directory"] == "_bloomparquet_index"
    assert plan(run, "0.parquet")["indexed_files"] == run(*absolute, "auto").lines()[0]["indexed_files"] == 1
    assert Path("_bloomparquet_index").is_dir()


def test_files_that_are_left_out_are_named_with_the_reason(run: Run, data: Path) -> None:
    for name in ("damaged", "torn"):
        (data / f"{name}.parquet").write_bytes(b"PAR1" + bytes(100))
    line = f"left out: {data}/damaged.parquet and 1 more: no Parquet file, or its footer is damaged"
    for command in ("build", "refresh", "show"):
        result = run("index", command, data)
        assert (result.code, result.out.splitlines()[-1]) == (0, line), command
    (shown,) = run("index", "show", data, "--json").lines()
    assert (shown["covered"], shown["outdated"], len(shown["left_out"])) == (3, 0, 2)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("show",), 1, "there is no index here; build one: bloomparquet index build"),
        (("refresh",), 1, "there is no index here; build one: bloomparquet index build"),
        (("build", "--columns", "nothing"), 1, "has the columns nothing"),
        (("build", "--columns", "id,,name"), 2, "has an empty name"),
        (("build", "--fpp", "0.1"), 2, "name these columns"),
        (("build", "--columns", "id", "--fpp", "2"), 2, "neither auto nor a number"),
    ],
)
def test_mistakes_have_a_message_and_an_exit_code(
    run: Run, data: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = run("index", arguments[0], data, *arguments[1:])
    assert result.code == code
    assert message in result.err
    assert not [file for file in data.rglob("*") if file.suffix != ".parquet" and file.is_file()], "nothing is left"


def test_a_table_log_is_ignored_only_if_asked(run: Run, data: Path) -> None:
    (data / "_delta_log").mkdir()
    (data / "_delta_log" / "00000000000000000000.json").write_text("{}")
    for command in ("build", "refresh", "show", "drop"):
        refused = run("index", command, data)
        assert (refused.code, "Delta Lake" in refused.err) == (1, True), command
        assert run("index", command, data, "--ignore-table-log").code == 0, command


def commands(group: click.Group, *names: str) -> list[tuple[str, ...]]:
    """The words of every command of `group`, and of `group` itself."""
    words = [names]
    for name, command in group.commands.items():
        words += commands(command, *names, name) if isinstance(command, click.Group) else [(*names, name)]
    return words


@pytest.mark.parametrize("names", commands(cli), ids=" ".join)
def test_help_is_whole_in_80_columns(names: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*names, "--help"], terminal_width=80, prog_name="bloomparquet")
    assert shown.exit_code == 0
    assert max(map(len, shown.output.splitlines())) <= 80
    assert "..." not in shown.output.replace("[ARGS]...", "").replace("PATH...", ""), "a sentence is cut off"
