"""The command line in a terminal: its width, and what the shell completes."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.cli import render, terminal
from bloomparquet.cli.main import main
from tests.support import files
from tests.support.advice import printed
from tests.support.commands import Run


def test_inspect_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    name = "part-00000-2f0a7e74-6c39.c000.snappy.parquet"
    table = pa.table({"id": [1], "customer.address": ["x"]})
    for i in range(2):
        files.write(tmp_path / f"k={i}" / name, table, table.column_names)
    filters = bp.inspect(str(tmp_path))
    for column, value in (("rows", 1_000_000), ("bytes", 1 << 24), ("estimated_ndv", 1e6)):
        field = filters.schema.field(column)
        at = filters.schema.get_field_index(column)
        filters = filters.set_column(at, field, pa.array([value] * 4, field.type))
    lines = printed(render.filters_report(filters, width=80), 80).split("\n\n")[1].splitlines()
    assert lines[1].split() == ["file", "group", "column", "rows", "bytes", "NDV", "FPP"]
    assert sum(line.endswith(" %") for line in lines) == 4
    assert "".join(line[:16].split()[0] for line in lines[2:6]) == f"k=0/{name}"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["in"], ["plain,index", "plain,inspect"]),
        (["plan", "eve"], ["file,eve"]),
        (["plan", "events", "--index", "eve"], ["file,eve"]),
        (["read", "events", "--m"], ["plain,--merge-schema"]),
        (["inspect", "events", "--html", "rep"], ["file,rep"]),
        (["add", "events", "--output", "new"], ["file,new"]),
        (["index", "build", "events", "--to", "new"], ["file,new"]),
    ],
)
def test_the_shell_completes(run: Run, words: list[str], completed: list[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("_BLOOMPARQUET_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["bloomparquet", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert run().out.split() == completed


def test_a_terminal_folds_prose_but_no_command(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    prose, command = "  remedy: " + "use  another " * 20, "  remedy: bloomparquet add " + "long/path " * 20
    terminal.echo_folded(f"{prose}\n{command}")
    assert capsys.readouterr().out == f"{prose}\n{command}\n"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal.echo_folded(f"{prose}\n{command}")
    *folded, last = capsys.readouterr().out.splitlines()
    assert last == command
    assert max(map(len, folded)) <= 80
    assert all(line.startswith("    ") for line in folded[1:])
    assert " ".join(" ".join(folded).split()) == " ".join(prose.split())


@pytest.mark.parametrize(("encoding", "name"), [("latin-1", "größe"), ("ascii", r"gr\u00f6\u00dfe")])
def test_characters_that_the_encoding_lacks_are_escaped(
    run: Run, encoding: str, name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    path, shown = files.write(tmp_path / "x.parquet", {"größe": ["日本"]}), []
    for flags in ([], ["--json"]):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
        assert run("read", path, *flags).err == ""
        shown.append(sys.stdout.buffer.getvalue().decode(encoding))
    assert name in shown[0]
    assert r"\u65e5\u672c" in shown[0]
    assert json.loads(shown[1]) == {"größe": "日本"}


def test_a_closed_stdout_is_no_error(tmp_path: Path) -> None:
    path = files.write(tmp_path / "x.parquet", {"id": [1]})
    line = f"{shlex.join([sys.executable, '-m', 'bloomparquet.cli.main', 'plan', path])} >&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


ACTS = "a\x1b]0;x\x07\x1b[2J\u202e\x9b"  # sets a title, clears the screen, turns the direction of writing
ESCAPED = r"a\u001b]0;x\u0007\u001b[2J\u202e\u009b"


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--where", f"`{ACTS}` = 'b'"],
        ["plan", "--where", f"`{ACTS}` = 'x'", "--json"],
        ["explain", "--where", f"`{ACTS}` = 'x'"],
        ["plan", "--where", "no = 1"],
        ["probe", "--column", f"`{ACTS}`", "--value", ACTS],
        ["probe", "--column", f"`{ACTS}`", "--value", ACTS, "--json"],
        ["inspect"],
        ["inspect", "--json"],
        ["advise"],
        ["read"],
        ["read", "--json"],
        ["add", "--columns", f"`{ACTS}`"],
        ["add", "--columns", f"no{ACTS}"],
        ["index", "show"],
        ["index", "show", "--to", f"{ACTS}"],
    ],
    ids=" ".join,
)
def test_no_name_or_value_acts_on_a_terminal(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    path = files.write(tmp_path / f"{ACTS}.parquet", {ACTS: [ACTS, "b"]}, [] if arguments[0] == "add" else [ACTS])
    n_words = 2 if arguments[0] == "index" else 1
    monkeypatch.setenv("TERM", "dumb")  # no colours
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it
    with pytest.raises(SystemExit):
        main([*arguments[:n_words], path, *arguments[n_words:]])
    shown = "".join(capsys.readouterr())
    assert not set(shown) & set("\x1b\x07\u202e\x9b")
    assert ESCAPED in shown


def test_a_pipe_gets_exact_names(run: Run, tmp_path: Path) -> None:
    path = files.write(tmp_path / "x.parquet", {ACTS: [ACTS]}, [ACTS])
    for flags in ([], ["--json"]):
        assert run("read", path, *flags).out.count("\u202e\x9b") == 2
