"""The output of ``bloomparquet advise``: the report, and the commands that follow its advice.

Functions here touch no file. rich is imported where it is used: ``--help`` does not need it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bloomparquet.cli.render import escaped, new_table, page_index_line, percent, short_type
from bloomparquet.query.names import quote_name
from bloomparquet.report.texts import human_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bloomparquet.planning.dataset import Paths
    from bloomparquet.writing.filters.spec import Fpp

_MANY_ROWS, _SOME_ROWS = 300_000, 50_000  # of a row group; with less, a lookup gains little by advice on them


def advice_report(advice: pa.Table) -> RenderableType:
    """The table of `bloomparquet.advise`, rounded; the reasons below it; and the size of filters before and after.

    The :func:`advice_commands` belong below it, printed as they are: rich would wrap them, and nobody could copy them.
    """
    from rich.console import Group

    columns = advice.to_pylist()
    right = ("distinct per\nrow group", "min/max\nskips", "filters\nskip", "size\nneeded", "size\nnow")
    figures = new_table("column", "type", right=right)
    figures.add_column("advice", no_wrap=True)
    reasons = new_table("", "", show_header=False)
    for column in columns:
        style = {"none": "dim", "keep": "", "maybe": ""}.get(column["advice"], "green")
        name = escaped(column["column"])
        figures.add_row(name, *_advice_cells(column), style=style)
        reasons.add_row(name, escaped(column["reason"]), style=style)
    return Group(figures, "", reasons, "", *_layout(columns), *_false_row_groups(columns), _advice_balance(columns))


def _advice_cells(column: Mapping[str, Any]) -> list[str]:
    types = dict.fromkeys(map(short_type, column["type"].split(", ")))
    return [
        ", ".join(types),
        "" if column["ndv_per_row_group"] is None else f"{column['ndv_per_row_group']:,.0f}",
        percent(column["min_max_skip"]),
        percent(column["skip_rate"]),
        "" if column["filter_bytes"] is None else human_bytes(column["filter_bytes"]),
        human_bytes(column["filter_bytes_now"]) if column["filters"] else "",
        column["advice"],
    ]


def _layout(columns: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Whether files have a page index; and what lookups gain by smaller row groups and by another codec, if they do.

    docs/existing-files.md has the measurements.
    """
    most = max(columns, key=lambda column: column["row_groups"], default=None)
    if most is None or not most["row_groups"]:
        return []
    lines = [page_index_line(most["page_indexes"], most["row_groups"], "row group")]
    looked_up = [column for column in columns if column["advice"] in ("add", "replace", "shrink", "keep")]
    rows = most["rows"] / most["row_groups"]
    if rows > _MANY_ROWS and (looked_up or most["row_groups"] == 1):
        lines.append(
            f"row groups: {rows:,.0f} rows; a lookup decompresses one column of them all. With about 120,000 rows "
            "(row_group_size=122_880) it takes half of the time, by text a third"
        )
    texts = [each for each in looked_up if each["type"].startswith("BYTE_ARRAY") and each["codec"] == "SNAPPY"]
    if texts and rows > _SOME_ROWS:
        lines.append(
            "codec: SNAPPY; with LZ4_RAW (compression='lz4'), lookups by text take two thirds of the time, and "
            "files are 2 % larger; Spark 3.5, DuckDB 1.0, pyarrow and polars read it, Spark 3.4 does not"
        )
    return [*lines, ""]


def _false_row_groups(columns: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """The false row groups of each column that has filters, or should; nothing for few row groups with good filters."""
    from bloomparquet.parquet.bloom_filter.sizes import TOLERANCE
    from bloomparquet.writing.filters.spec import MAX_AUTO_FPP, auto_fpp

    row_groups = max((column["row_groups"] for column in columns), default=0)
    auto = auto_fpp(row_groups)
    shown = []
    for column in columns:
        now = column["false_row_groups_now"]
        then = column["false_row_groups"] if column["advice"] not in ("none", "maybe", "drop") else None
        if now is not None or then is not None:
            shown.append((column["column"], now, then))
    most = max((number for _, *numbers in shown for number in numbers if number is not None), default=0.0)
    if not shown or (auto == MAX_AUTO_FPP and most <= TOLERANCE):
        return []
    table = new_table("column", right=("now", f"with FPP {columns[0]['fpp']:.2g}"))
    for name, *numbers in shown:
        table.add_row(escaped(name), *map(_expected, numbers))
    return [
        "False row groups, which a lookup reads although they do not hold the value:\n",
        table,
        f"\n--fpp auto is {auto:.2g} here: about {max(auto * row_groups, 1):,.0f} of {row_groups:,} row groups.\n",
    ]


def _expected(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:,.0f}" if number >= 10 else "under 0.1" if number < 0.1 else f"{number:.1f}"


def _advice_balance(columns: Sequence[Mapping[str, Any]]) -> str:
    """The size of the filters that the advice changes, before and after it is followed."""
    changed = [column for column in columns if column["advice"] in ("add", "replace", "shrink", "drop")]
    if not changed:
        return "There is nothing to do."
    now = sum(column["filter_bytes_now"] for column in changed)
    then = sum(column["filter_bytes"] for column in changed if column["advice"] != "drop")
    return f"Size of the filters that change: {human_bytes(now)} now, {human_bytes(then)} after:"


def advice_commands(advice: pa.Table, path: Paths, *, fpp: Fpp = "auto") -> list[str]:
    """The command lines that follow the advice of `bloomparquet.advise`; none if there is nothing to do.

    `fpp` is the argument that was given to `advise`.
    """
    from bloomparquet.writing.advice.advise import OVERSIZED

    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    where = shlex.join(os.fspath(each) for each in paths)
    goal = "" if isinstance(fpp, str) else f" --fpp {fpp:g}"
    by_advice: dict[str, list[str]] = {}
    oversized = False
    for row in advice.to_pylist():
        by_advice.setdefault(row["advice"], []).append(row["column"])
        if row["advice"] == "add" and row["filters"]:
            oversized |= row["filter_bytes_now"] * row["row_groups"] > OVERSIZED * row["filter_bytes"] * row["filters"]
    commands = []
    for verb, option in (("add", ""), ("replace", " --replace")):
        if verb in by_advice:
            names = shlex.quote(",".join(map(quote_name, by_advice[verb])))
            commands.append(f"bloomparquet add {where} --columns {names}{option}{goal}")
    if oversized or "shrink" in by_advice or "drop" in by_advice:
        commands.append(f"bloomparquet shrink {where}{goal}")
    return commands
