"""Every option of the data sources: its name, its default and its check. ``docs/options.md`` says what each means.

Without the jar, Python parses the options of loads. The jar parses its own: ``OptionNames.java`` has their names, and
``ScanOptions.java`` the checks of those for loads. The options of writes are here so that a load may share its options
with a write.
"""

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


@dataclass(frozen=True)
class Check:
    """The check of an option's text. `parse` returns the value, or raises ValueError or PlanError.

    `expected` describes the valid texts in an error. `choices` are all valid texts, if they are a few words.
    """

    expected: str
    parse: Callable[[str], Any]
    choices: tuple[str, ...] = ()


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
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2})?", text):
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
    default: str | None = None
    check: Check = TEXT
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
            problem = "has a wrong value" if self.is_secret else f"is {quoted(text)}"
            raise OptionError(f"option {self.name} {problem}; expected {self.check.expected}{suggestion}") from None


READING = (
    Option("path"),
    Option("paths", check=PATHS),
    Option("where"),
    Option("pushFilters", "auto", one_of("auto", "on", "off")),
    Option("onFilterError", "keep", one_of("keep", "fail")),
    Option("keyProvider", source=PARQUET),
    Option("mergeSchema", "false", FLAG),
    Option("caseSensitive", "false", FLAG, PYTHON),
    Option("recursiveFileLookup", "false", FLAG),
    Option("basePath"),
    Option("pathGlobFilter"),
    Option("modifiedBefore", check=TIME),
    Option("modifiedAfter", check=TIME),
    Option("inferPartitionTypes", "true", FLAG, PYTHON),
    Option("ignoreCorruptFiles", "false", FLAG),
    Option("tableLog", "error", one_of("error", "ignore")),
    Option("storageOptions", check=STORAGE_OPTIONS, used_by=PYTHON, is_secret=True),
    Option("ignoreMissingFiles", "false", FLAG),
    Option("timeZone", check=ZONE),
    Option("maxPartitionBytes", "128m", SIZE, PYTHON),
    Option("openCostInBytes", "4m", SIZE, PYTHON),
    Option("minPartitionNum", check=COUNT, used_by=PYTHON),
)
PLANNING = (
    Option("index", "auto", INDEX),
    Option("planning", "auto", one_of("auto", "off"), JAR),
    Option("planningTimeout", "30s", used_by=JAR),
    Option("cache", "true", FLAG, JAR),
)
LOADING = (*READING, *PLANNING)


def _writing(
    name: str, default: str | None = None, source: Source | None = PARQUET, per_column: bool = False
) -> Option:
    return Option(name, default, used_by=JAR, source=source, per_column=per_column)


WRITING = (
    _writing("bloomColumns", source=None),
    _writing("bloomFpp", "0.01", None),
    _writing("bloomRowGroups", "10000", None),
    _writing("bloomMaxBytes", "16m"),
    _writing("compression", source=None),
    _writing("partitionOverwriteMode", source=None),
    _writing("parquet.bloom.filter.enabled", per_column=True),
    _writing("parquet.bloom.filter.expected.ndv", per_column=True),
    _writing("parquet.bloom.filter.fpp", per_column=True),
    _writing("parquet.bloom.filter.max.bytes"),
    _writing("parquet.block.size", "128m"),
    _writing("parquet.block.row.count.limit"),
    _writing("parquet.page.size", "1m"),
    _writing("parquet.dictionary.page.size", "1m"),
    _writing("parquet.enable.dictionary", "true", per_column=True),
    _writing("parquet.compression"),
    _writing("parquet.compression.codec.zstd.level"),
    _writing("parquet.bloom.filter.adaptive.enabled"),
    _writing("parquet.bloom.filter.candidates.number", per_column=True),
    _writing("orc.bloom.filter.columns", source=ORC),
    _writing("orc.bloom.filter.fpp", source=ORC),
    _writing("orc.stripe.size", "64m", ORC),
    _writing("orc.row.index.stride", "10000", ORC),
    _writing("orc.compress", source=ORC),
)
OPTIONS = (*LOADING, *WRITING)

_SENT_TO_PLANNER = ("onFilterError", "cache", "index", "keyProvider")
PLANNER = (
    *(option for option in LOADING if option.name in _SENT_TO_PLANNER),
    Option("cacheDirectory"),
    Option("cacheMaxBytes", "1g", SIZE),
    Option("shippedFiles"),
)
"""The options that the jar sends its planner process."""
