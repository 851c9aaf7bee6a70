package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.support.Scala;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * Lets the planner look at the files of a query while Spark still optimizes it. A plan needs the present version of each
 * file, and for many files it would wait for them longer than for anything else.
 *
 * <p>Changes no plan. Spark makes an instance for each query.
 */
public final class EarlyLook extends Rule<LogicalPlan> {
  private final SparkSession session;
  private boolean hasLooked;

  public EarlyLook(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    boolean mayBePruned = plan.containsPattern(TreePattern.FILTER()) || plan.containsPattern(TreePattern.JOIN());
    if (!hasLooked && mayBePruned) {
      hasLooked = true;
      Scala.list(plan.collectLeaves()).forEach(this::look);
    }
    return plan;
  }

  private void look(LogicalPlan leaf) {
    if (leaf instanceof LogicalRelation logical
        && logical.relation() instanceof HadoopFsRelation relation
        && PlainScans.format(relation) != null
        && PlainScans.isEnabled(session.sessionState().conf(), relation)) {
      FileListing files = FileListing.latestOf(relation.location());
      if (files != null) {
        Planner.lookAt(session, files);
      }
    }
  }
}
