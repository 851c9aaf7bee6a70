/**
 * Bloom filters of the right size for the files that Spark writes.
 *
 * <p>Must not know tables, scans and the planner.
 */
package io.bloomparquet.spark.filters;
