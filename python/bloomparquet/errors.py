"""The exceptions of this package, and helpers for their messages.

    BloomParquetError
    ├── FormatError             the bytes violate the format's specification
    │   ├── NotParquetError     the file is not a Parquet file
    │   ├── NotOrcError         the file is not an ORC file
    │   └── FileChangedError    the file is not the one that was listed or planned
    ├── UnsupportedError        well-formed, but not supported here
    ├── LimitError              a size or count beyond a limit
    ├── EncryptionError         decryption failed
    │   ├── MissingKeyError     a key was not given
    │   └── KeyRetrievalError   a key could not be retrieved; a later attempt may succeed
    ├── FileBusyError           another process or thread is writing the file
    ├── PlanError               a predicate, column or literal does not fit the data
    └── OptionError             an option's name or value is invalid; also a ValueError

An ``OSError`` of the file system is never wrapped.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_MOST_NAME_CHARACTERS = 200
_MOST_MESSAGE_CHARACTERS = 4_000
_MOST_NAMES = 20

_Result = TypeVar("_Result")


class BloomParquetError(Exception):
    """Base of every error that this package raises on purpose. Its text is cut after 4,000 characters."""

    def __str__(self) -> str:
        return shorten(super().__str__(), _MOST_MESSAGE_CHARACTERS)


class FormatError(BloomParquetError):
    """The bytes violate the Parquet or ORC specification."""


class FileChangedError(FormatError):
    """A file changed after it was listed or planned. The rows that were read may be incomplete: read them again."""


class NotParquetError(FormatError):
    """A file does not end as Parquet files do."""


class NotOrcError(FormatError):
    """A file neither ends nor begins as ORC files do."""


class UnsupportedError(BloomParquetError):
    """The file or the request is well-formed, but not supported."""


class LimitError(BloomParquetError):
    """A size or a count exceeds the size of the file, or a limit."""


class EncryptionError(BloomParquetError):
    """An encrypted file cannot be decrypted with the keys that were given."""


class MissingKeyError(EncryptionError):
    """A required key was not given."""


class KeyRetrievalError(EncryptionError):
    """A key could not be retrieved. A later attempt may succeed."""


class FileBusyError(BloomParquetError):
    """Another process or thread is writing the file or the index.

    This process did not change it. Run again when the other writer is done.
    """


class PlanError(BloomParquetError):
    """A predicate, a column, a literal or a path does not fit the data, or the text of a predicate cannot be parsed."""


class OptionError(BloomParquetError, ValueError):
    """An option is unknown, or its value is invalid."""


@contextmanager
def located(place: str) -> Iterator[None]:
    """Put `place`, the file or a part of it, before the message of this package's errors that leave the block."""
    try:
        yield
    except BloomParquetError as error:
        raise type(error)(f"{place}: {error}") from error


def unless_error(result: _Result | BloomParquetError) -> _Result:
    """Return `result`, or raise it if it is an error."""
    if isinstance(result, BloomParquetError):
        raise result
    return result


def shorten(text: str, most: int = _MOST_NAME_CHARACTERS) -> str:
    """`text`, or its two ends if it has more than about `most` characters, for a message."""
    if len(text) <= most + 40:  # the note below takes room as well
        return text
    end = most // 2
    return f"{text[:end]}…({len(text) - 2 * end:,} characters left out)…{text[-end:]}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message; the name of its class if it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def quoted(value: object) -> str:
    """The ``repr`` of a name or a literal, shortened for a message."""
    return shorten(repr(value))


def join_names(names: Iterable[str]) -> str:
    """The first names, separated by commas, and the number of the others, for a message."""
    every = list(names)
    more = f", … ({len(every) - _MOST_NAMES:,} more)" if len(every) > _MOST_NAMES else ""
    return ", ".join(map(shorten, every[:_MOST_NAMES])) + more


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the closest of `choices`, or ``""`` if none is close. Ignores case."""
    choice = closest(name, choices)
    return "" if choice is None else f"; did you mean {choice!r}?"


def closest(name: str, choices: Iterable[str]) -> str | None:
    """The closest of `choices` to `name`, ignoring case; None if none is close."""
    if len(name) > _MOST_NAME_CHARACTERS:  # comparing takes the product of both lengths
        return None
    by_folded = {choice.lower(): choice for choice in choices if len(choice) <= 2 * _MOST_NAME_CHARACTERS}
    matches = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None
