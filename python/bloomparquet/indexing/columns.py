"""The columns of an index, and the filters that are made for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from bloomparquet.errors import BloomParquetError, OptionError, PlanError, UnsupportedError, shorten
from bloomparquet.parquet.values.encoding import parquet_family
from bloomparquet.planning.table_columns import TableColumns
from bloomparquet.query.columns import FileSchema
from bloomparquet.query.names import dotted_name
from bloomparquet.writing.filters.spec import Bloom, choose_leaves, named_leaf, parse_bloom

Columns: TypeAlias = Sequence[str] | Mapping[str, Bloom | None] | None
"""The columns of an index: None for all; names; or names with the quality of the filters to make where the files have
none. A name may be ``lower(email)`` or ``upper(email)``: then the filter is of the values in lower or upper case."""

_EXPRESSION = re.compile(r"\s*(lower|upper)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)


class ColumnsError(Exception):
    """The columns that the user named do not fit the files. Not an error of one file, which could be left out."""

    def __init__(self, reason: BloomParquetError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class FilterToMake(NamedTuple):
    """A filter that the files do not have.

    It is a filter of the values of leaf `leaf`; in lower or upper case if `case` is ``lower`` or ``upper``, else empty.
    """

    leaf: int
    case: str
    bloom: Bloom


@dataclass(frozen=True)
class IndexColumns:
    """The columns of an index as the user named them; `names` is None for all.

    `table` has the columns of the table whose files are indexed, if it has a schema of its own; `names` are then names
    of the table.
    """

    names: Mapping[str, Bloom | None] | None
    case_sensitive: bool = True
    table: TableColumns | None = None

    @classmethod
    def parse(cls, columns: Columns, *, case_sensitive: bool = True) -> IndexColumns:
        """Check the columns of the user. OptionError if they are not names, or not names with a Bloom."""
        if columns is None:
            return cls(None)
        if isinstance(columns, str):
            raise OptionError(f"columns is {columns!r}; expected a list of names, such as [{columns!r}]")
        named = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
        if not named:
            raise OptionError("columns is empty; expected at least one name, or None for all columns")
        for name, bloom in named.items():
            if not isinstance(name, str) or not isinstance(bloom, Bloom | None):
                raise OptionError(
                    f"columns has {name!r}: {bloom!r}; expected names, or names with a bloomparquet.Bloom each"
                )
            if bloom is None and _EXPRESSION.fullmatch(name):
                named[name] = Bloom()
            elif bloom is not None:
                parse_bloom({name: bloom})  # raises an error for an impossible quality
        return cls(named, case_sensitive)

    @property
    def makes_filters(self) -> bool:
        """Whether filters are made of values."""
        return any(bloom is not None for bloom in (self.names or {}).values())

    @property
    def needs_row_groups(self) -> bool:
        """Whether an fpp depends on the number of row groups."""
        return any(bloom is not None and bloom.needs_row_groups for bloom in (self.names or {}).values())

    def for_row_groups(self, row_groups: int) -> IndexColumns:
        """A copy whose FPP suits a data set of `row_groups` row groups."""
        named = (self.names or {}).items()
        return replace(
            self, names={name: None if bloom is None else bloom.for_row_groups(row_groups) for name, bloom in named}
        )

    def to_json(self) -> dict[str, Any]:
        if self.names is None:
            return {"all": True}
        named = {name: None if bloom is None else asdict(bloom) for name, bloom in self.names.items()}
        expressions = [name for name in named if _EXPRESSION.fullmatch(name)]
        return {"named": named, "expressions": expressions, "case_sensitive": self.case_sensitive}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> IndexColumns:
        """The columns of which :meth:`to_json` made `content`. KeyError or TypeError for other content."""
        if content.get("all"):
            return cls(None)
        named = {name: None if bloom is None else Bloom(**bloom) for name, bloom in content["named"].items()}
        return cls(named, bool(content.get("case_sensitive", True)))

    def leaves(self, schema: FileSchema, path: str) -> tuple[set[int], list[FilterToMake], set[str]]:
        """The leaves of `schema` whose evidence is indexed, the filters to make, and the names that `schema` lacks.

        Raises ColumnsError for a column that cannot have a useful filter.
        """
        try:
            return self._leaves(schema if self.table is None else self.table.map_schema(schema), path)
        except UnsupportedError as error:
            raise ColumnsError(error) from error

    def _leaves(self, schema: FileSchema, path: str) -> tuple[set[int], list[FilterToMake], set[str]]:
        if self.names is None:
            return {leaf.index for leaf in schema.leaves}, [], set()
        chosen: set[int] = set()
        to_make: list[FilterToMake] = []
        missing: set[str] = set()
        for name, bloom in self.names.items():
            expression = _EXPRESSION.fullmatch(name)
            case, column = (expression[1].lower(), expression[2].strip()) if expression else ("", name)
            try:
                leaf = named_leaf(column, schema, path, case_sensitive=self.case_sensitive)
            except PlanError:
                missing.add(name)
                continue
            chosen.add(leaf.index)
            if bloom is None:
                continue
            if case and parquet_family(leaf.node) != "string":
                raise UnsupportedError(
                    f"{path}: {shorten(name)}: the column {shorten(dotted_name(leaf.path))} is {leaf.describe()}; "
                    "expected text"
                )
            choose_leaves({leaf.path: bloom}, schema, path)  # raises an error if a filter would be useless
            to_make.append(FilterToMake(leaf.index, case, bloom))
        return chosen, to_make, missing
