/**
 * Asks the planner, a Python process, which parts of which files a query needs.
 *
 * <p>Must not know tables and scans.
 */
package io.bloomparquet.spark.planner;
