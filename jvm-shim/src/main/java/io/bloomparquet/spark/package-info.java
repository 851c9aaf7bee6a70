/**
 * The data sources that Spark finds by name, and the bridge that Python calls.
 *
 * <p>Knows every package; no package knows it.
 */
package io.bloomparquet.spark;
