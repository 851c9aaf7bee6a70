"""Refuses conditions on text with a collation: Spark finds texts equal that differ in their bytes; Arrow does not."""

from __future__ import annotations

from collections.abc import Iterable

from bloomparquet.errors import UnsupportedError, join_names
from bloomparquet.query.names import Positions
from bloomparquet.query.predicate import IsNotNull, IsNull, Predicate, leaves


def compared_names(where: Predicate, names: Iterable[str], case_sensitive: bool) -> list[str]:
    """The top-level columns among `names` whose values decide `where`. A test for null depends on no value."""
    columns = {leaf.column for leaf in leaves(where) if not isinstance(leaf, IsNull | IsNotNull)}
    compared = Positions({column[0] for column in columns}, case_sensitive)
    return [name for name in names if name in compared]


def collation_error(collated: Iterable[str], path: str) -> UnsupportedError:
    """The error for a condition that compares the columns `collated` of a file, which have a collation."""
    return UnsupportedError(
        f"{path}: cannot compare {join_names(sorted(collated))}: the text has a collation, by which Spark finds texts "
        "equal that differ in their bytes; read the rows in Spark, or without a condition on the column"
    )
