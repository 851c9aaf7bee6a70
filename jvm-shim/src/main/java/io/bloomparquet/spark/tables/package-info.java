/**
 * What is known of the classes of table formats' connectors. The jar is compiled without them, so their members are found by
 * name. A member that is missing is an error, after which nothing is pruned.
 */
package io.bloomparquet.spark.tables;
