package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.Thrown;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * Refuses to overwrite files that the same query loads through our formats, if Spark would delete them before it reads
 * them. Spark's own check, for INSERT OVERWRITE, sees only its own relations. {@code WriteRule} has already turned the
 * overwrites by our formats, which delete last, into appends.
 */
public final class LoadedFilesRule extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof InsertIntoHadoopFsRelationCommand write) {
      if (write.mode() == SaveMode.Overwrite && !write.dynamicPartitionOverwrite()) {
        check(write);
      }
    } else if (plan instanceof Command) {
      Scala.list(plan.children()).forEach(this::apply); // INSERT into several tables has a command for each
    }
    return plan;
  }

  private static void check(InsertIntoHadoopFsRelationCommand write) {
    Path target = resolved(write.outputPath());
    for (PrunedTable table : tables(write.query())) {
      List<Path> roots = Scala.list(table.fileIndex().rootPaths());
      if (roots.stream().anyMatch(root -> LocalPaths.isIn(target, resolved(root)))) {
        throw Thrown.unchecked(
            QueryCompilationErrors$.MODULE$.cannotOverwritePathBeingReadFromError(write.outputPath().toString()));
      }
    }
  }

  private static List<PrunedTable> tables(LogicalPlan query) {
    List<PrunedTable> tables = new ArrayList<>();
    for (LogicalPlan leaf : Scala.list(query.collectLeaves())) {
      if (leaf instanceof InMemoryRelation cached) {
        tables.addAll(tables(cached.cacheBuilder().logicalPlan())); // cached rows may be evicted and read again
      }
      LogicalPlan relation = leaf instanceof DataSourceV2ScanRelation scan ? scan.relation() : leaf;
      if (relation instanceof DataSourceV2Relation loaded && loaded.table() instanceof PrunedTable table) {
        tables.add(table);
      }
    }
    Scala.list(query.subqueriesAll()).forEach(subquery -> tables.addAll(tables(subquery)));
    return tables;
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
