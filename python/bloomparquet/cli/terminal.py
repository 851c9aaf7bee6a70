"""Text for a terminal: names and values from files must not act on it, and long lines are folded."""

from __future__ import annotations

import json
import logging
import shutil
import sys
import textwrap

import click


def printable(text: str, *, err: bool = False) -> str:
    """`text`, with characters that may act on a terminal escaped as in JSON, if stdout (stderr if `err`) is a terminal.

    Control sequences, changes of the writing direction and characters without width are such characters.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty() or text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else json.dumps(each)[1:-1] for each in text)


def echo(text: str, *, err: bool = False) -> None:
    """Print a line of `text` on stdout, or on stderr if `err`."""
    click.echo(printable(text, err=err), err=err)  # noqa: TID251


def echo_folded(text: str) -> None:
    """Print `text`. A terminal gets its lines folded, except those with a command, which are to be copied."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for line in printable(text).split("\n"):
        if len(line) <= width or "bloomparquet " in line:
            echo(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        fold = textwrap.TextWrapper(
            width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
        )
        echo(fold.fill(line))


class LogFormatter(logging.Formatter):
    """Formats log records for stderr."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), err=True)
