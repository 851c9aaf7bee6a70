"""Writes out the sentence and the remedy of a :class:`WhyNot`, with commands to paste."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.explanation import NotUsed
from bloomparquet.planning.leaf_reasons import Why
from bloomparquet.query.names import column_to_sql, dotted_name
from bloomparquet.query.predicate import Column
from bloomparquet.query.why_not import SATURATED_FPP, WhyNot, share_of_absent
from bloomparquet.storage.files import with_scheme

ADVISE = "bloomparquet advise {path} says whether it pays"


class Remedies(NamedTuple):
    """The remedies about filters: adding a filter, replacing one, making one with fewer false positives, and adding one
    of a column in lower or upper case.

    A command ends in a shell comment, if anything follows it: the whole text can be pasted.
    """

    add: str = ""
    replace: str = ""
    improve: str = ""
    add_case: str = ""


def remedies_of(why: Why, path: str, file_format: FileFormat) -> Remedies:
    """The remedies for files of `file_format`. `path` is the argument of commands."""
    case = why.detail if why.reason is WhyNot.NO_CASE_FILTER else ""
    column = shlex.quote(_sql_name(why.column))
    if file_format is not FileFormat.PARQUET:
        add = f"write the files again with orc.bloom.filter.columns={column}"
        stored = f"write the files again with {case} as a column of its own, and a filter on it"
        replace = f"{add} and a lower orc.bloom.filter.fpp"
        return Remedies(add, replace, replace, stored)
    add = f"bloomparquet add {path} --columns {column}"
    build = f"bloomparquet index build {path} --fpp 0.01 --columns {shlex.quote(case)}"
    return Remedies(
        f"{add}  # {ADVISE.format(path=path)}", f"{add} --replace", f"{add} --replace --fpp 0.0001",
        f"{build}  # and the other columns that are looked up",
    )  # fmt: skip


def remedies_of_table(why: Why) -> Remedies:
    """The remedies for a table with a log, whose files no command may change."""
    name = why.detail if why.reason is WhyNot.NO_CASE_FILTER else dotted_name(why.column)
    add = f"build_index({{{name!r}: bloomparquet.Bloom()}}) of the data set"
    replace = f"{add}, or write the files again with smaller filters"
    written = (
        f"filters in new files by write.parquet.bloom-filter-enabled.column.{name} (a property of an Iceberg table) or "
        f"parquet.bloom.filter.enabled#{name} (a setting of Spark, for Delta Lake)"
    )
    return Remedies(f"{add}, or {written}; advise() of the data set says whether it pays", replace, replace, add)


def path_argument(dataset: Dataset) -> str:
    """The argument of commands: what the user gave, or else the only file."""
    if not dataset.paths:
        if len(dataset.files) != 1:
            return "PATH"  # the directory that they share may hold others
        return shlex.quote(with_scheme(dataset.storage, dataset.files[0].path))
    # A URL may hold a secret before its @ or after its question mark.
    is_secret = any("://" in path and not {"@", "?"}.isdisjoint(path) for path in dataset.paths)
    return "PATH" if is_secret else shlex.join(dataset.paths)


def not_used(why: Why, count: int | None, total: int, units: str, remedies: Remedies | None = None) -> NotUsed:
    """`why` with its sentence and remedy written out, for so many of `total` row groups."""
    fields = {
        "column": _sql_name(why.column), "count": f"{count or 0:,}", "total": f"{total:,}", "unit": units,
        "detail": why.detail, **(remedies or Remedies())._asdict(),
    }  # fmt: skip
    reason = why.reason
    return NotUsed(reason, count, reason.sentence.format(**fields), reason.remedy.format(**fields))


def saturated(column: Column | str, fpp: float, path: str, file_format: FileFormat) -> NotUsed | None:
    """The reason that :meth:`ScanPlan.explain` gives for filters of this false positive probability; None if they are
    not too full."""
    if fpp < SATURATED_FPP:
        return None
    why = Why(WhyNot.SATURATED, share_of_absent(fpp), column)
    return not_used(why, None, 0, "", remedies_of(why, path, file_format))


def _sql_name(column: Column | str) -> str:
    """The name as SQL and the command line take it, as valid Unicode text."""
    return dotted_name([column if isinstance(column, str) else column_to_sql(column)])
