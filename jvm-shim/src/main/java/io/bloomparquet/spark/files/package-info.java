/**
 * Files and directories as they lie in storage: versions, symbolic links, other table formats' logs.
 *
 * <p>Must not know plans and filters.
 */
package io.bloomparquet.spark.files;
