"""The command ``bloomparquet probe``."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from bloomparquet.cli.options import (
    echo_saturated,
    ignore_table_log,
    json_option,
    key_provider,
    no_filters,
    one_or_many,
    paths,
    storage_options,
)
from bloomparquet.cli.terminal import echo, echo_folded

if TYPE_CHECKING:
    from bloomparquet.parquet.encryption.keys import Keys
    from bloomparquet.planning.dataset import Dataset
    from bloomparquet.reading.inspect import ProbedFiles
    from bloomparquet.storage.table_formats import OnTableLog

_ABSENT = 3


@click.command()
@paths
@click.option("--column", required=True, help="Column, with dots for a field inside a struct, or `a.b` for one name.")
@click.option("--value", required=True, help="Value, as text; bytes as 0x00ff.")
@click.option("--timezone", default="UTC", show_default=True, help="Time zone for a timestamp written without one.")
@key_provider
@ignore_table_log
@json_option
def probe(
    path: tuple[str, ...],
    column: str,
    value: str,
    timezone: str,
    keys: Keys | None,
    table_log: OnTableLog,
    as_json: bool,
) -> None:
    """Ask only the Bloom filters whether a column can hold a value.

    Exit code 0: it might, in the row groups listed. Exit code 3: it is proven absent from every row group.
    """
    import bloomparquet as bp
    from bloomparquet.planning.dataset import open_dataset
    from bloomparquet.query.names import column_from_sql
    from bloomparquet.reading.inspect import probe_dataset

    dataset = open_dataset(one_or_many(path), storage_options(), keys, table_log, allow_named_files=True)
    name = column_from_sql(column)
    probed = probe_dataset(dataset, name, _typed(dataset, column, name, value), timezone)
    if as_json:
        echo(json.dumps(_to_json(probed), ensure_ascii=False))
    else:
        _print(probed, column, path)
    if all(answer.verdict is bp.Verdict.CANNOT_MATCH for answer in probed.answers):
        raise click.exceptions.Exit(_ABSENT)


def _to_json(probed: ProbedFiles) -> dict[str, Any]:
    from bloomparquet.query.verdict import Verdict

    row_groups = [
        {
            "path": answer.path,
            "row_group": answer.row_group,
            "verdict": "absent" if answer.verdict is Verdict.CANNOT_MATCH else "maybe",
            "has_filter": answer.has_filter,
        }
        for answer in probed.answers
    ]
    absent = sum(each["verdict"] == "absent" for each in row_groups)
    return {
        "maybe": len(row_groups) - absent,
        "absent": absent,
        "row_groups": row_groups,
        "saturated": probed.saturated is not None,
    }


def _print(probed: ProbedFiles, column: str, path: tuple[str, ...]) -> None:
    from bloomparquet.query.verdict import Verdict

    maybe = [answer for answer in probed.answers if answer.verdict is not Verdict.CANNOT_MATCH]
    for answer in maybe:
        reason = "" if answer.has_filter else " (no filter)"
        echo(f"maybe in {answer.path}, row group {answer.row_group}{reason}")
    total = len(probed.answers)
    if not total:
        echo("proven absent: there is no row group, so there are no rows")
        return
    echo(f"proven absent from {total - len(maybe):,} of {total:,} row groups")
    is_orc = probed.format.unit == "stripe"
    if is_orc:
        echo_folded("The row groups of an ORC file are numbered from 0, through all its stripes.")
    if not any(answer.has_filter for answer in probed.answers):
        echo_folded(no_filters(f"These files have no Bloom filter on {column}", path, is_orc=is_orc))
    echo_saturated([] if probed.saturated is None else [probed.saturated])


def _typed(dataset: Dataset, column: str, name: str | tuple[str, ...], text: str) -> Any:
    """Convert `text` to the type of the column in the first file that has it. Most types keep the text."""
    import bloomparquet as bp
    from bloomparquet.reading.inspect import column_type

    stored = column_type(dataset, name)
    if stored is None:
        return text
    family, type_name = stored
    try:
        if family == "integer":
            return int(text)
        if family == "decimal":
            return Decimal(text)
        if family == "float":
            return float(text)
        if family == "boolean":
            return {"true": True, "false": False}[text.lower()]
        if family == "binary":
            return bytes.fromhex(text[2:]) if text.startswith(("0x", "0X")) else text.encode()
    except (ValueError, ArithmeticError, KeyError):
        raise bp.PlanError(f"--value {text!r} is not a value of column {column} ({type_name})") from None
    return text
