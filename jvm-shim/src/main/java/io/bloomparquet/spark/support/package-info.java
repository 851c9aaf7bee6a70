/**
 * Names, options, driver settings, access to Scala, and differences between Spark versions.
 *
 * <p>Must not know any other package.
 */
package io.bloomparquet.spark.support;
