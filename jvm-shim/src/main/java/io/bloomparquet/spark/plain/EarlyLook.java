package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.tables.DeltaTable;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.collection.immutable.Seq;

/**
 * Lets the planner look at the files of a query while Spark still optimizes it. A plan needs the present version of each
 * file, and for many files it would wait for them longer than for anything else.
 *
 * <p>Only in a query that reads nothing before its one scan is planned. A subquery or the other side of a join may read
 * after the look, and find the key of a row that was written after the look too.
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
    if (!hasLooked && plan.containsPattern(TreePattern.FILTER()) && !hasSubquery(plan)) {
      Seq<LogicalPlan> leaves = plan.collectLeaves();
      if (leaves.size() == 1) {
        hasLooked = true;
        look(leaves.apply(0));
      }
    }
    return plan;
  }

  private static boolean hasSubquery(LogicalPlan plan) {
    return plan instanceof Subquery || plan.containsPattern(TreePattern.PLAN_EXPRESSION());
  }

  private void look(LogicalPlan leaf) {
    if (leaf instanceof LogicalRelation logical
        && logical.relation() instanceof HadoopFsRelation relation
        && !DeltaTable.isScannedBy(relation) // other files are read than the index lists
        && PlainScans.format(relation) != null
        && PlainScans.isEnabled(session.sessionState().conf(), relation)) {
      FileListing files = FileListing.latestOf(relation.location());
      if (files != null) {
        Planner.lookAt(session, files);
      }
    }
  }
}
