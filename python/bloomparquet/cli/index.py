"""The commands ``bloomparquet index build | refresh | show | drop``.

Stdout has the result, as text or with ``--json`` as one object. After an interrupt or a kill, the index is the one that
was there before.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from bloomparquet.cli.options import (
    any_path,
    combined,
    dotted,
    ignore_table_log,
    json_option,
    one_or_many,
    parse_fpp,
    paths,
    split_names,
    storage_options,
)
from bloomparquet.cli.progress import file_progress
from bloomparquet.cli.terminal import echo

if TYPE_CHECKING:
    from bloomparquet.indexing.build import IndexInfo
    from bloomparquet.storage.table_formats import OnTableLog
    from bloomparquet.writing.filters.spec import Fpp

_common = combined(
    click.option(
        "--to",
        metavar="DIR",
        type=any_path,
        help="Directory of the index. By default, beside the data.",
    ),
    ignore_table_log,
    json_option,
)


@click.group()
def index() -> None:
    """Build, refresh, show or drop the index of a data set.

    An index holds what the footers and Bloom filters of many files say, so that a plan reads a few kilobytes instead of
    every file. It lies beside the data, in _bloomparquet_index, and is used without being asked for.
    """


@index.command()
@paths
@click.option(
    "--columns",
    metavar="A,B,…",
    help="Columns to index, comma-separated. By default, all. With lower(c) or upper(c), makes filters of the text in "
    "that case.",
)
@click.option(
    "--fpp",
    type=parse_fpp,
    metavar="FPP",
    help="Make filters of this false positive probability for the --columns that have none in the files. Reads these "
    "columns, and changes no file. With auto, a lookup over all files reads about one row group that does not hold the "
    "value.",
)
@_common
def build(path: tuple[str, ...], columns: str | None, fpp: Fpp | None, as_json: bool, **where: Any) -> None:
    """Build the index of the files at PATH. It replaces an index that is there."""
    import bloomparquet as bp

    names = dotted(split_names(columns))
    if fpp is not None and names is None:
        raise click.UsageError("--fpp makes filters for the --columns that have none; name these columns.")
    wanted = None if names is None else dict.fromkeys(names, None if fpp is None else bp.Bloom(fpp))
    with file_progress() as progress:
        info = bp.build_index(one_or_many(path), wanted, **where, progress=progress, filesystem=storage_options())
    _report("Built", info, as_json)


@index.command()
@paths
@_common
def refresh(path: tuple[str, ...], as_json: bool, **where: Any) -> None:
    """Index the files at PATH that are new or changed."""
    import bloomparquet as bp

    with file_progress() as progress:
        info = bp.refresh_index(one_or_many(path), **where, progress=progress, filesystem=storage_options())
    _report("Refreshed", info, as_json)


@index.command()
@paths
@_common
def show(path: tuple[str, ...], to: str | None, table_log: OnTableLog, as_json: bool) -> None:
    """Show the index of the files at PATH.

    Says how many of them it covers as they are now. Reads the footers of the others.
    """
    import bloomparquet as bp

    info = bp.read_index_info(one_or_many(path), to, table_log=table_log, filesystem=storage_options())
    _report("", info, as_json)
    if info.outdated and not as_json:
        target = "" if to is None else f" --to {shlex.quote(to)}"
        ignored = " --ignore-table-log" if table_log == "ignore" else ""
        echo(f"To index them: bloomparquet index refresh {shlex.join(path)}{target}{ignored}")


@index.command()
@paths
@_common
def drop(path: tuple[str, ...], as_json: bool, **where: Any) -> None:
    """Delete the index of the files at PATH. The files themselves are not touched."""
    import bloomparquet as bp

    dropped = bp.drop_index(one_or_many(path), **where, filesystem=storage_options())
    text = "The index was deleted." if dropped else "There is no index here."
    echo(json.dumps({"dropped": dropped}) if as_json else text)


def _report(done: str, info: IndexInfo, as_json: bool) -> None:
    from bloomparquet.report.texts import human_bytes, plural

    if as_json:  # without what was not compared
        fields = {name: value for name, value in asdict(info).items() if value is not None or name == "columns"}
        echo(json.dumps(fields, ensure_ascii=False))
        return
    lines = {
        "index": info.directory,
        "holds": f"{plural(info.files, 'file')}, {plural(info.row_groups, 'row group')}",
        "columns": "all" if info.columns is None else ", ".join(info.columns),
        "size": f"{human_bytes(info.bytes)} in {plural(info.segments, 'segment')}",
    }
    if info.covered is not None:
        outdated = info.outdated or 0
        total = info.covered + outdated + len(info.left_out)
        lines["covered now"] = f"{info.covered:,} of {plural(total, 'file')}"
        lines["new or changed"] = plural(outdated, "file")
    if done:
        echo(f"{done} the index.")
    for name, value in lines.items():
        echo(f"{name:<16}{value}")
    by_reason: dict[str, list[str]] = {}
    for path, reason in sorted(info.left_out.items()):
        by_reason.setdefault(reason.removeprefix(f"{path}: "), []).append(path)
    for reason, files in by_reason.items():
        more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
        echo(f"left out: {files[0]}{more}: {reason}")
