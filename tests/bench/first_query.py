"""The first lookup of a process, by the size of row groups: in local files, and on a storage that answers late.

The module is also the program that each new process runs. Its clock starts after the imports.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from urllib.request import urlopen

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

import bloomparquet as bp
from tests.bench.data import base_directory, scatter
from tests.bench.measure import Row, Timing, milliseconds
from tests.bench.object_server import serving
from tests.bench.rows import FILES, data_set, row_group_sizes

_DELAY = 30  # milliseconds for a request
_OURS, _DUCKDB, _ARROW = "bloomparquet", "DuckDB", "pyarrow.dataset"


def lookups(rounds: int, rows_a_file: int) -> Iterator[Row]:
    """One id, all columns."""
    for size in row_group_sizes(rows_a_file):
        root = data_set(size, rows_a_file, "snappy", wide=False)
        yield from _measure(f"{size:,} rows, local", str(root), "", (_OURS, _DUCKDB, _ARROW), rounds, rows_a_file)
        with serving(base_directory()) as address:
            urlopen(f"http://{address}/delay?{_DELAY}").close()
            path, case = f"bucket/{root.name}", f"{size:,} rows, {_DELAY} ms for a request"
            yield from _measure(case, path, address, (_OURS, _ARROW), rounds, rows_a_file)


def _measure(
    case: str, path: str, address: str, engines: tuple[str, ...], rounds: int, rows_a_file: int
) -> Iterator[Row]:
    times: dict[str, list[float]] = {engine: [] for engine in engines}
    counts: dict[str, dict[str, int]] = {}
    for number in range(rounds):
        row = (number + 3) * 7_919_993 % (FILES * rows_a_file)
        value = int(scatter(np.array([row]))[0])
        for engine in engines:
            command = [sys.executable, "-m", __name__, engine, path, str(value), address]
            answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            if answer["numbers"] != [row]:
                raise AssertionError(f"{engine}: expected row {row}, found {answer['numbers']}")
            times[engine].append(answer["seconds"])
            if address:
                with urlopen(f"http://{address}/counts") as response:
                    counts[engine] = json.loads(response.read())
    timings = {engine: Timing(engine, tuple(taken), tuple(taken), None) for engine, taken in times.items()}
    for engine, timing in timings.items():
        others = [other for other in engines if engine == _OURS != other]
        ratios = {other: timing.times_faster_than(timings[other]) for other in others}
        yield milliseconds("first query", case, timing, ratios=ratios, notes=counts.get(engine, {}))


def _by_bloomparquet(path: str, value: int, files: fs.S3FileSystem | None) -> pa.Table:
    return bp.read_table(path, f"id = {value}", filesystem=files)


def _by_duckdb(path: str, value: int, _: fs.S3FileSystem | None) -> pa.Table:
    return duckdb.sql(f"SELECT * FROM read_parquet('{path}/*.parquet') WHERE id = {value}").to_arrow_table()


def _by_arrow(path: str, value: int, files: fs.S3FileSystem | None) -> pa.Table:
    return ds.dataset(path, format="parquet", filesystem=files).to_table(filter=ds.field("id") == value)


_ENGINES: dict[str, Callable[[str, int, fs.S3FileSystem | None], pa.Table]] = {
    _OURS: _by_bloomparquet, _DUCKDB: _by_duckdb, _ARROW: _by_arrow,
}  # fmt: skip


def _main(engine: str, path: str, value: str, address: str) -> None:
    files = None
    if address:
        files = fs.S3FileSystem(
            endpoint_override=address, scheme="http", region="us-east-1", access_key="k", secret_key="s"
        )
    began = time.perf_counter()
    table = _ENGINES[engine](path, int(value), files)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "numbers": table["number"].to_pylist()}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
