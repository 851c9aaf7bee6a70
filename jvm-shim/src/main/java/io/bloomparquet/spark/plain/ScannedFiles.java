package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.planner.ListedFile;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/**
 * The files that one of Spark's scans reads. Partition pruning, dynamic partition pruning and bucket pruning are
 * already applied. A path may be listed twice; then its rows are read twice.
 */
final class ScannedFiles {
  private final List<PartitionedFile> parts = new ArrayList<>();
  private final List<PartitionedFile> files = new ArrayList<>();
  private final List<List<Integer>> groups = new ArrayList<>();
  private Map<SparkPath, List<PartitionedFile>> partsByPath;

  ScannedFiles(FileScanRDD scan) {
    for (FilePartition partition : Scala.list(scan.filePartitions())) {
      List<Integer> group = new ArrayList<>();
      for (PartitionedFile part : partition.files()) {
        parts.add(part);
        if (part.start() == 0) { // each listed file has one such part
          group.add(files.size());
          files.add(part);
        }
      }
      groups.add(group);
    }
  }

  /** Whether the parts that Spark reads are whole files. Only then a plan of the files is a plan of the scan. */
  boolean areWhole() {
    return parts.stream().mapToLong(PartitionedFile::length).sum()
        == files.stream().mapToLong(PartitionedFile::fileSize).sum();
  }

  List<ListedFile> listed() {
    return files.stream()
        .map(file -> new ListedFile(file.toPath(), file.fileSize(), file.modificationTime()))
        .toList();
  }

  /** The files that begin in each of Spark's partitions, by their positions. A bucket is a partition of whole files. */
  List<List<Integer>> groups() {
    return groups;
  }

  /** A part of a file, in the version that was planned; {@code version} is null if the planner does not know it. */
  PartitionedFile part(int file, FileVersion version, long start, long length) {
    PartitionedFile first = files.get(file);
    FileVersion known = version == null ? FileVersion.ofListing(first) : version;
    return known.applyTo(first, start, length, hosts(first, start));
  }

  /** The hosts that store the bytes at {@code start}, as Spark found them. */
  private String[] hosts(PartitionedFile first, long start) {
    if (start < first.length() || first.locations().length == 0) {
      return first.locations();
    }
    if (partsByPath == null) {
      partsByPath = new HashMap<>();
      parts.forEach(part -> partsByPath.computeIfAbsent(part.filePath(), path -> new ArrayList<>()).add(part));
    }
    return partsByPath.get(first.filePath()).stream()
        .filter(part -> part.start() <= start && start < part.start() + part.length())
        .findFirst()
        .map(PartitionedFile::locations)
        .orElse(first.locations());
  }
}
