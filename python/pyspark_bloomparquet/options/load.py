"""The options of one load, parsed and checked.

Spark hands options over as a case-insensitive map of strings, and ignores names that a source does not know. A misspelt
``where`` would then read everything, so an unknown name is an error that suggests the nearest one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import OptionError, PlanError, did_you_mean, quoted
from bloomparquet.storage.options import check_options
from pyspark_bloomparquet.options.key_provider import check_allowed
from pyspark_bloomparquet.options.table import JAR, LOADING, OPTIONS, ORC, PARQUET, PLANNER, Option
from pyspark_bloomparquet.options.working_directory import absolute_path

if TYPE_CHECKING:
    from bloomparquet.planning.options import OnFilterError
    from bloomparquet.storage.table_formats import OnTableLog

_ENCRYPTION = ("parquet.encryption.", "parquet.crypto.")  # parquet-java's own
_MEANT_AS_WHERE = ("filter", "filters", "predicate", "condition")
_DRIVER_SETTINGS = ("cacheDirectory", "cacheMaxBytes")


@dataclass(frozen=True)
class Options:
    """The checked options of one load by the Python data source. An option that was not given is None."""

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
    storage_options: Mapping[str, str] | None = field(repr=False)
    ignore_missing_files: bool
    time_zone: str | None
    index: str
    max_partition_bytes: int
    open_cost_in_bytes: int
    min_partition_num: int | None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Check `given`, as Spark hands it over. OptionError says which option is wrong and what was expected."""
        texts = {_find_option(key).name: text for key, text in given.items()}
        values = _parse(LOADING, texts)
        values = {option.name: values[option.name] for option in LOADING if option.used_by != JAR}
        if values["keyProvider"] is not None:
            check_allowed(values["keyProvider"])
        path, several = values.pop("path"), values.pop("paths")
        paths = several or ((path,) if path else ())
        if not paths:
            raise OptionError(
                'no path was given; expected one, as in spark.read.format("bloomparquet").load("/data/events"). '
                "Without the jar, Spark does not pass the path of a catalog table: load its directory, or call "
                "pyspark_bloomparquet.attach(spark)"
            )
        if values["storageOptions"] is not None:
            for each in paths:
                check_options(each, values["storageOptions"])
        if values["index"] not in ("auto", "off"):
            values["index"] = absolute_path("index", values["index"])
        if values["basePath"] is not None:
            values["basePath"] = absolute_path("basePath", values["basePath"])
        return cls(paths=tuple(absolute_path("path", path) for path in paths), **_as_fields(values))


@dataclass(frozen=True)
class PlannerOptions:
    """The options that the jar sends the planner: some options of a load, and settings of the driver.

    The jar has checked that the application's settings name `key_provider`. `shipped_files` is the directory of the
    files that ``addPyFile`` ships.
    """

    on_filter_error: OnFilterError
    cache: bool
    index: str
    cache_directory: str
    cache_max_bytes: int
    key_provider: str | None = None
    shipped_files: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> PlannerOptions:
        """The checked values. Raises :class:`OptionError` for a wrong value, :class:`PlanError` for an unknown name."""
        from bloomparquet.planning.cache.directory import default_directory

        if unknown := sorted(given.keys() - {option.name for option in PLANNER}):
            raise PlanError(
                f"the jar sent the planner the options {', '.join(unknown)}, which this Python package does not know; "
                "attach the jar of the same release"
            )
        values = _parse(PLANNER, given)
        values["cacheDirectory"] = values["cacheDirectory"] or str(default_directory())
        return cls(**_as_fields(values))


def _find_option(key: str) -> Option:
    """The option that `key` names, in any case. OptionError with the nearest name if there is none."""
    name, mark, _ = key.partition("#")
    folded = name.lower()
    if folded.startswith(_ENCRYPTION):
        raise OptionError(
            f"option {key} is for Spark's own reader; the Python data source takes keys from keyProvider only, and the "
            "jar (pyspark_bloomparquet.attach) takes both"
        )
    for setting in _DRIVER_SETTINGS:
        if folded == setting.lower():
            raise OptionError(
                f"option {setting} is not for a load, table or session; it is a setting of the jar: set "
                f"spark.bloomparquet.{setting} when the application starts (spark-defaults.conf, --conf, or "
                "SparkSession.builder.config)"
            )
    option = next((option for option in OPTIONS if option.name.lower() == folded), None)
    if option is not None and option.source == ORC:
        raise OptionError(f"{PARQUET} has no option {quoted(key)}: that is one of {ORC}")
    if option is None or (mark and not option.per_column):
        names = (each.name for each in OPTIONS if each.source != ORC)
        suggestion = "; did you mean 'where'?" if folded in _MEANT_AS_WHERE else did_you_mean(name, names)
        raise OptionError(f"{PARQUET} has no option {quoted(key)}{suggestion}")
    return option


def _parse(options: Iterable[Option], texts: Mapping[str, str]) -> dict[str, Any]:
    return {option.name: option.parse(texts.get(option.name)) for option in options}


def _as_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    return {re.sub(r"(?=[A-Z])", "_", name).lower(): value for name, value in values.items()}
