package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.planner.WhyNot;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SparkVersions;
import io.bloomparquet.spark.tables.IcebergTable;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.math.BigInt;

/**
 * Lets the keys of a join's broadcast side prune the files of the other side. Spark's dynamic partition pruning does so
 * for partition columns; this rule inserts the same expression for columns of the files.
 *
 * <p>Spark plans it as the reuse of the broadcast, or as TRUE. {@link PlainScans} moves it from the filter to the scan.
 *
 * <p>A MERGE that inserts keeps all rows of its source, which Spark then cannot broadcast. So for a table, the keys of a few
 * rows that can be read twice are read by a subquery of their own.
 */
public final class JoinKeys extends Rule<LogicalPlan> {
  private static final PartitionPruning$ PARTITION_PRUNING = PartitionPruning$.MODULE$;

  /** The expressions by keys that a build side may have, with those within them: four sides, each in the next one. */
  private static final int MAX_NESTED = 15;

  /** The most rows that are read twice. */
  private static final long MAX_ROWS = 1_000;

  private static final Set<WhyNot> LACKS_BROADCAST = Set.of(WhyNot.JOIN_NOT_BROADCAST, WhyNot.JOIN_BROADCASTS_THIS);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return !isOn(conf()) || plan instanceof Subquery subquery && subquery.correlated() ? plan : insert(plan);
  }

  /** Without dynamic partition pruning or reuse of exchanges, Spark would not plan the inserted expression. */
  private static boolean isOn(SQLConf conf) {
    return conf.dynamicPartitionPruningEnabled() && conf.exchangeReuseEnabled();
  }

  private LogicalPlan insert(LogicalPlan plan) {
    LogicalPlan inserted = plan.mapChildren(this::insert);
    return inserted instanceof Join join ? prune(join) : inserted;
  }

  private LogicalPlan prune(Join join) {
    var equal = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (equal.isEmpty()) {
      return join;
    }
    Seq<Expression> leftKeys = equal.get()._2();
    Seq<Expression> rightKeys = equal.get()._3();
    LogicalPlan left = join.left();
    LogicalPlan right = join.right();
    WhyNot ofLeft = obstacle(join, true, conf());
    WhyNot ofRight = obstacle(join, false, conf());
    if (ofLeft == null) {
      left = prune(left, leftKeys, right, rightKeys, true);
    } else if (ofRight == null) {
      right = prune(right, rightKeys, left, leftKeys, true);
    } else if (LACKS_BROADCAST.contains(ofLeft) && canBeReadTwice(right)) {
      left = prune(left, leftKeys, right, rightKeys, false);
    } else if (LACKS_BROADCAST.contains(ofRight) && canBeReadTwice(left)) {
      right = prune(right, rightKeys, left, leftKeys, false);
    }
    return left == join.left() && right == join.right()
        ? join
        : join.copy(left, right, join.joinType(), join.condition(), join.hint());
  }

  /** Why the keys of the other side do not prune the left or right side of {@code join}; null if they may. */
  static WhyNot obstacle(Join join, boolean isLeft, SQLConf conf) {
    if (!(isLeft ? PARTITION_PRUNING.canPruneLeft(join.joinType()) : PARTITION_PRUNING.canPruneRight(join.joinType()))) {
      return WhyNot.JOIN_KEEPS_ROWS;
    }
    LogicalPlan build = isLeft ? join.right() : join.left();
    // The build side is part of the expression: a chain of sides, each in the next one, would double with each join.
    if (!isOn(conf)
        || join.isStreaming()
        || !build.deterministic()
        || PrunableKey.countNested(build) > MAX_NESTED) {
      return WhyNot.JOIN_NOT_PUSHED;
    }
    Option<BuildSide> broadcast = SparkVersions.broadcastSide(join, true, conf);
    if (broadcast.isEmpty()
        && !PARTITION_PRUNING.hintToSortMergeJoin(join.hint())
        && !PARTITION_PRUNING.hintToShuffleHashJoin(join.hint())) {
      broadcast = SparkVersions.broadcastSide(join, false, conf);
    }
    if (broadcast.isEmpty()) {
      return WhyNot.JOIN_NOT_BROADCAST;
    }
    return broadcast.get() instanceof BuildLeft$ == isLeft ? WhyNot.JOIN_BROADCASTS_THIS : null;
  }

  /**
   * Whether {@code build} has few rows, and the same ones each time that it is read: local rows, and tables at a snapshot. A
   * key that only the join sees would not find its row, which would be inserted again.
   */
  private static boolean canBeReadTwice(LogicalPlan build) {
    return !build.exists(plan -> plan.expressions().exists(each -> each.exists(UserDefinedExpression.class::isInstance)))
        && Scala.list(build.collectLeaves()).stream().allMatch(JoinKeys::hasSameRows)
        && hasFewRows(build);
  }

  private static boolean hasSameRows(LogicalPlan leaf) {
    return leaf instanceof LocalRelation
        || leaf instanceof DataSourceV2ScanRelation table && IcebergTable.isReadBy(table.scan());
  }

  private static boolean hasFewRows(LogicalPlan build) {
    LogicalPlan leaf = build;
    while (leaf instanceof Filter || leaf instanceof Project) { // which keep no count
      leaf = leaf.children().apply(0);
    }
    var most = build.maxRows();
    var rows = leaf.stats().rowCount();
    return most.isDefined() && ((Number) most.get()).longValue() <= MAX_ROWS
        || rows.isDefined() && rows.get().$less$eq(BigInt.apply(MAX_ROWS));
  }

  /** @param isBroadcast whether the keys are those of a broadcast */
  private static LogicalPlan prune(
      LogicalPlan pruned, Seq<Expression> keys, LogicalPlan build, Seq<Expression> buildKeys, boolean isBroadcast) {
    LogicalPlan result = pruned;
    for (int i = 0; i < keys.size(); i++) {
      PrunableKey key = PrunableKey.of(keys.apply(i), result);
      if (key != null && (isBroadcast || key.isOfTable()) && !key.isPrunedBy(build, result)) {
        DynamicPruningSubquery keysOfBuild = SparkVersions.keys(keys.apply(i), build, buildKeys, i, isBroadcast);
        LogicalPlan pushed =
            CleanupDynamicPruningFilters$.MODULE$.apply(
                PushDownPredicates$.MODULE$.apply(new Filter(keysOfBuild, result)));
        if (!PrunableKey.isAtScans(keysOfBuild, pushed) && key.isOfTable()) {
          pushed = key.aboveTable(result, keysOfBuild);
        }
        result = PrunableKey.isAtScans(keysOfBuild, pushed) ? pushed : result;
      }
    }
    return result;
  }
}
