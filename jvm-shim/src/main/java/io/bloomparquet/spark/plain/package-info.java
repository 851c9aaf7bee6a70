/**
 * Spark's own scans of Parquet and ORC files, and of our formats, over the kept byte ranges only.
 *
 * <p>Must not know our data sources and loads.
 */
package io.bloomparquet.spark.plain;
