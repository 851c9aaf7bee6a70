/**
 * The partitions that read what a plan keeps, for scans of both of Spark's data source APIs.
 *
 * <p>Must not know tables and scans.
 */
package io.bloomparquet.spark.partitions;
