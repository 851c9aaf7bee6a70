"""The option `bloom`: the columns that get a Bloom filter, and its quality, checked against the schema of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from bloomparquet.errors import OptionError, PlanError, UnsupportedError, did_you_mean, join_names, quoted, shorten
from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK, MAX_BLOCKS, bits_per_value
from bloomparquet.parquet.values.encoding import parquet_family
from bloomparquet.query.columns import FileSchema, LeafColumn, SchemaNode
from bloomparquet.query.names import dotted_name
from bloomparquet.query.predicate import Column
from bloomparquet.query.resolve import name_candidates

EVERY_COLUMN = "*"
WRITE_ORC = (
    "write ORC with the option bloomColumns of Spark's format bloomorc, or with bloom_filter_columns of "
    "pyarrow.orc.write_table"
)


AUTO: Final = "auto"
Fpp = float | Literal["auto"]
"""A target false positive probability. ``"auto"`` stands for that of :func:`auto_fpp` for all row groups of a table."""

MAX_AUTO_FPP = 0.01
MIN_AUTO_FPP = 1e-6
"""The least automatic fpp. Filters for it take 8 bytes per distinct value, as many as an INT64. Larger filters would
outgrow their column."""


def auto_fpp(row_groups: int) -> float:
    """The fpp with which filters in `row_groups` row groups make a lookup of one value read about one false row group.

    A false row group does not hold the value, but its filter cannot tell: there are row_groups * fpp of them. So the
    fpp is 1 / row_groups, but at most 0.01 and at least 0.000001. No filter is more than a quarter worse than its
    target, and most are better, because sizes are powers of two. So "about one" is at most 1.25.
    """
    return min(max(1 / max(row_groups, 1), MIN_AUTO_FPP), MAX_AUTO_FPP)


@dataclass(frozen=True)
class Bloom:
    """The quality of the Bloom filters of a column.

    `fpp` is the target false positive probability: a filter gets the smallest size, a power of two, whose fpp is at
    most a quarter higher. ``"auto"``, the default, is the fpp with which a lookup of one value in a table of
    `row_groups` row groups reads about one that does not hold it: 1 / row_groups, but at most 0.01 and at least
    0.000001. If `row_groups` is not given, the row groups of all files are counted when filters are added to files or
    an index is built. :func:`bloomparquet.write_table` counts those of its own file, and
    :class:`bloomparquet.ParquetWriter` takes 0.01: give them the number of row groups of a table of many files.

    `ndv` is the number of distinct values per row group to reserve space for; by default, the values are counted. No
    filter is larger than `max_bytes`; a warning says if that makes the fpp worse. Raises OptionError for values that
    no filter can have.

    >>> table = pa.table({"user_id": range(1000), "name": [str(i) for i in range(1000)]})
    >>> bloom = {"user_id": bp.Bloom(fpp=0.001), "name": bp.Bloom(fpp=0.05, max_bytes=1 << 20)}
    >>> [(column.column, column.bytes) for column in bp.write_table(table, "users.parquet", bloom=bloom).columns]
    [('user_id', 2048), ('name', 1024)]
    >>> bp.write_table(table, "users.parquet", bloom={"user_id": bp.Bloom("auto", row_groups=40_000)}).filter_bytes
    4096
    """

    fpp: Fpp = AUTO
    ndv: int | None = None
    max_bytes: int = 16 << 20
    row_groups: int | None = None

    def __post_init__(self) -> None:
        check_fpp(self.fpp)
        if self.row_groups is not None and self.fpp != AUTO:
            raise OptionError(
                f"row_groups is {self.row_groups} and fpp is {self.fpp}; leave out row_groups, which is for fpp='auto'"
            )
        if self.row_groups is not None and self.row_groups < 1:
            raise OptionError(
                f"row_groups is {self.row_groups}; expected the number of row groups of the table, 1 or more"
            )
        if self.ndv is not None and self.ndv < 1:
            raise OptionError(f"ndv is {self.ndv}; expected a number of distinct values, 1 or more")
        most = MAX_BLOCKS * BYTES_PER_BLOCK
        if not BYTES_PER_BLOCK <= self.max_bytes <= most:
            raise OptionError(f"max_bytes is {self.max_bytes}; expected {BYTES_PER_BLOCK} to {most} bytes")

    @property
    def needs_row_groups(self) -> bool:
        """Whether the fpp depends on a number of row groups that is not given."""
        return self.fpp == AUTO and self.row_groups is None

    @property
    def target_fpp(self) -> float:
        """The fpp as a number. Without a number of row groups, that of a small table."""
        return auto_fpp(self.row_groups or 1) if isinstance(self.fpp, str) else self.fpp

    def for_row_groups(self, row_groups: int) -> Bloom:
        """A copy for a table of `row_groups` row groups; this object itself if it has a number, or needs none."""
        return replace(self, row_groups=max(row_groups, 1)) if self.needs_row_groups else self


def check_fpp(fpp: Fpp) -> None:
    """Raise OptionError unless `fpp` is a number between 0 and 1, or ``"auto"``."""
    if not isinstance(fpp, str):
        bits_per_value(fpp)
    elif fpp != AUTO:
        raise OptionError(f"fpp is {quoted(fpp)}; expected 'auto', or a number above 0 and below 1, such as 0.01")


BloomSpec = str | Sequence[str | Column] | Mapping[str, Bloom] | Mapping[Column, Bloom]
"""``"*"``, a column, several columns, or a :class:`Bloom` for each column. A dotted name is a path to a struct field
unless a column has that name. A tuple is always a path."""


def parse_bloom(bloom: BloomSpec) -> dict[str | Column, Bloom]:
    """`bloom` as a dictionary from the column names that the user wrote. Raises OptionError if it is invalid."""
    if isinstance(bloom, str):
        bloom = [bloom]
    if not isinstance(bloom, Iterable):
        raise OptionError(f"bloom is {quoted(bloom)}; expected columns, or a bloomparquet.Bloom for each column")
    by_column: dict[str | Column, Bloom] = {}
    for column in bloom:
        by_column[column] = bloom[column] if isinstance(bloom, Mapping) else Bloom()  # type: ignore[index]
    for column, wanted in by_column.items():
        if not isinstance(column, str | tuple) or not isinstance(wanted, Bloom):
            raise OptionError(
                f"bloom has {column!r}: {wanted!r}; expected columns, or a bloomparquet.Bloom for each column"
            )
    if not by_column:
        raise OptionError('bloom names no column; expected at least one, or "*"')
    return by_column


def choose_leaves(
    bloom: Mapping[str | Column, Bloom],
    schema: FileSchema,
    path: str,
    *,
    absent_ok: bool = False,
    case_sensitive: bool = True,
) -> dict[int, Bloom]:
    """The leaves that get a filter, by index. ``"*"`` means all leaves that can have a useful filter.

    Raises PlanError for a column that is missing in the file at `path`, unless `absent_ok`, and for a name that matches
    several columns when case is ignored. Raises UnsupportedError for a column that cannot have a useful filter.
    """
    chosen: dict[int, Bloom] = {}
    for column, wanted in bloom.items():
        if column == EVERY_COLUMN:
            useful = (leaf.index for leaf in schema.leaves if why_unsuitable(leaf) is None)
            chosen = {**dict.fromkeys(useful, wanted), **chosen}
            continue
        try:
            leaf = named_leaf(column, schema, path, case_sensitive=case_sensitive)
        except PlanError:
            if absent_ok:
                continue
            raise
        reason = why_unsuitable(leaf, named=True)
        if reason is not None:
            raise UnsupportedError(f"{path}: column {shorten(dotted_name(leaf.path))} ({leaf.describe()}) {reason}")
        chosen[leaf.index] = wanted
    return chosen


def named_leaf(column: str | Column, schema: FileSchema, path: str, *, case_sensitive: bool) -> LeafColumn:
    """The leaf column that `column` names, also in a list or map.

    Raises PlanError if there is no such leaf, or more than one.
    """
    for names in [column] if isinstance(column, tuple) else name_candidates((column,)):
        below = schema.leaves_below(names, case_sensitive)
        matching = list(dict.fromkeys(leaf.path[: len(names)] for leaf in below))
        if len(matching) > 1:
            raise PlanError(
                f"{path}: column {quoted('.'.join(names))} could be any of {join_names(map('.'.join, matching))}; "
                "set spark.sql.caseSensitive to true to tell them apart"
            )
        if below and below[0].path == matching[0]:
            return below[0]
        if below:
            raise PlanError(
                f"{path}: {shorten('.'.join(matching[0]))} is a group; name one of its leaf columns: "
                f"{join_names('.'.join(leaf.path) for leaf in below)}"
            )
    name = column if isinstance(column, str) else ".".join(column)
    names_here = [".".join(leaf.path) for leaf in schema.leaves]
    raise PlanError(
        f"{path}: there is no column {quoted(name)}{did_you_mean(name, names_here)}; "
        f"the columns are {join_names(names_here)}"
    )


def why_unsuitable(leaf: LeafColumn, *, named: bool = False) -> str | None:
    """The reason why a filter of this column would be useless, or None.

    Floating-point columns, elements of lists and maps, and INT96 are suitable only if the user `named` the column.
    """
    node: SchemaNode = leaf.node
    family = parquet_family(node)
    if family == "boolean":
        return "has two values, for which min/max is better"
    if family == "decimal" and node.physical_type == "BYTE_ARRAY":
        return "is a binary decimal, whose values have several encodings, so that a filter proves nothing"
    if node.annotation is not None and node.annotation.kind == "UNKNOWN":
        return "has the type null, because all of its values are null; cast it to the type of its values"
    if family == "other":
        return "has a type whose equal values may have different bytes"
    if named:
        return None
    if leaf.repeated:
        return "is an element of a list or map"
    if node.physical_type == "INT96":
        return "is INT96, which hardly any engine looks up"
    return "is a floating-point number, which is rarely looked up" if family == "float" else None
