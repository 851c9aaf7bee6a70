package io.bloomparquet.spark.load;

import io.bloomparquet.spark.support.Scala;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionId;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionRef;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.expressions.With;
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * The predicate of the option {@code where}: a load has only the rows for which it is TRUE.
 *
 * @param positions of the columns in {@code schema}
 * @param condition as the analyzer resolved it at the load, so that later settings do not change the rows
 */
record LoadPredicate(StructType schema, Map<ExprId, Integer> positions, Expression condition) {

  /**
   * Parses and resolves {@code sql} like Spark in {@code SELECT * … WHERE sql}. Throws Spark's errors.
   *
   * @param zone the time zone of literals; null for the session's
   */
  static LoadPredicate of(SparkSession session, String sql, StructType schema, String zone) {
    if (zone == null) {
      return of(session, sql, schema);
    }
    SQLConf conf = SQLConf.get().clone();
    conf.setConfString(SQLConf.SESSION_LOCAL_TIMEZONE().key(), zone);
    return SQLConf$.MODULE$.withExistingConf(conf, () -> of(session, sql, schema));
  }

  private static LoadPredicate of(SparkSession session, String sql, StructType schema) {
    Expression parsed = parse(session, sql);
    List<Attribute> columns = new ArrayList<>(Scala.list(DataTypeUtils.toAttributes(schema)));
    LogicalPlan rows = new LocalRelation(Scala.seq(columns), Scala.seq(List.of()), false, Option.empty());
    LogicalPlan plan = session.sessionState().analyzer().execute(new Filter(parsed, rows));
    session.sessionState().analyzer().checkAnalysis(plan);
    plan = ComputeCurrentTime$.MODULE$.apply(ReplaceExpressions$.MODULE$.apply(plan));
    // A function that is defined in SQL adds plan nodes around the condition.
    if (!(plan instanceof Filter analyzed && analyzed.child() instanceof LocalRelation)) {
      throw unsupported(sql);
    }
    Expression condition = inline(analyzed.condition(), new HashMap<>());
    if (SubqueryExpression$.MODULE$.hasSubquery(condition) || !condition.deterministic() || !isEvaluable(condition)) {
      throw unsupported(sql);
    }
    Map<ExprId, Integer> positions = new HashMap<>();
    columns.forEach(column -> positions.put(column.exprId(), positions.size()));
    return new LoadPredicate(schema, positions, condition);
  }

  private static IllegalArgumentException unsupported(String sql) {
    return new IllegalArgumentException(
        "option where is '"
            + sql
            + "'; expected a condition on the columns of one row, without subqueries, random values, Python or SQL "
            + "functions, or current_user(); use .where(…) for these");
  }

  /** Whether a task can evaluate {@code expression} as it is. */
  private static boolean isEvaluable(Expression expression) {
    boolean itself = !(expression instanceof Unevaluable) || expression instanceof Attribute;
    return itself && Scala.list(expression.children()).stream().allMatch(LoadPredicate::isEvaluable);
  }

  /** Replaces references to common expressions, as in BETWEEN, by the expressions. Only the whole optimizer does that. */
  private static Expression inline(Expression expression, Map<CommonExpressionId, Expression> parts) {
    if (expression instanceof With with) {
      Scala.list(with.defs()).forEach(part -> parts.put(part.id(), inline(part.child(), parts)));
      return inline(with.child(), parts);
    }
    if (expression instanceof CommonExpressionRef part) {
      return parts.get(part.id());
    }
    return expression.mapChildren(child -> inline(child, parts));
  }

  private static Expression parse(SparkSession session, String sql) {
    try {
      return session.sessionState().sqlParser().parseExpression(sql);
    } catch (ParseException error) {
      throw Scala.unchecked(error);
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LoadPredicate that && schema.equals(that.schema) && byPosition().equals(that.byPosition());
  }

  @Override
  public int hashCode() {
    return byPosition().hashCode();
  }

  /** A text that only equal predicates share. */
  String id() {
    try {
      String text = schema.json() + byPosition().toJSON();
      return UUID.nameUUIDFromBytes(text.getBytes(StandardCharsets.UTF_8)).toString();
    } catch (RuntimeException error) {
      return UUID.randomUUID().toString(); // this expression has no JSON
    }
  }

  /** The condition with positions instead of the column ids, which differ between loads. */
  private Expression byPosition() {
    return bound(
            condition,
            column -> new BoundReference(positions.get(column.exprId()), column.dataType(), column.nullable()))
        .canonicalized();
  }

  /** The condition on columns that have the names of the schema. */
  Expression on(List<? extends Attribute> columns) {
    Map<String, Attribute> byName = new HashMap<>();
    columns.forEach(column -> byName.put(column.name(), column));
    return bound(condition, column -> byName.get(schema.fieldNames()[positions.get(column.exprId())]));
  }

  private static Expression bound(Expression expression, Function<Attribute, Expression> columns) {
    return expression instanceof Attribute column
        ? columns.apply(column)
        : expression.mapChildren(child -> bound(child, columns));
  }
}
