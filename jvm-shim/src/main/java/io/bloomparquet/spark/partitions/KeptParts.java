package io.bloomparquet.spark.partitions;

import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SparkVersions;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.FilePartition$;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.collection.immutable.Seq;

/** The partitions of one plan: what it keeps, and a check of what it skips. */
public final class KeptParts {
  /** In a file with more ranges than this, ranges are merged across small gaps. */
  private static final int MANY_RANGES = 32;

  static final String EXECUTION_ID = "spark.sql.execution.id";

  private static final AtomicLong NUMBERS = new AtomicLong();
  private static final Map<KeptParts, Long> OF_THIS_PROCESS = Collections.synchronizedMap(new WeakHashMap<>());

  /**
   * Names a plan to its tasks.
   *
   * @param number of the plan in the driver's process
   * @param execution the query that made the plan
   */
  record Id(long number, String execution) implements Serializable {}

  /** Makes parts of files. A file is named by its position in the listing. */
  public interface PartFactory {
    /** Whether Spark may read the file in several parts. It reads an archive of files whole. */
    boolean isSplitable(int file);

    /** Whether Spark ignores corrupt files, as its option {@code ignoreCorruptFiles} says. */
    boolean ignoresCorruptFiles();

    /**
     * Makes the part of a file that has {@code length} bytes from {@code start}.
     *
     * @param version the version that was planned
     */
    PartitionedFile part(int file, FileVersion version, long start, long length);
  }

  private final SparkSession session;
  private final FileListing files;
  private final PlanResult result;
  private final PartFactory factory;
  private final String executionId;
  private final boolean isEarly; // planned before the query's broadcasts are made
  private SkippedFiles skipped;
  private boolean isUsed;

  /**
   * @param result a plan of {@code files}, not the reason for having none
   * @param executionId the query that was running when the plan was made; null if none was
   */
  public KeptParts(
      SparkSession session,
      FileListing files,
      PlanResult result,
      PartFactory factory,
      String executionId) {
    this.session = session;
    this.files = files;
    this.result = result;
    this.factory = factory;
    this.executionId = executionId;
    // Without adaptive execution, no task begins before all broadcasts are made. The other side of a join, which is
    // planned later, may still wait for its own.
    this.isEarly = !session.sessionState().conf().adaptiveExecutionEnabled();
    OF_THIS_PROCESS.put(this, NUMBERS.incrementAndGet());
  }

  Id id() {
    return new Id(OF_THIS_PROCESS.get(this), executionId);
  }

  /** The files that a plan skips; null if another process, the driver, made the plan. */
  static SkippedFiles skippedBy(Id plan) {
    KeptParts parts;
    synchronized (OF_THIS_PROCESS) {
      parts =
          OF_THIS_PROCESS.entrySet().stream()
              .filter(each -> each.getValue() == plan.number)
              .map(Map.Entry::getKey)
              .findFirst()
              .orElse(null);
    }
    return parts == null ? null : parts.skippedToCheck();
  }

  /** Partitions of about equal sizes, as Spark makes them. */
  public FilePartition[] packed() {
    long maxBytes = maxPartBytes();
    List<PartitionedFile> parts = new ArrayList<>();
    byFile(maxBytes, splitBytes()).forEach(parts::addAll);
    parts.sort(Comparator.comparingLong(PartitionedFile::length).reversed());
    return withCheck(
        Scala.list(FilePartition$.MODULE$.getFilePartitions(session, Scala.seq(parts), maxBytes))
            .toArray(FilePartition[]::new));
  }

  /** One partition with everything. */
  public FilePartition[] single() {
    List<PartitionedFile> parts = new ArrayList<>();
    byFile(Long.MAX_VALUE, splitBytes()).forEach(parts::addAll);
    return withCheck(new FilePartition[] {new FilePartition(0, parts.toArray(PartitionedFile[]::new))});
  }

  /**
   * One partition for each group of files, in the order of the groups; it may be empty.
   *
   * @param groups positions in the listing
   */
  public FilePartition[] grouped(List<List<Integer>> groups) {
    List<List<PartitionedFile>> byFile = byFile(Long.MAX_VALUE, Long.MAX_VALUE);
    FilePartition[] partitions = new FilePartition[groups.size()];
    for (int i = 0; i < partitions.length; i++) {
      PartitionedFile[] parts =
          groups.get(i).stream().flatMap(file -> byFile.get(file).stream()).toArray(PartitionedFile[]::new);
      partitions[i] = new FilePartition(i, parts);
    }
    return withCheck(partitions);
  }

  private long maxPartBytes() {
    long total = result.keptBytes() + result.ranges() * session.sessionState().conf().filesOpenCostInBytes();
    return SparkVersions.maxSplitBytes(session, total);
  }

  /**
   * The size of Spark's splits of the whole files, if no part may cross their borders; else no limit. If Spark ignores
   * corrupt files, it drops the rest of a split after a damaged row group, but not the next split.
   */
  private long splitBytes() {
    if (!factory.ignoresCorruptFiles()) {
      return Long.MAX_VALUE;
    }
    long total = files.count() * session.sessionState().conf().filesOpenCostInBytes();
    for (int file = 0; file < files.count(); file++) {
      total += files.version(file).size();
    }
    return Math.max(1, SparkVersions.maxSplitBytes(session, total));
  }

  /**
   * The kept parts of each file, by the file's position.
   *
   * @param splitBytes no part crosses a multiple of it
   */
  private List<List<PartitionedFile>> byFile(long maxBytes, long splitBytes) {
    List<List<PartitionedFile>> parts = new ArrayList<>();
    int end = 0;
    for (int file = 0; file < files.count(); file++) {
      int first = end;
      while (end < result.ranges() && result.file(end) == file) {
        end++;
      }
      parts.add(first == end ? List.of() : parts(file, first, end, maxBytes, splitBytes));
    }
    return parts;
  }

  /**
   * The parts of one file. Adjacent ranges are merged up to {@code maxBytes}. Each part reads the footer again, so in a
   * file with many ranges those with a small gap between them are merged too.
   */
  private List<PartitionedFile> parts(int file, int first, int end, long maxBytes, long splitBytes) {
    FileVersion version = files.version(file, result);
    List<PartitionedFile> parts = new ArrayList<>();
    long size = version.size();
    if (result.start(first) == 0 && result.length(first) == size) {
      // the planner could not look into the file, so any part of it may hold row groups
      long splitSize = splitBytes == Long.MAX_VALUE ? maxBytes : splitBytes;
      // spark.sql.files.maxPartitionBytes may be 0 or less
      long length = factory.isSplitable(file) && splitSize > 0 ? splitSize : size;
      for (long start = 0; start < size; start += Math.min(length, size - start)) {
        parts.add(factory.part(file, version, start, Math.min(length, size - start)));
      }
      return parts;
    }
    long gap = end - first > MANY_RANGES ? session.sessionState().conf().filesOpenCostInBytes() : 0;
    for (int range = first; range < end; ) {
      long start = result.start(range);
      long stop = start + result.length(range++);
      while (range < end
          && result.start(range) >= stop
          && result.start(range) - stop <= gap
          && (result.start(range) + result.length(range) - 1) / splitBytes == start / splitBytes
          && result.start(range) + result.length(range) - start <= maxBytes) {
        stop = result.start(range) + result.length(range++);
      }
      parts.add(factory.part(file, version, start, stop - start));
    }
    return parts;
  }

  /** The first task checks the skipped files. If nothing is kept, one task remains for that. */
  private FilePartition[] withCheck(FilePartition[] partitions) {
    if (result.files() == files.count()) {
      return partitions;
    }
    if (partitions.length == 0) {
      return new FilePartition[] {new PlannedPartition(0, new PartitionedFile[0], this)};
    }
    partitions[0] = new PlannedPartition(partitions[0].index(), partitions[0].files(), this);
    return partitions;
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
   * changed. So they may within a batch of a stream: in {@code foreachBatch}, {@code df.rdd} plans before the query runs
   * that reads the rows. After an early plan, a broadcast or a subquery of the same query may read what was written
   * after a skipped file changed.
   */
  private boolean isPlannedByRunningQuery() {
    QueryExecution query =
        executionId == null ? null : SQLExecution.getQueryExecution(Long.parseLong(executionId));
    return query != null
        && query.getClass() == QueryExecution.class
        && (!isEarly || readsNothingElse(query.analyzed()));
  }

  /** Whether a query reads files by one scan, and nothing besides. */
  private static boolean readsNothingElse(LogicalPlan query) {
    Seq<LogicalPlan> leaves = query.collectLeaves();
    return leaves.size() == 1
        && (leaves.apply(0) instanceof DataSourceV2Relation || leaves.apply(0) instanceof LogicalRelation)
        && !query.containsPattern(TreePattern.PLAN_EXPRESSION());
  }

  private Map<Path, FileVersion> skippedFiles() {
    Map<Path, FileVersion> versions = new LinkedHashMap<>();
    int range = 0;
    for (int position = 0; position < files.count(); position++) {
      int first = range;
      while (range < result.ranges() && result.file(range) == position) {
        range++;
      }
      if (range == first) {
        versions.put(files.path(position), files.version(position, result));
      }
    }
    return versions;
  }
}
