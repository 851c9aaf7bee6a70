"""Arguments and options that several commands share."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from bloomparquet.cli.terminal import echo_folded

if TYPE_CHECKING:
    import pyarrow as pa

    from bloomparquet.parquet.encryption.keys import Keys
    from bloomparquet.planning.explanation import NotUsed
    from bloomparquet.planning.plan import ScanPlan

_Decorator = Callable[[Any], Any]

_PROVIDER, _STORAGE_OPTIONS = f"{__name__}.provider", f"{__name__}.storage_options"  # keys in click's context


def combined(*options: _Decorator) -> _Decorator:
    """One decorator that gives a command all `options`, which its help lists in this order."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


limit_lines = click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Lines of detail; 0 for all."
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


any_path = click.Path(readable=False)
"""A file, a directory or a URL. The shell completes it; nothing is checked."""

html_option = click.option(
    "--html",
    "report",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write FILE, a report for a browser.",
)


def _keep_storage_options(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> None:
    for text in given:
        name, mark, value = text.partition("=")
        if not mark:
            raise click.BadParameter("expected NAME=VALUE, such as region=eu-west-1.")  # it may be a secret
        context.meta.setdefault(_STORAGE_OPTIONS, {})[name.strip()] = value


paths = combined(
    click.argument("path", nargs=-1, required=True, type=any_path),
    click.option(
        "--storage-option",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=_keep_storage_options,
        help="Endpoint, credentials or retries of a URL's storage: endpoint_override=localhost:9000. Can be repeated.",
    ),
)
"""The argument ``PATH``, and the options of the storage it lies on; see :func:`storage_options`."""


def storage_options() -> dict[str, str] | None:
    """The storage options of the running command; None if there are none."""
    return click.get_current_context().meta.get(_STORAGE_OPTIONS)


def parse_fpp(text: str) -> float | str:
    """A false positive probability, or ``auto``."""
    if text == "auto":
        return text
    with suppress(ValueError):
        if 0.0 < (number := float(text)) < 1.0:
            return number
    raise click.BadParameter(f"{text!r} is neither auto nor a number above 0 and below 1.")


fpp_option = click.option(
    "--fpp",
    type=parse_fpp,
    metavar="FPP",
    default="auto",
    show_default=True,
    help="False positive probability (FPP) to aim at. With `auto`, a lookup over all files of PATH reads about one "
    "row group that does not hold the value.",
)


def parse_bytes(text: str) -> int:
    """A size in bytes: ``16777216``, ``16384k``, ``16m``, ``1g``."""
    from bloomparquet.storage.sizes import parse_size

    size = parse_size(text)
    if size is None:
        raise click.BadParameter(
            f"{text!r} is not a size; expected a number of bytes, such as 1048576, 512k, 16m or 1g."
        )
    return size


def _load_keys(provider: str) -> Keys:
    """The keys from a function, given as ``module:function``."""
    from bloomparquet.errors import OptionError
    from bloomparquet.parquet.encryption.keys import load_keys

    # An installed command does not search the current directory for modules, unlike `python -m`. The entry stays in the
    # path: the keys may import more modules later.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        keys = load_keys(provider)
    except OptionError as error:
        raise click.BadParameter(f"{error}.") from None
    click.get_current_context().meta[_PROVIDER] = provider
    return keys


key_provider = click.option(
    "--key-provider",
    "keys",
    type=_load_keys,
    metavar="MODULE:FUNCTION",
    help="Function that returns the keys (bloomparquet.Keys) of encrypted files.",
)


ignore_table_log = click.option(
    "--ignore-table-log",
    "table_log",
    flag_value="ignore",
    default="error",
    help="Read the files of a Delta Lake, Iceberg or Hudi table directly and ignore its log. Deleted rows may appear.",
)


def no_filters(what: str, path: tuple[str, ...], *, is_orc: bool = False) -> str:
    """The text for files without filters, with the remedy."""
    if is_orc:
        return f"{what}; write them with orc.bloom.filter.columns to have some."
    command = f"bloomparquet advise {shlex.join(path)}{same_keys()}"
    return f"{what}. Which columns should have one, and why:\n  {command}"


def echo_saturated(reasons: Iterable[NotUsed]) -> None:
    """Print which filters are too full, and the remedy, in the words of explanations."""
    for reason in reasons:
        echo_folded(f"\n{reason.text[:1].upper()}{reason.text[1:]}.\n  remedy: {reason.remedy}")


def write_report(report: str | None, path: tuple[str, ...], result: ScanPlan | pa.Table) -> None:
    """Write the picture of `result` to the HTML file `report`; None writes nothing."""
    if report is None:
        return
    from bloomparquet import to_html

    with open(report, "w", encoding="utf-8") as file:
        file.write(to_html(result, title=f"bloomparquet: {' '.join(path)}"))


def same_keys() -> str:
    """The option ``" --key-provider …"`` of this command, for commands to copy; ``""`` if it was not given."""
    provider = click.get_current_context().meta.get(_PROVIDER)
    return "" if provider is None else f" --key-provider {shlex.quote(provider)}"


def split_names(columns: str | None) -> list[str | tuple[str, ...]] | None:
    """The columns in the text of ``--columns``. A name between backticks may have commas and dots."""
    from bloomparquet.query.names import column_from_sql, split_sql_names

    if columns is None:
        return None
    names = split_sql_names(columns)
    if not all(names):
        raise click.BadParameter(f"{columns!r} has an empty name.", param_hint="--columns")
    return list(map(column_from_sql, names))


def dotted(names: list[str | tuple[str, ...]] | None) -> list[str] | None:
    """`names` as text, for functions that take no paths. A name may be quoted in ``lower(…)`` and ``upper(…)``."""
    return None if names is None else list(map(_dotted, names))


def _dotted(name: str | tuple[str, ...]) -> str:
    from bloomparquet.query.names import column_from_sql

    if not isinstance(name, str):
        return ".".join(name)
    case = re.fullmatch(r"\s*(lower|upper)\s*\((.*)\)\s*", name, re.IGNORECASE | re.DOTALL)
    return name if case is None else f"{case[1]}({_dotted(column_from_sql(case[2].strip()))})" if "`" in name else name


def one_or_many(path: tuple[str, ...]) -> str | list[str]:
    """The only path, or the list of paths."""
    return path[0] if len(path) == 1 else list(path)
