package io.bloomparquet.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.files.RealPaths;
import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.PartitionedFileUtil$;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.FilePartition$;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The files of a scan, their plan, and the partitions that read what the plan keeps. */
final class PlannedFiles {
  /** In a file with more ranges than this, ranges are merged across small gaps. */
  private static final int MANY_RANGES = 32;

  private static final String EXECUTION_ID = "spark.sql.execution.id";

  private final FileScan scan;
  private final SparkSession session;
  private final JsonNode predicate;
  private final List<PartitionDirectory> directories;
  private final PlanResult result;
  private final String executionId;
  private InputPartition[] partitions;
  private SkippedFiles skipped;
  private boolean isUsed;

  private PlannedFiles(
      FileScan scan,
      SparkSession session,
      JsonNode predicate,
      List<PartitionDirectory> directories,
      PlanResult result) {
    this.scan = scan;
    this.session = session;
    this.predicate = predicate;
    this.directories = directories;
    this.result = result;
    this.executionId = session.sparkContext().getLocalProperty(EXECUTION_ID);
  }

  /**
   * Plans the files that Spark's partition filters keep.
   *
   * @param onPartitions runtime predicates on partition columns
   */
  static PlannedFiles plan(LoadContext context, FileScan scan, JsonNode predicate, List<Expression> onPartitions) {
    List<Expression> filters = new ArrayList<>(Scala.list(scan.partitionFilters()));
    filters.addAll(onPartitions);
    List<PartitionDirectory> directories =
        Scala.list(scan.fileIndex().listFiles(Scala.seq(filters), scan.dataFilters()));
    PlanResult result =
        Planner.plan(context.session(), directories, context.predicates(), predicate, context.options());
    return new PlannedFiles(scan, context.session(), predicate, directories, result);
  }

  JsonNode predicate() {
    return predicate;
  }

  PlanResult result() {
    return result;
  }

  synchronized InputPartition[] partitions() {
    if (partitions == null) {
      long maxBytes =
          result.planned()
              ? maxSplitBytes(result.keptBytes(), result.ranges())
              : FilePartition$.MODULE$.maxSplitBytes(session, Scala.seq(directories));
      List<PartitionedFile> splits = result.planned() ? kept(maxBytes) : everything(maxBytes);
      splits.sort(Comparator.comparingLong(PartitionedFile::length).reversed());
      partitions =
          Scala.list(FilePartition$.MODULE$.getFilePartitions(session, Scala.seq(splits), maxBytes))
              .toArray(new InputPartition[0]);
      addCheckOfSkippedFiles();
    }
    return partitions;
  }

  /** The first task checks the skipped files. If nothing is kept, one task remains for that. */
  private void addCheckOfSkippedFiles() {
    if (!result.planned() || result.files() == FileListing.count(directories)) {
      return;
    }
    if (partitions.length == 0) {
      partitions = new InputPartition[] {new PlannedPartition(0, new PartitionedFile[0], this)};
    } else {
      FilePartition first = (FilePartition) partitions[0];
      partitions[0] = new PlannedPartition(first.index(), first.files(), this);
    }
  }

  /** The skipped files that a starting task must check; null if the plan was made just now. */
  synchronized SkippedFiles skippedToCheck() {
    boolean isNew = !isUsed && isPlannedByRunningQuery();
    isUsed = true;
    if (isNew) {
      return null;
    }
    if (skipped == null) {
      skipped = SkippedFiles.of(skippedFiles());
    }
    return skipped;
  }

  /**
   * Whether the query that made this plan is still running. Otherwise (EXPLAIN, a cached DataFrame) files may have
   * changed.
   */
  private boolean isPlannedByRunningQuery() {
    return executionId != null && SQLExecution.getQueryExecution(Long.parseLong(executionId)) != null;
  }

  private interface FileVisitor {
    /**
     * @param version the planned version; null if unknown
     * @param first the first range of the file
     * @param end one after the last range of the file; equals {@code first} for a skipped file
     */
    void visit(PartitionDirectory directory, FileStatusWithMetadata file, FileVersion version, int first, int end);
  }

  private void visitFiles(FileVisitor visitor) {
    int position = 0;
    int end = 0;
    for (PartitionDirectory directory : directories) {
      for (FileStatusWithMetadata file : Scala.list(directory.files())) {
        int first = end;
        while (end < result.ranges() && result.file(end) == position) {
          end++;
        }
        visitor.visit(directory, file, result.version(position), first, end);
        position++;
      }
    }
  }

  private Map<Path, FileVersion> skippedFiles() {
    Map<Path, FileVersion> files = new LinkedHashMap<>();
    visitFiles(
        (directory, file, version, first, end) -> {
          if (first == end) {
            files.put(file.getPath(), version == null ? FileVersion.of(file.fileStatus()) : version);
          }
        });
    return files;
  }

  private List<PartitionedFile> kept(long maxBytes) {
    List<PartitionedFile> splits = new ArrayList<>();
    Map<PartitionDirectory, InternalRow> values = new IdentityHashMap<>();
    visitFiles(
        (directory, file, version, first, end) -> {
          if (first < end) {
            InternalRow row = values.computeIfAbsent(directory, this::valuesOf);
            addKept(version == null ? file : version.applyTo(file), first, end, row, maxBytes, splits);
          }
        });
    return splits;
  }

  /**
   * Adds the kept ranges of one file. Adjacent ranges are merged up to a task's size. Each split reads the footer
   * again, so in a file with many ranges those with a small gap between them are merged too.
   */
  private void addKept(
      FileStatusWithMetadata file, int first, int end, InternalRow values, long maxBytes, List<PartitionedFile> splits) {
    if (result.start(first) == 0 && result.length(first) == file.getLen()) {
      splits.addAll(split(file, values, maxBytes)); // the planner could not look into the file
      return;
    }
    long gap = end - first > MANY_RANGES ? session.sessionState().conf().filesOpenCostInBytes() : 0;
    for (int range = first; range < end; ) {
      long start = result.start(range);
      long stop = start + result.length(range++);
      while (range < end
          && result.start(range) >= stop
          && result.start(range) - stop <= gap
          && result.start(range) + result.length(range) - start <= maxBytes) {
        stop = result.start(range) + result.length(range++);
      }
      splits.add(PartitionedFileUtil$.MODULE$.getPartitionedFile(file, file.getPath(), values, start, stop - start));
    }
  }

  /** Splits all files, like {@link FileScan}. */
  private List<PartitionedFile> everything(long maxBytes) {
    List<PartitionedFile> splits = new ArrayList<>();
    for (PartitionDirectory directory : directories) {
      InternalRow values = valuesOf(directory);
      for (FileStatusWithMetadata file : Scala.list(directory.files())) {
        splits.addAll(split(refreshed(file), values, maxBytes));
      }
    }
    return splits;
  }

  /** The present status of a local file, which may have grown since Spark listed it for the DataFrame. */
  private static FileStatusWithMetadata refreshed(FileStatusWithMetadata file) {
    if (!RealPaths.isLocal(file.getPath())) {
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

  private long maxSplitBytes(long bytes, long pieces) {
    long total = bytes + pieces * session.sessionState().conf().filesOpenCostInBytes();
    return FilePartition$.MODULE$.maxSplitBytes(session, () -> total);
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
