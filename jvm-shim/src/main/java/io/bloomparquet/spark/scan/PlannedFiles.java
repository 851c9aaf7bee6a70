package io.bloomparquet.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.files.RealPaths;
import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
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

/** The files of a scan, what the planner kept of them, and the partitions that this makes. */
final class PlannedFiles {
  private static final int MANY_PIECES = 32;
  private static final String EXECUTION = "spark.sql.execution.id";

  private final FileScan scan;
  private final SparkSession session;
  private final JsonNode predicate;
  private final List<PartitionDirectory> directories;
  private final PlanResult result;
  private final String execution;
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
    this.execution = session.sparkContext().getLocalProperty(EXECUTION);
  }

  /**
   * Plans by {@code predicate} what Spark's partition filters leave of the files.
   *
   * @param onPartitions predicates of which some exclude whole directories
   */
  static PlannedFiles plan(
      FileScan scan,
      SparkSession session,
      ScanOptions options,
      PlannerPredicate predicates,
      JsonNode predicate,
      List<Predicate> onPartitions) {
    List<Expression> filters = new ArrayList<>(Scala.list(scan.partitionFilters()));
    filters.addAll(RuntimePartitionFilter.all(onPartitions, scan.fileIndex().partitionSchema()));
    List<PartitionDirectory> directories =
        Scala.list(scan.fileIndex().listFiles(Scala.seq(filters), scan.dataFilters()));
    PlanResult result = Planner.plan(session, directories, predicates, predicate, options);
    return new PlannedFiles(scan, session, predicate, directories, result);
  }

  JsonNode predicate() {
    return predicate;
  }

  PlanResult result() {
    return result;
  }

  synchronized InputPartition[] partitions() {
    if (partitions == null) {
      long most =
          result.planned()
              ? maxSplitBytes(result.keptBytes(), result.ranges())
              : FilePartition$.MODULE$.maxSplitBytes(session, Scala.seq(directories));
      List<PartitionedFile> splits = result.planned() ? kept(most) : everything(most);
      splits.sort(Comparator.comparingLong(PartitionedFile::length).reversed());
      partitions =
          Scala.list(FilePartition$.MODULE$.getFilePartitions(session, Scala.seq(splits), most))
              .toArray(new InputPartition[0]);
      letTheFirstCheckSkippedFiles();
    }
    return partitions;
  }

  /** Where nothing is kept there is one task nevertheless: without any, nobody would see that a file has changed. */
  private void letTheFirstCheckSkippedFiles() {
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

  /** What a task of this plan, which is about to start, is to check; null if the plan was made just now. */
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

  /** A plan for EXPLAIN, or for a DataFrame that is cached, or of a query that failed, may be run much later. */
  private boolean isPlannedByRunningQuery() {
    return execution != null && SQLExecution.getQueryExecution(Long.parseLong(execution)) != null;
  }

  private Map<Path, FileVersion> skippedFiles() {
    Map<Path, FileVersion> files = new LinkedHashMap<>();
    int range = 0;
    int place = 0;
    for (PartitionDirectory directory : directories) {
      for (FileStatusWithMetadata file : Scala.list(directory.files())) {
        if (range == result.ranges() || result.file(range) != place) {
          FileVersion version = result.version(place);
          files.put(file.getPath(), version == null ? FileVersion.of(file.fileStatus()) : version);
        }
        while (range < result.ranges() && result.file(range) == place) {
          range++;
        }
        place++;
      }
    }
    return files;
  }

  private List<PartitionedFile> kept(long most) {
    List<PartitionedFile> splits = new ArrayList<>();
    int first = 0;
    int place = 0;
    for (PartitionDirectory directory : directories) {
      InternalRow values = null;
      for (FileStatusWithMetadata file : Scala.list(directory.files())) {
        int last = first;
        while (last < result.ranges() && result.file(last) == place) {
          last++;
        }
        if (last > first) {
          values = values == null ? valuesOf(directory) : values;
          FileVersion version = result.version(place);
          addKept(version == null ? file : version.applyTo(file), first, last, values, most, splits);
        }
        first = last;
        place++;
      }
    }
    return splits;
  }

  /**
   * What is kept of a file is read together where it lies together, as far as Spark puts it into one task. Each piece
   * costs another look at the footer: of very many, those are read together between which there is little.
   */
  private void addKept(
      FileStatusWithMetadata file, int first, int last, InternalRow values, long most, List<PartitionedFile> splits) {
    if (result.start(first) == 0 && result.length(first) == file.getLen()) {
      splits.addAll(split(file, values, most)); // the planner does not understand it
      return;
    }
    long gap = last - first > MANY_PIECES ? session.sessionState().conf().filesOpenCostInBytes() : 0;
    for (int range = first; range < last; ) {
      long start = result.start(range);
      long end = start + result.length(range++);
      while (range < last
          && result.start(range) >= end
          && result.start(range) - end <= gap
          && result.start(range) + result.length(range) - start <= most) {
        end = result.start(range) + result.length(range++);
      }
      splits.add(PartitionedFileUtil$.MODULE$.getPartitionedFile(file, file.getPath(), values, start, end - start));
    }
  }

  /** As {@link FileScan} splits files. */
  private List<PartitionedFile> everything(long most) {
    List<PartitionedFile> splits = new ArrayList<>();
    for (PartitionDirectory directory : directories) {
      InternalRow values = valuesOf(directory);
      for (FileStatusWithMetadata file : Scala.list(directory.files())) {
        splits.addAll(split(asItIsNow(file), values, most));
      }
    }
    return splits;
  }

  /** Spark has listed the files when the DataFrame was loaded; a local one may have grown since. */
  private static FileStatusWithMetadata asItIsNow(FileStatusWithMetadata file) {
    if (!RealPaths.isLocal(file.getPath())) {
      return file;
    }
    try {
      FileVersion now = FileVersion.ofLocal(file.getPath());
      return now == null ? file : now.applyTo(file);
    } catch (IOException error) {
      return file; // reading it says what is wrong
    }
  }

  private List<PartitionedFile> split(FileStatusWithMetadata file, InternalRow values, long most) {
    boolean splitable = scan.isSplitable(file.getPath());
    return Scala.list(PartitionedFileUtil$.MODULE$.splitFiles(file, file.getPath(), splitable, most, values));
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
