/**
 * Loads of paths by our data sources. The optimizer replaces each by Spark's own relation of the files.
 *
 * <p>Must not know the data sources, scans, or the planner process.
 */
package io.bloomparquet.spark.load;
