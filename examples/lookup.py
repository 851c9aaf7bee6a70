"""The README's first example: Spark writes a table with Bloom filters and looks up one user. Writes ./events."""

from pyspark.sql import SparkSession

from pyspark_bloomparquet import attach, last_plan

spark = attach(SparkSession.builder.getOrCreate())  # this line

log = spark.range(0, 1_000_000, numPartitions=16).selectExpr("id * 7919 % 1000003 AS user_id", "uuid() AS session")
log.write.mode("overwrite").format("bloomparquet").option("bloomColumns", "user_id").save("events")

events = spark.read.parquet("events").where("user_id = 42")
events.show(truncate=False)
print(last_plan(events)[0])
