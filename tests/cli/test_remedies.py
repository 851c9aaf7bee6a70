"""Commands that are advised can be pasted, and do what they say. Wrong input is one line that says what to do."""

from __future__ import annotations

import datetime as dt
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.cli import terminal
from tests.support import files
from tests.support.commands import Run

IDS = [i * 7919 % 1009 for i in range(1000)]
ABSENT = next(i for i in range(1009) if i not in IDS)
NAMES = ("plain", "a,b", "x.y", "two words", "it's", "order", "`", " pad ", "*", "-n", "lower(s)", "s,é.", "$HOME")
TEXT = {name: [f"v{i}" for i in IDS] for name in ("a,b", "two words", "x.y")}


def pasted(run: Run, command: str) -> Any:
    """Run a line as a shell does: words by its quotes, nothing after a ``#``."""
    program, *arguments = shlex.split(command, comments=True)
    assert program == "bloomparquet"
    result = run(*arguments)
    assert result.code == 0, (command, result)
    return result


def filtered(path: str) -> set[str]:
    return set(bp.inspect(path)["column"].to_pylist())


def test_the_remedy_of_explain_adds_the_filter_that_it_names(run: Run, tmp_path: Path) -> None:
    """Each name is a column, and a field of the struct `st`."""
    struct = pa.array([dict.fromkeys(NAMES, i) for i in IDS], pa.struct([(name, pa.int64()) for name in NAMES]))
    table = pa.table({**dict.fromkeys(NAMES, IDS), "st": struct})
    for number, name in enumerate(NAMES):
        for column in ((name,), ("st", name)):
            path = files.write(tmp_path / f"it's {number} $HOME" / f"{len(column)}.parquet", table)
            (reason,) = bp.plan(path, bp.Eq(column, 7)).explain().reasons()
            pasted(run, reason.remedy)
            assert filtered(path) == {".".join(column)}, (column, reason.remedy)


def test_the_commands_of_advise_add_what_they_name(run: Run, tmp_path: Path) -> None:
    data = {name: [i * (7919 + 2 * n) % 100_003 for i in range(8_000)] for n, name in enumerate(NAMES)}
    path = files.write(tmp_path / "two words.parquet", data, rows_per_group=1_000)
    advice = run("advise", path)
    (command,) = [line for line in advice.out.splitlines() if line.startswith("bloomparquet ")]
    pasted(run, command)
    assert filtered(path) == set(NAMES)


@pytest.mark.parametrize("name", TEXT)
def test_the_remedy_of_lower_case_indexes_the_column(run: Run, tmp_path: Path, name: str) -> None:
    path = files.write(tmp_path / "t u" / "x.parquet", TEXT)
    where = bp.CaseIn((name,), "lower", ["absent"])
    (reason,) = bp.plan(path, where).explain().reasons()
    pasted(run, reason.remedy)
    assert bp.plan(path, where).kept == 0


def test_the_command_below_a_plan_plans_the_same(run: Run, tmp_path: Path) -> None:
    path = files.write(tmp_path / "x y.parquet", {"id": IDS, "name": [f"n{i}" for i in IDS]})
    where = "ID = 7 AND length(name) = 3 AND name <> 'it''s'"
    given = ["--where", where, "--ignore-case", "--timezone", "Asia/Tokyo", "--index", "off", "--skip-corrupt"]
    given.append("--ignore-table-log")
    *_, last = run("plan", path, *given).out.splitlines()
    assert shlex.split(last) == ["bloomparquet", "explain", path, *given[:2], *given[3:7], given[2], *given[7:]]
    assert pasted(run, last).out.startswith("ID = 7 AND LENGTH(name) = 3")


def test_all_commands_name_full_filters_in_the_same_words(run: Run, tmp_path: Path) -> None:
    bloom = {"a b": {"ndv": 1, "fpp": 0.5}, "id": {"ndv": 1000, "fpp": 0.01}}
    path = files.write(tmp_path / "x y.parquet", {"a b": IDS, "id": IDS}, bloom)
    (reason,) = bp.plan(path, f"`a b` = {ABSENT}").explain().reasons()
    assert reason.reason.name == "SATURATED"
    for command, *rest in (["probe", "--column", "a b", "--value", str(ABSENT)], ["inspect"]):
        out = run(command, path, *rest).out
        assert out.endswith(f"\nT{reason.text[1:]}.\n  remedy: {reason.remedy}\n")
        assert out.count("too full") == 1
    assert "too full" not in run("probe", path, "--column", "id", "--value", IDS[0]).out
    assert json.loads(run("probe", path, "--column", "a b", "--value", ABSENT, "--json").out)["saturated"] is True
    pasted(run, reason.remedy)
    assert "too full" not in run("inspect", path).out
    assert bp.plan(path, f"`a b` = {ABSENT}").kept == 0


def make_inputs(root: Path) -> None:
    """Directories and files that a user may name by mistake, and one good file."""
    struct = pa.array([{"a": i, "b c": i} for i in IDS])
    lists, maps = [[i] for i in IDS], pa.array([[("k", i)] for i in IDS], pa.map_("string", "int64"))
    data = pa.table({"id": IDS, "st": struct, "tags": lists, "m": maps, "flag": [True] * 1000})
    files.write(root / "good.parquet", data, ["id", "tags.list.element"])
    files.hive(root / "days", {"day=1": {"id": [1]}})
    pa_orc.write_table(data.select(["id", "tags"]), str(root / "x.orc"), bloom_filter_columns=[0])
    for name in ("empty", "hidden", "mixed", "junk", "below/a", "broken"):
        (root / name).mkdir(parents=True)
    (root / "hidden" / "_SUCCESS").write_text("")
    files.write(root / "mixed" / "a.parquet", {"id": [1]})
    (root / "mixed" / "notes.csv").write_text("a,b\n" * 10)
    for name in ("1.txt", "2.txt"):
        (root / "junk" / name).write_text("no data file, but long enough")
    files.write(root / "below" / "b.parquet", {"id": [1]})
    (root / "below" / "a" / "1.txt").write_text("junk")
    for name in ("a", "cut", "z"):
        files.write(root / "broken" / f"{name}.parquet", {"id": [1]})
    (root / "broken" / "cut.parquet").write_text("PAR1 without its last")
    files.hive(root / "by_day", {"day=1": {"id": [1]}})
    (root / "by_day" / "day=1" / "notes.txt").write_text("notes")
    (root / "note.txt").write_text("no")
    (root / "zero.parquet").write_text("")


PROBE = ["--column", "id", "--value", "1"]
WRONG: list[tuple[str, list[str], str]] = [
    *((path, [command, *(PROBE if command == "probe" else [])], message)
      for path, message in {
          "empty": "no data files here; expected Parquet or ORC files",
          "hidden": "no data files here; expected Parquet or ORC files",
          "junk": "b'PAR1', or an ORC file; name the data files alone, for example by a glob: 'junk/*.parquet'",
          "below": "below/a/1.txt: not a Parquet file: 4 bytes are too few; expected at least 12 bytes with b'PAR1' at "
          "both ends, or an ORC file; name the data files alone, for example by a glob: 'below/**/*.parquet'",
          "broken": "cut.parquet: not a Parquet file, or truncated: its last 4 bytes are b'last'; expected b'PAR1', or "
          "an ORC file; restore the file, move it away, or leave it out of plans and reads: skip_corrupt=True in "
          "Python, --skip-corrupt on the command line, ignoreCorruptFiles in Spark",
          "by_day": "notes.txt: not a Parquet file: 5 bytes are too few; expected at least 12 bytes with b'PAR1' at "
          "both ends, or an ORC file; move the file out of the directory of the data",
          "mixed": "notes.csv: not a Parquet file",
          "note.txt": "not a Parquet file: 2 bytes are too few",
          "zero.parquet": "the file is empty (0 bytes)",
          "nothing": "No such file or directory",
          "github://a/b": "fsspec makes no file system of this URL",
          "reference://x": "fsspec makes no file system of this URL",
      }.items()
      for command in ("plan", "explain", "inspect", "advise", "probe", "read")),
    ("good.parquet", ["probe", "--column", "st", "--value", "1"], "'st' is a struct, which has no filter of its own"),
    ("good.parquet", ["probe", "--column", "st", "--value", "1"], "; expected a column inside it: st.a, st.`b c`"),
    ("good.parquet", ["probe", "--column", "tags", "--value", "1"], "; expected a column inside it: tags.element"),
    ("good.parquet", ["probe", "--column", "m", "--value", "1"], "expected a column inside it: m.key, m.value"),
    ("good.parquet", ["probe", "--column", "idd", "--value", "1"], "did you mean 'id'?"),
    ("good.parquet", ["probe", "--column", "id", "--value", "x"], "--value 'x' is not a value of column id (INT64)"),
    ("good.parquet", ["probe", "--column", "flag", "--value", "x"], "--value 'x' is not a value of column flag"),
    ("days", ["probe", "--column", "day", "--value", "1"], "'day' is a partition column, which is not in the files"),
    ("good.parquet", ["plan", "--where", " "], "where is blank; to read every row, leave it out"),
    ("x.orc", ["probe", "--column", "tags", "--value", "1"], "filters of ORC on elements of these are not used"),
    ("good.parquet", ["plan", "--where", "id = = 7"], "id = = 7"),
    ("good.parquet", ["plan", "--where", "id = 'seven'"], "id"),
    ("good.parquet", ["read", "--columns", "idd"], "did you mean 'id'"),
    ("foo://bucket/x", ["plan"], "scheme foo://"),
    ("needy://bucket/x", ["plan"], "the scheme needy:// needs a package: Install no-such-package"),
]  # fmt: skip


def test_wrong_input_is_one_line_that_says_what_to_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec.register_implementation("needy", "no_such_module.FileSystem", clobber=True, errtxt="Install no-such-package")
    make_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    for path, (command, *rest), message in WRONG:
        result = run(command, path, *rest)
        assert (result.code, result.out) == (1, ""), (command, path, result)
        assert result.err.startswith("error: "), (command, path, result)
        assert message in result.err, (command, path, result)
        assert result.err.count("\n") == 1


WRONG_IN_PYTHON: list[tuple[Callable[[str], Any], str]] = [
    (lambda path: bp.read_table(path, columns="id"), r"columns is 'id'; expected a list of names, such as \['id'\]"),
    (lambda path: bp.read_table(path, columns=5), "columns is 5; expected a list of names"),  # type: ignore[arg-type]
    (lambda path: bp.plan(path, index=None), "index is None; expected 'auto', 'off', or the directory"),  # type: ignore[arg-type]
    (lambda path: bp.read_table(path, index=True), "index is True; expected 'auto', 'off', or the directory"),  # type: ignore[arg-type]
    (lambda path: bp.Dataset.open(path).plan(index=5), "index is 5; expected 'auto'"),  # type: ignore[arg-type]
    (lambda path: bp.plan(path, timezone=dt.timezone.utc), "timezone is .*utc; expected its name, such as"),  # type: ignore[arg-type]
    (lambda path: bp.scan_batches(path, columns="id"), "columns is 'id'; expected a list"),
    (lambda path: bp.inspect(path, columns="id"), "columns is 'id'; expected a list"),
    (lambda path: bp.write_table(pa.table({"id": [1]}), path, blom="id"), "write_table .* 'blom'.* mean 'bloom'"),
    (lambda path: bp.write_table(pa.table({"id": [1]}), path, compresion="zstd"), "did you mean 'compression'"),
    (
        lambda path: bp.ParquetWriter(path, pa.schema([]), nonsense=1),
        "ParquetWriter have no option 'nonsense'; expected",
    ),
    (lambda path: bp.plan(path, filesystem="s3"), "filesystem is 's3'; expected a pyarrow.fs.FileSystem"),
    (lambda path: bp.plan(path, storage_options=5), "storage_options is a int; expected a dictionary"),  # type: ignore[arg-type]
    (lambda path: bp.plan(None), "path is None; expected a file, a directory, a glob, a URL"),  # type: ignore[arg-type]
    (lambda path: bp.plan(path.encode()), "path is b'.*'; expected a file, a directory, a glob, a URL"),  # type: ignore[arg-type]
    (lambda path: bp.plan([path, 5]), "path is 5; expected a file, a directory, a glob, a URL"),  # type: ignore[list-item]
]


def test_wrong_arguments_in_python_are_named_errors(tmp_path: Path) -> None:
    path = files.write(tmp_path / "x.parquet", {"id": [1]})
    for call, message in WRONG_IN_PYTHON:
        with pytest.raises(bp.OptionError, match=message):
            call(path)


def test_row_groups_of_orc_are_numbered_through_all_stripes(run: Run, tmp_path: Path) -> None:
    make_inputs(tmp_path)
    says = "numbered from 0, through all its stripes"
    assert says in run("probe", tmp_path / "x.orc", *PROBE).out
    assert says not in run("probe", tmp_path / "good.parquet", *PROBE).out


def test_files_without_row_groups_have_none_to_name(run: Run, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    pq.ParquetWriter(tmp_path / "none.parquet", schema).close()
    pa_orc.write_table(schema.empty_table(), str(tmp_path / "none.orc"))
    for name, unit in (("none.parquet", "row group"), ("none.orc", "stripe")):
        probed = run("probe", tmp_path / name, *PROBE)
        assert (probed.code, probed.out) == (3, "proven absent: there is no row group, so there are no rows\n")
        explained = run("explain", tmp_path / name, "--where", "id = 1").out
        assert explained.splitlines()[:2] == ["id = 1", f"there is no {unit} in 1 opened file"]


def test_json_of_plan_and_explain_counts_opened_files_apart(run: Run, tmp_path: Path) -> None:
    days = {f"day={day}": {"id": IDS, "s": ["x"] * 1000} for day in range(3)}
    root = files.hive(tmp_path / "t", days, ["id"], rows_per_group=500)
    where = f"day < 2 AND id = {IDS[7]} AND length(s) = 3"
    plan, explained = (json.loads(run(name, root, "--where", where, "--json").out) for name in ("plan", "explain"))
    for values in (plan, explained):
        assert values["unopened_files"] == {"skipped": 1, "read_whole": 0}
        assert (values["opened_files"]["files"], values["opened_files"]["total"]) == (2, 4)
        assert values["opened_files"]["kept"] == 2
        assert values["not_understood"] == ["LENGTH(s) = 3"]
    assert plan["opened_files"]["skipped"] == {"partition": 0, "statistics": 0, "bloom": 2}
    assert plan["columns_without_filters"] == {}
    assert explained["opened_files"]["decided"] == {"read": 2, "bloom": 2}
    day, *_ = explained["parts"][0]["parts"]
    assert (day["skipped"], day["unopened_files_skipped"]) == (0, 1)
    assert not {"total", "kept", "decided"} & (plan.keys() | explained.keys())


SENTENCES = {
    "c <> 1": ["<>, NOT IN and NOT skip only", "no filter proves that a value is there", "= or IN"],
    "c NOT IN (1, 2)": ["<>, NOT IN and NOT skip only", "all ruled out"],
    "c IS NULL": ["hold rows in which c is NULL", "sort the rows by c when writing"],
    "c IS NOT NULL": ["in which every value of c is NULL", "compare c with a value"],
    "flag = true": ["flag is BOOLEAN: it has no Bloom filters", "in which all values are equal"],
    "d > 1": ["the max leaves out NaN", "there may be some", "use <, <= or ="],
    "c + 1 = 2": ["a function or an operator changes the column first", "compare the column itself"],
}


def test_explain_fits_80_columns_and_names_the_condition(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {"c": [None, *range(9)], "d": [i / 2 for i in range(10)], "flag": [True, False] * 5}
    path = files.write(tmp_path / "x.parquet", data)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for where, expected in SENTENCES.items():
        terminal.echo_folded(str(bp.plan(path, where).explain()))
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= 80
        for sentence in expected:
            assert sentence in " ".join(out.split()), where


def test_the_warning_of_a_missing_index_has_the_command_that_builds_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(tmp_path / "t u" / "x.parquet", {"id": [1]})
    monkeypatch.chdir(tmp_path)
    arguments = ["plan", "t u", "--where", "id = 1", "--index", "no/index"]
    command = [sys.executable, "-m", "bloomparquet.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    build = "bloomparquet index build 't u/' --to no/index"
    assert done.stderr == (
        "warning: no/index: there is no index here, so plans use none; correct index= (--index on the command line), "
        f"or build it there: {build}\n"
    )
    pasted(run, build)
    assert run(*arguments, "--json").lines()[0]["indexed_files"] == 1
