"""Bytes of Parquet files ↔ typed records. Knows nothing of values, predicates or Spark."""
