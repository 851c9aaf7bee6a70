"""The commands that change files: what they print and write, their exit codes, and that files stay whole."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.cli.main import main
from bloomparquet.report.texts import human_bytes
from bloomparquet.storage.sizes import parse_size
from tests.support import files
from tests.support.commands import Run

ROWS, FILES, GROUPS = 6000, 4, 2


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Four files of two row groups without filters, in directories with spaces."""
    for i in range(FILES):
        scattered = [(j * 7919 + i * 104729) % 1_000_003 for j in range(ROWS)]
        table = pa.table({
            "id": scattered,
            "st": [{"x": f"{value:x}"} for value in scattered],
            "at": [i * ROWS + j for j in range(ROWS)],
            "ok": [j % 2 == 0 for j in range(ROWS)],
        })  # fmt: skip
        files.write(tmp_path / "events" / f"day=2026-03-0{i} x" / "a b.parquet", table, rows_per_group=ROWS // GROUPS)
    return tmp_path / "events"


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def filter_counts(root: Path) -> dict[str, int]:
    """The number of filters of each column."""
    columns = bp.inspect(str(root))["column"].to_pylist()
    return {column: columns.count(column) for column in columns}


def cells(text: str, first: str) -> list[str]:
    """The line that begins with `first`, split at two or more spaces."""
    (line,) = [line for line in text.splitlines() if line.split("  ")[0].strip() == first]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_add_gives_every_row_group_a_filter(run: Run, events: Path) -> None:
    before = sum(len(data) for data in contents(events).values())
    result = run("add", events, "--columns", "id, st.x")
    after = sum(len(data) for data in contents(events).values())
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Filters added to 4 of 4 files.\n")
    assert filter_counts(events) == {"id": FILES * GROUPS, "st.x": FILES * GROUPS}
    size = sum(bp.inspect(str(events))["bytes"].to_pylist())
    assert cells(result.out, "id")[1] == cells(result.out, "st.x")[1] == "8"
    assert cells(result.out, "total")[1:3] == ["16", human_bytes(size)]
    assert f"Now {human_bytes(after)}, was {human_bytes(before)} (+{human_bytes(after - before)}, " in result.out
    assert bp.plan(str(events), "id = 1000004").kept == 0


def test_add_prints_each_file_as_json(run: Run, events: Path) -> None:
    before = contents(events)
    result = run("add", events, "--columns", "id", "--json")
    after = contents(events)
    assert (result.code, result.err) == (0, "")
    assert [line["path"] for line in result.lines()] == [str(events / name) for name in sorted(before)]
    for line, name in zip(result.lines(), sorted(before), strict=True):
        assert (line["action"], line["filters"], line["dropped"], line["error"]) == ("added", GROUPS, 0, None)
        assert (line["bytes_before"], line["bytes_after"]) == (len(before[name]), len(after[name]))
        size, fpp = line["filter_bytes"], line["fpp"]
        column = {"column": "id", "filters": GROUPS, "bytes": size, "fpp": fpp, "limited": False, "unused": None}
        assert line["columns"] == [column]
        assert 0 < fpp <= 0.0125


def test_add_without_columns_adds_recommended_filters(run: Run, events: Path) -> None:
    before = contents(events)
    refused = run("add", events)
    assert (refused.code, contents(events)) == (2, before)
    assert f"agree with --yes. To see which columns it chooses, and why: bloomparquet advise {events}" in refused.err
    assert run("add", events, "--yes").code == 0
    # `at` is sorted, `ok` has two values
    assert filter_counts(events) == {"id": FILES * GROUPS, "st.x": FILES * GROUPS}
    result = run("add", events, "--yes")
    assert result.out.splitlines()[0] == "Nothing to do in 4 of 4 files."
    assert "bloomparquet advise" in result.out


@pytest.mark.parametrize(
    ("command", "says"), [("add", "would be added to 4"), ("shrink", "would be made smaller in 4")]
)
def test_a_dry_run_reports_a_run_and_changes_no_byte(run: Run, events: Path, command: str, says: str) -> None:
    arguments = ["--columns", "id"] if command == "add" else ["--fpp", "0.3"]
    if command == "shrink":
        run("add", events, "--columns", "id")
    before = contents(events)
    text = run(command, events, *arguments, "--dry-run")
    dry = run(command, events, *arguments, "--dry-run", "--json").lines()
    assert contents(events) == before
    assert says in text.out
    assert "Would be" in text.out
    assert run(command, events, *arguments, "--json").lines() == dry
    assert sum(line["bytes_after"] for line in dry) == sum(len(data) for data in contents(events).values())


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_failed_file_is_one_line_and_the_others_are_done(run: Run, events: Path, flags: list[str]) -> None:
    bad = events / "day=2026-03-01 x" / "a b.parquet"
    bad.write_bytes(bad.read_bytes()[:-1])
    before = bad.read_bytes()
    result = run("add", events, "--columns", "id", *flags)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert result.err.startswith(f"error: {bad}: ")
    assert bad.read_bytes() == before
    bad.unlink()
    assert filter_counts(events) == {"id": (FILES - 1) * GROUPS}
    if flags:
        assert [line["action"] for line in result.lines()] == ["added", "failed", "added", "added"]
        assert str(bad) in result.lines()[1]["error"]
    else:
        assert result.out.startswith("Filters added to 3 of 4 files; 1 failed and is unchanged.\n")


def test_a_size_limit_that_hurts_is_reported_once(run: Run, events: Path) -> None:
    result = run("add", events, "--columns", "id,st.x", "--max-bytes", "1k")
    assert (result.code, result.err) == (0, "")
    assert cells(result.out, "id")[-1] == cells(result.out, "st.x")[-1] == "hit --max-bytes in 4 files"
    assert result.out.count("size limit reached") == 1
    assert {row["bytes"] for row in bp.inspect(str(events)).to_pylist()} == {1024}


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("4k", 4096), ("4 KiB", 4096), ("1m", 1 << 20)])
def test_sizes_are_written_as_spark_writes_them(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_shrink_folds_and_drops(run: Run, events: Path) -> None:
    run("add", events, "--columns", "id", "--fpp", "0.0001")
    run("add", events, "--columns", "st.x", "--max-bytes", "32")  # these filters are full
    before = sum(bp.inspect(str(events))["bytes"].to_pylist())
    table = bp.read_table(str(events))
    result = run("shrink", events, "--fpp", "0.1")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Filters made smaller in 4 of 4 files.\n")
    assert "8 filters were dropped" in result.out
    assert filter_counts(events) == {"id": FILES * GROUPS}
    assert sum(bp.inspect(str(events))["bytes"].to_pylist()) <= before / 4
    assert bp.read_table(str(events)).equals(table)
    for value in (7919, 104729, (5999 * 7919 + 3 * 104729) % 1_000_003):
        assert bp.read_table(str(events), f"id = {value}").num_rows == table["id"].to_pylist().count(value) > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["add"],
        ["frob"],
        ["plan", "x", "--wher", "a=1"],
        ["add", "x", "--fpp", "0"],
        ["add", "x", "--fpp", "1"],
        ["shrink", "x", "--fpp", "Auto"],
        ["advise", "x", "--fpp", "often"],
        ["add", "x", "--max-bytes", "3"],
        ["add", "x", "--max-bytes", "3x"],
        ["add", "x", "--max-bytes", "1g"],
        ["add", "x", "--columns", "a,"],
        ["add", "x", "--columns", ""],
        ["add", "x", "y", "-o", "z"],
        ["shrink", "x", "y", "-o", "z"],
        ["shrink", "x", "--drop-above", "0"],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err
    assert "Error: " in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "{events}", "--columns", "idd"], "did you mean 'id'"),
        (["add", "{events}", "--columns", "st"], "st is a group"),
        (["add", "{events}", "--columns", "ok"], "two values"),
        (["add", "{events}/nowhere", "--columns", "id"], "nowhere"),
        (["shrink", "{events}/nowhere"], "nowhere"),
        (["shrink", "memory://no/such/thing"], "no/such/thing"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(run: Run, events: Path, arguments: list[str], message: str) -> None:
    before = contents(events)
    result = run(*(argument.format(events=events) for argument in arguments))
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert result.err.startswith("error: ")
    assert message in result.err
    assert contents(events) == before


def in_terminal(command: list[str], out: Path) -> str:
    """What a command with its stdout in the file `out` prints on a stderr that is a terminal."""
    ours, theirs = pty.openpty()
    with out.open("wb") as stdout:
        process = subprocess.Popen(command, stdout=stdout, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(ours, 65536):
            shown += data
    process.wait()
    os.close(ours)
    return shown.decode()


def test_a_progress_bar_is_only_on_a_terminal_stderr(run: Run, events: Path, tmp_path: Path) -> None:
    (events / "day=2026-03-00 x" / "a.parquet").write_bytes(b"PAR1" + bytes(100))
    command = ["add", str(events), "--columns", "id"]
    program, out = [sys.executable, "-m", "bloomparquet.cli.main"], tmp_path / "out"
    shown = in_terminal([*program, *command, "--dry-run", "--json"], out)
    actions = [json.loads(line)["action"] for line in out.read_text().splitlines()]
    assert actions == ["added", "failed", *["added"] * 3]
    assert "5 of 5 files" in shown
    assert "error: " in shown
    done = run(*command)
    assert done.err.count("\n") == 1  # the error, and no bar
    assert done.out.startswith("Filters added to 4 of 5 files")


def test_an_interrupt_leaves_every_file_whole(run: Run, events: Path, tmp_path: Path) -> None:
    rows = {str(path): pq.read_table(path) for path in events.rglob("*.parquet")}
    program = textwrap.dedent(f"""
        import os, time
        original = os.rename
        def slowly(source, target, **more):
            open({str(tmp_path / "started")!r}, "w").close()
            while not os.path.exists({str(tmp_path / "go")!r}):
                time.sleep(0.01)
            return original(source, target, **more)
        os.rename = slowly
        from bloomparquet.cli import main as cli
        cli.main(["add", {str(events)!r}, "--columns", "id"])
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)  # until the threads run and the main thread waits for them
    process.send_signal(signal.SIGINT)
    time.sleep(0.7)  # until the main thread begins no more files
    (tmp_path / "go").touch()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    done = filter_counts(events).get("id", 0)
    assert done < FILES * GROUPS
    assert done % GROUPS == 0
    assert {str(path): pq.read_table(path) for path in events.rglob("*.parquet")} == rows
    assert len(contents(events)) == FILES
    assert run("add", events, "--columns", "id").code == 0
    assert filter_counts(events) == {"id": FILES * GROUPS}


def test_add_reports_filters_that_are_never_used(run: Run, tmp_path: Path) -> None:
    table = pa.table({"id": [i * 7919 % 1009 for i in range(1009)], "l": [[[i]] for i in range(1009)]})
    path = files.write(tmp_path / "t.parquet", table)
    result = run("add", path, "--columns", "id,l.list.element.list.element")
    assert result.code == 0
    text = " ".join(result.out.split())
    reason = (
        "l.list.element.list.element is inside a list or map of lists or maps, where bloomparquet does not use filters."
    )
    assert (text.count("not useful"), text.count(f"not useful: {reason}")) == (1, 1)
    result = run("add", path, "--columns", "id,l.list.element.list.element", "--replace", "--fpp", "0.2", "--json")
    assert [bool(column["unused"]) for column in result.lines()[0]["columns"]] == [False, True]
    assert result.err == ""


@pytest.mark.parametrize("answer", ["y", "n"])
def test_add_asks_on_a_terminal(tmp_path: Path, answer: str, monkeypatch: Any, capsys: Any) -> None:
    path = files.write(tmp_path / "a.parquet", {"id": [i * 7919 % 1_000_003 for i in range(6_000)], "at": range(6_000)},
                       rows_per_group=1_500)  # fmt: skip
    before = Path(path).read_bytes()
    asked = []

    def confirm(text: str, **_: Any) -> bool:
        asked.append(text)
        assert Path(path).read_bytes() == before
        return answer == "y"

    monkeypatch.setattr(click, "confirm", confirm)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it
    with pytest.raises(SystemExit) as ended:
        main(["add", path])
    assert ended.value.code == (0 if answer == "y" else 1)
    assert asked == ["Add filters of 8.1 KiB on id, in 1 file?"]
    assert "a lookup reads" in capsys.readouterr().out
    assert (Path(path).read_bytes() == before) == (answer == "n")
