"""The exceptions of this package, and the "did you mean" they share.

    BloomParquetError
    ├── FormatError         bytes that are not what the format says (NotParquetError, NotOrcError: of another, or none;
    │                       FileChangedError: of a file that is not the one that was planned)
    ├── UnsupportedError    well-formed, but nothing here can use it
    ├── LimitError          a size or count beyond what is sane or allowed
    ├── EncryptionError     a key, or what it should have opened (MissingKeyError, KeyRetrievalError: it did not come)
    ├── FileBusyError       another process, or another thread, is writing the file
    ├── PlanError           a predicate, a column or a value that does not fit the data
    └── OptionError         an option's name or value (also a ValueError)

``OSError`` is never wrapped: what the file system said reaches the caller as it said it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_NAME = 200
_LONGEST_MESSAGE = 4_000
_MOST_NAMES = 20


class BloomParquetError(Exception):
    """Base of every error that this package raises on purpose. Its text has at most some thousand characters."""

    def __str__(self) -> str:
        return brief(super().__str__(), _LONGEST_MESSAGE)


class FormatError(BloomParquetError):
    """The bytes are not what the Parquet (or ORC) specification says they are."""


class FileChangedError(FormatError):
    """A file is no longer the one that was listed or planned, so what is known of it may not be believed."""


class FileBusyError(BloomParquetError):
    """Another process, or another thread, is writing the file."""


class NotParquetError(FormatError):
    """A file does not end as Parquet files do."""


class NotOrcError(FormatError):
    """A file neither ends nor begins as ORC files do."""


class UnsupportedError(BloomParquetError):
    """The bytes are well-formed, but ask for something that nothing here can do."""


class LimitError(BloomParquetError):
    """A size or a count is beyond what the file can hold or what was allowed."""


class EncryptionError(BloomParquetError):
    """A file is encrypted and cannot be opened with what was given."""


class MissingKeyError(EncryptionError):
    """A key was needed that nobody has given."""


class KeyRetrievalError(EncryptionError):
    """A key was asked for and did not come; it may come the next time."""


class PlanError(BloomParquetError):
    """A predicate, a column or a literal does not fit the data it was asked of."""


class OptionError(BloomParquetError, ValueError):
    """An option is unknown, or its value is not one of those that it takes."""


def brief(text: str, most: int = _LONGEST_NAME) -> str:
    """`text` for a message: where it has more than about `most` characters, both of its ends and how many are left out
    between them."""
    if len(text) <= most + 40:  # what says so takes room as well
        return text
    end = most // 2
    return f"{text[:end]}…({len(text) - 2 * end:,} characters left out)…{text[-end:]}"


def quoted(value: object) -> str:
    """A name or a literal for a message: its ``repr``, as :func:`brief` has it."""
    return brief(repr(value))


def listed(names: Iterable[str]) -> str:
    """Names for a message, with commas between: the first ones, and how many more there are."""
    every = list(names)
    more = f", … ({len(every) - _MOST_NAMES:,} more)" if len(every) > _MOST_NAMES else ""
    return ", ".join(map(brief, every[:_MOST_NAMES])) + more


def nearest(name: str, choices: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the closest of `choices`, or ``""`` when none is close.

    Case is ignored when closeness is judged, so that ``UserId`` finds ``userid``.
    """
    if len(name) > _LONGEST_NAME:  # to compare takes the product of both lengths, and nobody types such a name
        return ""
    by_folded = {choice.lower(): choice for choice in choices if len(choice) <= 2 * _LONGEST_NAME}
    found = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    return f"; did you mean {by_folded[found[0]]!r}?" if found else ""
