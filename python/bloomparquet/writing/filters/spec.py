"""Which columns get a Bloom filter, and how good it is to be: what a caller says, checked against a file's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bloomparquet.errors import OptionError, PlanError, UnsupportedError, did_you_mean, join_names, quoted, shorten
from bloomparquet.parquet.bloom_filter.split_block import BYTES_PER_BLOCK, MAX_BLOCKS, bits_per_value
from bloomparquet.parquet.values.encoding import family_of
from bloomparquet.query.columns import FileSchema, LeafColumn, SchemaNode
from bloomparquet.query.names import dotted_name, fold
from bloomparquet.query.predicate import Column
from bloomparquet.query.resolve import name_candidates

EVERY_COLUMN = "*"
WRITE_ORC = (
    "write ORC with the option bloomColumns of Spark's format bloomorc, or with bloom_filter_columns of "
    "pyarrow.orc.write_table"
)


@dataclass(frozen=True)
class Bloom:
    """How good the filters of a column are to be.

    `fpp` is the false positive probability to aim at: a filter is the smallest, in powers of two, whose real one is at
    most a quarter above. `ndv`, where given, is the number of distinct values per row group to make room for, instead
    of those that are there. No filter is larger than `max_bytes`; where that makes one worse than asked, it is said.
    Raises OptionError for values that no filter can have.

    >>> table = pa.table({"user_id": range(1000), "name": [str(i) for i in range(1000)]})
    >>> bloom = {"user_id": bp.Bloom(fpp=0.001), "name": bp.Bloom(fpp=0.05, max_bytes=1 << 20)}
    >>> [(column.column, column.bytes) for column in bp.write_table(table, "users.parquet", bloom=bloom).columns]
    [('user_id', 2048), ('name', 1024)]
    """

    fpp: float = 0.01
    ndv: int | None = None
    max_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        bits_per_value(self.fpp)
        if self.ndv is not None and self.ndv < 1:
            raise OptionError(f"ndv is {self.ndv}: expected a number of distinct values from 1 up")
        most = MAX_BLOCKS * BYTES_PER_BLOCK
        if not BYTES_PER_BLOCK <= self.max_bytes <= most:
            raise OptionError(f"max_bytes is {self.max_bytes}: expected {BYTES_PER_BLOCK} to {most} bytes")


BloomSpec = str | Sequence[str | Column] | Mapping[str, Bloom] | Mapping[Column, Bloom]
"""``"*"``, a column, several columns, or a :class:`Bloom` for each. A dotted name is a field of a struct unless there
is a column of that name; a tuple is always a path."""


def by_column(bloom: BloomSpec) -> dict[str | Column, Bloom]:
    """What was asked for, by column as it was named. OptionError for something else than a specification."""
    if isinstance(bloom, str):
        return {bloom: Bloom()}
    found: dict[str | Column, Bloom] = {}
    for column in bloom:
        found[column] = bloom[column] if isinstance(bloom, Mapping) else Bloom()  # type: ignore[index]
    for column, wanted in found.items():
        if not isinstance(column, str | tuple) or not isinstance(wanted, Bloom):
            raise OptionError(
                f"bloom has {column!r}: {wanted!r}; expected columns, or a bloomparquet.Bloom for each column"
            )
    if not found:
        raise OptionError('bloom names no column; expected one at least, or "*"')
    return found


def choose(
    bloom: Mapping[str | Column, Bloom],
    schema: FileSchema,
    path: str,
    *,
    absent_ok: bool = False,
    case_sensitive: bool = True,
) -> dict[int, Bloom]:
    """The leaves that get a filter, by index. ``"*"`` is all that can carry one.

    Raises PlanError for a column that the file at `path` does not have, unless that is `absent_ok`, and for one that
    could be several unless `case_sensitive`. Raises UnsupportedError for a column that cannot carry a useful filter.
    """
    chosen: dict[int, Bloom] = {}
    for column, wanted in bloom.items():
        if column == EVERY_COLUMN:
            useful = (leaf.index for leaf in schema.leaves if refusal(leaf) is None)
            chosen = {**dict.fromkeys(useful, wanted), **chosen}
            continue
        own_name = column if case_sensitive else _resolve_case(column, schema, path)
        try:
            leaf = find_leaf(own_name, schema, path)
        except PlanError:
            if absent_ok:
                continue
            raise
        reason = refusal(leaf, named=True)
        if reason is not None:
            raise UnsupportedError(f"{path}: column {shorten(dotted_name(leaf.path))} ({leaf.describe()}) {reason}")
        chosen[leaf.index] = wanted
    return chosen


def _resolve_case(column: str | Column, schema: FileSchema, path: str) -> str | Column:
    """The path of the leaf or group that `column` names, whatever its case; `column` if there is none."""
    for names in [column] if isinstance(column, tuple) else name_candidates((column,)):
        folded = [fold(name, False) for name in names]
        paths = dict.fromkeys(leaf.path[: len(names)] for leaf in schema.leaves)
        matching = [each for each in paths if [fold(name, False) for name in each] == folded]
        if len(matching) > 1:
            raise PlanError(
                f"{path}: column {quoted('.'.join(names))} could be any of {join_names(map('.'.join, matching))}; "
                "set spark.sql.caseSensitive to true to tell them apart"
            )
        if matching:
            return matching[0]
    return column


def find_leaf(column: str | Column, schema: FileSchema, path: str) -> LeafColumn:
    """The leaf column that `column` names. PlanError where there is none."""
    by_path = {leaf.path: leaf for leaf in schema.leaves}
    for names in [column] if isinstance(column, tuple) else name_candidates((column,)):
        if names in by_path:
            return by_path[names]
        below = [".".join(leaf) for leaf in by_path if leaf[: len(names)] == names]
        if below:
            raise PlanError(
                f"{path}: {shorten('.'.join(names))} is a group; name one of its leaf columns: {join_names(below)}"
            )
    name = column if isinstance(column, str) else ".".join(column)
    names_here = [".".join(leaf) for leaf in by_path]
    raise PlanError(
        f"{path}: there is no column {quoted(name)}{did_you_mean(name, names_here)}; "
        f"the columns are {join_names(names_here)}"
    )


def refusal(leaf: LeafColumn, *, named: bool = False) -> str | None:
    """Why a filter of this column would serve nothing; None where it would. Filters of fractions, of elements of lists
    and maps, and of INT96 are made where the column is `named`, and never unasked."""
    node: SchemaNode = leaf.node
    family = family_of(node)
    if family == "boolean":
        return "has two values, which min/max tells better"
    if family == "decimal" and node.physical_type == "BYTE_ARRAY":
        return "is a decimal of which one value has several encodings, so that no filter proves it absent"
    if family == "other":
        return "has a type of which equality is not defined by its bytes"
    if named:
        return None
    if leaf.repeated:
        return "is an element of a list or map"
    if node.physical_type == "INT96":
        return "is INT96, which nearly no engine looks up"
    return "is a fraction, which is rarely looked up" if family == "float" else None
