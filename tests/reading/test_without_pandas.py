"""No plan or read imports pandas, which takes longer than most of them."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import bloomparquet as bp
from tests.support.files import hive, write

WHERES = [
    "i = 7", "i IN (7, 8, NULL)", "i <> 7 AND i < 8.5", "s = 'v7'", "s NOT IN ('v7', 'v8')", "s LIKE 'v%7'",
    "s LIKE 'v7%'", "lower(s) = 'v7'", "s <=> 'v7' OR missing IS NULL", "d = DATE '2026-01-08'",
    "d IN (DATE '2026-01-08')", "t >= TIMESTAMP '2026-01-01 07:00:00'", "u = TIMESTAMP '2026-01-01 07:00:00+01:00'",
    "n = 0.07", "n IN (0.07, 1)", "n < 3", "f = 3.5 OR f IN (1.5, DOUBLE 'NaN')", "f > 3", "b", "b IS NULL",
    "y = X'37'",
]  # fmt: skip
OF_PARTITIONS = [
    "key = 3 AND i = 3", "day = DATE '2026-01-03'", "at < TIMESTAMP '2026-01-03 00:00:00'", "name IN ('a3', 'a4')",
    "big = 100000000000000000003", "ratio > 2.5", "key IS NULL", "none <> 'x1' AND i IS NULL",
]  # fmt: skip
CODE = """
import json, sys
import bloomparquet as bp
for path, wheres in json.loads(sys.argv[1]).items():
    for where in wheres:
        dataset = bp.Dataset.open(path)
        bp.plan(dataset, where).kept
        bp.read_table(dataset, where)
        assert 'pandas' not in sys.modules, where
"""


def test_plans_and_reads_do_not_import_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    n = range(20)
    columns = {
        "i": list(n), "s": [f"v{i}" for i in n], "d": [dt.date(2026, 1, 1 + i) for i in n],
        "t": [dt.datetime(2026, 1, 1, i) for i in n], "n": [Decimal(i).scaleb(-2) for i in n],
        "u": [dt.datetime(2026, 1, 1, i, tzinfo=dt.timezone.utc) for i in n], "f": [i / 2 for i in n],
        "b": [i % 2 == 0 for i in n], "y": [str(i).encode() for i in n],
    }  # fmt: skip
    for name in "ab":
        write(tmp_path / "files" / f"{name}.parquet", columns, ["i", "s", "d"])
    write(tmp_path / "files" / "missing.parquet", {**columns, "missing": list(n)})
    folders = {
        f"key={i}/day=2026-01-0{i}/at=2026-01-0{i} 01%3A00%3A00/name=a{i}/big={10**20 + i}/ratio={i}.5/none=x{i}":
            {"i": [i, None]}
        for i in range(1, 6)
    }  # fmt: skip
    nulls = "/".join(f"{name}=__HIVE_DEFAULT_PARTITION__" for name in ("key", "day", "at", "name", "big", "ratio"))
    partitions = hive(tmp_path / "partitions", {**folders, f"{nulls}/none=y": {"i": [0]}})
    works = json.dumps({str(tmp_path / "files"): WHERES, partitions: OF_PARTITIONS})
    source, program = Path(bp.__file__).parents[1], [sys.executable, "-c", CODE, works]
    done = subprocess.run(program, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
