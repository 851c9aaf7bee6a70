"""Every benchmark runs, on hardly any data, and compares what it says it compares. No time is asserted.

The group ``tables`` needs another PySpark, and is not run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark import ENVIRONMENT

_CORE = {
    "plan": {"cold", "warm", "warm, listed before"},
    "writing": {"bloomparquet add", "bloomparquet shrink", "rewrite with pyarrow", "write_table with bloom"},
    "index": {"build", "refresh", "index", "no index", "duckdb"},
    "lookup": {
        "bloomparquet", "bloomparquet, cold", "DuckDB, metadata cache", "DuckDB", "DuckDB, new connection",
        "DataFusion", "DataFusion, pushdown_filters", "polars", "pyarrow.dataset",
    },
    "rows": {"bloomparquet", "DuckDB, metadata cache"},
    "first query": {"bloomparquet", "DuckDB", "pyarrow.dataset"},
    "engines": {
        "DuckDB", "DuckDB, bp.dataset", "DuckDB, plan.files()", "polars", "polars, bp.dataset", "polars, plan.files()",
        "DataFusion", "DataFusion, bp.dataset", "pandas", "pandas, bp.dataset",
    },
}  # fmt: skip
_SPARK = {
    "spark": {"spark.read.parquet", "spark.read.parquet, pruned", "bloomparquet", "oracle: the kept files"},
    "row groups": {"no filters", "Spark's own filters", "bloomparquet add"},
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "groups", [pytest.param(_CORE, id="core"), pytest.param(_SPARK, id="spark", marks=[pytest.mark.jar])]
)
def test_every_benchmark_runs(groups: dict[str, set[str]], tmp_path: Path) -> None:
    only = [word for name in groups for word in ("--only", name)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--tiny", "--json", *only],
        env={**os.environ, **ENVIRONMENT, "BENCH_DATA_DIR": str(tmp_path)},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["group"] for row in rows} == set(groups)
    for name, contenders in groups.items():
        assert contenders <= {row["contender"] for row in rows if row["group"] == name}
    assert all(0 < row["low"] <= row["figure"] <= row["high"] for row in rows)
