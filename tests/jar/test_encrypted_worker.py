"""The planner process over encrypted files, without Spark: key providers, errors, and secrecy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.support import files
from tests.support.kms import reveals
from tests.support.planner_process import Planner, equals, started

FOOTER_KEY, COLUMN_KEY, WRONG_KEY = b"footer-key-of-16", b"the-24-bytes-of-a-column", b"this-one-is-none"
IDS = [i * 7919 % 100_003 for i in range(400)]
SECRET = "what the provider's own exception says"
PROVIDERS = f"""
import bloomparquet as bp

def counted():
    with open(__file__ + ".calls", "a") as calls:
        calls.write("1")
    return bp.Keys({FOOTER_KEY!r}, {{"id": {COLUMN_KEY!r}}})

def wrong():
    return bp.Keys({WRONG_KEY!r}, {{"id": {WRONG_KEY!r}}})

def column_alone():
    return bp.Keys(columns={{"id": {COLUMN_KEY!r}}})

def footer_alone():
    return bp.Keys({FOOTER_KEY!r})

def fails():
    raise ValueError({SECRET!r}, {FOOTER_KEY!r})

def exits():
    import sys
    sys.exit(3)

def reads_and_prints():
    import subprocess, sys
    assert sys.stdin.read() == "" and subprocess.run(["cat"], capture_output=True).stdout == b""
    print("a line that is no answer")
    return counted()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("encrypted_worker")
    (root / "providers.py").write_text(PROVIDERS)
    keys, table = bp.Keys(FOOTER_KEY, {"id": COLUMN_KEY}), pa.table({"id": IDS})
    for i, half in enumerate((table.slice(0, 200), table.slice(200))):
        bp.write_table(half, root / f"{i}.parquet", bloom="id", row_group_size=100, encryption=keys)
    files.write(root / "plain.parquet", table, ["id"], rows_per_group=100)
    return root


@pytest.fixture(scope="module")
def planner(home: Path) -> Iterator[Planner]:
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(home))
    patch.setenv("PYTHONPATH", str(home), prepend=":")
    with patch.context(), (home / "stderr").open("wb") as stderr, started(home / "cache", stderr=stderr) as process:
        yield process
    patch.undo()


def ask(planner: Planner, home: Path, provider: str | None, value: int, *names: str, **options: str) -> dict[str, Any]:
    given = {"cacheDirectory": str(home / "cache"), **options}
    if provider is not None:
        given["keyProvider"] = provider
    return planner.ask([home / name for name in names or ("0.parquet", "1.parquet")], equals(value), options=given)


def test_the_provider_is_called_once_for_many_queries(planner: Planner, home: Path) -> None:
    answers = [ask(planner, home, "providers:counted", value) for value in (*IDS[::57], 5)]
    plans = [answer["plan"] for answer in answers]
    assert [plan["numRowGroupsTotal"] for plan in plans] == [4] * len(plans)
    assert all(plan["numFilterErrors"] == plan["numFilesReadWhole"] == 0 for plan in plans)
    assert sum(plan["numRowGroupsSkippedByBloomFilter"] for plan in plans) > 2 * len(plans)
    assert plans[1]["requests"] < plans[0]["requests"], "footers are those that were opened before"
    assert (home / "providers.py.calls").read_text() == "1"


UNDECRYPTABLE = {
    "providers:column_alone": "the footer key is not given; pass it in keys",
    "providers:wrong": "the footer cannot be decrypted: the key is wrong, or its bytes were altered",
}


@pytest.mark.parametrize("provider", UNDECRYPTABLE)
def test_undecryptable_files_are_kept_whole_and_counted(planner: Planner, home: Path, provider: str | None) -> None:
    plan = ask(planner, home, provider, 5)["plan"]
    assert (plan["numFilesReadWhole"], plan["numFilterErrors"]) == (2, 2)
    assert (plan["numRowGroupsTotal"], plan["numRowGroupsRead"]) == (0, 0)
    (warning,) = plan["warnings"]
    assert "0.parquet" in warning
    assert UNDECRYPTABLE[provider] in warning


def test_row_groups_without_a_column_key_are_kept(planner: Planner, home: Path) -> None:
    plan = ask(planner, home, "providers:footer_alone", 5)["plan"]
    assert (plan["numFilesReadWhole"], plan["numFilterErrors"]) == (0, 4)
    assert (plan["numRowGroupsTotal"], plan["numRowGroupsRead"]) == (4, 4)
    assert "the key of column id is not given" in str(plan["warnings"])


@pytest.mark.parametrize("provider", ["providers:fails", "missing:at_all", "no provider"])
def test_a_wrong_provider_fails_the_query(planner: Planner, home: Path, provider: str) -> None:
    answer = ask(planner, home, provider, 5)
    assert answer["fatal"] is True
    message = "key provider: expected module:function" if " " in provider else f"key provider '{provider}'"
    assert message in answer["error"]


def test_no_key_or_value_in_answers_output_and_cache(planner: Planner, home: Path) -> None:
    providers = ("providers:counted", "providers:wrong", "providers:fails", None)
    answers = [
        str(ask(planner, home, provider, IDS[0], onFilterError=how))
        for provider in providers
        for how in ("keep", "fail")
    ]
    plain = str(home / "plain.parquet")
    assert ask(planner, home, None, IDS[0], "plain.parquet")["plan"]["numRowGroupsTotal"] == 4
    until = time.monotonic() + 60  # the cache is written after the answer
    while not (stored := list((home / "cache").rglob("*.columns"))) and time.monotonic() < until:
        time.sleep(0.05)
    cached = b"".join(path.read_bytes() for path in stored)
    assert plain.encode() in cached
    assert b"0.parquet" not in cached
    text = " ".join(answers) + (home / "stderr").read_text()
    assert reveals(text, FOOTER_KEY, COLUMN_KEY, WRONG_KEY, SECRET.encode()) == []


def test_a_provider_may_exit_read_and_print(planner: Planner, home: Path) -> None:
    """Frames use the process's standard input and output, which a provider must not touch."""
    answer = ask(planner, home, "providers:exits", 5)
    assert (answer["error"], answer["fatal"]) == (
        "key provider 'providers:exits' raised SystemExit; call it in Python to see why",
        True,
    )
    plan = ask(planner, home, "providers:reads_and_prints", 5)["plan"]
    assert plan["numRowGroupsRead"] == 0
