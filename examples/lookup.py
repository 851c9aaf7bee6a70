"""The README's first example: Spark writes the Bloom filters, bloomparquet reads by them. Writes ./events."""

from pyspark.sql import SparkSession

import bloomparquet as bp

spark = SparkSession.builder.getOrCreate()
log = spark.range(0, 1_000_000, numPartitions=16).selectExpr("id * 7919 % 1000003 AS user_id", "uuid() AS session")
log.write.mode("overwrite").options(**{
    "parquet.bloom.filter.enabled#user_id": "true",
    "parquet.bloom.filter.expected.ndv#user_id": "62500",  # per row group; without it parquet-java takes 1 MiB for each
    "parquet.enable.dictionary#user_id": "false",  # for a chunk of dictionary pages only, parquet-java writes no filter
}).parquet("events")  # fmt: skip

spark.read.format("bloomparquet").option("where", "user_id = 42").load("events").show(truncate=False)
print(bp.plan("events", "user_id = 42"))
