package io.bloomparquet.spark.load;

import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.Thrown;
import io.bloomparquet.spark.write.BloomFormat;
import io.bloomparquet.spark.write.WriteRule;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;

/**
 * Refuses to overwrite files that the same query loads through our formats, if Spark would delete them before it reads
 * them. Spark's own check, for INSERT OVERWRITE, compares only the paths of its own relations. {@code WriteRule} has
 * already turned the overwrites by our formats, which delete last, into appends.
 */
public final class LoadedFilesRule extends Rule<LogicalPlan> {
  /**
   * Files that a query loads.
   *
   * @param conditions that rows of them fulfil
   */
  private record Load(FileIndex files, List<Expression> conditions) {}

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
    Path target = resolved(WriteRule.target(write));
    List<Load> loads = new ArrayList<>();
    collect(write.query(), List.of(), loads);
    if (loads.stream().anyMatch(load -> isIn(target, load))) {
      throw Thrown.unchecked(
          QueryCompilationErrors$.MODULE$.cannotOverwritePathBeingReadFromError(write.outputPath().toString()));
    }
  }

  /**
   * Adds the loads of a query.
   *
   * @param conditions on the rows of {@code query}
   */
  private static void collect(LogicalPlan query, List<Expression> conditions, List<Load> loads) {
    if (query instanceof InMemoryRelation cached) {
      collect(cached.cacheBuilder().logicalPlan(), List.of(), loads); // cached rows may be evicted and read again
    } else if (query instanceof DataSourceV2Relation load && load.table() instanceof LoadedTable) {
      collect(LoadRule.replaceLoads(load), conditions, loads);
    } else if (query instanceof LogicalRelation loaded
        && loaded.relation() instanceof HadoopFsRelation files
        && files.fileFormat() instanceof BloomFormat) {
      loads.add(new Load(files.location(), conditions));
    }
    Scala.list(query.subqueries()).forEach(subquery -> collect(subquery, List.of(), loads));
    List<Expression> ofChildren = new ArrayList<>();
    if (query instanceof Filter filter) {
      ofChildren.addAll(conditions);
      ofChildren.addAll(conjuncts(filter.condition()));
    }
    Scala.list(query.children()).forEach(child -> collect(child, ofChildren, loads));
  }

  /** The conjuncts that can be evaluated before the query runs. */
  private static List<Expression> conjuncts(Expression condition) {
    List<Expression> conjuncts =
        new ArrayList<>(Scala.list(PartitionPruning$.MODULE$.splitConjunctivePredicates(condition)));
    conjuncts.removeIf(
        each ->
            !each.deterministic()
                || !LoadPredicate.isEvaluable(each)
                || each.exists(part -> part instanceof RuntimeReplaceable));
    return conjuncts;
  }

  private static boolean isIn(Path target, Load load) {
    if (Scala.list(load.files().rootPaths()).stream().anyMatch(root -> LocalPaths.isIn(target, resolved(root)))) {
      return true;
    }
    Map<Path, Path> directories = new HashMap<>(); // resolves links once for all files of a directory
    for (PartitionDirectory partition : partitions(load)) {
      for (FileStatusWithMetadata file : Scala.list(partition.files())) {
        Path directory = directories.computeIfAbsent(file.getPath().getParent(), LoadedFilesRule::resolved);
        if (LocalPaths.isIn(target, Path.mergePaths(directory, new Path(Path.SEPARATOR + file.getPath().getName())))) {
          return true;
        }
      }
    }
    return false;
  }

  /** The partitions that the query reads. Spark has listed their files already, or lists them to read them. */
  private static List<PartitionDirectory> partitions(Load load) {
    List<String> columns = List.of(load.files().partitionSchema().fieldNames());
    List<Expression> onPartitions = new ArrayList<>(load.conditions());
    onPartitions.removeIf(
        each -> Scala.list(each.references().toSeq()).stream().anyMatch(column -> !columns.contains(column.name())));
    return Scala.list(load.files().listFiles(Scala.seq(onPartitions), Scala.seq(List.of())));
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
