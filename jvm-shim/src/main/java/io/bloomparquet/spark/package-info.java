/**
 * The classes that Spark finds by name (the data sources and the extensions), and the bridge that Python calls.
 *
 * <p>Knows every package; no package knows it.
 */
package io.bloomparquet.spark;
