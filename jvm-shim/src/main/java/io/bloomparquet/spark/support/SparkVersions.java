package io.bloomparquet.spark.support;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.BiConsumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.plans.logical.EmptyRelation;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.EmptyRelationExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.ListingPartition;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FilePartition$;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/**
 * Calls of Spark that differ between its versions. A jar for another Spark needs changes here, in {@link Scala}, and in the
 * planner's {@code VariantField}.
 */
public final class SparkVersions {
  private SparkVersions() {}

  /** {@code SerializableConfiguration.broadcast}, which Spark 4.0 lacks. */
  public static Broadcast<SerializableConfiguration> broadcast(SparkContext context, Configuration configuration) {
    return context.broadcast(
        new SerializableConfiguration(configuration), ClassTag$.MODULE$.apply(SerializableConfiguration.class));
  }

  /** The session with the methods that only a driver has; null for a session of Spark Connect. */
  public static org.apache.spark.sql.classic.SparkSession classic(SparkSession session) {
    return session instanceof org.apache.spark.sql.classic.SparkSession classic ? classic : null;
  }

  /** Adds a rule of the analyzer that runs before Spark opens paths. */
  public static void injectEarly(SparkSessionExtensions extensions, Function1<SparkSession, Rule<LogicalPlan>> rule) {
    extensions.injectHintResolutionRule(rule);
  }

  /** Passes on the files that a scan lists, by directory, with the directory's partition values. */
  public static void forEachDirectory(
      FileSourceScanExec scan, BiConsumer<InternalRow, Iterator<FileStatusWithMetadata>> action) {
    Iterator<ListingPartition> directories =
        Scala.iterator(scan.dynamicallySelectedPartitions().filePartitionIterator());
    directories.forEachRemaining(each -> action.accept(each.values(), Scala.iterator(each.files())));
  }

  /** The largest part that Spark makes of files, if all of them have {@code total} bytes, the costs of opening included. */
  public static long maxSplitBytes(SparkSession session, long total) {
    return FilePartition$.MODULE$.maxSplitBytes(session, () -> total);
  }

  /** A copy of {@code plan} with another argument in place of {@code old}. Versions differ in the arguments' number. */
  public static SparkPlan copy(SparkPlan plan, Object old, Object replacement) {
    Object[] arguments = new Object[plan.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      arguments[i] = plan.productElement(i) == old ? replacement : plan.productElement(i);
    }
    return plan.makeCopy(arguments);
  }

  /** The plan that adaptive execution replaced, because it has no rows; null for another node. */
  public static LogicalPlan emptied(SparkPlan plan) {
    return plan instanceof EmptyRelationExec empty ? empty.logical() : null;
  }

  /** The plan that adaptive execution replaced, because it has no rows; null for another node. */
  public static LogicalPlan emptied(LogicalPlan plan) {
    return plan instanceof EmptyRelation empty ? empty.logical() : null;
  }

  public static Option<BuildSide> broadcastSide(Join join, boolean byHintOnly, SQLConf conf) {
    return PartitionPruning$.MODULE$.getBroadcastBuildSide(join, byHintOnly, conf);
  }

  /**
   * Spark's expression for {@code key IN (keys of build)}. By reflection: the constructor has one more option since Spark
   * 4.3.
   *
   * @param index of the key among {@code buildKeys}
   * @param isBroadcast whether the keys are those of a broadcast, or else of a subquery
   */
  public static DynamicPruningSubquery keys(
      Expression key, LogicalPlan build, Seq<Expression> buildKeys, int index, boolean isBroadcast) {
    Constructor<?> constructor = DynamicPruningSubquery.class.getConstructors()[0];
    List<Object> arguments = new ArrayList<>();
    arguments.add(key);
    arguments.add(build);
    arguments.add(buildKeys);
    arguments.add(Scala.seq(List.<Object>of(index)));
    arguments.add(isBroadcast); // only with a broadcast
    arguments.add(NamedExpression.newExprId());
    while (arguments.size() < constructor.getParameterCount()) {
      arguments.add(Option.empty());
    }
    try {
      return (DynamicPruningSubquery) constructor.newInstance(arguments.toArray());
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  public static boolean isVariant(DataType type) {
    return type instanceof VariantType;
  }

  /** Whether equal texts of this type have equal bytes. */
  public static boolean isBinary(StringType type) {
    return type.supportsBinaryEquality();
  }
}
