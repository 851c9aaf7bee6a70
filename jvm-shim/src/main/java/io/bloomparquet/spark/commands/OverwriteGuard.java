package io.bloomparquet.spark.commands;

import io.bloomparquet.spark.files.RealPaths;
import io.bloomparquet.spark.scan.PrunedScan;
import io.bloomparquet.spark.scan.PrunedTable;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.Thrown;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.FileScan;

/**
 * Refuses to overwrite the files that the same query reads. Overwriting deletes them first, so both would be lost. Spark
 * refuses it where it reads files itself, and does not see it where a table of a provider like ours reads them. Links to
 * what is read, and links by which it is read, count as well.
 */
final class OverwriteGuard {
  private OverwriteGuard() {}

  /**
   * Throws Spark's error if {@code query} reads one of the {@code targets} or a file in it.
   *
   * @param everything also where Spark's own relations read; Spark itself sees to these where it writes files
   */
  static void check(LogicalPlan query, List<Path> targets, boolean everything, Configuration conf) {
    RealPaths paths = new RealPaths(conf);
    try {
      Map<Path, List<Path>> deleted = new LinkedHashMap<>();
      for (Path target : targets) {
        deleted.put(target, paths.deletedWith(target));
      }
      for (LogicalPlan leaf : leaves(query)) {
        Read read = Read.of(leaf, everything);
        Set<Path> needed = read.isNothing() ? Set.of() : paths.neededBy(read.roots(), read.files());
        for (Path target : targets) {
          for (Path root : read.roots()) {
            if (paths.of(root).equals(paths.of(target))) {
              throw refusal(target);
            }
          }
          for (Path gone : deleted.get(target)) {
            if (needed.stream().anyMatch(file -> RealPaths.isIn(gone, file))) {
              throw refusal(target);
            }
          }
        }
      }
    } catch (IOException error) {
      throw Thrown.unchecked(error);
    }
  }

  private static RuntimeException refusal(Path target) {
    return Thrown.unchecked(QueryCompilationErrors$.MODULE$.cannotOverwritePathBeingReadFromError(target.toString()));
  }

  private static List<LogicalPlan> leaves(LogicalPlan query) {
    List<LogicalPlan> found = new ArrayList<>();
    for (LogicalPlan leaf : Scala.list(query.collectLeaves())) {
      if (leaf instanceof InMemoryRelation cached) {
        // What is cached may be evicted, and is then read again.
        found.addAll(leaves(cached.cacheBuilder().logicalPlan()));
      } else {
        found.add(leaf);
      }
    }
    Scala.list(query.subqueriesAll()).forEach(subquery -> found.addAll(leaves(subquery)));
    return found;
  }

  /** What one leaf of a query reads: these files, of those in these roots. */
  private record Read(List<Path> roots, List<Path> files) {

    boolean isNothing() {
      return roots.isEmpty() && files.isEmpty();
    }

    static Read of(LogicalPlan leaf, boolean everything) {
      if (leaf instanceof DataSourceV2ScanRelation relation && relation.relation().table() instanceof PrunedTable table) {
        FileScan scan =
            relation.scan() instanceof PrunedScan pruned
                ? pruned.files()
                : relation.scan() instanceof FileScan files ? files : null;
        return scan == null ? of(table) : new Read(table.roots(), selected(scan));
      }
      if (leaf instanceof DataSourceV2Relation relation) {
        return of(relation.table());
      }
      // Spark compares the names of paths, and a path query may name ours by a link.
      if (leaf instanceof LogicalRelation relation
          && relation.relation() instanceof HadoopFsRelation files
          && (everything || files.fileFormat() instanceof FileSource)) {
        List<Path> roots = Scala.list(files.location().rootPaths());
        return new Read(roots, roots);
      }
      return new Read(List.of(), List.of());
    }

    private static Read of(Table table) {
      return table instanceof PrunedTable files
          ? new Read(
              files.roots(), Scala.list(files.fileIndex().allFiles()).stream().map(FileStatus::getPath).toList())
          : new Read(List.of(), List.of());
    }

    private static List<Path> selected(FileScan scan) {
      List<Path> found = new ArrayList<>();
      for (PartitionDirectory directory :
          Scala.list(scan.fileIndex().listFiles(scan.partitionFilters(), scan.dataFilters()))) {
        Scala.list(directory.files()).stream().map(FileStatusWithMetadata::getPath).forEach(found::add);
      }
      return found;
    }
  }
}
