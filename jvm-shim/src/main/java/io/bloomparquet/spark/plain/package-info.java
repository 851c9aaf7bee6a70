/**
 * Spark's own scans of Parquet and ORC files, over the kept byte ranges only.
 *
 * <p>Must not know our data sources and tables.
 */
package io.bloomparquet.spark.plain;
