"""The commands that change files: ``bloomparquet add | shrink``.

Stdout has the result: a summary, or with ``--json`` one line per file, as soon as it is done. The error of a file is
one line on stderr. The other files are done nevertheless, and the exit code is 1. After an interrupt or a kill, every
file is whole, either old or new; the next run does the rest.
"""

from __future__ import annotations

import itertools
import json
import shlex
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from bloomparquet.cli.options import (
    any_path,
    combined,
    fpp_option,
    key_provider,
    one_or_many,
    parse_bytes,
    paths,
    same_keys,
    split_names,
    storage_options,
)
from bloomparquet.cli.progress import file_progress
from bloomparquet.cli.terminal import echo, printable

if TYPE_CHECKING:
    from bloomparquet.parquet.encryption.keys import Keys
    from bloomparquet.writing.filters.spec import Fpp
    from bloomparquet.writing.outcome import FileOutcome

_output_options = combined(
    click.option(
        "-o",
        "--output",
        metavar="DST",
        type=any_path,
        help="Write new files to DST, and do not change PATH.",
    ),
    key_provider,
    click.option("--dry-run", is_flag=True, help="Write nothing; say what would be done."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object per file."),
)


@click.command()
@paths
@click.option(
    "--columns",
    metavar="A,B,…",
    help="Columns, comma-separated, s.x for a field. By default, those that `advise` recommends.",
)
@fpp_option
@click.option(
    "--max-bytes", type=parse_bytes, metavar="BYTES", default="16m", show_default=True, help="Size limit of one filter."
)
@click.option("--replace", is_flag=True, help="Replace existing filters of these columns.")
@click.option("--yes", is_flag=True, help="Without --columns: do not ask before files are changed.")
@_output_options
def add(
    path: tuple[str, ...],
    columns: str | None,
    fpp: Fpp,
    max_bytes: int,
    replace: bool,
    yes: bool,
    **run: Any,
) -> None:
    """Add Bloom filters to existing Parquet files. Data pages are copied unchanged.

    Each file is replaced in one step. Existing filters are kept. A second run does only what is left. Without
    --columns, the advice is shown first, and nothing is done without consent.
    """
    import bloomparquet as bp

    names = split_names(columns) or ["*"]
    try:
        bloom = bp.Bloom(fpp, max_bytes=max_bytes)
    except bp.OptionError as error:
        raise click.BadParameter(str(error), param_hint="--max-bytes") from None

    if columns is None and not yes and not run["dry_run"]:
        _ask(path, fpp, run["keys"], replace=replace)
    by_column: dict[Any, bp.Bloom] = dict.fromkeys(names, bloom)
    outcomes = _run(partial(bp.add_filters, bloom=by_column, replace=replace), path, "add", **run)
    is_done = all(outcome.action in ("unchanged", "copied") for outcome in outcomes)
    if columns is None and not run["as_json"] and is_done:
        again = f"bloomparquet advise {shlex.join(path)}{same_keys()}"
        echo(f"To see which columns filters are recommended for, and why:\n  {again}")


def _ask(path: tuple[str, ...], fpp: Fpp, keys: Keys | None, *, replace: bool) -> None:
    """Show the advice for `path`, and ask whether to follow it. Ends the command without consent."""
    import bloomparquet as bp
    from bloomparquet.cli.advice import advice_report
    from bloomparquet.cli.render import console
    from bloomparquet.planning.dataset import open_dataset
    from bloomparquet.report.texts import human_bytes, plural

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "without --columns, add chooses the columns; name them with --columns, or agree with --yes. To see which "
            f"columns it chooses, and why: bloomparquet advise {shlex.join(path)}{same_keys()}"
        )
    dataset = open_dataset(one_or_many(path), storage_options(), keys, "ignore", allow_named_files=True)
    advice = bp.advise(dataset, fpp=fpp, keys=keys)
    console().print(advice_report(advice))
    done = ("add", "replace", "keep", "shrink") if replace else ("add",)
    chosen = [row for row in advice.to_pylist() if row["advice"] in done]
    if chosen:
        size = human_bytes(sum(row["filter_bytes"] or 0 for row in chosen))
        files = plural(len(dataset.files), "file")
        what = f"{'Make' if replace else 'Add'} filters of {size} on {', '.join(row['column'] for row in chosen)}"
        if not click.confirm(printable(f"{what}, in {files}?")):
            raise click.exceptions.Exit(1)


@click.command()
@paths
@fpp_option
@click.option(
    "--drop-above",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="Drop filters whose FPP is this or higher.",
)
@_output_options
def shrink(path: tuple[str, ...], fpp: Fpp, drop_above: float, **run: Any) -> None:
    """Shrink Bloom filters that are larger than needed. Drops filters that are full. Reads no data.

    A filter that was shrunk is bit for bit the filter that would have been written with the smaller size.
    """
    import bloomparquet as bp

    _run(partial(bp.shrink_filters, fpp=fpp, drop_above=drop_above), path, "shrink", **run)


def _run(
    change: Callable[..., list[FileOutcome]],
    path: tuple[str, ...],
    verb: str,
    *,
    output: str | None,
    keys: Keys | None,
    dry_run: bool,
    as_json: bool,
) -> list[FileOutcome]:
    if output is not None and len(path) > 1:
        raise click.UsageError("--output takes one PATH.")
    from bloomparquet.cli import render

    with file_progress(hidden=as_json and sys.stdout.isatty()) as show, warnings.catch_warnings():
        for message in (r".*: the size limit max_bytes \w+ the ", "the Bloom filters of column .* are never used"):
            warnings.filterwarnings("ignore", message=message)  # the summary says it once

        count = itertools.count(1)

        def done(outcome: FileOutcome, total: int) -> None:
            if outcome.error is not None:
                # Not click.echo, which would write into the progress bar.
                place = "" if outcome.path in outcome.error else f"{outcome.path}: "
                print(printable(f"error: {place}{' '.join(outcome.error.split())}", err=True), file=sys.stderr)
            if as_json:
                echo(json.dumps(render.outcome_to_json(outcome), ensure_ascii=False))
            show(next(count), total)

        outcomes = change(
            one_or_many(path), output, dry_run=dry_run, on_error="report", progress=done, keys=keys,
            filesystem=storage_options(),
        )  # fmt: skip
    if not as_json:
        render.console().print(render.outcomes_report(outcomes, verb=verb, dry_run=dry_run))
    if any(outcome.action == "failed" for outcome in outcomes):
        raise click.exceptions.Exit(1)
    return outcomes
