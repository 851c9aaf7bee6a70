"""Makes a failing pair smaller: fewer settings, one predicate, fewer files, fewer rows."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tests.differential.pairs import PLAIN, WHERE, Pair, compare
from tests.differential.random_sql import ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_ROWS = 12


def shrunk(spark: SparkSession, pair: Pair, difference: str, home: Path) -> Pair:
    """The smallest pair with this difference. Its data set is below `home`."""
    kind = _kind(difference)

    def still_fails(smaller: Pair) -> bool:
        return _kind(compare(spark, smaller, Counter())) == kind

    pair = _simplified(pair, still_fails)
    pair = _fewer_files(pair, still_fails, home)
    pair = _fewer_rows(pair, still_fails, home)
    return _simplified(pair, still_fails)


def _kind(difference: str | None) -> list[str]:
    """The kind of a difference: the rows, or the error."""
    if difference is None:
        return []
    return re.findall(r"^fails|^rows|lost|[A-Z_.]{6,}|\w+Exception|\w+Error", difference)[:2]


def _simplified(pair: Pair, still_fails: Callable[[Pair], bool]) -> Pair:
    again = True
    while again:
        again = False
        for smaller in _simpler(pair):
            if still_fails(smaller):
                pair, again = smaller, True
                break
    return pair


def _simpler(pair: Pair) -> Iterator[Pair]:
    load = pair.load
    if pair.way == WHERE:
        yield replace(pair, way=PLAIN)
    if load.at_load != load.settings:
        yield replace(pair, load=replace(load, at_load=load.settings))
    for key in load.settings:
        fewer = {k: v for k, v in load.settings.items() if k != key}
        at_load = fewer if load.at_load == load.settings else {k: v for k, v in load.at_load.items() if k != key}
        yield replace(pair, load=replace(load, settings=fewer, at_load=at_load))
    for key in load.options:
        yield replace(pair, load=replace(load, options={k: v for k, v in load.options.items() if k != key}))
    if load.entry != "load":
        yield replace(pair, load=replace(load, entry="load"))
    if load.schema is not None:
        yield replace(pair, load=replace(load, schema=None))
    if pair.statement.template != ROWS:
        yield replace(pair, statement=replace(pair.statement, template=ROWS))
    for predicate in pair.statement.predicate.simpler():
        yield replace(pair, statement=replace(pair.statement, predicate=predicate))


def _files(pair: Pair) -> list[Path]:
    data = pair.load.data
    return sorted(path for path in data.root.rglob(f"*.{data.format}") if "_bloomparquet" not in str(path))


def _copy(pair: Pair, root: Path) -> Pair:
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(pair.load.data.root, root)
    return replace(pair, load=replace(pair.load, data=replace(pair.load.data, root=root)))


def _fewer_files(pair: Pair, still_fails: Callable[[Pair], bool], home: Path) -> Pair:
    for file in _files(pair):
        smaller = _copy(pair, home / f"without-{file.stem}")
        copied = smaller.load.data.root / file.relative_to(pair.load.data.root)
        if len(_files(pair)) > 1 and copied.exists():
            copied.unlink()
            if still_fails(smaller):
                return _fewer_files(smaller, still_fails, home / "fewer")
    return pair


def _fewer_rows(pair: Pair, still_fails: Callable[[Pair], bool], home: Path) -> Pair:
    """Files of some rows, written again by pyarrow with filters: the fault may need what only the old file has."""
    names = [file.relative_to(pair.load.data.root) for file in _files(pair)]
    for name in names if pair.load.data.format == "parquet" else []:
        file = pair.load.data.root / name
        try:
            table = pq.ParquetFile(file).read()
        except (pa.ArrowException, OSError):  # a damaged file
            continue
        size = table.num_rows
        while size > 1:
            size = (size + 1) // 2
            for at in range(0, table.num_rows, size):
                smaller = _copy(pair, home / f"{file.stem}-{size}-{at}")
                copied = smaller.load.data.root / name
                part = table.slice(at, size)
                leaves = [f.name for f in part.schema if not pa.types.is_nested(f.type) and f.type not in _UNFILTERED]
                filters = {key: {"ndv": 4} for key in leaves}
                pq.write_table(part, copied, row_group_size=1, bloom_filter_options=filters)
                if still_fails(smaller):
                    pair, table = smaller, part
                    break
            else:
                break
    return pair


_UNFILTERED = (pa.bool_(), pa.null())


def described(pair: Pair) -> str:
    """The files of a pair: their rows if they are few."""
    lines = []
    for file in _files(pair):
        text = f"{file.relative_to(pair.load.data.root)}, {file.stat().st_size} bytes"
        if pair.load.data.format == "parquet":
            try:
                table = pq.ParquetFile(file).read()
                text += f", {table.num_rows} rows: {table.slice(0, _MOST_ROWS).to_pylist()}\n    {table.schema}"
            except (pa.ArrowException, OSError) as error:
                text += f", not readable: {error}"
        lines.append(text)
    return "\n  ".join(lines)
