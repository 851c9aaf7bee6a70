/**
 * Names, options, driver settings, and access to Scala and its exceptions.
 *
 * <p>Must not know any other package.
 */
package io.bloomparquet.spark.support;
