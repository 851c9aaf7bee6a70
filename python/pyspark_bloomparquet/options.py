"""Every option of ``format("bloomparquet")``: its name, its default, how its text is read, and what the README says.

Spark hands options over as a case-insensitive map of strings with lower-cased keys, and ignores what a source does not
know. A misspelt option that silently does nothing is the worst kind here (it reads everything), so an unknown name is
an error with the nearest one.

``python -m pyspark_bloomparquet.options`` prints the README's table.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bloomparquet.errors import OptionError, PlanError, nearest

_UNITS = {"": 1, "b": 1, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}
_BYTES = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2})?")


def _text(name: str, value: str) -> str:
    return value


def _flag(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise OptionError(f"option {name} is {value!r}; expected true or false")
    return value.strip().lower() == "true"


def _count(name: str, value: str) -> int:
    if not value.strip().isdecimal() or int(value) < 1:
        raise OptionError(f"option {name} is {value!r}; expected a whole number from 1 up")
    return int(value)


def _bytes(name: str, value: str) -> int:
    match = _BYTES.fullmatch(value)
    unit = match.group(2).lower() if match else None
    if match is None or unit not in _UNITS or int(match.group(1)) == 0:
        raise OptionError(
            f"option {name} is {value!r}; expected bytes as Spark writes them, such as 134217728, 128m or 1g"
        )
    power = _UNITS[unit]
    return int(match.group(1)) << (power if power > 1 else 0)


def _moment(name: str, value: str) -> str:
    try:
        if not _MOMENT.fullmatch(value):
            raise ValueError
        dt.datetime.fromisoformat(value)
    except ValueError:
        raise OptionError(f"option {name} is {value!r}; expected a time such as 2026-01-31T00:00:00") from None
    return value


def _zone(name: str, value: str) -> str:
    from bloomparquet.literals import find_zone

    try:
        find_zone(value)
    except PlanError:
        raise OptionError(
            f"option {name} is {value!r}; expected a time zone, such as UTC, Europe/Zurich or +02:00"
        ) from None
    return value


def _paths(name: str, value: str) -> tuple[str, ...]:
    # Spark writes the list that was given to load([...]) as JSON.
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(path, str) for path in found):
        raise OptionError(f"option {name} is {value!r}; expected a JSON list of paths")
    return tuple(found)


def _one_of(*choices: str) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        if value.strip().lower() not in choices:
            expected = f"{', '.join(choices[:-1])} or {choices[-1]}{nearest(value, choices)}"
            raise OptionError(f"option {name} is {value!r}; expected {expected}")
        return value.strip().lower()

    return check


@dataclass(frozen=True)
class Option:
    """One option. `default` is the text that leaving it out stands for, if any; `read` turns text into the value."""

    name: str
    default: str | None
    read: Callable[[str, str], Any]
    doc: str


OPTIONS: tuple[Option, ...] = (
    Option("path", None, _text, "A file, a directory, a glob or a URL; what `load(...)` sets."),
    Option("paths", None, _paths, "Several of them, as a JSON list; what `load([...])` sets."),
    Option(
        "where",
        None,
        _text,
        "A predicate in SQL that belongs to the load: the DataFrame is the rows for which it is true. Row groups that "
        "cannot hold one are never read, on every Spark version.",
    ),
    Option(
        "pushFilters",
        "auto",
        _one_of("auto", "on", "off"),
        "Whether the filters of a query prune. `auto`: where Spark keeps the filters of each scan apart. `on`: always; "
        "needs `spark.sql.python.filterPushdown.enabled`, and on Spark 4.1 to 4.3 **each load may serve one query "
        "only**, or rows are lost. `off`: never.",
    ),
    Option(
        "onFilterError",
        "keep",
        _one_of("keep", "fail"),
        "A Bloom filter that cannot be used: `keep` its row group, or `fail`.",
    ),
    Option("mergeSchema", "false", _flag, "The schema is the union of all files' schemas, not the first file's."),
    Option(
        "caseSensitive",
        "false",
        _flag,
        "Whether column names that differ only by case are different; give it what `spark.sql.caseSensitive` is.",
    ),
    Option(
        "recursiveFileLookup",
        "false",
        _flag,
        "Take directories `name=value` for plain directories, not for partitions.",
    ),
    Option("basePath", None, _text, "Where partition directories begin, when the path is already below one of them."),
    Option("pathGlobFilter", None, _text, "Only files whose name matches this glob."),
    Option(
        "modifiedBefore",
        None,
        _moment,
        "Only files last modified before this time, such as `2026-01-31T00:00:00`, in `timeZone` or else UTC.",
    ),
    Option("modifiedAfter", None, _moment, "Only files last modified after this time."),
    Option(
        "inferPartitionTypes",
        "true",
        _flag,
        "Whether partition columns get the type that their values have; otherwise they are strings.",
    ),
    Option(
        "ignoreCorruptFiles",
        "false",
        _flag,
        "Pass over files that are no Parquet, and over the rest of a file that turns out damaged.",
    ),
    Option("ignoreMissingFiles", "false", _flag, "Pass over files that are gone when they are to be read."),
    Option(
        "timeZone",
        None,
        _zone,
        "The zone of timestamps that do not say theirs, in `where` and in partition directories. A Python data source "
        "cannot see `spark.sql.session.timeZone`: where such a timestamp needs a zone and none is given, that is an "
        "error.",
    ),
    Option(
        "maxPartitionBytes",
        "128m",
        _bytes,
        "At most so many bytes of row groups in one task (one row group is never split).",
    ),
    Option(
        "openCostInBytes",
        "4m",
        _bytes,
        "What opening a file costs, in bytes that could be read meanwhile; tasks are filled up to it at least.",
    ),
    Option(
        "minPartitionNum",
        None,
        _count,
        "Tasks to aim for when there are bytes enough; the driver's number of processors if not given.",
    ),
)

_BY_FOLDED = {option.name.lower(): option for option in OPTIONS}


@dataclass(frozen=True)
class Options:
    """The checked options of one load; None is *not given*."""

    paths: tuple[str, ...]
    where: str | None
    push_filters: str
    on_filter_error: str
    merge_schema: bool
    case_sensitive: bool
    recursive_file_lookup: bool
    base_path: str | None
    path_glob_filter: str | None
    modified_before: str | None
    modified_after: str | None
    infer_partition_types: bool
    ignore_corrupt_files: bool
    ignore_missing_files: bool
    time_zone: str | None
    max_partition_bytes: int
    open_cost_in_bytes: int
    min_partition_num: int | None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Check `given`, as Spark hands it over. :class:`OptionError` says what was found and what was expected."""
        values: dict[str, Any] = {
            option.name: None if option.default is None else option.read(option.name, option.default)
            for option in OPTIONS
        }
        for key in given:
            option = _BY_FOLDED.get(key.lower())
            if option is None:
                raise OptionError(
                    f"bloomparquet has no option {key!r}{nearest(key, (option.name for option in OPTIONS))}"
                )
            values[option.name] = option.read(option.name, given[key])
        path, several = values.pop("path"), values.pop("paths")
        paths = several or ((path,) if path else ())
        if not paths:
            raise OptionError(
                'no path was given; expected one, as in spark.read.format("bloomparquet").load("/data/events")'
            )
        return cls(paths=paths, **{re.sub(r"(?=[A-Z])", "_", name).lower(): value for name, value in values.items()})


def markdown() -> str:
    """The table of all options for the README."""
    rows = [
        f"| `{option.name}` | {'' if option.default is None else f'`{option.default}`'} | {option.doc} |"
        for option in OPTIONS
    ]
    return "\n".join(["| option | default | |", "| --- | --- | --- |", *rows])


if __name__ == "__main__":
    print(markdown())
