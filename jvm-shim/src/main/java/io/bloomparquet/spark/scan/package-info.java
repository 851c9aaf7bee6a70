/**
 * Tables whose scans read only the byte ranges that were planned.
 *
 * <p>Must not know the data sources, the rules for commands, or how filters are written.
 */
package io.bloomparquet.spark.scan;
