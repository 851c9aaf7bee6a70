package io.bloomparquet.spark.load;

import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.MetadataAttribute;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;

/**
 * Replaces each load by Spark's own relation of its files, below a filter by its option {@code where}. So a load is
 * optimized, planned and pruned like Spark's own scans. Without this rule, a load cannot be read.
 */
public final class LoadRule extends Rule<LogicalPlan> {

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan instanceof DataSourceV2Relation load && load.table() instanceof LoadedTable table
        ? relation(load, table)
        : plan.mapChildren(this::apply);
  }

  private static LogicalPlan relation(DataSourceV2Relation load, LoadedTable table) {
    HadoopFsRelation files = table.relation(load.options());
    AttributeReference metadata = files.fileFormat().createFileMetadataCol();
    List<AttributeReference> output = new ArrayList<>();
    for (AttributeReference column : Scala.list(load.output())) {
      boolean isMetadata = MetadataAttribute.isValid(column.metadata());
      output.add(isMetadata ? metadata.withExprId(column.exprId()) : column);
    }
    LogicalRelation relation =
        new LogicalRelation(files, Scala.seq(output), Option.empty(), false, Option.empty());
    return table.where() == null ? relation : new Filter(table.where().on(output), relation);
  }
}
