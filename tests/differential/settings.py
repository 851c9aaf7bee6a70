"""Settings of a Spark session that change how files are read, planned or compared, with useful values.

They are chosen from all of ``SQLConf.getConfigEntries`` (827 in Spark 4.3): settings of file readers, type coercion,
pushdown, partition discovery, splits, adaptive execution and code generation. Static settings and those of writers,
streams, Hive, Python and other sources, limits and messages are left out.
"""

from __future__ import annotations

from random import Random

from tests.support.spark import COMPILED, INTERPRETED

_BOOLEAN = ("true", "false")
_REBASE = ("LEGACY", "CORRECTED", "EXCEPTION")
_ZONES = ("America/New_York", "Asia/Kolkata", "Pacific/Apia", "UTC", "Europe/Amsterdam", "-07:30")

_EITHER_WAY = [
    "parquet.binaryAsString", "parquet.int96AsTimestamp", "parquet.int96TimestampConversion",
    "parquet.inferTimestampNTZ.enabled", "parquet.mergeSchema", "parquet.respectSummaryFiles",
    "parquet.recordLevelFilter.enabled", "parquet.aggregatePushdown", "parquet.filterPushdown",
    "parquet.filterPushdown.date", "parquet.filterPushdown.decimal", "parquet.filterPushdown.timestamp",
    "parquet.filterPushdown.string.startsWith", "parquet.filterPushdown.stringPredicate",
    "parquet.enableVectorizedReader", "parquet.enableNestedColumnVectorizedReader",
    "parquet.enableNullTypeVectorizedReader", "parquet.fieldId.read.enabled", "parquet.fieldId.read.ignoreMissing",
    "parquet.ignoreVariantAnnotation", "parquet.reader.respectUnknownTypeAnnotation.enabled",
    "legacy.parquet.nanosAsLong", "legacy.parquet.returnNullStructIfAllFieldsMissing", "timestampNanosTypes.enabled",
    "orc.mergeSchema", "orc.filterPushdown", "orc.aggregatePushdown", "orc.enableVectorizedReader",
    "orc.enableNestedColumnVectorizedReader", "files.ignoreCorruptFiles", "files.ignoreMissingFiles",
    "files.ignoreInvalidPartitionPaths", "files.archive.reader.enabled",
    "sources.partitionColumnTypeInference.enabled", "sources.validatePartitionColumns",
    "sources.structPredicateDecompose.enabled", "sources.bucketing.enabled", "sources.v2.bucketing.enabled",
    "ansi.enabled", "caseSensitive", "readSideCharPadding", "charAsVarchar", "preserveCharVarcharTypeInfo",
    "legacy.charVarcharAsString", "legacy.noCharPaddingInPredicate", "legacy.typeCoercion.datetimeToString.enabled",
    "legacy.castComplexTypesToString.enabled", "legacy.literal.pickMinimumPrecision", "legacy.inSubqueryNullability",
    "legacy.exponentLiteralAsDecimal.enabled", "legacy.allowNegativeScaleOfDecimal",
    "legacy.pathOptionBehavior.enabled", "legacy.readFileSourceTableCacheIgnoreOptions",
    "legacy.useCurrentConfigsForView", "legacy.storeAnalyzedPlanForView",
    "legacy.parseNullPartitionSpecAsStringLiteral", "legacy.statisticalAggregate", "legacy.duplicateBetweenInput",
    "legacy.useV1Command", "columnVector.offheap.enabled", "parser.escapedStringLiterals",
    "decimalOperations.allowPrecisionLoss", "variant.pushVariantIntoScan", "variant.allowReadingShredded",
    "cbo.enabled", "statistics.fallBackToHdfs", "adaptive.enabled", "adaptive.forceApply",
    "adaptive.coalescePartitions.enabled", "adaptive.localShuffleReader.enabled", "codegen.wholeStage",
    "execution.reuseSubquery", "exchange.reuse", "constraintPropagation.enabled",
    "optimizer.dynamicPartitionPruning.enabled", "optimizer.dynamicPartitionPruning.reuseBroadcastOnly",
    "optimizer.dynamicPartitionPruning.useStats", "optimizer.nestedSchemaPruning.enabled",
    "optimizer.avoidDoubleFilterEval", "optimizer.expression.nestedPruning.enabled",
    "optimizer.runtime.bloomFilter.enabled", "optimizer.metadataOnly", "optimizer.singleTaskExecution.enabled",
    "optimizer.datasourceV2ExprFolding", "optimizer.datasourceV2JoinPushdown",
    "optimizer.collapseProjectAlwaysInline", "optimizer.mergeSubplans.filterPropagation.enabled",
    "optimizer.mergeSubplans.filterPropagation.dsv2SymmetricFilterPropagation.enabled",
    "optimizer.replaceExceptWithFilter", "optimizer.pushDownJoinThroughUnion.enabled", "join.preferSortMergeJoin",
    "inMemoryColumnarStorage.partitionPruning", "defaultColumn.useNullsForMissingDefaultValues",
    "subexpressionElimination.enabled",
]  # fmt: skip

_RULES = [
    "ConstantFolding", "BooleanSimplification", "InferFiltersFromConstraints", "OptimizeIn", "PruneFilters",
    "UnwrapCastInBinaryComparison", "LikeSimplification", "PushDownPredicates", "ColumnPruning", "NullPropagation",
    "SimplifyBinaryComparison", "RewriteDistinctAggregates", "ConvertToLocalRelation", "PropagateEmptyRelation",
    "NestedColumnAliasing", "ReplaceNullWithFalseInPredicate", "SimplifyCasts", "CombineFilters",
]  # fmt: skip
_OF_SEVERAL: dict[str, tuple[str, ...]] = {
    "session.timeZone": _ZONES,
    "timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "parquet.int96RebaseModeInRead": _REBASE,
    "parquet.datetimeRebaseModeInRead": _REBASE,
    "parquet.columnarReaderBatchSize": ("1", "3", "4096"),
    "parquet.pushdown.inFilterThreshold": ("0", "2", "100"),
    "orc.columnarReaderBatchSize": ("1", "3"),
    "files.maxPartitionBytes": ("2kb", "8kb"),
    "files.openCostInBytes": ("0", "1", "100mb"),
    "files.minPartitionNum": ("1", "7"),
    "files.maxPartitionNum": ("1", "3"),
    "files.ignoredPathSegmentRegex": ("^[._]", "^[.]", "part-000"),
    "sources.parallelPartitionDiscovery.threshold": ("0", "1"),
    "sources.partitionOverwriteMode": ("STATIC", "DYNAMIC"),
    "sources.default": ("parquet", "orc", "bloomparquet"),
    "sources.useV1SourceList": ("parquet,orc", "", "bloomparquet,bloomorc,parquet,orc"),
    "sources.fileCompressionFactor": ("0.001", "1000.0"),
    "sources.structPredicateDecompose.maxFields": ("1", "100"),
    "storeAssignmentPolicy": ("ANSI", "LEGACY", "STRICT"),
    "columnNameOfCorruptRecord": ("rid", "a"),
    "legacy.timeParserPolicy": ("LEGACY", "CORRECTED", "EXCEPTION"),
    "mapKeyDedupPolicy": ("EXCEPTION", "LAST_WIN"),
    "autoBroadcastJoinThreshold": ("-1", "10mb"),
    "adaptive.autoBroadcastJoinThreshold": ("-1", "10mb"),
    "adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
        "org.apache.spark.sql.execution.adaptive.DynamicJoinSelection",
    ),
    "codegen.maxFields": ("1", "100"),
    "codegen.factoryMode": ("FALLBACK", "NO_CODEGEN", "CODEGEN_ONLY"),
    "optimizer.inSetConversionThreshold": ("0", "1", "100"),
    "optimizer.nestedPredicatePushdown.supportedFileSources": ("", "parquet", "orc", "parquet,orc,bloomparquet"),
    "optimizer.dynamicPartitionPruning.fallbackFilterRatio": ("0.0", "1.0"),
    "optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": ("0", "1b"),
    "optimizer.excludedRules": tuple(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _RULES),
    "shuffle.partitions": ("1", "3"),
}

SETTINGS: dict[str, tuple[str, ...]] = {f"spark.sql.{key}": _BOOLEAN for key in _EITHER_WAY} | {
    f"spark.sql.{key}": values for key, values in _OF_SEVERAL.items()
}
SETTINGS["spark.sql.leafNodeDefaultParallelism"] = ("1", "3")

UNPRUNED = {
    f"spark.sql.{key}": "false"
    for key in ("parquet.filterPushdown", "orc.filterPushdown", "parquet.aggregatePushdown", "orc.aggregatePushdown")
} | {
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
    "spark.bloomparquet.transparent": "false",
}
"""Settings that make Spark's own reader read everything and filter rows itself."""

PRUNED = {**UNPRUNED, "spark.bloomparquet.transparent": "true"}
"""Settings by which only the planner prunes Spark's own reader."""

_OFTEN = [
    "spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive",
    "spark.sql.parquet.enableVectorizedReader", "spark.sql.orc.enableVectorizedReader",
    "spark.sql.parquet.aggregatePushdown", "spark.sql.orc.aggregatePushdown", "spark.sql.parquet.mergeSchema",
    "spark.sql.files.maxPartitionBytes", "spark.sql.parquet.inferTimestampNTZ.enabled", "spark.sql.timestampType",
    "spark.sql.adaptive.enabled", "spark.sql.parquet.binaryAsString",
]  # fmt: skip


def random_settings(random: Random) -> dict[str, str]:
    """Up to a dozen settings."""
    count = random.choice((0, 1, 2, 3, 4, 6, 8, 12))
    names = random.choices(_OFTEN, k=count // 3) + random.sample(sorted(SETTINGS), k=count - count // 3)
    chosen = {name: random.choice(SETTINGS[name]) for name in names}
    return {**(INTERPRETED if random.random() < 0.9 else COMPILED), **chosen}


READ_BY_ALL: dict[str, tuple[str, ...]] = {
    # Zones of which the time zone databases of Java and Python have equal offsets, also before 1970.
    "spark.sql.session.timeZone": ("UTC", "America/New_York", "Asia/Kolkata"),
    "spark.sql.caseSensitive": _BOOLEAN,
    "spark.sql.ansi.enabled": _BOOLEAN,
    "spark.sql.adaptive.enabled": _BOOLEAN,
    "spark.sql.parquet.enableVectorizedReader": _BOOLEAN,
    "spark.sql.orc.enableVectorizedReader": _BOOLEAN,
    "spark.sql.files.maxPartitionBytes": ("4kb", "128mb", "128mb"),
    "spark.sql.codegen.wholeStage": ("false",),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN",),
}
"""Settings of a load that every way in supports, also those that do not see the session."""
