"""The command line: ``bloomparquet plan | read | inspect | advise | probe``, and from :mod:`bloomparquet.cli.write`
``add`` and ``shrink``.

As it is installed it also has ``jar``, which is :mod:`pyspark_bloomparquet.cli`'s: this package knows no Spark.
Everything but click is imported where it is used, so that ``--help`` and a mistyped option answer at once.

Exit codes, for all commands: 0 done; 1 the data, a path or a predicate is wrong (one line ``error: …`` on stderr);
2 the command line is wrong; 3 from ``probe`` only: the value is proven absent; 130 interrupted; 141 the reader of a
pipe went away.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from bloomparquet.cli import options as cli_options
from bloomparquet.cli import write as cli_write
from bloomparquet.cli.options import one_or_many as _one_or_many

if TYPE_CHECKING:
    import pyarrow as pa

    from bloomparquet.parquet.encryption.keys import Keys
    from bloomparquet.storage.table_formats import OnTableLog

_ABSENT = 3
_ROWS_IN_A_TERMINAL = 100

_Command = TypeVar("_Command", bound=Callable[..., Any])

_paths = cli_options.paths
_json = cli_options.as_json


def _predicate(command: _Command) -> _Command:
    options = [
        click.option(
            "--where", metavar="SQL", help="Predicate, as in Spark SQL: \"user_id = 7 AND day >= '2026-01-01'\"."
        ),
        click.option("--timezone", default="UTC", show_default=True, help="Zone of timestamps that name none."),
        click.option("--ignore-case", is_flag=True, help="Match column names as Spark does by default."),
        click.option(
            "--strict", is_flag=True, help="Fail on a filter that cannot be used; without it its row group is read."
        ),
        cli_options.keys,
        cli_options.ignore_table_log,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="bloomparquet", message="%(package)s %(version)s")
def cli() -> None:
    """Read only the Parquet row groups and ORC stripes that can hold your rows.

    PATH is a file, a directory (with its hive partitions), a quoted glob, or a URL such as s3://bucket/events;
    several may be given.
    """


@cli.command()
@_paths
@_predicate
@click.option("--files", "detail", flag_value="file", help="One line per file.")
@click.option("--all", "detail", flag_value="all", help="One line per row group or stripe, with what excluded it.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Lines of detail; 0 for all.")
@_json
def plan(path: tuple[str, ...], detail: str | None, limit: int, as_json: bool, **predicate: Any) -> None:
    """Show which row groups or stripes a predicate leaves to read, and what excluded the others. No data is read."""
    import bloomparquet as bp
    from bloomparquet.cli import render

    found = bp.plan(_one_or_many(path), **_planning(**predicate))
    if as_json:
        click.echo(json.dumps(render.plan_to_json(found), ensure_ascii=False))
    else:
        render.console().print(render.plan_report(found, detail=detail or "kept", limit=limit or None))


@cli.command()
@_paths
@_predicate
@click.option("--columns", metavar="A,B,…", help="Columns to read, comma-separated.")
@click.option("--limit", type=click.IntRange(min=0), help="Stop after so many rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")
def read(path: tuple[str, ...], columns: str | None, limit: int | None, as_json: bool, **predicate: Any) -> None:
    """Print the rows that match, as a table or as JSON lines."""
    import bloomparquet as bp
    from bloomparquet.cli import render
    from bloomparquet.cli.json_rows import write_json_lines

    names = [name.strip() for name in columns.split(",")] if columns else None
    reader = bp.scan_batches(_one_or_many(path), columns=names, **_planning(**predicate))
    batches = _head(reader, limit)
    if as_json:
        write_json_lines(sys.stdout, batches)
    else:
        render.print_rows(reader.schema, batches, _ROWS_IN_A_TERMINAL if limit is None else limit)


@cli.command()
@_paths
@cli_options.keys
@cli_options.ignore_table_log
@_json
def inspect(path: tuple[str, ...], keys: Keys | None, table_log: OnTableLog, as_json: bool) -> None:
    """List every Bloom filter: where it is, how large, how full, and how often it says maybe for nothing."""
    import bloomparquet as bp
    from bloomparquet.cli import render
    from bloomparquet.cli.json_rows import write_json_lines

    table = bp.inspect(_one_or_many(path), keys=keys, table_log=table_log)
    if as_json:
        write_json_lines(sys.stdout, table.to_batches())
    else:
        render.console().print(render.filters_report(table))


@cli.command()
@_paths
@click.option("--fpp", type=cli_options.PROBABILITY, default=0.01, show_default=True, help="False positives to aim at.")
@click.option("--sample", type=cli_options.Size(), default="64m", show_default=True, help="Bytes to read at most.")
@cli_options.keys
@cli_options.ignore_table_log
@_json
def advise(
    path: tuple[str, ...], fpp: float, sample: int, keys: Keys | None, table_log: OnTableLog, as_json: bool
) -> None:
    """Say for which columns Bloom filters pay, by footers and a sample, and which command makes them."""
    import bloomparquet as bp
    from bloomparquet.cli import render
    from bloomparquet.cli.json_rows import write_json_lines

    where = _one_or_many(path)
    table = bp.advise(where, fpp=fpp, sample=sample, keys=keys, table_log=table_log)
    if as_json:
        write_json_lines(sys.stdout, table.to_batches())
        return
    render.console().print(render.advice_report(table))
    for command in render.advice_commands(table, where, fpp=fpp):  # not folded to the terminal's width: to be copied
        click.echo(command + cli_options.same_keys())


@cli.command()
@_paths
@click.option("--column", required=True, help="Column, with dots for a field inside a struct.")
@click.option("--value", required=True, help="The value, as text; bytes as 0x00ff.")
@click.option("--timezone", default="UTC", show_default=True, help="Zone of a timestamp that names none.")
@cli_options.keys
@cli_options.ignore_table_log
@_json
def probe(
    path: tuple[str, ...],
    column: str,
    value: str,
    timezone: str,
    keys: Keys | None,
    table_log: OnTableLog,
    as_json: bool,
) -> None:
    """Ask the Bloom filters alone whether a value can be there.

    Exit code 0: perhaps, in the row groups listed. Exit code 3: it is proven absent from every row group.
    """
    import bloomparquet as bp

    where = _one_or_many(path)
    typed = _typed(where, column, value, keys, table_log)
    answers = bp.probe(where, column=column, value=typed, timezone=timezone, keys=keys, table_log=table_log)
    absent = [answer.verdict is bp.Verdict.CANNOT_MATCH for answer in answers]
    if as_json:
        row_groups = [
            {"path": answer.path, "row_group": answer.row_group, "verdict": "absent" if gone else "maybe"}
            for answer, gone in zip(answers, absent, strict=True)
        ]
        counts = {"maybe": absent.count(False), "absent": absent.count(True)}
        click.echo(json.dumps({**counts, "row_groups": row_groups}, ensure_ascii=False))
    else:
        for answer, gone in zip(answers, absent, strict=True):
            if not gone:
                click.echo(f"maybe in {answer.path}, row group {answer.row_group}")
        click.echo(f"proven absent from {absent.count(True):,} of {len(absent):,} row groups")
    if all(absent):
        raise click.exceptions.Exit(_ABSENT)


cli.add_command(cli_write.add)
cli.add_command(cli_write.shrink)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit. Nothing that a user can cause ends in a traceback."""
    warnings.showwarning = _show_warning
    try:
        # Not `cli.main`: it would answer a closed pipe and an interrupt in its own way first.
        with cli.make_context("bloomparquet", sys.argv[1:] if arguments is None else arguments) as context:
            cli.invoke(context)
        sys.stdout.flush()
        sys.exit(0)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # The interpreter flushes stdout once more as it exits; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except Exception as error:
        if not _is_users(error):
            raise
        _fail(str(error))


def _is_users(error: Exception) -> bool:
    import pyarrow as pa

    from bloomparquet.errors import BloomParquetError

    return isinstance(error, BloomParquetError | pa.ArrowException)


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(1)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"warning: {' '.join(str(message).split())}", err=True)


def _head(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first `limit` rows (None: all). Batches after them are never read."""
    left = limit
    for batch in batches:
        if left is not None and batch.num_rows >= left:
            yield batch.slice(0, left)
            return
        left = None if left is None else left - batch.num_rows
        yield batch


def _planning(
    where: str | None, timezone: str, ignore_case: bool, strict: bool, keys: Keys | None, table_log: OnTableLog
) -> dict[str, Any]:
    return {
        "where": where,
        "timezone": timezone,
        "case_sensitive": not ignore_case,
        "on_filter_error": "fail" if strict else "keep",
        "keys": keys,
        "table_log": table_log,
    }


def _typed(path: str | list[str], column: str, text: str, keys: Keys | None, table_log: OnTableLog) -> Any:
    """`text` as a value of the kind that the column has in the first file with it; other kinds stay text."""
    import bloomparquet as bp
    from bloomparquet.reading.inspect import column_type

    found = column_type(path, column, keys=keys, table_log=table_log)
    if found is None:
        return text
    family, kind = found
    try:
        if family == "integer":
            return int(text)
        if family == "decimal":
            return Decimal(text)
        if family == "float":
            return float(text)
        if family == "binary":
            return bytes.fromhex(text[2:]) if text.startswith(("0x", "0X")) else text.encode()
    except (ValueError, ArithmeticError):
        raise bp.PlanError(f"--value {text!r} is not a value of column {column} ({kind})") from None
    return text


if __name__ == "__main__":
    main()
