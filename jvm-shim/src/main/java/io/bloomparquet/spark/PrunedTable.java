package io.bloomparquet.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * A table of files whose scans are planned before they are read. What kind of files is for the subclass to say; listing,
 * partitions and schemas are Spark's {@link FileTable}, which does nothing before it is asked.
 */
abstract class PrunedTable extends FileTable {
  private final SparkSession session;
  private final CaseInsensitiveStringMap options;
  private final List<String> paths;
  private final StructType given;
  private final Transform[] declared;
  private PartitioningAwareFileIndex files;

  /**
   * @param given the user's or the catalog's schema; null to infer it
   * @param declared how the catalog says that the files are partitioned; null where there is no catalog
   */
  PrunedTable(
      SparkSession session, CaseInsensitiveStringMap options, StructType given, Transform[] declared) {
    super(
        session,
        TablePaths.without(options),
        Scala.seq(TablePaths.of(options)),
        Option.apply(given));
    this.session = session;
    this.options = TablePaths.without(options);
    this.paths = TablePaths.of(options);
    this.given = given;
    this.declared = declared;
  }

  /** The name of the source, such as {@code bloomparquet}. */
  abstract String sourceName();

  /** Spark's own builder of scans over these files. */
  abstract FileScanBuilder newFileScanBuilder(CaseInsensitiveStringMap options);

  SparkSession session() {
    return session;
  }

  CaseInsensitiveStringMap options() {
    return options;
  }

  @Override
  public String name() {
    return sourceName() + " " + String.join(",", paths);
  }

  @Override
  public String toString() {
    return name();
  }

  /** As Spark's own, but in a catalog without a directory, and without partitions, that are still to come. */
  @Override
  public synchronized PartitioningAwareFileIndex fileIndex() {
    if (files == null) {
      files =
          declared == null || given == null || isWrittenByStream()
              ? super.fileIndex()
              : TableFiles.of(session, roots(), options, given, partitionColumns());
    }
    return files;
  }

  private boolean isWrittenByStream() {
    return FileStreamSink$.MODULE$.hasMetadata(Scala.seq(paths), hadoopConf(), session.sessionState().conf());
  }

  private StructType partitionColumns() {
    Set<String> names =
        Arrays.stream(declared)
            .filter(transform -> transform.name().equals("identity"))
            .map(transform -> transform.references()[0].fieldNames()[0])
            .collect(Collectors.toSet());
    return new StructType(
        Arrays.stream(given.fields()).filter(field -> names.contains(field.name())).toArray(StructField[]::new));
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    CaseInsensitiveStringMap merged = mergedOptions(given);
    ScanOptions scanOptions = ScanOptions.of(merged);
    BoundFilter where = scanOptions.where() == null ? null : BoundFilter.of(session, scanOptions.where(), schema());
    return new PrunedScanBuilder(session, newFileScanBuilder(merged), schema(), scanOptions, where);
  }

  /** Writing is left to Spark's file formats: with a batch write of version 2, not every save mode would work. */
  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ, TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    Map<String, String> merged = new HashMap<>(options.asCaseSensitiveMap());
    merged.putAll(info.options().asCaseSensitiveMap());
    return new FileWrite(sourceName(), paths, partitioning(), merged);
  }

  /** The directories and files that the table is made of, qualified. */
  List<Path> roots() {
    Configuration conf = hadoopConf();
    List<Path> found = new ArrayList<>();
    for (String each : paths) {
      Path path = new Path(each);
      try {
        found.add(path.getFileSystem(conf).makeQualified(path));
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
    return found;
  }

  private Configuration hadoopConf() {
    return session.sessionState().newHadoopConfWithOptions(Scala.map(options));
  }
}
