"""Writes of the Python data source without Spark: driver, tasks and commit in one process, in Spark's order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_bloomparquet.staging import PREFIX
from pyspark_bloomparquet.write_options import WriteOptions
from pyspark_bloomparquet.writer import BloomParquetWriter, Staged, make_writer

COLUMNS = pa.schema([("id", pa.int64()), ("day", pa.string())])


def begin(path: Path | str, *, overwrite: bool = False, **options: str) -> BloomParquetWriter:
    """The writer of a job whose rows have the columns `id` and `day`."""
    parsed = WriteOptions.parse({"path": str(path), **options})
    return make_writer(parsed, from_arrow_schema(COLUMNS), overwrite)


def batch(ids: Iterable[int], days: int = 2) -> pa.RecordBatch:
    """Rows of these ids; the day follows from the id."""
    found = list(ids)
    return pa.RecordBatch.from_pydict({"id": found, "day": [f"d{i % days}" for i in found]}, schema=COLUMNS)


def stage(writer: BloomParquetWriter, ids: Iterable[int]) -> Staged:
    """What one task does."""
    return writer.write(iter([batch(ids)]))


def write(path: Path | str, ids: Iterable[int], *, overwrite: bool = False, **options: str) -> None:
    """A whole job."""
    writer = begin(path, overwrite=overwrite, **options)
    writer.commit([stage(writer, ids)])


def ids(path: Path | str) -> Counter[int]:
    """The ids that a reader of the table sees, read file by file."""
    found: Counter[int] = Counter()
    for file in visible(path):
        found.update(pq.ParquetFile(file).read(["id"])["id"].to_pylist())
    return found


def visible(path: Path | str) -> list[Path]:
    """The data files that are not hidden, nor below a hidden directory."""
    root = Path(path)
    files = (file for file in root.rglob("*") if file.is_file())
    names = ((file, file.relative_to(root).parts) for file in files)
    return sorted(file for file, parts in names if not any(part[0] in "._" for part in parts))


def tree(path: Path | str) -> Mapping[str, Any]:
    """Every file below `path`, hidden ones too, with its bytes; directories with None."""
    root = Path(path)
    return {str(each.relative_to(root)): None if each.is_dir() else each.read_bytes() for each in root.rglob("*")}


def staging(path: Path | str) -> list[str]:
    """The staging directories in a table's."""
    return sorted(each.name for each in Path(path).iterdir() if each.name.startswith(PREFIX))


def save(frame: DataFrame, path: Path | str, mode: str = "append", **options: Any) -> str:
    """Write, with options whose names have dots given as `key=value` of a dict under `keys`."""
    keys = options.pop("keys", {})
    frame.write.format("bloomparquet").mode(mode).options(**options, **keys).save(str(path))
    return str(path)


def layout(path: Path) -> Counter[tuple[str, str]]:
    """How many files there are in each directory, by the pattern of their names."""
    names = (each.relative_to(path) for each in path.rglob("*") if each.is_file() and each.suffix != ".crc")
    uuid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    return Counter((str(name.parent), uuid.sub("<uuid>", name.name)) for name in names)
