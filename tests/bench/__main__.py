"""``python -m tests.bench``: measure, and compare the results with the aims."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from tests.bench import engines, first_query, index, lookups, plans, rowgroups, rows, spark, tables, writing
from tests.bench.data import Shape
from tests.bench.measure import Row


@dataclass(frozen=True)
class _Scale:
    """The data of one run. `items`: four times the rows of a file of the groups that have few files."""

    smaller: Shape
    larger: Shape
    items: int
    few: int  # rounds of slow measurements
    many: int


# Filters of 8 and 16 KiB: large enough that reading single blocks is faster.
_FULL = _Scale(
    Shape(files=1_000, row_groups=4, rows=5_000),
    Shape(files=10_000, row_groups=4, rows=2_500, fpp=1e-5, strings=False),
    items=4_000_000, few=7, many=15,
)  # fmt: skip
_QUICK = _Scale(
    Shape(files=100, row_groups=4, rows=5_000),
    Shape(files=1_000, row_groups=4, rows=2_500, fpp=1e-5, strings=False),
    items=1_000_000, few=3, many=3,
)  # fmt: skip
_TINY = _Scale(*[Shape(files=8, row_groups=4, rows=200, fpp=1e-5)] * 2, items=5_000, few=1, many=1)

_NOTES = {
    "plan": "cold: nothing is cached; warm: another lookup was planned before; the files are in the page cache",
    "index": "one id; first plan: in a new process, after imports and listing, and all of DuckDB's query; cold: the "
    "index was dropped from memory and from the page cache",
    "lookup": "all columns of the rows with one value; every query lists the directory; bloomparquet is warm unless it "
    "says cold; the files are in the page cache",
    "rows": "all columns of the rows, by the number of rows in a row group; every query lists the directory; "
    "the files are in the page cache",
    "first query": "all columns of the row with one id, in a new process after imports, by the number of rows in a row "
    "group; the files are in the page cache",
    "engines": "all columns of the rows; every query lists the directory, but for bp.dataset, which is opened before; "
    "plans have footers and filters in memory; "
    "the files are in the page cache",
    "spark": "all columns of the rows, in one session on two threads, with files listed before",
    "tables": "by the connectors of Iceberg and Delta Lake, in one session on two threads; needs a PySpark for which "
    "there are connectors: .venv-4.1/bin/python -m tests.bench --only tables",
    "writing": "filters on two of ten columns, random integers and URLs; all is flushed to disk",
    "row groups": "spark.read.parquet throughout; an absent value of random integers",
}
_PACKAGES = ("bloomparquet", "numpy", "pyarrow", "xxhash", "duckdb", "polars", "datafusion", "pyspark")


def _groups(scale: _Scale, rounds: int | None) -> dict[str, Callable[[], Iterator[Row]]]:
    smaller, larger, items = scale.smaller, scale.larger, scale.items
    few, many = rounds or scale.few, rounds or scale.many
    return {
        "plan": lambda: plans.plans(many, smaller, larger),
        "index": lambda: index.index(few, larger),
        "lookup": lambda: lookups.lookups(few, smaller),
        "rows": lambda: rows.rows(many, items // 4),
        "first query": lambda: first_query.lookups(few, items // 4),
        "engines": lambda: engines.engines(few, smaller, items // 4),
        "spark": lambda: spark.lookups(few, smaller, larger),
        "tables": lambda: tables.tables(few, smaller.files, smaller.rows // 5),
        "writing": lambda: writing.writing(few, items // 4),
        "row groups": lambda: rowgroups.lookups(few, items * 25),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    names = list(_groups(_TINY, 1))
    parser.add_argument("--quick", action="store_true", help="a tenth of the data and few rounds")
    parser.add_argument("--tiny", action="store_true", help="hardly any data and one round: shows that all of it runs")
    parser.add_argument("--only", action="append", metavar="NAME", choices=names, help=f"one of {', '.join(names)}")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--rounds", type=int, help="rounds of each measurement")
    given = parser.parse_args()
    scale = _TINY if given.tiny else _QUICK if given.quick else _FULL
    about = _about()
    console = Console(stderr=given.json, width=None if sys.stdout.isatty() else 190)
    console.print("  ".join(f"{name} {value}" for name, value in about.items()), style="dim", highlight=False)
    results: list[Row] = []
    for name, measure in _groups(scale, given.rounds).items():
        if given.only and name not in given.only:
            continue
        measured = list(measure())
        results += measured
        console.print(_table(name, measured))
    if given.json:
        print(json.dumps({"about": about, "quick": given.quick, "rows": [row.as_json() for row in results]}, indent=1))
    aims = [aim for row in results for aim in row.aims]
    if aims:
        console.print(f"{sum(aim.met for aim in aims)} of {len(aims)} aims met", highlight=False)
    return 0


def _about() -> dict[str, str]:
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?"
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "cores": str(os.cpu_count()),
        "load": load,
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except ImportError:  # run from the source tree
        return "-"


def _table(name: str, rows: list[Row]) -> Table:
    table = Table(title=name, title_justify="left", title_style="bold", caption=_NOTES[name], caption_justify="left")
    table.add_column("case", no_wrap=True)
    table.add_column("contender", no_wrap=True)
    table.add_column("median", justify="right", no_wrap=True)
    table.add_column("range", justify="right", no_wrap=True, style="dim")
    table.add_column("cpu", justify="right", no_wrap=True, style="dim")
    table.add_column("speed against")
    table.add_column("aim")
    table.add_column("reads", style="dim")
    for at, row in enumerate(rows):
        first = at == 0 or rows[at - 1].case != row.case
        if first and at:
            table.add_section()
        table.add_row(
            row.case if first else "",
            row.contender,
            f"{_number(row.figure)} ms",
            f"{_number(row.low)} - {_number(row.high)}",
            f"{_number(row.cpu_ms)} ms",
            "\n".join(f"{other} {_number(ratio)}x" for other, ratio in row.ratios.items()),
            "\n".join(f"[{'green' if aim.met else 'red'}]{aim.text}[/]" for aim in row.aims),
            "\n".join(f"{value:,} {name}" for name, value in row.notes.items()),
        )
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value < 10 else f"{value:.1f}"


if __name__ == "__main__":
    sys.exit(main())
