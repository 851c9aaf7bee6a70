/**
 * Spark's own scans of Parquet and ORC files, over the kept byte ranges only. They are plain scans: the query names no
 * format or option of ours.
 *
 * <p>Must not know our data sources and tables.
 */
package io.bloomparquet.spark.plain;
