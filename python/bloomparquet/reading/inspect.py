"""Looks at Bloom filters themselves: their size and fill, and their answer for a value.

A plan keeps a row group whose filter is unusable. Here such a filter is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from bloomparquet.errors import PlanError, join_names, quoted
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.dataset import Dataset, Paths, open_dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.planning.explanation import NotUsed
from bloomparquet.planning.open import open_part
from bloomparquet.planning.remedies import path_argument, saturated
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.elements import PARTS
from bloomparquet.query.literals import Family
from bloomparquet.query.names import check_names, column_to_sql, dotted_name, names_of, quote_name, valid_text
from bloomparquet.query.predicate import Column
from bloomparquet.query.resolve import (
    NoLeaf,
    find_element,
    find_leaf,
    find_node,
    is_struct,
    resolve_names,
    unknown_column_error,
)
from bloomparquet.query.values import normalize_value
from bloomparquet.query.verdict import Verdict
from bloomparquet.reading.formats import inspector_of
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.table_formats import OnTableLog

FILTER_SCHEMA_OF_ORC = pa.schema(
    [
        ("file", pa.string()), ("row_group", pa.int32()), ("stripe", pa.int32()), ("column", pa.string()),
        ("type", pa.string()), ("rows", pa.int64()), ("offset", pa.int64()), ("bytes", pa.int64()),
        ("bits_set", pa.int64()), ("estimated_ndv", pa.float64()), ("estimated_fpp", pa.float64()),
        ("unusable", pa.string()),
    ]
)  # fmt: skip
FILTER_SCHEMA = pa.schema([field for field in FILTER_SCHEMA_OF_ORC if field.name not in ("stripe", "unusable")]).append(
    pa.field("page_index", pa.bool_())
)


class Probe(NamedTuple):
    """The answer of one row group's filter for a value. Without a filter (`has_filter` is False), it might match."""

    path: str
    row_group: int
    verdict: Verdict
    has_filter: bool


def inspect(
    path: Paths | Dataset,
    *,
    columns: Sequence[str | Column] | None = None,
    filesystem: Any = None,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
) -> pa.Table:
    """Every Bloom filter at `path`, or only of `columns`, one row each. Reads every filter whole.

    The columns of the result are file, row_group, column, type, rows (of the row group), offset (of the filter in the
    file), bytes (of the bitset), bits_set, estimated_ndv (from the set bits), estimated_fpp (the probability that an
    absent value is not excluded), and page_index (whether the file has one).

    For ORC files, row groups are counted within the file, over all stripes; offset is the start of the stream with all
    filters of the column in the stripe; and instead of page_index there are stripe, and unusable, the reason why
    filters of this writer prove nothing for the column (null if they do prove something).

    `keys` decrypt encrypted files. ``table_log="ignore"`` reads the files of a Delta Lake, Iceberg or Hudi table,
    although the log may have removed some of them; otherwise a directory or glob of such a table is an
    UnsupportedError. Files that `path` names one by one are always read.

    Raises FormatError, UnsupportedError or LimitError for a filter that cannot be used, EncryptionError for a column
    that cannot be decrypted, PlanError for an unknown column, and for Parquet and ORC files together.

    >>> filters = bp.inspect("events.parquet", columns=["user_id"])
    >>> filters.select(["row_group", "rows", "bytes", "bits_set"]).to_pylist()[0]
    {'row_group': 0, 'rows': 1000, 'bytes': 2048, 'bits_set': 6324}
    """
    check_names(columns)
    dataset = open_dataset(path, filesystem, keys, table_log, allow_named_files=True)
    table = open_part(dataset, ReadCount())
    leaves = [(schema_index, leaf) for schema_index, schema in enumerate(table.schemas) for leaf in schema.leaves]
    if columns is not None:
        wanted = set(columns)
        for name in wanted:
            if all(name not in names_of(leaf.path) for _, leaf in leaves):
                raise unknown_column_error((name,) if isinstance(name, str) else name, table.schemas, ())
        leaves = [each for each in leaves if not wanted.isdisjoint(names_of(each[1].path))]
    rows = sorted(inspector_of(table).filters(leaves), key=lambda row: (row.file, row.row_group))
    records = [{**row._asdict(), "file": valid_text(row.file)} for row in rows]
    return pa.Table.from_pylist(records, FILTER_SCHEMA_OF_ORC if table.format is FileFormat.ORC else FILTER_SCHEMA)


def probe(
    path: Paths | Dataset,
    *,
    column: str | Column,
    value: Any,
    timezone: str = "UTC",
    filesystem: Any = None,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
) -> list[Probe]:
    """Ask only the Bloom filters, without statistics, whether `column` can hold `value`.

    There is one answer per row group, in file order. Row groups of ORC files are counted as for :func:`inspect`. The
    elements of a list are the column ``tags.element``, the keys and values of a map ``labels.key`` and
    ``labels.value``.

    `timezone` is the zone of a timestamp written without one. For a TIMESTAMP of ORC, which has no zone, `value` is
    looked up both as local time and as an instant in the writer's zone.

    Raises :class:`PlanError` for a column that no file has or that has no values of its own, or a value of the wrong
    kind, :class:`UnsupportedError` if the stored bytes of the value are not known or the ORC filters prove nothing, and
    the errors of :func:`inspect`.

    >>> answers = bp.probe("events.parquet", column="user_id", value=4711)
    >>> [(answer.row_group, answer.verdict.value) for answer in answers]
    [(0, 'might match'), (1, 'cannot match'), (2, 'cannot match'), (3, 'cannot match')]
    """
    dataset = open_dataset(path, filesystem, keys, table_log, allow_named_files=True)
    return probe_dataset(dataset, column, value, timezone).answers


class ProbedFiles(NamedTuple):
    """The `answers` of :func:`probe`, with facts for a message about them.

    `format` is the format of the files. `saturated` is the sentence of explanations about filters that are too full to
    say more than maybe, with its remedy; None if they are not.
    """

    answers: list[Probe]
    format: FileFormat
    saturated: NotUsed | None


def probe_dataset(dataset: Dataset, column: str | Column, value: Any, timezone: str) -> ProbedFiles:
    """Probe the files of `dataset`; see :func:`probe`."""
    value = normalize_value(value)
    if value is None:
        raise PlanError("NULL is never in a Bloom filter; probe for a value, or plan with the predicate IS NULL")
    table = open_part(dataset, ReadCount())
    leaves = _leaves(table, column)
    if not leaves and (error := _why_no_leaf(column, table, dataset.partition_names)) is not None:
        raise error
    leaves = leaves or []
    inspector = inspector_of(table)
    file, number = inspector.row_groups()
    might_match, has_filter, fpp = inspector.probe(leaves, value, timezone)
    answers = zip(file.tolist(), number.tolist(), might_match.tolist(), has_filter.tolist(), strict=True)
    probes = [
        Probe(table.paths[i], row_group, Verdict.MIGHT_MATCH if verdict else Verdict.CANNOT_MATCH, present)
        for i, row_group, verdict, present in answers
    ]
    too_full = saturated(leaves[0][1].path if leaves else "", fpp, path_argument(dataset), table.format)
    return ProbedFiles(probes, table.format, too_full)


def saturated_columns(filters: pa.Table, path: str) -> list[NotUsed]:
    """The sentence and the remedy of explanations for each column whose filters are too full.

    `filters` is the table of :func:`inspect`; a sentence is about the mean of the column's filters. `path` is the
    argument of commands.
    """
    file_format = FileFormat.ORC if "stripe" in filters.column_names else FileFormat.PARQUET
    means = filters.group_by("column", use_threads=False).aggregate([("estimated_fpp", "mean")]).to_pylist()

    def argument(name: str) -> str | Column:
        return quote_name(name) if "." in name else (name,)  # dots may be part of a name, or lead to a field

    texts = (saturated(argument(row["column"]), row["estimated_fpp_mean"], path, file_format) for row in means)
    return [text for text in texts if text is not None]


def column_type(
    path: Paths | Dataset,
    column: str | Column,
    *,
    filesystem: Any = None,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
) -> tuple[Family, str] | None:
    """The type of `column` in the first file that has it as a leaf column: the family, and the name for messages.

    None if no file has it.
    """
    dataset = open_dataset(path, filesystem, keys, table_log, allow_named_files=True)
    table = open_part(dataset, ReadCount())
    leaves = _leaves(table, column)
    return inspector_of(table).column_type(*leaves[0]) if leaves else None


def _why_no_leaf(column: str | Column, table: Table, partitions: Sequence[str]) -> PlanError | None:
    """The error for a column that is no leaf column of any file; None if a file has several of this name."""
    name = (column,) if isinstance(column, str) else column
    path = resolve_names([name], table.schemas, (), case_sensitive=True).paths.get(name)
    shown = quoted(".".join(name))
    if path is None and len(name) == 1 and name[0] in partitions:
        return PlanError(
            f"column {shown} is a partition column, which is not in the files and has no filter; expected a column of "
            f"the files; `bloomparquet plan` with a condition on {shown} says which files it skips"
        )
    if path is None:
        return unknown_column_error(name, table.schemas, ())
    inner = {leaf: None for schema in table.schemas for leaf in schema.leaves if leaf.path[: len(path)] == path}
    parts = dict.fromkeys(
        (*path, part)
        for schema in table.schemas
        for part in PARTS
        if isinstance(find_element(schema, path, part, case_sensitive=True), LeafColumn)
    )
    if not table.format.has_element_evidence:
        inner = {leaf: None for leaf in inner if not leaf.repeated}
        if not inner:
            return PlanError(
                f"column {shown} is a list or a map, or lies in one; filters of ORC on elements of these are not used"
            )
    names = parts or dict.fromkeys(leaf.path for leaf in inner)
    if path in names:
        return None
    nodes = [find_node(schema, path, case_sensitive=True) for schema in table.schemas]
    is_a_struct = any(not isinstance(node, NoLeaf) and is_struct(node) for node in nodes)
    return PlanError(
        f"column {shown} is a {'struct' if is_a_struct else 'list or a map'}, which has no filter of its own; expected "
        f"a column inside it: {join_names(map(column_to_sql, names))}"
    )


def _leaves(table: Table, column: str | Column) -> list[tuple[int, LeafColumn]] | None:
    """The leaf that `column` names in each schema that has it, with the index of the schema. None if no schema has
    it."""
    name = (column,) if isinstance(column, str) else column
    path = resolve_names([name], table.schemas, (), case_sensitive=True).paths.get(name)
    if path is None:
        return None
    bound = [(i, _find_leaf(schema, path, table.format)) for i, schema in enumerate(table.schemas)]
    return [(i, leaf) for i, leaf in bound if isinstance(leaf, LeafColumn)]


def _find_leaf(schema: FileSchema, path: Column, file_format: FileFormat) -> LeafColumn | NoLeaf:
    """The leaf at `path`; inside a list or a map also by the names that :func:`inspect` shows."""
    leaf = find_leaf(schema, path, case_sensitive=True)
    part = next((part for part in PARTS if part == path[-1]), None)
    if leaf is NoLeaf.UNKNOWN and part is not None:
        leaf = find_element(schema, path[:-1], part, case_sensitive=True)
    if leaf is NoLeaf.UNKNOWN and file_format.has_element_evidence:
        named = [each for each in schema.leaves if each.repeated and dotted_name(each.path) == dotted_name(path)]
        return named[0] if len(named) == 1 else leaf
    return leaf
