"""The table of all options: every name with its default, its check and its line of documentation.

Python parses the options of loads. The jar parses the options of writes; they are here for the documentation, and so
that a load may share its options with a write. ``OptionNames.java`` has the jar's names.
"""

from __future__ import annotations

from pyspark_bloomparquet.options.option import (
    COUNT,
    FLAG,
    JAR,
    ORC,
    PARQUET,
    PATHS,
    PYTHON,
    SIZE,
    TEXT,
    TIME,
    ZONE,
    Option,
    Source,
    one_of,
)


def _writing(
    name: str, default: str | None, doc: str, *, per_column: bool = False, source: Source | None = None
) -> Option:
    return Option(name, default, TEXT, doc, JAR, per_column, source)


LOADING: tuple[Option, ...] = (
    Option("path", None, TEXT, "A file, a directory, a glob or a URL; what `load(...)` sets."),
    Option("paths", None, PATHS, "Several of them, as a JSON list; what `load([...])` sets."),
    Option(
        "where",
        None,
        TEXT,
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
    Option("maxFilesPlannedOnDriver", "100000", COUNT, "See `planning`.", JAR),
    Option(
        "planningTimeout",
        "30s",
        TEXT,
        "How long a query waits for its plan. When it is over everything is read, while planning goes on: what it "
        "learns serves the next query.",
        JAR,
    ),
    Option(
        "cache",
        "true",
        FLAG,
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
        TEXT,
        "Who has the keys of encrypted files: `module:function`, such as `company.keys:for_events`, a function without "
        "parameters that returns `bloomparquet.Keys`. It must be one that `spark.bloomparquet.keyProviders` names. "
        "Called in the planner, and without the jar in every Python worker. Keys themselves are in no option.",
        source=PARQUET,
    ),
    Option("mergeSchema", "false", FLAG, "The schema is the union of all files' schemas, not the first file's."),
    Option(
        "caseSensitive",
        "false",
        FLAG,
        "Whether column names that differ only by case are different; give it what `spark.sql.caseSensitive` is.",
        PYTHON,
    ),
    Option(
        "recursiveFileLookup",
        "false",
        FLAG,
        "Take directories `name=value` for plain directories, not for partitions.",
    ),
    Option("basePath", None, TEXT, "Where partition directories begin, when the path is already below one of them."),
    Option("pathGlobFilter", None, TEXT, "Only files whose name matches this glob."),
    Option(
        "modifiedBefore",
        None,
        TIME,
        "Only files last modified before this time, such as `2026-01-31T00:00:00`, in `timeZone` or else UTC.",
    ),
    Option("modifiedAfter", None, TIME, "Only files last modified after this time."),
    Option(
        "inferPartitionTypes",
        "true",
        FLAG,
        "Whether partition columns get the type that their values have; otherwise they are strings.",
        PYTHON,
    ),
    Option(
        "ignoreCorruptFiles",
        "false",
        FLAG,
        "Pass over files that are no Parquet or no ORC, and over the rest of a file that turns out damaged.",
    ),
    Option(
        "tableLog",
        "error",
        one_of("error", "ignore"),
        "Files of a table of Delta Lake, Iceberg or Hudi, whose log may have deleted their rows: `error` says how to "
        "read the table, `ignore` reads the files as they lie. Writing there is always refused.",
    ),
    Option("ignoreMissingFiles", "false", FLAG, "Pass over files that are gone when they are to be read."),
    Option(
        "timeZone",
        None,
        ZONE,
        "The zone of timestamps that do not say theirs, in `where` and in partition directories; if not given, with "
        "the jar that of the session. A Python data source cannot see `spark.sql.session.timeZone`: where such a "
        "timestamp needs a zone and none is given, that is an error.",
    ),
    Option(
        "maxPartitionBytes",
        "128m",
        SIZE,
        "At most so many bytes of row groups in one task (a row group is never split).",
        PYTHON,
    ),
    Option(
        "openCostInBytes",
        "4m",
        SIZE,
        "What opening a file costs, in bytes that could be read meanwhile; tasks are filled up to it at least.",
        PYTHON,
    ),
    Option(
        "minPartitionNum",
        None,
        COUNT,
        "Tasks to aim for when there are bytes enough; the driver's number of processors if not given.",
        PYTHON,
    ),
)
WRITING: tuple[Option, ...] = (
    _writing(
        "bloomColumns",
        None,
        "When writing: the columns that get a Bloom filter in every row group, such as `user_id,address.city`; or `*` "
        "for all that min/max and dictionaries serve badly (of ORC: all that can have one).",
    ),
    _writing(
        "bloomFpp",
        "0.01",
        "When writing: the share of false positives that their filters aim at.",
    ),
    _writing(
        "bloomMaxBytes",
        "16m",
        "When writing: the largest filter. Where that makes one worse than `bloomFpp`, a warning says so.",
        source=PARQUET,
    ),
    _writing(
        "compression",
        None,
        "When writing: `none`, `snappy`, `gzip`, `zstd`, `brotli` or `lz4_raw`, and of ORC `none`, `snappy`, `zlib`, "
        "`zstd` or `lz4`; if not given, `parquet.compression` or `orc.compress`, or what "
        "`spark.sql.parquet.compression.codec` or `spark.sql.orc.compression.codec` is.",
    ),
    _writing(
        "partitionOverwriteMode",
        None,
        "When overwriting: `static` replaces everything, `dynamic` only the partitions that rows are written to; what "
        "`spark.sql.sources.partitionOverwriteMode` is if not given.",
    ),
    _writing(
        "parquet.bloom.filter.enabled",
        None,
        "When writing, as parquet-java has it: `parquet.bloom.filter.enabled#user_id` for one column, without `#` for "
        "all.",
        per_column=True,
        source=PARQUET,
    ),
    _writing(
        "parquet.bloom.filter.expected.ndv",
        None,
        "The same: how many distinct values to make room for.",
        per_column=True,
        source=PARQUET,
    ),
    _writing(
        "parquet.bloom.filter.fpp", None, "The same: the share of false positives.", per_column=True, source=PARQUET
    ),
    _writing("parquet.bloom.filter.max.bytes", None, "The same: the largest filter.", source=PARQUET),
    _writing(
        "parquet.block.size",
        "128m",
        "When writing: the bytes of a row group, as they are in memory.",
        source=PARQUET,
    ),
    _writing(
        "parquet.block.row.count.limit",
        None,
        "When writing: the rows of a row group.",
        source=PARQUET,
    ),
    _writing("parquet.page.size", "1m", "When writing: the bytes of a data page.", source=PARQUET),
    _writing("parquet.dictionary.page.size", "1m", "When writing: the bytes of a dictionary.", source=PARQUET),
    _writing(
        "parquet.enable.dictionary",
        "true",
        "When writing: whether to try dictionaries.",
        per_column=True,
        source=PARQUET,
    ),
    _writing("parquet.compression", None, "See `compression`.", source=PARQUET),
    _writing("parquet.compression.codec.zstd.level", None, "When writing: the effort of `zstd`.", source=PARQUET),
    _writing(
        "parquet.bloom.filter.adaptive.enabled",
        None,
        "When writing: leave the size of filters to parquet-java.",
        source=PARQUET,
    ),
    _writing(
        "parquet.bloom.filter.candidates.number",
        None,
        "The same for one column: how many sizes parquet-java tries.",
        per_column=True,
        source=PARQUET,
    ),
    _writing("orc.bloom.filter.columns", None, "When writing, as ORC has it: as `bloomColumns`.", source=ORC),
    _writing("orc.bloom.filter.fpp", None, "The same: as `bloomFpp`.", source=ORC),
    _writing("orc.stripe.size", "64m", "When writing: the bytes of a stripe, as they are in memory.", source=ORC),
    _writing("orc.row.index.stride", "10000", "When writing: the rows of a row group within a stripe.", source=ORC),
    _writing("orc.compress", None, "See `compression`.", source=ORC),
)

OPTIONS = (*LOADING, *WRITING)

PLANNER = (
    *(option for option in LOADING if option.name in ("onFilterError", "cache", "keyProvider")),
    Option("cacheDirectory", None, TEXT, "A setting of the driver."),
    Option("cacheMaxBytes", "1g", SIZE, "A setting of the driver."),
    Option("shippedFiles", None, TEXT, "The directory to which Spark ships files."),
)
"""What the jar sends its planner process."""
