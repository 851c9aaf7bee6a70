"""``--key-provider``: every command decrypts files with it, and no command shows a key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.commands import Run
from tests.support.kms import COMMON as KMS
from tests.support.kms import Writer, configuration, reveals

KEY = b"0123456789abcdef"
IDS = [i * 7919 % 2003 * 2 for i in range(2000)]  # scattered even numbers
TABLE = pa.table({"id": IDS, "name": [f"user {i % 500}" for i in IDS], "open": [i % 7 for i in IDS]})
COLUMNS = {"secret": ["id"]}

PROVIDER = f"""
import bloomparquet as bp
from tests.support.kms import COMMON as KMS

KEY = {KEY!r}

def events():
    return bp.Keys.from_kms(None, KMS.client)

def footer_only():
    def retrieve(metadata):
        raise PermissionError(KEY) if b'"isFooterKey":false' in metadata else None
    return bp.Keys(retriever=retrieve)

def another():
    return bp.Keys(KEY, {{"id": KEY}})

def broken():
    raise ValueError(f"no vault at https://user:{{KEY!r}}@vault")

nothing = None
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    return Writer(KMS).write(TABLE, tmp_path / "events.parquet", configuration(COLUMNS), row_group_size=500)


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Returns ``module:function`` for a function of a module in the current directory."""
    module = f"provider_of_{tmp_path.name.replace('[', '_').replace(']', '_').replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(PROVIDER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", os.getcwd())])
    return lambda function: f"{module}:{function}"


def test_every_command_takes_the_provider(run: Run, file: str, provider: Callable[[str], str]) -> None:
    keys = ("--key-provider", provider("events"))
    plan = json.loads(run("plan", file, "--where", "id = 1001", *keys, "--json").out)["opened_files"]
    assert (plan["kept"], plan["total"]) == (4, 4)
    assert [row["id"] for row in run("read", file, "--where", "id = 1000", *keys, "--json").lines()] == [1000]
    # Nothing matches; the header still has the columns of the file.
    assert run("read", file, "--where", "id = 1001", *keys).out.split() == ["id", "name", "open"]
    advice = run("advise", file, *keys)
    assert advice.code == 0, advice.err
    assert f"--key-provider {provider('events')}" in advice.out
    added = run("add", file, "--columns", "id,name", *keys)
    assert added.code == 0, added.err
    assert Path(file).read_bytes()[-4:] == b"PARE"
    filters = run("inspect", file, *keys, "--json").lines()
    expected = [(column, group) for group in range(4) for column in ("id", "name")]
    assert [(row["column"], row["row_group"]) for row in filters] == expected
    probe = run("probe", file, "--column", "id", "--value", 1000, *keys, "--json")
    assert (probe.code, 1 <= json.loads(probe.out)["maybe"] <= 4) == (0, True)
    assert run("probe", file, "--column", "name", "--value", "nobody at all", *keys).code in (0, 3)
    assert json.loads(run("plan", file, "--where", "id = 1001", *keys, "--json").out)["opened_files"]["kept"] == 0
    shrunk = run("shrink", file, "--fpp", "0.5", *keys)
    assert shrunk.code == 0, shrunk.err
    smaller = run("inspect", file, *keys, "--json").lines()
    assert sum(row["bytes"] for row in smaller) < sum(row["bytes"] for row in filters)
    assert run("read", file, "--where", "id < 100", *keys, "--json").out.count("\n") == sum(i < 100 for i in IDS)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("evnts", "has no evnts; did you mean 'events'?"),
        ("broken", "raised ValueError; call it in Python to see why."),
        ("nothing", "is a NoneType; expected a function."),
        ("events:x", "expected module:function, such as company.keys:for_events."),
    ],
)
def test_a_provider_without_keys_is_exit_code_2(
    run: Run, file: str, provider: Callable[[str], str], function: str, message: str
) -> None:
    for command in ("plan", "read", "inspect", "advise", "probe --column=id --value=1", "add", "shrink"):
        result = run(*command.split(), file, "--key-provider", provider(function))
        assert (result.code, result.out) == (2, "")
        assert "Invalid value for '--key-provider'" in result.err
        assert message in " ".join(result.err.split())
        assert not reveals(result.err, KEY)


def test_without_a_provider_the_error_says_what_to_do(run: Run, file: str) -> None:
    before = Path(file).read_bytes()
    result = run("read", file, "--json")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: {file}: ")
    assert "the footer key is not given; pass it in keys (in Spark keyProvider, on the command line" in result.err
    for command in (["inspect"], ["probe", "--column=id", "--value=1"], ["advise"], ["add", "--yes"], ["shrink"]):
        result = run(*command, file)
        assert result.code == 1
        assert "--key-provider" in " ".join(result.err.split())
    assert Path(file).read_bytes() == before
    # A plan keeps a file that it cannot decrypt.
    plan = run("plan", file, "--where", "id = 1001", "--json")
    assert (plan.code, json.loads(plan.out)["unopened_files"]) == (0, {"skipped": 0, "read_whole": 1})
    assert run("plan", file, "--where", "id = 1001", "--on-filter-error", "fail").code == 1


@pytest.mark.parametrize("function", ["another", "footer_only"])
def test_wrong_keys_are_an_error_that_shows_no_key(
    run: Run, file: str, provider: Callable[[str], str], function: str
) -> None:
    result = run("read", file, "--key-provider", provider(function))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: {file}: the footer ")
    assert not reveals(result.err, KEY, *KMS.master_keys.values())


def test_the_installed_command_imports_from_the_current_dir(tmp_path: Path) -> None:
    (tmp_path / "my_keys.py").write_text("import bloomparquet\ndef mine(): return bloomparquet.Keys()\n")
    (tmp_path / "elsewhere").mkdir()
    script = "import sys; sys.path.remove(''); from bloomparquet.cli.main import main; main()"
    command = [sys.executable, "-c", script, "plan", "no such file", "--key-provider", "my_keys:mine"]
    here = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert here.returncode == 1
    assert "no such file" in here.stderr
    there = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path / "elsewhere", check=False)
    assert there.returncode == 2
    assert "there is no module my_keys" in there.stderr
