package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.support.Scala;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Lets the keys of a join's broadcast side prune the files of the other side. Spark's dynamic partition pruning does so
 * for partition columns; this rule inserts the same expression for columns of the files.
 *
 * <p>Spark plans it as the reuse of the broadcast, or as TRUE. {@link PlainScans} moves it from the filter to the scan.
 */
public final class JoinKeys extends Rule<LogicalPlan> {
  private static final PartitionPruning$ PARTITION_PRUNING = PartitionPruning$.MODULE$;

  /** A side with at most so many rows is selective without a filter. */
  private static final long FEW_ROWS = 1_000;

  /** Without dynamic partition pruning or reuse of exchanges, Spark would not plan the inserted expression. */
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    boolean isOn = conf().dynamicPartitionPruningEnabled() && conf().exchangeReuseEnabled();
    return !isOn || plan instanceof Subquery subquery && subquery.correlated() ? plan : insert(plan);
  }

  private LogicalPlan insert(LogicalPlan plan) {
    LogicalPlan inserted = plan.mapChildren(this::insert);
    return inserted instanceof Join join && !join.isStreaming() ? prune(join) : inserted;
  }

  private LogicalPlan prune(Join join) {
    var equal = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    Option<BuildSide> broadcast = PARTITION_PRUNING.getBroadcastBuildSide(join, true, conf());
    if (broadcast.isEmpty()) {
      broadcast = PARTITION_PRUNING.getBroadcastBuildSide(join, false, conf());
    }
    if (equal.isEmpty() || broadcast.isEmpty()) {
      return join;
    }
    Seq<Expression> leftKeys = equal.get()._2();
    Seq<Expression> rightKeys = equal.get()._3();
    LogicalPlan left = join.left();
    LogicalPlan right = join.right();
    if (broadcast.get() instanceof BuildLeft$) {
      if (PARTITION_PRUNING.canPruneRight(join.joinType())
          && isSelective(join.left(), PARTITION_PRUNING.hintToBroadcastLeft(join.hint()))) {
        right = prune(right, rightKeys, join.left(), leftKeys);
      }
    } else if (PARTITION_PRUNING.canPruneLeft(join.joinType())
        && isSelective(join.right(), PARTITION_PRUNING.hintToBroadcastRight(join.hint()))) {
      left = prune(left, leftKeys, join.right(), rightKeys);
    }
    return left == join.left() && right == join.right()
        ? join
        : join.copy(left, right, join.joinType(), join.condition(), join.hint());
  }

  /**
   * Whether few keys come from {@code build}: it has a filter or few rows, or it is a DataFrame of local rows (whose
   * number Spark does not know) with a broadcast hint.
   */
  private static boolean isSelective(LogicalPlan build, boolean isHinted) {
    return build.deterministic()
        && (build.exists(
                each -> each instanceof Filter filter && PARTITION_PRUNING.isLikelySelective(filter.condition()))
            || build.maxRows().isDefined() && ((Number) build.maxRows().get()).longValue() <= FEW_ROWS
            || isHinted && Scala.list(build.collectLeaves()).stream().allMatch(LogicalRDD.class::isInstance));
  }

  private static LogicalPlan prune(
      LogicalPlan pruned, Seq<Expression> keys, LogicalPlan build, Seq<Expression> buildKeys) {
    LogicalPlan result = pruned;
    for (int i = 0; i < keys.size(); i++) {
      PrunableKey key = PrunableKey.of(keys.apply(i), result);
      if (key != null && !key.isPrunedBy(build, result)) {
        DynamicPruningSubquery keysOfBuild = PrunableKey.subquery(keys.apply(i), build, buildKeys, i);
        LogicalPlan pushed =
            CleanupDynamicPruningFilters$.MODULE$.apply(
                PushDownPredicates$.MODULE$.apply(new Filter(keysOfBuild, result)));
        result = PrunableKey.isAtScans(keysOfBuild, pushed) ? pushed : result;
      }
    }
    return result;
  }
}
