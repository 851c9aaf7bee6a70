/**
 * Spark's file formats, which also write Bloom filters, and the checks before an overwrite.
 *
 * <p>Must not know scans and plans.
 */
package io.bloomparquet.spark.write;
