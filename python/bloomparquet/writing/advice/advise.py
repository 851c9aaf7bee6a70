"""Which columns of a table should have Bloom filters: what footers and a small sample say, and the commands that do it.

What pays is decided by :mod:`bloomparquet.writing.advice.worth`. Here the facts for it are gathered, what is in the
files now
is set beside what should be, and the answer is given as a table, for people or as it is.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.cli.render import human_bytes
from bloomparquet.errors import OptionError
from bloomparquet.parquet.bloom_filter.split_block import bits_per_value
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.dataset import Dataset, Paths
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.planning.open import open_table
from bloomparquet.query.names import shown
from bloomparquet.query.predicate import Column
from bloomparquet.query.resolve import partition_of
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.table_formats import OnTableLog
from bloomparquet.writing.advice.sampling import (
    Sample,
    Source,
    TableColumn,
    Wanted,
    columns_of,
    estimate,
    source_of,
    take_samples,
)
from bloomparquet.writing.advice.worth import ColumnFacts, Worth

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

SAMPLE_BYTES = 64 * 1024 * 1024
"""What is read at most of filters and data, where nothing else is said."""

_DEFAULT_FPP = 0.01
_OVERSIZED = 3.0  # times what is needed; sizes are powers of two, so this is a factor of four for most
_USELESS_FPP = 10.0  # times what is asked
_WIDE = 110  # characters
_WORTHLESS_FPP = 0.9  # from which on shrinking drops a filter

_NUMBERS = b"bloomparquet.orc_columns"  # in the metadata of advice on ORC files: the numbers of columns by their names

_SCHEMA = pa.schema(
    [
        ("column", pa.string()), ("type", pa.string()), ("row_groups", pa.int64()), ("values", pa.int64()),
        ("ndv_per_row_group", pa.float64()), ("ndv", pa.float64()), ("filters", pa.int64()),
        ("filter_bytes_now", pa.int64()), ("min_max_skip", pa.float64()), ("skip_rate", pa.float64()),
        ("filter_bytes", pa.int64()), ("advice", pa.string()), ("reason", pa.string()),
    ]
)  # fmt: skip


def advise(
    path: Paths,
    *,
    fpp: float = _DEFAULT_FPP,
    sample: int = SAMPLE_BYTES,
    filesystem: Any = None,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
) -> pa.Table:
    """Where Bloom filters pay at `path`: one row for each leaf column, in the order of the schema.

    Reads all footers, and at most `sample` bytes of filters and data, of columns for which footers do not decide it;
    and the headers of a few filters where footers do not tell how large these are. Columns of the table, of which the
    first group are facts, and the second are estimates:

    * column, type (several where files differ), row_groups that have the column, values (without nulls), filters (how
      many row groups have one), filter_bytes_now (what these take, with headers; of older writers, who do not tell,
      by a few of them);
    * ndv_per_row_group (distinct values, the mean), ndv (in all; too low where some are far more frequent than others),
      min_max_skip (the share of row groups that footers alone exclude), skip_rate (the share that filters exclude on
      top), filter_bytes (what filters of the right size for `fpp` take in all row groups). Both shares are those of a
      lookup of one of the different values of a row group, each as likely as the next. Null where it takes an NDV that
      nothing is known of: it is not looked for where it cannot change the advice;
    * advice: ``add``, ``shrink`` (fold filters that are too large), ``replace`` (filters that are too small), ``drop``
      (filters that are empty or full, which shrinking drops), ``keep`` or ``none``; and the reason.

    Of ORC files row groups are those within stripes, of which footers and row indexes are read as well. Their filters
    are made for all rows of a row group, whatever its values, and only as files are written: ``shrink`` and ``drop``
    are not advised, filter_bytes is what filters take before compression, and :func:`commands` says how to write them.

    `keys` open encrypted files; nothing is advised for a column of which they do not open all row groups.

    `table_log` is that of :func:`bloomparquet.inspect`.

    Raises OptionError for an `fpp` or a `sample` that cannot be, and what :func:`bloomparquet.plan` raises.

    >>> advice = bp.advise("events.parquet").to_pylist()
    >>> [(column["column"], column["advice"]) for column in advice]
    [('user_id', 'keep'), ('country', 'none'), ('amount', 'none')]
    >>> advice[0]["reason"]
    'a lookup reads 1 of 4 row groups instead of 4'
    """
    bits_per_value(fpp)
    if sample < 0:
        raise OptionError(f"sample is {sample}: expected a number of bytes, 0 or more")
    dataset = Dataset.open(path, filesystem=filesystem, keys=keys, table_log=table_log, allow_named_files=True)
    count = ReadCount()
    table = open_table(dataset, dataset.files, count, skip_corrupt=False)
    return advise_on(dataset, table, fpp, sample, count)


def advise_on(dataset: Dataset, table: Table, fpp: float, sample: int, count: ReadCount) -> pa.Table:
    """As :func:`advise`, for row groups whose footers were read; `count` grows by what is read of the sample."""
    source = source_of(table)
    rows = [row for _, _, row in _advise_on(dataset, table, source, fpp, sample, count)]
    numbers = source.column_numbers()
    schema = _SCHEMA if numbers is None else _SCHEMA.with_metadata({_NUMBERS: json.dumps(numbers)})
    return pa.Table.from_pylist(rows, schema)


def paying_columns(dataset: Dataset, table: Table, fpp: float, sample: int, count: ReadCount) -> list[Column]:
    """The columns for which :func:`advise_on` would say that filters pay, whether they are there by now or not."""
    advised = _advise_on(dataset, table, source_of(table), fpp, sample, count)
    return [column.path for column, worth, _ in advised if worth.pays]


def _advise_on(
    dataset: Dataset, table: Table, source: Source, fpp: float, sample: int, count: ReadCount
) -> list[tuple[TableColumn, Worth, dict[str, Any]]]:
    columns = columns_of(table, source)
    wanted = [_wanted(dataset, source, column, fpp) for column in columns]
    samples = take_samples(dataset, table, columns, wanted, sample, count, source)
    found = []
    for column, taken in zip(columns, samples, strict=True):
        facts = estimate(column, taken, source)
        worth = _weigh(dataset, source, column, facts, fpp)
        row = _row(source, column, taken, facts, worth, fpp)
        found.append((column, worth, dict(zip(_SCHEMA.names, row, strict=True))))
    return found


def commands(table: pa.Table, path: Paths, *, fpp: float = _DEFAULT_FPP) -> list[str]:
    """The command lines that do what the table of :func:`advise` says, or for ORC two kinds of Python that do; none
    where there is nothing to do."""
    if _NUMBERS in (table.schema.metadata or {}):
        return _writing_anew(table, path, fpp)
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    where = shlex.join(os.fspath(item) for item in given)
    goal = "" if fpp == _DEFAULT_FPP else f" --fpp {fpp:g}"
    by_advice: dict[str, list[str]] = {}
    oversized = False
    for row in table.to_pylist():
        by_advice.setdefault(row["advice"], []).append(row["column"])
        if row["advice"] == "add" and row["filters"]:
            oversized |= row["filter_bytes_now"] * row["row_groups"] > _OVERSIZED * row["filter_bytes"] * row["filters"]
    found = []
    for advice, option in (("add", ""), ("replace", " --replace")):
        if advice in by_advice:
            names = shlex.quote(",".join(by_advice[advice]))
            found.append(f"bloomparquet add {where} --columns {names}{option}{goal}")
    if oversized or "shrink" in by_advice or "drop" in by_advice:
        found.append(f"bloomparquet shrink {where}{goal}")
    return found


def _writing_anew(table: pa.Table, path: Paths, fpp: float) -> list[str]:
    """Ways to write ORC files anew: with all filters that pay, those that are there already as well."""
    rows = table.to_pylist()
    if not any(row["advice"] in ("add", "replace") for row in rows):
        return []
    names = [row["column"] for row in rows if row["advice"] in ("add", "replace", "keep")]
    numbers = json.loads(table.schema.metadata[_NUMBERS])
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else [os.fspath(item) for item in path]
    wanted = {"bloomColumns": ",".join(names), "bloomFpp": f"{fpp:g}"}
    options = "".join(f".option({_quoted(name)}, {_quoted(value)})" for name, value in wanted.items())
    columns = f"bloom_filter_columns={[numbers[name] for name in names]}, bloom_filter_fpp={fpp:g}"
    return [
        f'spark.read.format("bloomorc").load({_quoted(given)}).write.format("bloomorc"){options}.save("…")',
        f'pyarrow.orc.write_table(table, "….orc", {columns})',
    ]


def _quoted(text: str | list[str]) -> str:
    return json.dumps(text, ensure_ascii=False)


def advice_to_rich(table: pa.Table) -> RenderableType:
    """The table of :func:`advise`, rounded for reading, and what following it adds or saves. What belongs below it are
    the :func:`commands`, printed as they are: wrapped by rich, they could not be copied."""
    return _Shown(table.to_pylist())


class _Shown:
    """The advice on a console, whose width decides whether reasons have room beside the figures."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.table import Table
        from rich.text import Text

        wide = options.max_width >= _WIDE
        shown = Table(box=None, pad_edge=False, header_style="bold")
        shown.add_column("column", overflow="fold")
        shown.add_column("type", overflow="fold")
        for name in ("distinct per\nrow group", "min/max\nskips", "filters\nskip", "size\nneeded", "size\nnow"):
            shown.add_column(name, justify="right", no_wrap=True)
        shown.add_column("advice", no_wrap=True)
        if wide:
            shown.add_column("why", overflow="fold")
        why = Table(box=None, pad_edge=False, show_header=False)
        for row in self._rows:
            column, reason = Text(row["column"]), Text(row["reason"])
            style = {"none": "dim", "keep": ""}.get(row["advice"], "green")
            shown.add_row(column, *_cells(row), *([reason] if wide else []), style=style)
            why.add_row(column, reason, style=style)
        yield shown
        yield ""
        if not wide:
            yield why
            yield ""
        yield _balance(self._rows)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        _meaning(row["type"]),
        "" if row["ndv_per_row_group"] is None else f"{row['ndv_per_row_group']:,.0f}",
        _percent(row["min_max_skip"]),
        _percent(row["skip_rate"]),
        "" if row["filter_bytes"] is None else human_bytes(row["filter_bytes"]),
        human_bytes(row["filter_bytes_now"]) if row["filters"] else "",
        row["advice"],
    ]


def _balance(rows: Sequence[dict[str, Any]]) -> str:
    """What following the advice adds to the files and takes from them."""
    now, then = 0, 0
    for row in rows:
        if row["advice"] in ("add", "replace", "shrink", "drop"):
            now += row["filter_bytes_now"]
            then += 0 if row["advice"] == "drop" else row["filter_bytes"]
    if not any(row["advice"] not in ("none", "keep") for row in rows):
        return "There is nothing to do."
    return f"These filters take {human_bytes(now)} now, and then {human_bytes(then)}:"


def _meaning(kind: str) -> str:
    """``STRING`` for ``BYTE_ARRAY (STRING)``."""
    return ", ".join(dict.fromkeys(each.rpartition("(")[2].rstrip(")") for each in kind.split(", ")))


def _weigh(dataset: Dataset, source: Source, column: TableColumn, facts: ColumnFacts, fpp: float) -> Worth:
    if len(column.path) == 1 and partition_of(dataset.partition_names, column.path, case_sensitive=False):
        return Worth(False, False, "is a partition column as well, whose directories tell its value")
    if column.locked is not None:
        return Worth(False, False, f"not known, as it is encrypted: {column.locked}")
    return source.weigh(column, facts, fpp)


def _wanted(dataset: Dataset, source: Source, column: TableColumn, fpp: float) -> Wanted:
    if _weigh(dataset, source, column, estimate(column, Sample(), source), fpp).needs_ndv:
        return Wanted.VALUES
    return Wanted.FILTERS if (column.offset >= 0).any() else Wanted.NOTHING


def _row(
    source: Source, column: TableColumn, sample: Sample, facts: ColumnFacts, worth: Worth, fpp: float
) -> tuple[Any, ...]:
    stored = column.offset >= 0
    now = _bytes_now(column, sample, stored)
    sizes = source.right_sizes(column, facts, fpp)
    if source.column_numbers() is None:
        advice, reason = _advise(stored, facts.filled > 0, sample, worth, sizes, now, fpp)
    else:
        advice, reason = _advise_anew(column, facts.filled > 0, sample, worth, fpp)
    return (
        shown(column.path), ", ".join(dict.fromkeys(leaf.describe() for leaf in column.leaves)), len(stored),
        int(facts.filled.sum()), worth.ndv_per_row_group, worth.ndv, int(stored.sum()), now, worth.min_max_skip,
        worth.skip_rate, None if sizes is None else int(sizes.sum()), advice, reason,
    )  # fmt: skip


def _advise(
    stored: NDArray[np.bool_],
    holding: NDArray[np.bool_],
    sample: Sample,
    worth: Worth,
    sizes: NDArray[np.int64] | None,
    now: int,
    fpp: float,
) -> tuple[str, str]:
    """What to do about a column of which `stored` row groups have a filter and `holding` ones values, and why."""
    filters = int(stored.sum())
    if not filters:
        return ("add" if worth.pays else "none"), _unknown(sample) if worth.needs_ndv else worth.reason
    if sample.fpp and sample.empty == len(sample.fpp):
        return "drop", "its filters are empty over values, so that nobody can trust them"
    missing = int((holding & ~stored).sum())
    if missing and worth.pays:
        return "add", f"{worth.reason}; {missing:,} of {len(stored):,} have no filter"
    reason = _unknown(sample) if worth.needs_ndv else worth.reason
    needed = 0 if sizes is None else int(sizes[stored].sum())
    if needed and now > _OVERSIZED * needed:
        return "shrink", f"{reason}; filters are {now / needed:,.0f} times as large as it takes"
    if sample.fpp and np.mean(sample.fpp) > _USELESS_FPP * fpp:
        says = _tell_fpp(sample)
        if worth.skips:
            return "replace", f"{reason}; {says}"
        if np.mean(sample.fpp) >= _WORTHLESS_FPP:
            return "drop", f"{reason}; {says}"
    return "keep", reason


def _advise_anew(
    column: TableColumn, holding: NDArray[np.bool_], sample: Sample, worth: Worth, fpp: float
) -> tuple[str, str]:
    """As :func:`_advise`, where filters come and go with the files that they are in."""
    stored = column.offset >= 0
    reason = _unknown(sample) if worth.needs_ndv else worth.reason
    if not stored.any():
        return ("add" if worth.pays else "none"), reason
    if column.unusable is not None:
        return ("replace" if worth.pays else "none"), f"{reason}; its filters prove nothing: {column.unusable}"
    if sample.fpp and sample.empty == len(sample.fpp):
        told = "its filters are empty over values, so that nobody can trust them"
        return ("replace" if worth.pays else "none"), f"{reason}; {told}"
    missing = int((holding & ~stored).sum())
    if missing and worth.pays:
        return "add", f"{reason}; {missing:,} of {len(stored):,} have no filter"
    if worth.skips and sample.fpp and np.mean(sample.fpp) > _USELESS_FPP * fpp:
        return "replace", f"{reason}; {_tell_fpp(sample)}"
    return "keep", reason


def _tell_fpp(sample: Sample) -> str:
    return f"filters that are there say maybe to {100 * np.mean(sample.fpp):.0f} % of absent values"


def _unknown(sample: Sample) -> str:
    if sample.error is not None:
        return f"not known, as what was tried could not be read: {sample.error}"
    if sample.too_large:
        return "not known: one column chunk is larger than all that the sample may read"
    return "not known: nothing of it was read"


def _bytes_now(column: TableColumn, sample: Sample, stored: NDArray[np.bool_]) -> int:
    told = stored & (column.length > 0)
    untold = int((stored & ~told).sum())
    usual = float(np.mean(sample.sizes)) if sample.sizes else 0.0
    return int(column.length[told].sum()) + round(usual * untold)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
