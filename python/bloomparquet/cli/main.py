"""The command ``bloomparquet``. The installed command also has ``jar``, from :mod:`pyspark_bloomparquet.cli`.

Modules other than click are imported where they are used, so that ``--help`` and a wrong option answer at once.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
import os
import shlex
import sys
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import click

from bloomparquet.cli.index import index
from bloomparquet.cli.options import (
    any_path,
    combined,
    dotted,
    echo_saturated,
    fpp_option,
    html_option,
    ignore_table_log,
    json_option,
    key_provider,
    limit_lines,
    no_filters,
    one_or_many,
    parse_bytes,
    paths,
    same_keys,
    split_names,
    storage_options,
    write_report,
)
from bloomparquet.cli.probe import probe
from bloomparquet.cli.terminal import LogFormatter, echo, echo_folded
from bloomparquet.cli.write import add, shrink

if TYPE_CHECKING:
    from bloomparquet.storage.table_formats import OnTableLog
    from bloomparquet.writing.filters.spec import Fpp

_ROWS_IN_A_TERMINAL = 100
_COMPLETION = "_BLOOMPARQUET_COMPLETE"  # click's name; the completion script of a shell sets it
_ESCAPING = "bloomparquet-escape"  # the name of an error handler of codecs

_predicate = combined(
    click.option("--where", metavar="SQL", help="Predicate in Spark SQL: \"user_id = 7 AND day >= '2026-01-01'\"."),
    click.option("--timezone", default="UTC", show_default=True, help="Time zone for timestamps written without one."),
    click.option(
        "--ignore-case",
        "case_sensitive",
        is_flag=True,
        callback=lambda _, __, is_set: not is_set,
        help="Ignore case in column names, as Spark does by default.",
    ),
    click.option(
        "--on-filter-error",
        type=click.Choice(["keep", "fail"]),
        default="keep",
        show_default=True,
        help="If a Bloom filter cannot be used: keep its row group, or fail.",
    ),
    click.option(
        "--index",
        metavar="auto|off|DIR",
        default="auto",
        show_default=True,
        type=any_path,
        help="The index to use: auto (the one beside the data, if there is one), off (none), or its directory.",
    ),
    click.option("--skip-corrupt", is_flag=True, help="Leave out files whose footer is damaged."),
    key_provider,
    ignore_table_log,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="bloomparquet", message="%(package)s %(version)s")
def cli() -> None:
    """Read only the Parquet row groups and ORC stripes that can hold your rows.

    PATH is a file, a directory (with its Hive partitions), a quoted glob, or a URL such as s3://bucket/events.
    Several can be given.
    """


@cli.command()
@paths
@_predicate
@click.option(
    "--all", "show_skipped", is_flag=True, help="One line per row group or stripe, with the evidence that skips it."
)
@limit_lines
@html_option
@json_option
def plan(
    path: tuple[str, ...], show_skipped: bool, limit: int, report: str | None, as_json: bool, **predicate: Any
) -> None:
    """Show which row groups or stripes a predicate keeps. Names the evidence that skips the others. Reads no data."""
    import bloomparquet as bp
    from bloomparquet.cli import render

    scan_plan = bp.plan(one_or_many(path), **predicate, storage_options=storage_options())
    write_report(report, path, scan_plan)
    if as_json:
        echo(json.dumps(render.plan_to_json(scan_plan), ensure_ascii=False))
    else:
        render.console().print(render.plan_report(scan_plan, show_skipped=show_skipped, limit=limit or None))
        if missing := scan_plan.columns_without_filters():
            from bloomparquet.planning.decisions import describe_without_filters

            lines = describe_without_filters(missing, len(scan_plan.table), scan_plan.unit)
            echo_folded(f"\n{no_filters('; '.join(lines), path, is_orc=scan_plan.unit == 'stripe')}")
        if opaque := scan_plan.not_understood():
            echo_folded(f"\nnot used: {', '.join(opaque)}; why:")
            again = shlex.join(["bloomparquet", "explain", *path, *_same_predicate(**predicate)])
            echo(f"  {again}{same_keys()}")


@cli.command()
@paths
@_predicate
@click.option("--read", "reads", is_flag=True, help="Read the matching rows, and say what was read of each column.")
@html_option
@json_option
def explain(path: tuple[str, ...], reads: bool, report: str | None, as_json: bool, **predicate: Any) -> None:
    """Say why row groups are skipped, and why not more of them.

    For each part of the predicate: which evidence skips how many row groups, which does not, for which reason, and what
    to do about it. Reads no data without --read.
    """
    import bloomparquet as bp
    from bloomparquet.reading.amounts import ReadAmounts
    from bloomparquet.reading.scan import read_plan

    scan_plan = bp.plan(one_or_many(path), **predicate, storage_options=storage_options())
    write_report(report, path, scan_plan)
    explanation = scan_plan.explain()
    if not as_json:
        echo_folded(str(explanation))
    amounts = ReadAmounts()
    if reads:
        for _ in read_plan(scan_plan, None, amounts=amounts):
            pass
    if as_json:
        values = explanation.to_dict() | ({"where": None} if scan_plan.where is None else {})
        echo(json.dumps(values | ({"read": amounts.to_dict()} if reads else {}), ensure_ascii=False))
    elif reads:
        lines = amounts.describe(scan_plan.unit, len(scan_plan.table))
        echo("\n".join(["", "what was read:", *(f"  {line}" for line in lines)]))


@cli.command()
@paths
@_predicate
@click.option("--columns", metavar="A,B,…", help="Columns to read, comma-separated.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Stop after this many rows. By default, a table has at most {_ROWS_IN_A_TERMINAL} rows, and --json all.",
)
@click.option("--merge-schema", is_flag=True, help="Take the columns of all files, not those of the first file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")
def read(path: tuple[str, ...], columns: str | None, limit: int | None, as_json: bool, **options: Any) -> None:
    """Print the rows that match, as a table or as JSON lines."""
    import bloomparquet as bp
    from bloomparquet.cli import render
    from bloomparquet.cli.json_rows import write_json_lines

    names = dotted(split_names(columns))
    reader = bp.scan_batches(one_or_many(path), columns=names, **options, storage_options=storage_options())
    batches = render.head(reader, limit)
    if as_json:
        write_json_lines(sys.stdout, batches)
    else:
        render.print_rows(reader.schema, batches, _ROWS_IN_A_TERMINAL if limit is None else limit)


@cli.command()
@paths
@key_provider
@ignore_table_log
@limit_lines
@html_option
@json_option
def inspect(path: tuple[str, ...], limit: int, report: str | None, as_json: bool, **options: Any) -> None:
    """Show the Bloom filters of each column, then each filter.

    Shows its size and its false positive probability; on a wide terminal, also its offset and its set bits. --json
    prints every filter.
    """
    import bloomparquet as bp
    from bloomparquet.cli import render
    from bloomparquet.cli.json_rows import write_json_lines
    from bloomparquet.reading.inspect import saturated_columns

    table = bp.inspect(one_or_many(path), **options, filesystem=storage_options())
    write_report(report, path, table)
    if as_json:
        write_json_lines(sys.stdout, table.to_batches())
    elif len(table):
        console = render.console()
        console.print(render.filters_report(table, width=console.width, limit=limit or None))
        echo_saturated(saturated_columns(table, shlex.join(path)))
    else:
        none = "These files have no Bloom filter on any column"
        echo_folded(no_filters(none, path, is_orc="stripe" in table.column_names))


@cli.command()
@paths
@fpp_option
@click.option(
    "--sample",
    type=parse_bytes,
    metavar="BYTES",
    default="64m",
    show_default=True,
    help="Read at most this many bytes of filters and data.",
)
@key_provider
@ignore_table_log
@html_option
@json_option
def advise(path: tuple[str, ...], fpp: Fpp, report: str | None, as_json: bool, **options: Any) -> None:
    """Say which columns should have Bloom filters. Judges by footers and a sample, and prints the commands that add
    them."""
    import bloomparquet as bp
    from bloomparquet.cli.advice import advice_commands, advice_report
    from bloomparquet.cli.json_rows import write_json_lines
    from bloomparquet.cli.render import console

    source = one_or_many(path)
    table = bp.advise(source, fpp=fpp, **options, filesystem=storage_options())
    write_report(report, path, table)
    if as_json:
        write_json_lines(sys.stdout, table.to_batches())
        return
    console().print(advice_report(table))
    for command in advice_commands(table, source, fpp=fpp):
        echo(command + same_keys())  # click does not fold lines, so that they can be copied


cli.add_command(add)
cli.add_command(index)
cli.add_command(probe)
cli.add_command(shrink)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit. No mistake of a user ends in a traceback."""
    warnings.showwarning = _show_warning
    if logging.lastResort is not None:  # what no handler takes goes to stderr
        logging.lastResort.setFormatter(LogFormatter("warning: %(message)s"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error(_ESCAPING, _escape)
        sys.stdout.reconfigure(errors=_ESCAPING)
    if instruction := os.environ.get(_COMPLETION):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "bloomparquet", _COMPLETION, instruction))
    try:
        # Not `cli.main`, which has its own exit codes for a closed pipe and an interrupt.
        with cli.make_context("bloomparquet", sys.argv[1:] if arguments is None else arguments) as context:
            cli.invoke(context)
        if sys.stdout is not None:  # None: it was closed before the start
            sys.stdout.flush()
        sys.exit(0)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        text = io.StringIO()
        error.show(text)
        echo(text.getvalue().rstrip("\n"), err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # The interpreter flushes stdout again as it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except Exception as error:
        import pyarrow as pa

        from bloomparquet.errors import BloomParquetError

        if not isinstance(error, BloomParquetError | pa.ArrowException):
            raise
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(1)


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Escape the characters that stdout's encoding lacks. JSON has these escapes too, so it stays valid."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    echo(f"warning: {' '.join(str(message).split())}", err=True)


def _same_predicate(
    where: str, timezone: str, case_sensitive: bool, index: str, skip_corrupt: bool, table_log: OnTableLog, **_: Any
) -> list[str]:
    """The options with which another command plans the same."""
    zone = [] if timezone == "UTC" else ["--timezone", timezone]
    other_index = [] if index == "auto" else ["--index", index]
    flags = {
        "--ignore-case": not case_sensitive,
        "--skip-corrupt": skip_corrupt,
        "--ignore-table-log": table_log == "ignore",
    }
    return ["--where", where, *zone, *other_index, *(name for name, is_set in flags.items() if is_set)]


if __name__ == "__main__":
    main()
