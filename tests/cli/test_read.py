"""The commands that read: what they print, their exit codes, and one-line errors."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest

import bloomparquet as bp
import pyspark_bloomparquet.cli  # noqa: F401 - adds the command `jar`
from pyspark_bloomparquet.jar import session
from tests.support import files
from tests.support.commands import Result, Run

IDS = [i * 7919 % 1009 for i in range(1000)]
ABSENT = next(i for i in range(1009) if i not in IDS)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two files of five row groups with 100 rows each. The ids are scattered: all but nine from 0 to 1008."""
    root = tmp_path_factory.mktemp("users")
    names = [f"név-{i}" for i in IDS]
    money = pa.array([Decimal(i) / 4 for i in IDS], pa.decimal128(9, 2))
    table = pa.table({"id": IDS, "name": names, "total": money, "ratio": [i / 8 for i in IDS]})
    table = table.append_column("born", pa.array([dt.date(1970, 1, 1) + dt.timedelta(days=i) for i in IDS]))
    table = table.append_column("raw", pa.array([b"\x00" + str(i).encode() for i in IDS]))
    parts = {"day=2026-03-01": table.slice(0, 500), "day=2026-03-02": table.slice(500)}
    return files.hive(root, parts, ["id", "name", "total", "ratio", "born", "raw"], rows_per_group=100)


def test_read_takes_the_columns_of_all_files_and_leaves_out_a_damaged_one(run: Run, tmp_path: Path) -> None:
    files.write(tmp_path / "1.parquet", {"id": [1]})
    files.write(tmp_path / "2.parquet", {"id": [2.5], "more": ["x"]})
    assert "--merge-schema" in run("read", tmp_path, "--json").err
    merged = run("read", tmp_path, "--json", "--merge-schema")
    assert merged.lines() == [{"id": 1.0, "more": None}, {"id": 2.5, "more": "x"}]
    (tmp_path / "3.parquet").write_bytes(b"PAR1 without its end")
    for command in ("plan", "explain", "read"):
        rest = [tmp_path, "--where", "id = 1", "--json"]
        assert "--skip-corrupt" in run(command, *rest).err
        assert run(command, *rest, "--skip-corrupt").code == 0
    assert run("read", tmp_path, "--where", "id = 1", "--json", "--skip-corrupt").lines() == [{"id": 1}]


def test_plan_as_text_has_the_counts_of_json(run: Run, users: str) -> None:
    where = f"id = {IDS[777]} AND day = '2026-03-02'"
    counts = json.loads(run("plan", users, "--where", where, "--json").out)["opened_files"]
    result = run("plan", users, "--where", where)
    assert result.code == 0
    lines = {line.split("  ")[0]: line.split("  ", 1)[-1].split() for line in result.out.splitlines() if line}
    assert lines["skipped by partition values, unopened"][:2] == ["1", "file"]
    assert lines["skipped by Bloom filters"][0] == str(counts["skipped"]["bloom"])
    assert lines["read"][0] == str(counts["kept"])
    assert lines["total"][:4] == ["1", "file", "+", "5"]
    assert "day=2026-03-02/part-0.parquet" in result.out


def test_read_columns_and_limit(run: Run, users: str) -> None:
    result = run("read", users, "--columns", "name, day", "--limit", 7, "--json")
    assert len(result.lines()) == 7
    assert all(set(row) == {"name", "day"} for row in result.lines())
    assert run("read", users, "--limit", 0, "--json").out == ""
    [row] = run("read", users, "--columns", "NAME", "--ignore-case", "--limit", 1, "--json").lines()
    assert set(row) == {"name"}


def test_read_prints_one_hundred_rows_by_default(run: Run, users: str) -> None:
    result = run("read", users)
    assert len(result.out.splitlines()) == 101
    assert "first 100 rows" in result.err
    assert len(run("read", users, "--limit", 150).out.splitlines()) == 151


def test_json_of_types_that_json_lacks(run: Run, tmp_path: Path) -> None:
    table = pa.table({
        "at": pa.array([1_234_567_890_123_456_789], pa.timestamp("ns")),
        "money": pa.array([Decimal("12345678901234567890.12")], pa.decimal128(30, 2)),
        "ratio": [float("nan")],
        "raw": [b"\x00\xff"],
        "nested": [[{"x": Decimal("1.5")}, None]],
        "nothing": pa.array([None], pa.int32()),
    })  # fmt: skip
    (row,) = run("read", files.write(tmp_path / "a.parquet", table), "--json").lines()
    assert row == {
        "at": "2009-02-13 23:31:30.123456789",
        "money": "12345678901234567890.12",
        "ratio": "NaN",
        "raw": "00ff",
        "nested": [{"x": "1.5"}, None],
        "nothing": None,
    }


@pytest.mark.parametrize("limit", [[], ["--limit", "7"]])
def test_inspect_counts_the_filters_it_leaves_out(run: Run, users: str, limit: list[str]) -> None:
    shown = int(limit[1]) if limit else 20
    details = run("inspect", users, *limit).out.split("\n\n")[1].splitlines()
    assert len(details) == 2 + shown + 1
    assert details[-1] == f"… and {60 - shown} filters more; --limit 0 lists all"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", str(IDS[550])),
        ("name", f"név-{IDS[550]}"),
        ("total", str(Decimal(IDS[550]) / 4)),
        ("ratio", str(IDS[550] / 8)),
        ("born", (dt.date(1970, 1, 1) + dt.timedelta(days=IDS[550])).isoformat()),
        ("raw", "0x00" + str(IDS[550]).encode().hex()),
    ],
)
def test_probe_takes_values_of_every_type_as_text(run: Run, users: str, column: str, value: str) -> None:
    result = run("probe", users, "--column", column, "--value", value, "--json")
    assert result.code == 0, result
    answer = json.loads(result.out)
    maybe = [(Path(g["path"]).parent.name, g["row_group"]) for g in answer["row_groups"] if g["verdict"] == "maybe"]
    assert ("day=2026-03-02", 0) in maybe
    assert answer["maybe"] == 10 - answer["absent"] <= 5


def test_probe_names_row_groups_without_a_filter(run: Run, tmp_path: Path) -> None:
    bp.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "x.parquet", bloom="x")
    for column, suffix in (("x", "row group 0"), ("y", "row group 0 (no filter)")):
        command = ("probe", str(tmp_path), "--column", column, "--value", "1")
        assert run(*command).out.splitlines()[0].endswith(suffix)
        assert json.loads(run(*command, "--json").out)["row_groups"][0]["has_filter"] is (column == "x")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the jar in an installation in `tmp_path`. It does not exist yet."""
    monkeypatch.setattr(session, "__file__", str(tmp_path / "jar" / "session.py"))
    (tmp_path / "jars").mkdir()
    return tmp_path / "jars" / "bloomparquet.jar"


def test_jar_prints_the_path_and_nothing_else(run: Run, installed: Path) -> None:
    installed.write_bytes(b"PK")
    assert run("jar") == Result(0, f"{installed}\n", "")
    (line,) = run("jar", "--json").lines()
    assert line == {"jar": str(installed), "spark": ["4.0", "4.1", "4.2", "4.3"]}


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_jar_without_a_jar_is_one_line_and_exit_code_1(run: Run, installed: Path, flags: list[str]) -> None:
    result = run("jar", *flags)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: this installation has no jar")
    assert result.err.count("\n") == 1
    assert str(installed) in result.err


def test_help_imports_no_large_module() -> None:
    program = """if True:
        import sys
        from pyspark_bloomparquet import cli
        try:
            cli.main(["plan", "--help"])
        finally:
            large = {"sqlglot", "rich", "fsspec", "pandas", "pyspark", "pyarrow.dataset"}
            print(large & set(sys.modules), file=sys.stderr)
    """
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stderr == "set()\n"


def test_a_closed_pipe_is_quiet(users: str) -> None:
    command = f"{sys.executable} -m bloomparquet.cli.main read {users} --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in (0, 141)
    assert len(done.stdout.splitlines()) == 1


def test_interrupt_is_quiet(run: Run, users: str) -> None:
    with patch.object(bp, "plan", side_effect=KeyboardInterrupt):
        assert run("plan", users) == Result(130, "", "")


def test_explain_says_why_as_text_and_as_json(run: Run, users: str) -> None:
    where = "id = 7919 AND born > DATE '1970-01-01' AND length(name) = 3"
    text, values = run("explain", users, "--where", where), run("explain", users, "--where", where, "--json")
    assert (text.code, values.code) == (0, 0)
    explanation = bp.plan(users, where).explain()
    assert text.out.rstrip("\n") == str(explanation)
    assert json.loads(values.out) == explanation.to_dict()
    for part in ("id = 7919: skips 10 of 10", "born > DATE '1970-01-01': skips 0 of 10", "a function or an operator"):
        assert part in text.out
    assert run("explain", users, "--where", "no = 1").code == 1
    assert json.loads(run("explain", users, "--json").out)["where"] is None


def test_explain_reads_and_says_what_was_read(run: Run, users: str) -> None:
    explained = run("explain", users, "--where", "id = 7").out
    shown = f"{explained}\nwhat was read:\n  rows: 1\n  row groups: 1 of 10\n  "
    assert run("explain", users, "--where", "id = 7", "--read").out.startswith(shown)
    read = json.loads(run("explain", users, "--where", "id = 7", "--read", "--json").out)["read"]
    assert {**read["columns"], "day": None}.keys() == set(bp.read_table(users).column_names)


def test_plan_names_conditions_that_are_not_used(run: Run, users: str) -> None:
    where = "id = 7 AND length(name) = 3"
    lines = run("plan", users, "--where", where).out.splitlines()
    assert lines[-2:] == ["not used: LENGTH(name) = 3; why:", f"  bloomparquet explain {users} --where '{where}'"]
    assert "not used" not in run("plan", users, "--where", "id = 7").out


def test_names_are_quoted_as_in_sql(run: Run, tmp_path: Path) -> None:
    """Each column has values of its own: a wrong column gives other answers."""
    struct = pa.array([{"b": 3}], pa.struct([("b", pa.int64())]))
    table = pa.table({"a,b": [1], "x.y": [2], "x": struct, "`": [4], "n": [5]})
    path = files.write(tmp_path / "t.parquet", table)
    (outcome,) = run("add", path, "--columns", "`a,b`, `x.y`,x.`b`,````", "--json").lines()
    assert [each["column"] for each in outcome["columns"]] == ["a,b", "x.y", "x.b", "`"]
    for name, value in (("`a,b`", 1), ("a,b", 1), ("`x.y`", 2), ("x.y", 2), ("x.`b`", 3), ("x.b", 3), ("````", 4)):
        assert run("probe", path, "--column", name, "--value", value).code == 0, name
        assert run("probe", path, "--column", name, "--value", value + 1).code == 3, name
    assert run("read", path, "--columns", "`a,b`,n", "--json").lines() == [{"a,b": 1, "n": 5}]
    built = run("index", "build", path, "--columns", "`a,b`,n", "--to", str(tmp_path / "_index"), "--json")
    assert built.code == 0, built
    assert json.loads(built.out)["columns"] == ["a,b", "n"]
    error = run("plan", path, "--where", "x.yy = 2").err
    assert "did you mean 'x.y' (in SQL `x.y`)?; the columns in SQL are `a,b`, `x.y`, `x`.b, ````, n" in error


def test_files_without_filters_are_named_with_advise(run: Run, tmp_path: Path) -> None:
    path = files.write(tmp_path / "two words.parquet", {"id": IDS, "no": IDS}, ["id"])
    advise = f"bloomparquet advise '{path}'"
    assert run("plan", path, "--where", "no = 7 AND id = 7").out.rstrip().endswith(advise)
    assert "Bloom filter on no. " in run("plan", path, "--where", "no = 7 AND id = 7").out
    assert "advise" not in run("plan", path, "--where", "id = 7 AND no > 3").out
    assert run("probe", path, "--column", "no", "--value", "7").out.rstrip().endswith(advise)
    assert "advise" not in run("probe", path, "--column", "id", "--value", "7").out
    bare = files.write(tmp_path / "bare.parquet", {"id": IDS})
    assert run("inspect", bare).out.rstrip().endswith(f"bloomparquet advise {bare}")
    assert run("inspect", bare, "--json").out == ""
    assert "advise" not in run("inspect", path).out
    of_orc = tmp_path / "bare.orc"
    pa_orc.write_table(pa.table({"id": IDS}), str(of_orc))
    for command in (["plan", "--where", "id = 7"], ["probe", "--column", "id", "--value", "7"], ["inspect"]):
        name, *options = command
        assert "write them with orc.bloom.filter.columns" in run(name, of_orc, *options).out
