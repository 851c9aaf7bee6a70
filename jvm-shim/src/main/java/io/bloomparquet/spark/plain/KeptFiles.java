package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.partitions.KeptParts;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/** Spark's scan of the files that a plan keeps, and how Spark splits them. */
final class KeptFiles implements KeptParts.PartFactory {
  private final FileSourceScanExec scan;
  private final Map<FileVersion, Integer> positions;
  private final Map<Integer, List<PartitionedFile>> parts = new HashMap<>();
  private final List<List<Integer>> groups = new ArrayList<>();

  /**
   * @param positions the position of each file in the listing. The keys are compared by identity: the scan hands the
   *     version object of a file on to all of its parts
   */
  KeptFiles(FileSourceScanExec scan, Map<FileVersion, Integer> positions) {
    this.scan = scan;
    this.positions = positions;
  }

  FileSourceScanExec scan() {
    return scan;
  }

  /**
   * Whether the kept files are read as rows or batches, and by buckets or not, as {@code planned} is. Spark decided that
   * when it planned the query, by settings that may have changed.
   */
  boolean readsLike(FileSourceScanExec planned) {
    return scan.supportsColumnar() == planned.supportsColumnar() && scan.bucketedScan() == planned.bucketedScan();
  }

  /**
   * Remembers how Spark splits the files. False if {@code rows}, the scan's RDD, would not read other partitions in
   * place of its own, or if its own partitions do not cover the whole files. Then nothing can be pruned.
   */
  boolean takeSplitsOf(RDD<?> rows) {
    if (!(scan.inputRDD() instanceof FileScanRDD files) || !OtherPartitions.passesPartitions(rows, files)) {
      return false;
    }
    for (FilePartition partition : Scala.list(files.filePartitions())) {
      List<Integer> group = new ArrayList<>();
      for (PartitionedFile part : partition.files()) {
        Integer file = positions.get(FileVersion.of(part));
        if (file == null) {
          return false;
        }
        List<PartitionedFile> others = parts.computeIfAbsent(file, key -> new ArrayList<>());
        if (others.isEmpty()) {
          group.add(file);
        }
        others.add(part);
      }
      groups.add(group);
    }
    return positions.values().stream().allMatch(this::isWhole);
  }

  private boolean isWhole(int file) {
    List<PartitionedFile> ofFile = parts.getOrDefault(file, List.of());
    return !ofFile.isEmpty()
        && ofFile.stream().mapToLong(PartitionedFile::length).sum() == ofFile.get(0).fileSize();
  }

  /** The files in each of Spark's partitions, by their positions. A bucket is a partition of whole files. */
  List<List<Integer>> groups() {
    return groups;
  }

  @Override
  public boolean isSplitable(int file) {
    HadoopFsRelation relation = scan.relation();
    return relation
        .fileFormat()
        .isSplitable(relation.sparkSession(), relation.options(), parts.get(file).get(0).toPath());
  }

  @Override
  public boolean ignoresCorruptFiles() {
    return new FileSourceOptions(scan.relation().options()).ignoreCorruptFiles();
  }

  /** A part of a file, on the hosts where Spark finds its first byte. */
  @Override
  public PartitionedFile part(int file, FileVersion version, long start, long length) {
    List<PartitionedFile> ofFile = parts.get(file);
    PartitionedFile nearest =
        ofFile.stream()
            .filter(part -> part.start() <= start && start < part.start() + part.length())
            .findFirst()
            .orElse(ofFile.get(0));
    return version.applyTo(nearest, start, length, nearest.locations());
  }
}
