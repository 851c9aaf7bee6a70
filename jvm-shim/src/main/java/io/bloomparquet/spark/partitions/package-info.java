/**
 * The partitions that read what a plan keeps, for Spark's scans.
 *
 * <p>Must not know tables and scans.
 */
package io.bloomparquet.spark.partitions;
