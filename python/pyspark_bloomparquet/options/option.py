"""What an option is, and how the text that Spark hands over becomes its value."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bloomparquet.errors import OptionError, PlanError, nearest, quoted
from bloomparquet.storage.sizes import parse_size
from pyspark_bloomparquet.formats import Source

_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2})?")


def parse_text(name: str, value: str) -> str:
    return value


def parse_flag(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise OptionError(f"option {name} is {quoted(value)}; expected true or false")
    return value.strip().lower() == "true"


def parse_count(name: str, value: str) -> int:
    if not value.strip().isdecimal() or int(value) < 1:
        raise OptionError(f"option {name} is {quoted(value)}; expected a whole number from 1 up")
    return int(value)


def parse_bytes(name: str, value: str) -> int:
    size = parse_size(value)
    if not size:
        raise OptionError(
            f"option {name} is {quoted(value)}; expected bytes as Spark writes them, such as 134217728, 128m or 1g"
        )
    return size


def parse_moment(name: str, value: str) -> str:
    try:
        if not _MOMENT.fullmatch(value):
            raise ValueError
        dt.datetime.fromisoformat(value)
    except ValueError:
        raise OptionError(f"option {name} is {quoted(value)}; expected a time such as 2026-01-31T00:00:00") from None
    return value


def parse_zone(name: str, value: str) -> str:
    from bloomparquet.query.literals import find_zone

    try:
        find_zone(value)
    except PlanError:
        raise OptionError(
            f"option {name} is {quoted(value)}; expected a time zone, such as UTC, Europe/Zurich or +02:00"
        ) from None
    return value


def parse_paths(name: str, value: str) -> tuple[str, ...]:
    # Spark writes the list that was given to load([...]) as JSON.
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(path, str) for path in found):
        raise OptionError(f"option {name} is {quoted(value)}; expected a JSON list of paths")
    return tuple(found)


def one_of(*choices: str) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        if value.strip().lower() not in choices:
            expected = f"{', '.join(choices[:-1])} or {choices[-1]}{nearest(value, choices)}"
            raise OptionError(f"option {name} is {quoted(value)}; expected {expected}")
        return value.strip().lower()

    return check


JAR, PYTHON, BOTH = "jar", "Python", "both"


@dataclass(frozen=True)
class Option:
    """One option.

    `default` is the text that leaving it out stands for, if any; `read` turns text into the value. `reader` says who
    heeds it: the jar, the Python data source, or both. The data source checks those of the jar, and does nothing with
    them. An option that is `per_column` may name a column behind a ``#``, as parquet-java has it. `source` is the only
    data source that has it; None: both have it.
    """

    name: str
    default: str | None
    read: Callable[[str, str], Any]
    doc: str
    reader: str = BOTH
    per_column: bool = False
    source: Source | None = None

    @property
    def heeded_by(self) -> str:
        """`reader` and `source` for a reader of documentation."""
        if self.source is None:
            return self.reader
        return f"`{self.source}`" if self.reader == BOTH else f"`{self.source}`, {self.reader}"
