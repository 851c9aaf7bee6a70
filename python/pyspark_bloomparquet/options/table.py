"""The table of all options: every name with its default, its check and its line of documentation.

Without the jar, Python parses the options of loads. The jar parses its own: ``OptionNames.java`` has their names, and
``ScanOptions.java`` the checks of those for loads. The options of writes are here for the documentation, and so that a
load may share its options with a write.
"""

from __future__ import annotations

from pyspark_bloomparquet.options.option import (
    COUNT,
    FLAG,
    INDEX,
    JAR,
    ORC,
    PARQUET,
    PATHS,
    PYTHON,
    SIZE,
    STORAGE_OPTIONS,
    TEXT,
    TIME,
    ZONE,
    Option,
    Source,
    one_of,
)


def _writing(
    name: str, default: str | None, doc: str, source: Source | None = None, *, per_column: bool = False
) -> Option:
    return Option(name, default, TEXT, doc, JAR, per_column, source)


READING: tuple[Option, ...] = (
    Option("path", None, TEXT, "A file, a directory, a glob or a URL; what `load(...)` sets."),
    Option("paths", None, PATHS, "Several paths, as a JSON list; what `load([...])` sets."),
    Option(
        "where",
        None,
        TEXT,
        "A predicate in SQL that applies to this load: the DataFrame has only the rows for which it is true. Row "
        "groups that cannot hold such a row are not read. It works on every supported Spark version.",
    ),
    Option(
        "pushFilters",
        "auto",
        one_of("auto", "on", "off"),
        "Whether a query's filters skip row groups. `auto`: yes with the jar, no without it. `on`: also without the "
        "jar; there it needs Spark 4.1 or newer and `spark.sql.python.filterPushdown.enabled=true`, and Spark 4.1 to "
        "4.3 mix up the filters of different queries: **use each load for one query only**, or rows are lost. `off`: "
        "never.",
    ),
    Option(
        "onFilterError",
        "keep",
        one_of("keep", "fail"),
        "If a Bloom filter cannot be used: `keep` its row group, or `fail` the query.",
    ),
    Option(
        "keyProvider",
        None,
        TEXT,
        "For encrypted files: the function that returns their keys, as `module:function`. It takes no parameters and "
        "returns `bloomparquet.Keys`. The function must be listed in `spark.bloomparquet.keyProviders`. The planner "
        "calls it; without the jar, each Python worker does. No option holds a key itself.",
        source=PARQUET,
    ),
    Option(
        "mergeSchema", "false", FLAG, "Merge the schemas of all files. Otherwise the schema is that of the first file."
    ),
    Option(
        "caseSensitive",
        "false",
        FLAG,
        "Whether column names that differ only by case are different columns. Set it to the value of "
        "`spark.sql.caseSensitive`.",
        PYTHON,
    ),
    Option(
        "recursiveFileLookup",
        "false",
        FLAG,
        "Read directories `name=value` as plain directories, not as partitions.",
    ),
    Option(
        "basePath", None, TEXT, "The directory above the partition directories, if the path itself lies in one of them."
    ),
    Option("pathGlobFilter", None, TEXT, "Read only files whose names match this glob."),
    Option(
        "modifiedBefore",
        None,
        TIME,
        "Read only files last modified before this time, such as `2026-01-31T00:00:00`, in `timeZone`. "
        "Without `timeZone`: in the session's zone with the jar, else in UTC.",
    ),
    Option("modifiedAfter", None, TIME, "Read only files last modified after this time."),
    Option(
        "inferPartitionTypes",
        "true",
        FLAG,
        "Whether to infer the types of partition columns from their values. Otherwise they are strings.",
        PYTHON,
    ),
    Option(
        "ignoreCorruptFiles",
        "false",
        FLAG,
        "Skip files that are not Parquet (or ORC), and the rest of a file from where it is damaged.",
    ),
    Option(
        "tableLog",
        "error",
        one_of("error", "ignore"),
        "For a load of a path in a table of Delta Lake, Iceberg or Hudi, whose files may hold deleted rows: `error` "
        "says how to read the table; `ignore` reads the bare files. Writing there is always an error.",
    ),
    Option(
        "storageOptions",
        None,
        STORAGE_OPTIONS,
        "Endpoint, credentials and retries of the storage that the path lies on, as a JSON object of pyarrow's names: "
        '`{"endpoint_override": "localhost:9000", "scheme": "http"}`. With the jar, set Hadoop\'s settings.',
        used_by=PYTHON,
        is_secret=True,
    ),
    Option("ignoreMissingFiles", "false", FLAG, "Skip files that no longer exist when they are read."),
    Option(
        "timeZone",
        None,
        ZONE,
        "Time zone for timestamps that do not include one, in `where` and in partition directories. With the jar, the "
        "default is the session's zone. A Python data source cannot see `spark.sql.session.timeZone`: a timestamp that "
        "needs a zone is an error without this option.",
    ),
    Option(
        "maxPartitionBytes",
        "128m",
        SIZE,
        "The most bytes of row groups in one task. A row group is never split.",
        PYTHON,
    ),
    Option(
        "openCostInBytes",
        "4m",
        SIZE,
        "The cost of opening a file, in bytes that could be read in that time, like `spark.sql.files.openCostInBytes`. "
        "Each task gets at least this many bytes.",
        PYTHON,
    ),
    Option(
        "minPartitionNum",
        None,
        COUNT,
        "The number of tasks to aim for. The default is the driver's number of processors.",
        PYTHON,
    ),
)
PLANNING: tuple[Option, ...] = (
    Option(
        "index",
        "auto",
        INDEX,
        "Where the index of the data is. `auto`: in `_bloomparquet_index` beside the data, if there is one; `off`: "
        "nowhere; or the directory or URL that `bp.build_index(path, to=…)` wrote to. It must contain a slash: "
        "`./indexes`.",
    ),
    Option(
        "planning",
        "auto",
        one_of("auto", "off"),
        "Whether the driver plans which row groups to read. `auto`: whenever a query has a filter that can skip row "
        "groups; `off`: never. Without a plan, Spark's own reader skips row groups inside the tasks.",
        JAR,
    ),
    Option(
        "planningTimeout",
        "30s",
        TEXT,
        "How long a query waits for its plan. After that it reads everything. Planning continues, and its cache serves "
        "the next query.",
        JAR,
    ),
    Option(
        "cache",
        "true",
        FLAG,
        "Whether to cache on the driver's disk what plans read of footers and filters, for the next session.",
        JAR,
    ),
)
LOADING = (*READING, *PLANNING)
WRITING: tuple[Option, ...] = (
    _writing(
        "bloomColumns",
        None,
        "The columns that get a Bloom filter in every row group, such as `user_id,address.city`. `*`: all columns of "
        "integers, DECIMAL, STRING, BINARY, DATE and TIMESTAMP outside lists and maps (not FLOAT and DOUBLE, which "
        "are rarely looked up by equality, and not strings with a collation). In Parquet, `*` also leaves out the "
        "filters of row groups where they would skip little: with 16 or fewer distinct values, or with integers that "
        "fill more than half of the range from min to max.",
    ),
    _writing(
        "bloomFpp",
        "0.01",
        "The false positive probability (FPP) of these filters. `auto`: the one with which a lookup of one value reads "
        "about one row group that does not hold it, 1 / `bloomRowGroups`, but at most 0.01 and at least 0.000001.",
    ),
    _writing(
        "bloomRowGroups",
        "10000",
        "With `bloomFpp=auto`: how many row groups the whole table will have. A write cannot count them: it sees only "
        "its own rows. In ORC, these are the row groups of `orc.row.index.stride` rows, not the stripes.",
    ),
    _writing(
        "bloomMaxBytes",
        "16m",
        "The size limit of a filter. A warning says where this makes the FPP worse than `bloomFpp`.",
        PARQUET,
    ),
    _writing(
        "compression",
        None,
        "`none`, `snappy`, `gzip`, `zstd`, `brotli` or `lz4_raw`; for ORC `none`, `snappy`, `zlib`, `zstd` or `lz4`. "
        "The default is `parquet.compression` or `orc.compress`, else the setting "
        "`spark.sql.parquet.compression.codec` or `spark.sql.orc.compression.codec`.",
    ),
    _writing(
        "partitionOverwriteMode",
        None,
        "When overwriting: `static` replaces everything; `dynamic` only the partitions that get rows. The default is "
        "`spark.sql.sources.partitionOverwriteMode`.",
    ),
    _writing(
        "parquet.bloom.filter.enabled",
        None,
        "An option of parquet-java: `parquet.bloom.filter.enabled#user_id` for one column, without `#` for all.",
        PARQUET,
        per_column=True,
    ),
    _writing(
        "parquet.bloom.filter.expected.ndv",
        None,
        "The number of distinct values that parquet-java sizes the filter for.",
        PARQUET,
        per_column=True,
    ),
    _writing("parquet.bloom.filter.fpp", None, "The FPP of parquet-java's filter.", PARQUET, per_column=True),
    _writing("parquet.bloom.filter.max.bytes", None, "The size limit of parquet-java's filters.", PARQUET),
    _writing("parquet.block.size", "128m", "The size of a row group in memory.", PARQUET),
    _writing("parquet.block.row.count.limit", None, "The most rows in a row group.", PARQUET),
    _writing("parquet.page.size", "1m", "The size of a data page.", PARQUET),
    _writing("parquet.dictionary.page.size", "1m", "The size limit of a dictionary.", PARQUET),
    _writing("parquet.enable.dictionary", "true", "Whether to use dictionary encoding.", PARQUET, per_column=True),
    _writing("parquet.compression", None, "See `compression`.", PARQUET),
    _writing("parquet.compression.codec.zstd.level", None, "The compression level of `zstd`.", PARQUET),
    _writing(
        "parquet.bloom.filter.adaptive.enabled", None, "Whether parquet-java chooses the size of filters.", PARQUET
    ),
    _writing(
        "parquet.bloom.filter.candidates.number",
        None,
        "How many sizes parquet-java tries for a column's filter.",
        PARQUET,
        per_column=True,
    ),
    _writing("orc.bloom.filter.columns", None, "ORC's own name of `bloomColumns`.", ORC),
    _writing("orc.bloom.filter.fpp", None, "ORC's own name of `bloomFpp`.", ORC),
    _writing("orc.stripe.size", "64m", "The size of a stripe in memory.", ORC),
    _writing("orc.row.index.stride", "10000", "Rows per row group within a stripe.", ORC),
    _writing("orc.compress", None, "See `compression`.", ORC),
)
OPTIONS = (*LOADING, *WRITING)

_SENT_TO_PLANNER = ("onFilterError", "cache", "index", "keyProvider")
PLANNER = (
    *(option for option in LOADING if option.name in _SENT_TO_PLANNER),
    Option("cacheDirectory", None, TEXT, "The directory of the planner's cache."),
    Option("cacheMaxBytes", "1g", SIZE, "The size limit of the planner's cache on disk."),
    Option("shippedFiles", None, TEXT, "The directory to which Spark ships files."),
)
"""The options that the jar sends its planner process."""
