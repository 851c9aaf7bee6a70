"""One option: its name, its default, its check, and its line of documentation."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from bloomparquet.errors import OptionError, PlanError, did_you_mean, quoted
from bloomparquet.storage.sizes import parse_size

Source = Literal["bloomparquet", "bloomorc"]
"""The name of a data source."""

PARQUET: Source = "bloomparquet"
ORC: Source = "bloomorc"

JAR, PYTHON, BOTH = "jar", "Python", "both"

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2})?")


@dataclass(frozen=True)
class Check:
    """The check of an option's text. `parse` returns the value, or raises ValueError or PlanError.

    `expected` describes the valid texts in an error. `choices` are all valid texts, if they are a few words.
    """

    expected: str
    parse: Callable[[str], Any]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """One option of the data sources.

    * `default`: the text that an absent option stands for. None: the option has no default.
    * `used_by`: the jar, the Python data source, or both. The Python data source checks the jar's options and otherwise
      ignores them.
    * `per_column`: the option may name a column after a ``#``, as in parquet-java.
    * `source`: the only data source that has the option. None: both have it.
    * `is_secret`: no error shows the option's value.
    """

    name: str
    default: str | None
    check: Check
    doc: str
    used_by: str = BOTH
    per_column: bool = False
    source: Source | None = None
    is_secret: bool = False

    def parse(self, text: str | None) -> Any:
        """The value of `text`, or of the default if `text` is None. Raises OptionError."""
        text = self.default if text is None else text
        if text is None:
            return None
        try:
            return self.check.parse(text)
        except (ValueError, PlanError):
            suggestion = did_you_mean(text, self.check.choices)
            found = "has a wrong value" if self.is_secret else f"is {quoted(text)}"
            raise OptionError(f"option {self.name} {found}; expected {self.check.expected}{suggestion}") from None


def one_of(*choices: str) -> Check:
    """The check that a text is one of a few words, in upper or lower case."""

    def parse(text: str) -> str:
        return choices[choices.index(text.strip().lower())]

    return Check(f"{', '.join(choices[:-1])} or {choices[-1]}", parse, choices)


def _parse_index(text: str) -> str:
    word = text.strip().lower()
    if word in ("auto", "off"):
        return word
    if "/" not in text:  # a misspelt word must not be a directory without an index
        raise ValueError(text)
    return text.strip()


def _parse_flag(text: str) -> bool:
    return ("false", "true").index(text.strip().lower()) == 1


def _parse_count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(text)
    return int(text)


def _parse_size(text: str) -> int:
    size = parse_size(text)
    if not size:
        raise ValueError(text)
    return size


def _parse_time(text: str) -> str:
    if not _TIME.fullmatch(text):
        raise ValueError(text)
    dt.datetime.fromisoformat(text)
    return text


def _parse_zone(text: str) -> str:
    from bloomparquet.query.literals import find_zone

    find_zone(text)
    return text


def _parse_paths(text: str) -> tuple[str, ...]:
    paths = json.loads(text)  # Spark writes the list of load([...]) as JSON
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError(text)
    return tuple(paths)


def _parse_storage_options(text: str) -> dict[str, str]:
    values = json.loads(text)
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ValueError(text)
    return values


TEXT = Check("text", str)
FLAG = Check("true or false", _parse_flag)
COUNT = Check("a whole number from 1 up", _parse_count)
SIZE = Check("a size such as 128m or 1g", _parse_size)
TIME = Check("a time such as 2026-01-31T00:00:00", _parse_time)
ZONE = Check("a time zone, such as UTC, Europe/Zurich or +02:00", _parse_zone)
INDEX = Check("auto, off or a directory with a slash, such as /indexes/events", _parse_index, ("auto", "off"))
PATHS = Check("a JSON list of paths", _parse_paths)
STORAGE_OPTIONS = Check('a JSON object of texts, such as {"region": "eu-west-1"}', _parse_storage_options)
