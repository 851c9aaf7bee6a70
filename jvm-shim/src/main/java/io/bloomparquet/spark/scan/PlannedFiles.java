package io.bloomparquet.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.partitions.KeptParts;
import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.PartitionedFileUtil$;
import org.apache.spark.sql.execution.datasources.FilePartition$;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The files of a scan, their plan, and the partitions that read what the plan keeps. */
final class PlannedFiles {
  private final FileScan scan;
  private final SparkSession session;
  private final LoadContext context;
  private final JsonNode predicate;
  private final String execution;
  private final boolean isEarly;
  private final List<PartitionDirectory> directories;
  private final List<FileStatusWithMetadata> files = new ArrayList<>();
  private final List<PartitionDirectory> directoryOfFile = new ArrayList<>();
  private final FileListing listing;
  private final PlanResult result;
  private InputPartition[] partitions;

  /**
   * Plans the files that Spark's partition filters keep.
   *
   * @param onPartitions runtime predicates on partition columns
   * @param isEarly whether the query is not executed yet, and so its broadcasts are still to be made
   */
  PlannedFiles(
      LoadContext context, FileScan scan, JsonNode predicate, List<Expression> onPartitions, boolean isEarly) {
    this.scan = scan;
    this.session = context.session();
    this.context = context;
    this.predicate = predicate;
    this.execution = Planner.execution(session);
    this.isEarly = isEarly;
    List<Expression> filters = new ArrayList<>(Scala.list(scan.partitionFilters()));
    filters.addAll(onPartitions);
    directories = Scala.list(scan.fileIndex().listFiles(Scala.seq(filters), scan.dataFilters()));
    for (PartitionDirectory directory : directories) {
      for (FileStatusWithMetadata file : Scala.list(directory.files())) {
        files.add(file);
        directoryOfFile.add(directory);
      }
    }
    listing = FileListing.of(files);
    result = Planner.plan(session, listing, context.predicates(), predicate, context.options());
  }

  PlannerPredicate predicates() {
    return context.predicates();
  }

  JsonNode predicate() {
    return predicate;
  }

  /** The plan of the same files by {@code explained}, with an explanation. */
  PlanResult explain(JsonNode explained) {
    return Planner.explain(session, listing, context.predicates(), explained, context.options());
  }

  PlanResult result() {
    return result;
  }

  synchronized InputPartition[] partitions() {
    if (partitions == null) {
      partitions = result.isPlanned() ? kept() : everything();
    }
    return partitions;
  }

  private InputPartition[] kept() {
    Map<PartitionDirectory, InternalRow> values = new IdentityHashMap<>();
    KeptParts.PartFactory factory =
        new KeptParts.PartFactory() {
          @Override
          public boolean isSplitable(int file) {
            return scan.isSplitable(files.get(file).getPath());
          }

          @Override
          public boolean ignoresCorruptFiles() {
            return new FileSourceOptions(Scala.map(context.options().ofFiles())).ignoreCorruptFiles();
          }

          @Override
          public PartitionedFile part(int file, FileVersion version, long start, long length) {
            InternalRow row = values.computeIfAbsent(directoryOfFile.get(file), PlannedFiles.this::valuesOf);
            FileStatusWithMetadata status = version.applyTo(files.get(file));
            return PartitionedFileUtil$.MODULE$.getPartitionedFile(status, status.getPath(), row, start, length);
          }
        };
    return new KeptParts(session, listing, result, factory, execution, isEarly).packed();
  }

  /** Splits all files, like {@link FileScan}. */
  private InputPartition[] everything() {
    long maxBytes = FilePartition$.MODULE$.maxSplitBytes(session, Scala.seq(directories));
    List<PartitionedFile> splits = new ArrayList<>();
    for (PartitionDirectory directory : directories) {
      InternalRow values = valuesOf(directory);
      for (FileStatusWithMetadata file : Scala.list(directory.files())) {
        splits.addAll(split(refreshed(file), values, maxBytes));
      }
    }
    splits.sort(Comparator.comparingLong(PartitionedFile::length).reversed());
    return Scala.list(FilePartition$.MODULE$.getFilePartitions(session, Scala.seq(splits), maxBytes))
        .toArray(new InputPartition[0]);
  }

  /** The present status of a local file, which may have grown since Spark listed it for the DataFrame. */
  private static FileStatusWithMetadata refreshed(FileStatusWithMetadata file) {
    if (!LocalPaths.isLocal(file.getPath())) {
      return file;
    }
    try {
      FileVersion now = FileVersion.ofLocal(file.getPath());
      return now == null ? file : now.applyTo(file);
    } catch (IOException error) {
      return file; // the reader will report the error
    }
  }

  private List<PartitionedFile> split(FileStatusWithMetadata file, InternalRow values, long maxBytes) {
    boolean splitable = scan.isSplitable(file.getPath());
    return Scala.list(PartitionedFileUtil$.MODULE$.splitFiles(file, file.getPath(), splitable, maxBytes, values));
  }

  private InternalRow valuesOf(PartitionDirectory directory) {
    StructType all = scan.fileIndex().partitionSchema();
    StructType read = scan.readPartitionSchema();
    if (all.equals(read)) {
      return directory.values();
    }
    List<String> names = Arrays.asList(all.fieldNames());
    List<Expression> columns = new ArrayList<>();
    for (StructField field : read.fields()) {
      int at = names.indexOf(field.name());
      columns.add(new BoundReference(at, all.fields()[at].dataType(), true));
    }
    return UnsafeProjection.create(Scala.seq(columns)).apply(directory.values()).copy();
  }
}
