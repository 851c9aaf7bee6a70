/**
 * Spark's file formats, which also write Bloom filters, and which delete the files that they overwrite last.
 *
 * <p>Must not know scans and plans.
 */
package io.bloomparquet.spark.write;
