package io.bloomparquet.spark.write;

import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.execution.datasources.v2.FileTable;

/**
 * The files that a query reads, also in subqueries and caches: cached rows may be evicted and read again. Spark's own
 * check, which only INSERT OVERWRITE has, compares the paths of relations, and knows neither subqueries nor links.
 */
final class ReadFiles {
  private final boolean onlyOurs;
  private final List<FileIndex> files = new ArrayList<>();

  private ReadFiles(boolean onlyOurs) {
    this.onlyOurs = onlyOurs;
  }

  /** The files that a query reads by any format. */
  static List<FileIndex> all(LogicalPlan query) {
    return new ReadFiles(false).collect(query);
  }

  /** The files that a query reads by our formats. */
  static List<FileIndex> byOurFormats(LogicalPlan query) {
    return new ReadFiles(true).collect(query);
  }

  private List<FileIndex> collect(LogicalPlan plan) {
    if (plan instanceof InMemoryRelation cached) {
      collect(cached.cacheBuilder().logicalPlan());
    } else if (plan instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation relation) {
      add(relation.location(), relation.fileFormat().getClass());
    } else if (plan instanceof DataSourceV2Relation relation && relation.table() instanceof FileTable table) {
      add(table.fileIndex(), table.fallbackFileFormat());
    } else if (plan instanceof DataSourceV2ScanRelation relation && relation.scan() instanceof FileScan scan) {
      add(scan.fileIndex(), scan.getClass());
    }
    Scala.list(plan.subqueries()).forEach(this::collect);
    Scala.list(plan.children()).forEach(this::collect);
    return files;
  }

  private void add(FileIndex index, Class<?> format) {
    if (!onlyOurs || BloomFormat.class.isAssignableFrom(format)) {
      files.add(index);
    }
  }

  /** Whether some of the files lie in one of {@code directories}, also by symbolic links. */
  static boolean anyIn(List<Path> directories, List<FileIndex> files) {
    List<Path> resolved = directories.stream().map(ReadFiles::resolved).toList();
    return files.stream()
        .flatMap(ReadFiles::paths)
        .anyMatch(path -> resolved.stream().anyMatch(directory -> LocalPaths.isIn(directory, path)));
  }

  /** The paths that were loaded and those of the files, without symbolic links. */
  private static Stream<Path> paths(FileIndex index) {
    Map<Path, Path> directories = new HashMap<>(); // resolves links once for all files of a directory
    Stream<Path> files =
        listed(index)
            .map(FileStatus::getPath)
            .map(
                file ->
                    LocalPaths.isLink(file)
                        ? resolved(file)
                        : Path.mergePaths(
                            directories.computeIfAbsent(file.getParent(), ReadFiles::resolved),
                            new Path(Path.SEPARATOR + file.getName())));
    return Stream.concat(Scala.list(index.rootPaths()).stream().map(ReadFiles::resolved), files);
  }

  /** The files as Spark lists them to read them; none for the indexes of other systems, whose tables have logs. */
  private static Stream<FileStatus> listed(FileIndex index) {
    FileIndex files = index instanceof CatalogFileIndex all ? all.filterPartitions(Scala.seq(List.of())) : index;
    return files instanceof PartitioningAwareFileIndex list ? Scala.list(list.allFiles()).stream() : Stream.empty();
  }

  /** A local path without symbolic links; another path as it is. */
  private static Path resolved(Path path) {
    try {
      return LocalPaths.isLocal(path) ? LocalPaths.real(path) : path;
    } catch (IOException error) {
      return path; // there is nothing to overwrite
    }
  }
}
