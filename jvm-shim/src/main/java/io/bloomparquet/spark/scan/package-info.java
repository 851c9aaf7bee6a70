/**
 * Loads whose scans read only the byte ranges that were planned.
 *
 * <p>Must not know the data sources, Spark's own scans, or how files are written.
 */
package io.bloomparquet.spark.scan;
