"""The files of a case, written by pyarrow (as Parquet or as ORC), DuckDB or DataFusion."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.query.predicate import Column
from tests.differential.cases import ROW_ID, Data, File
from tests.differential.kinds import to_arrow
from tests.differential.oracle import is_group_valid
from tests.support import nan_counts, orc_rewriting
from tests.support.nan_counts import IEEE_754_TOTAL_ORDER, TYPE_ORDER

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = "\"#%'*/:=?\\\x7f{[]^"  # characters that Spark and Hive escape in the directory name of a partition


def file_paths(data: Data, root: Path, suffix: str = "parquet") -> list[Path]:
    """The path of each file of `data`."""
    paths = []
    for number, file in enumerate(data.files):
        folder = root
        if data.partition:
            raw = (
                HIVE_NULL
                if file.partition is None
                else "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in file.partition)
            )
            folder = root / f"p={raw}"
        paths.append(folder / f"part-{number:03}.{suffix}")
    return paths


def write(data: Data, root: Path) -> list[Path]:
    """Write every file by pyarrow, with a filter on every column that can have one."""
    paths = file_paths(data, root)
    for number, (file, path) in enumerate(zip(data.files, paths)):
        path.parent.mkdir(parents=True, exist_ok=True)
        table = to_table(file, data.first_rid(number))
        bloom = {
            ".".join(column): {"ndv": file.group_size, "fpp": file.fpp}
            for column, kind in file.kinds.items()
            if kind.family != "boolean"
        }
        pq.write_table(
            table,
            path,
            row_group_size=file.group_size,
            bloom_filter_options=bloom or None,
            write_statistics=file.statistics,
            use_dictionary=file.dictionary,
            store_schema=file.store_schema,
            store_decimal_as_integer=file.decimal_as_integer,
            data_page_version=file.page_version,
            use_deprecated_int96_timestamps=any(kind.int96 for kind in file.kinds.values()),
            compression="none",
        )
        if file.page_version == "2.0" and any(kind.family == "float" for kind in file.kinds.values()):
            nan_counts.add(path, IEEE_754_TOTAL_ORDER if file.dictionary else TYPE_ORDER)
    return paths


def write_orc(data: Data, root: Path) -> list[Path]:
    """Write every file as ORC with filters on all columns: a stripe for each Parquet row group."""
    paths = file_paths(data, root, "orc")
    for number, (file, path) in enumerate(zip(data.files, paths)):
        path.parent.mkdir(parents=True, exist_ok=True)
        orc_rewriting.write(
            path,
            to_table(file, data.first_rid(number)),
            stripe=file.group_size,
            stride=file.group_size // (1 + file.dictionary + file.store_schema) or 1,
            bloom_filter_fpp=file.fpp,
            dictionary_key_size_threshold=float(file.dictionary),
            compression="zstd" if file.decimal_as_integer and file.statistics else "uncompressed",
        )
        if not file.statistics:
            orc_rewriting.drop_statistics(path)
    return paths


def write_by_duckdb(data: Data, root: Path) -> list[Path]:
    """One row group for each file: DuckDB's smallest has 2,048 rows."""
    import duckdb

    paths = file_paths(data, root)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for number, (file, path) in enumerate(zip(data.files, paths)):
            path.parent.mkdir(parents=True, exist_ok=True)
            connection.register("rows", to_table(file, data.first_rid(number)))
            # pyarrow reads no 32-bit deltas of DuckDB that are wider than 32 bits, such as -2**31 and 0.
            for version in (file.page_version[0], 1):
                connection.execute(f"COPY rows TO '{path}' (FORMAT parquet, PARQUET_VERSION V{version})")
                with suppress(OSError):
                    pq.read_table(path)
                    break
            connection.unregister("rows")
    return paths


def write_by_datafusion(data: Data, root: Path) -> list[Path]:
    from datafusion import ParquetWriterOptions, SessionContext

    paths = file_paths(data, root)
    for number, (file, path) in enumerate(zip(data.files, paths)):
        path.parent.mkdir(parents=True, exist_ok=True)
        options = ParquetWriterOptions(
            max_row_group_size=file.group_size,
            dictionary_enabled=file.dictionary,
            statistics_enabled="chunk" if file.statistics else "none",
            skip_arrow_metadata=not file.store_schema,
            bloom_filter_on_write=True,
            bloom_filter_ndv=file.group_size,
            bloom_filter_fpp=file.fpp,
        )
        frame = SessionContext().from_arrow(to_table(file, data.first_rid(number)))
        frame.write_parquet_with_options(path, options)
    return paths


def to_table(file: File, first_rid: int) -> pa.Table:
    """The rows of a file as an Arrow table. The row id is first."""
    tree: dict[str, Any] = {}
    for path in file.kinds:
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = path
    rids = pa.array(range(first_rid, first_rid + file.rows), pa.int64())
    columns = {ROW_ID: rids, **{name: _build(file, (name,), node, first_rid) for name, node in tree.items()}}
    fields = [
        pa.field(name, array.type, nullable=_is_nullable(file, (name,), array)) for name, array in columns.items()
    ]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def _build(file: File, path: Column, node: Any, first_rid: int) -> pa.Array:
    if isinstance(node, tuple):
        return to_arrow(file.kinds[node], file.values[node])
    children = {name: _build(file, (*path, name), child, first_rid) for name, child in node.items()}
    missing = [not is_group_valid(file, path, at, first_rid + at) for at in range(file.rows)]
    fields = [pa.field(name, array.type, _is_nullable(file, (*path, name), array)) for name, array in children.items()]
    return pa.StructArray.from_arrays(list(children.values()), fields=fields, mask=pa.array(missing, pa.bool_()))


def _is_nullable(file: File, path: Column, array: pa.Array) -> bool:
    return not file.required or array.null_count > 0 or (len(path) > 1)
