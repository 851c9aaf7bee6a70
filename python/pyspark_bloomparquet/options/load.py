"""Every option of ``format("bloomparquet")`` and ``format("bloomorc")``: its name, its default, how its text is read,
and what the README says.

Spark hands options over as a case-insensitive map of strings with lower-cased keys, and ignores what a source does not
know. A misspelt option that silently does nothing is the worst kind here (it reads everything), so an unknown name is
an error with the nearest one. The jar knows the same names (``OptionNames.java``), and Spark's own beside them.

``python -m pyspark_bloomparquet.options.load`` prints the README's table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import OptionError, PlanError, nearest, quoted
from pyspark_bloomparquet.formats import ORC, PARQUET, Source
from pyspark_bloomparquet.options.key_provider import check_allowed
from pyspark_bloomparquet.options.option import (
    JAR,
    PYTHON,
    Option,
    one_of,
    parse_bytes,
    parse_count,
    parse_flag,
    parse_moment,
    parse_paths,
    parse_text,
    parse_zone,
)
from pyspark_bloomparquet.options.write import WRITING, is_encryptions
from pyspark_bloomparquet.read.working_directory import absolute

if TYPE_CHECKING:
    from bloomparquet.planning.planner import OnFilterError
    from bloomparquet.storage.table_formats import OnTableLog

LOADING: tuple[Option, ...] = (
    Option("path", None, parse_text, "A file, a directory, a glob or a URL; what `load(...)` sets."),
    Option("paths", None, parse_paths, "Several of them, as a JSON list; what `load([...])` sets."),
    Option(
        "where",
        None,
        parse_text,
        "A predicate in SQL that belongs to the load: the DataFrame is the rows for which it is true. Row groups that "
        "cannot hold one are never read, on every Spark version.",
    ),
    Option(
        "pushFilters",
        "auto",
        one_of("auto", "on", "off"),
        "Whether the filters of a query prune. `auto`: with the jar; without it, where Spark keeps the filters of each "
        "scan apart. `on`: always; without the jar this needs `spark.sql.python.filterPushdown.enabled`, and on Spark "
        "4.1 to 4.3 **each load may serve one query only**, or rows are lost. `off`: never.",
    ),
    Option(
        "planning",
        "auto",
        one_of("auto", "driver", "off"),
        "Whether row groups are planned before tasks are. `auto`: unless there are more than `maxFilesPlannedOnDriver` "
        "files; `driver`: always; `off`: never. Without a plan, Spark's own reader skips row groups inside the tasks.",
        JAR,
    ),
    Option("maxFilesPlannedOnDriver", "100000", parse_count, "See `planning`.", JAR),
    Option(
        "planningTimeout",
        "30s",
        parse_text,
        "How long a query waits for its plan. When it is over everything is read, while planning goes on: what it "
        "learns serves the next query.",
        JAR,
    ),
    Option(
        "cache",
        "true",
        parse_flag,
        "Whether footers and small filters that were read are kept on the driver's disk, for the next session.",
        JAR,
    ),
    Option(
        "onFilterError",
        "keep",
        one_of("keep", "fail"),
        "A Bloom filter that cannot be used: `keep` its row group, or `fail`.",
    ),
    Option(
        "keyProvider",
        None,
        parse_text,
        "Who has the keys of encrypted files: `module:function`, such as `company.keys:for_events`, a function without "
        "parameters that returns `bloomparquet.Keys`. It must be one that `spark.bloomparquet.keyProviders` names. "
        "Called in the planner, and without the jar in every Python worker. Keys themselves are in no option.",
        source=PARQUET,
    ),
    Option("mergeSchema", "false", parse_flag, "The schema is the union of all files' schemas, not the first file's."),
    Option(
        "caseSensitive",
        "false",
        parse_flag,
        "Whether column names that differ only by case are different; give it what `spark.sql.caseSensitive` is.",
        PYTHON,
    ),
    Option(
        "recursiveFileLookup",
        "false",
        parse_flag,
        "Take directories `name=value` for plain directories, not for partitions.",
    ),
    Option(
        "basePath", None, parse_text, "Where partition directories begin, when the path is already below one of them."
    ),
    Option("pathGlobFilter", None, parse_text, "Only files whose name matches this glob."),
    Option(
        "modifiedBefore",
        None,
        parse_moment,
        "Only files last modified before this time, such as `2026-01-31T00:00:00`, in `timeZone` or else UTC.",
    ),
    Option("modifiedAfter", None, parse_moment, "Only files last modified after this time."),
    Option(
        "inferPartitionTypes",
        "true",
        parse_flag,
        "Whether partition columns get the type that their values have; otherwise they are strings.",
        PYTHON,
    ),
    Option(
        "ignoreCorruptFiles",
        "false",
        parse_flag,
        "Pass over files that are no Parquet or no ORC, and over the rest of a file that turns out damaged.",
    ),
    Option(
        "tableLog",
        "error",
        one_of("error", "ignore"),
        "Files of a table of Delta Lake, Iceberg or Hudi, whose log may have deleted their rows: `error` says how to "
        "read the table, `ignore` reads the files as they lie. Writing there is always refused.",
    ),
    Option("ignoreMissingFiles", "false", parse_flag, "Pass over files that are gone when they are to be read."),
    Option(
        "timeZone",
        None,
        parse_zone,
        "The zone of timestamps that do not say theirs, in `where` and in partition directories; if not given, with "
        "the jar that of the session. A Python data source cannot see `spark.sql.session.timeZone`: where such a "
        "timestamp needs a zone and none is given, that is an error.",
    ),
    Option(
        "maxPartitionBytes",
        "128m",
        parse_bytes,
        "At most so many bytes of row groups in one task (a row group is never split).",
        PYTHON,
    ),
    Option(
        "openCostInBytes",
        "4m",
        parse_bytes,
        "What opening a file costs, in bytes that could be read meanwhile; tasks are filled up to it at least.",
        PYTHON,
    ),
    Option(
        "minPartitionNum",
        None,
        parse_count,
        "Tasks to aim for when there are bytes enough; the driver's number of processors if not given.",
        PYTHON,
    ),
)
OPTIONS: tuple[Option, ...] = (*LOADING, *WRITING)

_BY_FOLDED = {option.name.lower(): option for option in OPTIONS}


def find_option(key: str, source: Source) -> Option:
    """The option of `source` that Spark's `key` is, whatever its case. OptionError with the nearest name where there is
    none."""
    setting, mark, _ = key.partition("#")
    if (owner := _OF_THE_DRIVER.get(setting.lower())) is not None:
        raise OptionError(
            f"option {owner[0]} is taken from no load, table or session; it is for the jar: set {owner[1]} when the "
            "application starts (spark-defaults.conf, --conf, or SparkSession.builder.config)"
        )
    option = _BY_FOLDED.get(setting.lower())
    if option is not None and option.source not in (None, source):
        raise OptionError(_of_the_other(key, source))
    if option is None or (mark and not option.per_column):
        names = (each.name for each in OPTIONS if each.source in (None, source))
        guess = "; did you mean 'where'?" if setting.lower() in _MEANT_AS_WHERE else nearest(setting, names)
        raise OptionError(f"{source} has no option {quoted(key)}{guess}")
    return option


_MEANT_AS_WHERE = {"filter", "filters", "predicate", "condition"}
_OF_THE_DRIVER = {name.lower(): (name, f"spark.bloomparquet.{name}") for name in ("cacheDirectory", "cacheMaxBytes")}


def _of_the_other(key: str, source: Source) -> str:
    return f"{source} has no option {quoted(key)}: that is one of {ORC if source == PARQUET else PARQUET}"


@dataclass(frozen=True)
class Options:
    """The checked options of one load by the Python data source; None is *not given*."""

    paths: tuple[str, ...]
    where: str | None
    push_filters: str
    on_filter_error: OnFilterError
    key_provider: str | None
    merge_schema: bool
    case_sensitive: bool
    recursive_file_lookup: bool
    base_path: str | None
    path_glob_filter: str | None
    modified_before: str | None
    modified_after: str | None
    infer_partition_types: bool
    ignore_corrupt_files: bool
    table_log: OnTableLog
    ignore_missing_files: bool
    time_zone: str | None
    max_partition_bytes: int
    open_cost_in_bytes: int
    min_partition_num: int | None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Check `given`, as Spark hands it over. :class:`OptionError` says what was found and what was expected."""
        values = _defaults(option for option in LOADING if option.reader != JAR)
        for key, text in given.items():
            if is_encryptions(key):
                raise OptionError(
                    f"option {key} is for Spark's own reader; the Python data source takes keys by keyProvider, and "
                    "the jar (pyspark_bloomparquet.attach) both"
                )
            option = find_option(key, PARQUET)
            value = option.read(option.name, text)
            if option.name in values:
                values[option.name] = value
        if values["keyProvider"] is not None:
            check_allowed(values["keyProvider"])
        path, several = values.pop("path"), values.pop("paths")
        paths = several or ((path,) if path else ())
        if not paths:
            raise OptionError(
                'no path was given; expected one, as in spark.read.format("bloomparquet").load("/data/events"). '
                "Without the jar, Spark tells no path of a table of the catalog: load its directory, or attach(spark)"
            )
        values["basePath"] = None if values["basePath"] is None else absolute("basePath", values["basePath"])
        return cls(paths=tuple(absolute("path", path) for path in paths), **_as_fields(values))


@dataclass(frozen=True)
class PlannerOptions:
    """What the jar sends the planner: the options of a load that the planner heeds, and the settings of the driver.

    The jar has checked them: `key_provider` is one that the application's settings name. `shipped_files` is where Spark
    puts what ``addPyFile`` ships.
    """

    on_filter_error: OnFilterError
    cache: bool
    cache_directory: str
    cache_max_bytes: int
    key_provider: str | None = None
    shipped_files: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> PlannerOptions:
        """The checked values. Raises :class:`OptionError` for a wrong value, :class:`PlanError` for an unknown name."""
        from bloomparquet.planning.parquet.cache_file import default_directory

        if unknown := sorted(given.keys() - {option.name for option in _PLANNERS}):
            raise PlanError(
                f"the jar sent the planner the options {', '.join(unknown)}, which this Python package does not know; "
                "attach the jar of the same release"
            )
        values = _defaults(_PLANNERS)
        values |= {
            option.name: option.read(option.name, given[option.name]) for option in _PLANNERS if option.name in given
        }
        values["cacheDirectory"] = values["cacheDirectory"] or str(default_directory())
        return cls(**_as_fields(values))


_PLANNERS = (
    *(_BY_FOLDED[name.lower()] for name in ("onFilterError", "cache", "keyProvider")),
    Option("cacheDirectory", None, parse_text, "A setting of the driver."),
    Option("cacheMaxBytes", "1g", parse_bytes, "A setting of the driver."),
    Option("shippedFiles", None, parse_text, "A directory of Spark's."),
)


def _defaults(options: Iterable[Option]) -> dict[str, Any]:
    return {
        option.name: None if option.default is None else option.read(option.name, option.default) for option in options
    }


def _as_fields(values: dict[str, Any]) -> dict[str, Any]:
    return {re.sub(r"(?=[A-Z])", "_", name).lower(): value for name, value in values.items()}


def markdown() -> str:
    """The table of all options for the README."""
    rows = [
        f"| `{each.name}` | {'' if each.default is None else f'`{each.default}`'} | {each.heeded_by} | {each.doc} |"
        for each in OPTIONS
    ]
    return "\n".join(["| option | default | reader | |", "| --- | --- | --- | --- |", *rows])


if __name__ == "__main__":
    print(markdown())
