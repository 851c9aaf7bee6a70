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
 * Refuses to overwrite files that the same query reads. Overwriting deletes them, so old and new rows would be lost.
 * Spark has this check for its own file relations, but not for V2 tables like ours. Resolves symbolic links on both
 * sides.
 */
final class OverwriteGuard {
  private OverwriteGuard() {}

  /**
   * Throws Spark's error if {@code query} reads one of the {@code targets} or a file in it.
   *
   * @param everything whether to check Spark's own relations too, which Spark checks only when it writes files itself
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
          for (Path path : deleted.get(target)) {
            if (needed.stream().anyMatch(file -> RealPaths.isIn(path, file))) {
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
    List<LogicalPlan> leaves = new ArrayList<>();
    for (LogicalPlan leaf : Scala.list(query.collectLeaves())) {
      if (leaf instanceof InMemoryRelation cached) {
        // cached rows may be evicted and read again
        leaves.addAll(leaves(cached.cacheBuilder().logicalPlan()));
      } else {
        leaves.add(leaf);
      }
    }
    Scala.list(query.subqueriesAll()).forEach(subquery -> leaves.addAll(leaves(subquery)));
    return leaves;
  }

  /** The files that one leaf of a query reads, and the roots of its table. */
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
      // Spark compares paths by name only, and a path query may use a link.
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
      List<Path> selected = new ArrayList<>();
      for (PartitionDirectory directory :
          Scala.list(scan.fileIndex().listFiles(scan.partitionFilters(), scan.dataFilters()))) {
        Scala.list(directory.files()).stream().map(FileStatusWithMetadata::getPath).forEach(selected::add);
      }
      return selected;
    }
  }
}
