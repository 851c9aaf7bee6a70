/**
 * Optimizer rules and a committer that give our tables the behaviour that Spark hard-codes for its built-in file
 * sources.
 *
 * <p>Must not know the data sources themselves, only {@link io.bloomparquet.spark.commands.FileSource}.
 */
package io.bloomparquet.spark.commands;
