"""Looking at filters themselves: how large and how full they are, and what they answer. Here an unusable filter is an
error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from bloomparquet.errors import PlanError, UnsupportedError, brief, quoted
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.values.encoding import encode_values, family_of
from bloomparquet.planning.dataset import Dataset, Paths
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.open import open_table
from bloomparquet.planning.parquet.row_groups import ColumnChunks, RowGroups
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.literals import Family, normalize_value
from bloomparquet.query.names import names_of, shown
from bloomparquet.query.predicate import Column
from bloomparquet.query.resolve import bind, readings, resolve_names, unknown_column, unknown_name
from bloomparquet.query.verdict import Verdict
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.table_formats import OnTableLog

if TYPE_CHECKING:
    from bloomparquet.reading.inspect_orc import OrcFiles

_SCHEMA = pa.schema(
    [
        ("file", pa.string()), ("row_group", pa.int32()), ("column", pa.string()), ("type", pa.string()),
        ("rows", pa.int64()), ("offset", pa.int64()), ("bytes", pa.int64()), ("bits_set", pa.int64()),
        ("estimated_ndv", pa.float64()), ("estimated_fpp", pa.float64()),
    ]
)  # fmt: skip
_NO_NULL = "NULL is never in a Bloom filter; probe for a value, or plan with IS NULL"
_ORC_SCHEMA = _SCHEMA.insert(2, pa.field("stripe", pa.int32())).append(pa.field("unusable", pa.string()))


class Probe(NamedTuple):
    """What one row group's filter says of a value. A row group without a filter might match."""

    path: str
    row_group: int
    verdict: Verdict


def inspect(
    path: Paths,
    *,
    columns: Sequence[str | Column] | None = None,
    filesystem: Any = None,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
) -> pa.Table:
    """Every Bloom filter at `path`, or of some `columns`, one row each. `keys` open encrypted files.

    Columns: file, row_group, column, type, rows (of the row group), offset (of the filter in the file), bytes (of the
    bitset), bits_set, estimated_ndv (from the bits), estimated_fpp (the chance that a value which is absent is not
    excluded). Reads every bitset whole. Raises FormatError, UnsupportedError or LimitError for a filter that cannot
    be used, EncryptionError for a column that does not open, PlanError for one that is not there, and for files of
    Parquet and of ORC together.

    Of ORC files there are two columns more: stripe, which the row group belongs to (row groups are counted within the
    file, over all stripes), and unusable: why the filters of this writer prove nothing for this column; null where they
    do. offset is then that of the stream with all filters of a column in a stripe.

    A directory or a glob of a table with a log (Delta Lake, Iceberg, Hudi) is an UnsupportedError, unless `table_log`
    is ``"ignore"``: files that the log has removed may be among its files. A file that is named is looked at.

    >>> filters = bp.inspect("events.parquet", columns=["user_id"])
    >>> filters.select(["row_group", "rows", "bytes", "bits_set"]).to_pylist()[0]
    {'row_group': 0, 'rows': 1000, 'bytes': 2048, 'bits_set': 6324}
    """
    dataset, table = _open(path, filesystem, keys, table_log)
    if not isinstance(table, RowGroups):
        return _inspect_orc(table, columns)
    rows = [row for chunks in _chunks(table, columns) for row in _describe(dataset, table, chunks)]
    rows.sort(key=lambda row: (row[0], row[1]))
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names, row, strict=True)) for row in rows], _SCHEMA)


def probe(
    path: Paths,
    *,
    column: str | Column,
    value: Any,
    timezone: str = "UTC",
    filesystem: Any = None,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
) -> list[Probe]:
    """Ask the Bloom filters alone, without statistics, whether `column` can hold `value`: one answer per row group,
    in file order.

    Raises :class:`PlanError` for a column that is not there or a value of the wrong kind, :class:`UnsupportedError`
    where it cannot be told which bytes the value has in the column, or where ORC filters are there but prove nothing,
    and what :func:`inspect` raises. Row groups of ORC are counted as there. A TIMESTAMP of ORC is a reading of a clock:
    the value is taken for one, and for a moment by the writer's clock as well.

    >>> answers = bp.probe("events.parquet", column="user_id", value=4711)
    >>> [(answer.row_group, answer.verdict.value) for answer in answers]
    [(0, 'might match'), (1, 'cannot match'), (2, 'cannot match'), (3, 'cannot match')]
    """
    if value is None:
        raise PlanError(_NO_NULL)
    dataset, table = _open(path, filesystem, keys, table_log)
    name = (column,) if isinstance(column, str) else column
    if not isinstance(table, RowGroups):
        return _probe_orc(table, name, value, timezone)
    schemas = [layout.schema for layout in table.layouts]
    resolved = resolve_names([name], schemas, (), case_sensitive=True)
    if resolved.unknown:
        raise unknown_column(name, schemas, ())
    path = resolved.paths[name]
    verdicts = np.ones(len(table), np.bool_)
    for i, layout in enumerate(table.layouts):
        leaf = bind(layout.schema, path, case_sensitive=True)
        if not isinstance(leaf, LeafColumn):
            continue
        chunks = table.chunks(i, leaf)
        encoded = encode_values(leaf, [value], layout.traits, timezone)
        if encoded is None or encoded.hashes is None:
            raise UnsupportedError(
                f"column {brief('.'.join(name))} ({leaf.describe()}): it cannot be told which bytes {quoted(value)} "
                "has here"
            )
        every = np.arange(len(chunks.members))
        last = np.full(len(every), len(encoded.hashes))
        question = Question(dataset.storage, every, np.zeros_like(last), last, encoded.hashes, ReadCount())
        found, unusable = chunks.filters.check(question)
        if unusable:
            raise min(chunks.filters.errors.items())[1]
        verdicts[chunks.members] = found
    answers = (Verdict.MIGHT_MATCH if verdict else Verdict.CANNOT_MATCH for verdict in verdicts.tolist())
    places = zip(table.file.tolist(), table.index.tolist(), answers, strict=True)
    return [Probe(table.paths[file], index, verdict) for file, index, verdict in places]


def kind_of(
    path: Paths, column: str, *, keys: Keys | None = None, table_log: OnTableLog = "error"
) -> tuple[Family, str] | None:
    """What kind of value `column` compares with in the first file that has it, and its type for a message; None where
    none has, or as a group."""
    _, table = _open(path, None, keys, table_log)
    if not isinstance(table, RowGroups):
        from bloomparquet.orc import encoding as orc_encoding

        found = next((kind for name in readings((column,)) if (kind := table.type_of(name)) is not None), None)
        return None if found is None else (orc_encoding.family_of(found), found.describe())
    bound = (bind(layout.schema, name, case_sensitive=True) for layout in table.layouts for name in readings((column,)))
    leaf = next((found for found in bound if isinstance(found, LeafColumn)), None)
    return None if leaf is None else (family_of(leaf.node), leaf.describe())


def _open(
    path: Paths, filesystem: Any, keys: Keys | None, table_log: OnTableLog
) -> tuple[Dataset, RowGroups | OrcFiles]:
    dataset = Dataset.open(path, filesystem=filesystem, keys=keys, table_log=table_log, allow_named_files=True)
    table = open_table(dataset, dataset.files, ReadCount(), skip_corrupt=False)
    if isinstance(table, RowGroups):
        return dataset, table
    # Imported here, because who has no ORC files shall not wait for it.
    from bloomparquet.planning.orc.stripes import Stripes
    from bloomparquet.reading.inspect_orc import OrcFiles

    assert isinstance(table, Stripes)
    return dataset, OrcFiles(dataset.storage, table.tails)


def _inspect_orc(files: OrcFiles, columns: Sequence[str | Column] | None) -> pa.Table:
    wanted = None if columns is None else set(columns)
    names = files.leaf_names()
    for name in wanted or ():
        if name not in names:
            raise unknown_name((name,) if isinstance(name, str) else name, files.names())
    rows = sorted(files.describe(wanted), key=lambda row: (row.file, row.row_group))
    return pa.Table.from_pylist([row._asdict() for row in rows], _ORC_SCHEMA)


def _probe_orc(files: OrcFiles, column: Column, value: Any, timezone: str) -> list[Probe]:
    value = normalize_value(value)
    if value is None:
        raise PlanError(_NO_NULL)
    path = files.choose(readings(column))
    if path is None:
        raise unknown_name(column, files.names())
    return [
        Probe(file, row_group, Verdict.MIGHT_MATCH if found else Verdict.CANNOT_MATCH)
        for file, row_group, found in files.probe(path, value, timezone)
    ]


def _chunks(table: RowGroups, wanted: Sequence[str | Column] | None) -> Iterator[ColumnChunks]:
    leaves = [(i, leaf) for i, layout in enumerate(table.layouts) for leaf in layout.schema.leaves]
    wanted_names = set(wanted or ())
    for name in wanted_names:
        if all(name not in names_of(leaf.path) for _, leaf in leaves):
            path = (name,) if isinstance(name, str) else name
            raise unknown_column(path, [layout.schema for layout in table.layouts], ())
    for i, leaf in leaves:
        if wanted is None or not wanted_names.isdisjoint(names_of(leaf.path)):
            yield table.chunks(i, leaf)


def _describe(dataset: Dataset, table: RowGroups, chunks: ColumnChunks) -> Iterator[tuple[Any, ...]]:
    for at, chunk in enumerate(chunks.members.tolist()):
        bitset = chunks.filters.read(dataset.storage, at, ReadCount())
        if bitset is None:
            continue
        bloom = SplitBlockBloomFilter.from_bytes(bitset.tobytes())
        place, index = int(table.file[chunk]), int(table.index[chunk])
        column, kind = shown(chunks.leaf.path), chunks.leaf.describe()
        offset = int(chunks.filters.offset[at])
        yield (
            table.paths[place], index, column, kind, int(table.rows[chunk]), offset, bloom.num_bytes, bloom.bits_set,
            bloom.estimated_ndv, bloom.estimated_fpp,
        )  # fmt: skip
