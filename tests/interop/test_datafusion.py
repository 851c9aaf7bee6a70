"""Files that DataFusion wrote with arrow-rs, and what DataFusion skips in files of other writers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support import files, interop

datafusion = pytest.importorskip("datafusion")

_UNKNOWN = ("json", "uuid", "date64", "time_s", "timestamp_s", "utc_s", "berlin_us")
COLUMNS = {name: kind for name, kind in interop.TYPES.items() if name not in _UNKNOWN}

STORED_AS = {
    "decimal32": "INT32", "decimal64": "INT64", "decimal_5_2": "INT32", "decimal_18_4": "INT64", "uint32": "INT32",
    "decimal_20_2": "FIXED_LEN_BYTE_ARRAY(9)", "decimal_38_10": "FIXED_LEN_BYTE_ARRAY(16)",
    "decimal256": "FIXED_LEN_BYTE_ARRAY(30)", "float16": "FIXED_LEN_BYTE_ARRAY(2)",
}  # fmt: skip


def copy(data: pa.Table, path: Path, options: dict[str, object]) -> str:
    """A file with `interop.ROWS` rows per row group."""
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    context.register_record_batches("made", [data.to_batches()])
    given = {"format.max_row_group_size": interop.ROWS, **options}
    settings = ", ".join(f"'{key}' '{value}'" for key, value in given.items())
    context.sql(f"COPY made TO '{path}' STORED AS PARQUET OPTIONS ({settings})").collect()
    return interop.only_file(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("datafusion")


@pytest.fixture(scope="module")
def written(folder: Path) -> str:
    options = {"format.bloom_filter_on_write": "true", "format.bloom_filter_fpp": 0.01, "format.bloom_filter_ndv": 512}
    return copy(interop.table(COLUMNS), folder / "types.parquet", options)


def test_a_filter_is_written_for_every_type(written: str) -> None:
    assert pq.ParquetFile(written).metadata.num_row_groups == 2
    assert interop.filtered_columns(written) == set(COLUMNS)
    assert {column: interop.physical(written, column) for column in STORED_AS} == STORED_AS


@pytest.mark.parametrize("column", COLUMNS)
def test_filters_of_every_type_are_used(written: str, column: str) -> None:
    interop.assert_filters_are_used(written, column, COLUMNS[column])


@pytest.mark.parametrize(("data", "check"), interop.SPECIAL.values(), ids=interop.SPECIAL)
def test_special_values_are_found(tmp_path: Path, data: dict[str, pa.Array], check: Callable[[str], None]) -> None:
    check(copy(pa.table(data), tmp_path / "snags.parquet", {"format.bloom_filter_on_write": "true"}))


def test_metadata_that_pyarrow_rejects_does_not_crash(folder: Path) -> None:
    """arrow-rs writes byte counts for fixed-length dictionary values, which Arrow C++ rejects as damage."""
    data = pa.table({"code": pa.array([b"aa", b"cc", b"aa"], pa.binary(2)).dictionary_encode(), "id": [1, 3, 5]})
    path = copy(data, folder / "dictionary_of_fixed.parquet", {"format.bloom_filter_on_write": "true"})
    program = (
        "import sys, bloomparquet as bp\n"
        "for where in (bp.Eq('id', 1), bp.Eq('code', b'aa'), bp.Eq('id', 2), bp.Eq('code', b'bb')):\n"
        "    print(bp.plan(sys.argv[1], where).kept)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["1", "1", "0", "0"]), done.stderr


AGREED = {
    "int64": interop.INT64,
    "string": interop.STRING,
    "float64": interop.DOUBLE,
    "decimal_9_2": interop.decimal(9, 2),
}


@pytest.mark.parametrize("column", AGREED)
def test_datafusion_skips_the_same_row_groups(folder: Path, column: str) -> None:
    kind, bloom = AGREED[column], {column: {"ndv": 200, "fpp": 0.05}}
    path, table = folder / f"arrow_{column}.parquet", interop.table({column: kind})
    files.write(path, table, bloom, rows_per_group=interop.ROWS, store_decimal_as_integer=True)
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    context.register_parquet("files", str(path))
    ours, theirs = [], []
    for literal in [*kind.literals[0][::64], *kind.absent[::20]]:
        ours.append(bp.plan(path, bp.Eq(column, literal)).skipped["bloom"])
        theirs.append(pruned_by_filter(context, f"SELECT * FROM files WHERE {column} = {as_sql(literal)}"))
    assert ours == theirs
    assert {1, 2} <= set(ours), "no false positive to agree on"


def pruned_by_filter(context: Any, query: str) -> int:
    """The number of row groups that filters excluded, by the metrics of DataFusion's scan."""
    text = str(context.sql(f"EXPLAIN ANALYZE {query}").collect()[0].to_pylist())
    (total, matched) = map(int, re.search(r"row_groups_pruned_bloom_filter=(\d+) total → (\d+) matched", text).groups())  # type: ignore[union-attr]
    return total - matched


def as_sql(literal: Any) -> str:
    if isinstance(literal, Decimal):
        return f"CAST('{literal}' AS DECIMAL(9, 2))"
    return f"'{literal}'" if isinstance(literal, str) else str(literal)
