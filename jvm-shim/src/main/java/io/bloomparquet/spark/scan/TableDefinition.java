package io.bloomparquet.spark.scan;

import java.util.function.Consumer;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * What a table is made of.
 *
 * @param properties the options of the table itself, with its paths
 * @param options the options of the table and of the session, with the paths
 * @param schema the user's or the catalog's schema; null to infer it
 * @param partitioning the partitioning that the catalog declares; null without a catalog
 * @param fallback the file format by which Spark reads and writes the files itself
 * @param installRules adds our optimizer rules to a session
 */
public record TableDefinition(
    SparkSession session,
    CaseInsensitiveStringMap properties,
    CaseInsensitiveStringMap options,
    StructType schema,
    Transform[] partitioning,
    Class<? extends FileFormat> fallback,
    Consumer<SparkSession> installRules) {}
