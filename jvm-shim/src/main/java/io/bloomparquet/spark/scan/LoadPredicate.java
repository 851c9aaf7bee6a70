package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.Thrown;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionId;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionRef;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.expressions.With;
import org.apache.spark.sql.catalyst.optimizer.BooleanSimplification$;
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$;
import org.apache.spark.sql.catalyst.optimizer.ConstantFolding$;
import org.apache.spark.sql.catalyst.optimizer.LikeSimplification$;
import org.apache.spark.sql.catalyst.optimizer.NullPropagation$;
import org.apache.spark.sql.catalyst.optimizer.OptimizeIn$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.optimizer.SimplifyCasts$;
import org.apache.spark.sql.catalyst.optimizer.UnwrapCastInBinaryComparison$;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** The predicate of the option {@code where}: a load has only the rows for which it is TRUE. */
final class LoadPredicate {
  /**
   * Rules that normalise comparisons to {@code column op literal}. The whole optimizer cannot be used: it would replace
   * our empty relation by no rows.
   */
  private static final List<Rule<LogicalPlan>> RULES =
      List.of(
          ConstantFolding$.MODULE$,
          NullPropagation$.MODULE$,
          LikeSimplification$.MODULE$,
          SimplifyCasts$.MODULE$,
          UnwrapCastInBinaryComparison$.MODULE$,
          ConstantFolding$.MODULE$,
          BooleanSimplification$.MODULE$,
          OptimizeIn$.MODULE$);

  private final StructType schema;
  private final List<Attribute> columns;
  private final Expression condition;

  private LoadPredicate(StructType schema, List<Attribute> columns, Expression condition) {
    this.schema = schema;
    this.columns = columns;
    this.condition = condition;
  }

  /** All rows. */
  static LoadPredicate none(StructType schema) {
    return new LoadPredicate(schema, List.of(), Literal.create(true, DataTypes.BooleanType));
  }

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
    plan = new Filter(inline(analyzed.condition(), columns, new HashMap<>()), analyzed.child());
    for (Rule<LogicalPlan> rule : RULES) {
      plan = rule.apply(plan);
    }
    Expression condition = ((Filter) plan).condition();
    if (SubqueryExpression$.MODULE$.hasSubquery(condition) || !condition.deterministic() || !isEvaluable(condition)) {
      throw unsupported(sql);
    }
    return new LoadPredicate(schema, columns, condition);
  }

  private static IllegalArgumentException unsupported(String sql) {
    return new IllegalArgumentException(
        "option where is '"
            + sql
            + "'; expected a condition on the columns of one row, without subqueries, random values, Python or SQL "
            + "functions, or current_user(); use .where(…) for these");
  }

  /** Whether a task can evaluate {@code expression} as it is. */
  static boolean isEvaluable(Expression expression) {
    boolean itself = !(expression instanceof Unevaluable) || expression instanceof Attribute;
    return itself && Scala.list(expression.children()).stream().allMatch(LoadPredicate::isEvaluable);
  }

  /**
   * Replaces references to common expressions, as in BETWEEN, by the expressions: only the whole optimizer does that.
   * Gives columns their names in the schema: SQL may write them in another case.
   */
  private static Expression inline(
      Expression expression, List<Attribute> columns, Map<CommonExpressionId, Expression> parts) {
    if (expression instanceof Attribute column) {
      return columns.stream().filter(each -> each.exprId().equals(column.exprId())).findFirst().orElse(column);
    }
    if (expression instanceof With with) {
      Scala.list(with.defs()).forEach(part -> parts.put(part.id(), inline(part.child(), columns, parts)));
      return inline(with.child(), columns, parts);
    }
    if (expression instanceof CommonExpressionRef part) {
      return parts.get(part.id());
    }
    List<Expression> children = new ArrayList<>();
    Scala.list(expression.children()).forEach(child -> children.add(inline(child, columns, parts)));
    return expression.withNewChildren(Scala.seq(children));
  }

  private static Expression parse(SparkSession session, String sql) {
    try {
      return session.sessionState().sqlParser().parseExpression(sql);
    } catch (ParseException error) {
      throw Thrown.unchecked(error);
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
    return byPosition(condition).canonicalized();
  }

  private Expression byPosition(Expression expression) {
    if (expression instanceof Attribute column) {
      int position = schema.fieldIndex(column.name());
      return new BoundReference(position, column.dataType(), column.nullable());
    }
    List<Expression> children = new ArrayList<>();
    Scala.list(expression.children()).forEach(child -> children.add(byPosition(child)));
    return expression.withNewChildren(Scala.seq(children));
  }

  boolean isNone() {
    return conjuncts().isEmpty();
  }

  List<Expression> conjuncts() {
    List<Expression> conjuncts = new ArrayList<>();
    split(condition, conjuncts);
    conjuncts.removeIf(each -> each instanceof Literal literal && Boolean.TRUE.equals(literal.value()));
    return conjuncts;
  }

  /**
   * The conjuncts that Spark's reader may apply without losing rows. parquet-java distinguishes 0.0 from -0.0, has no
   * NaN in its bounds, and takes a dot in a name for a path into a struct. Conjuncts of queries are not checked: for
   * them, the rows are those of {@code spark.read.parquet}.
   *
   * @param partitions the partition columns
   * @param byName whether the files have the other columns by the same names; parquet-java filters by name
   */
  List<Expression> pushable(StructType partitions, boolean byName) {
    Set<String> partitionNames = Set.of(partitions.fieldNames());
    List<Expression> pushable = conjuncts();
    pushable.removeIf(
        conjunct ->
            Scala.list(conjunct.references().toSeq()).stream()
                .anyMatch(column -> !partitionNames.contains(column.name()) && (isUnsafe(column) || !byName)));
    return pushable;
  }

  private static boolean isUnsafe(Attribute column) {
    return column.name().contains(".")
        || column.dataType().existsRecursively(type -> type instanceof FloatType || type instanceof DoubleType);
  }

  static void split(Expression expression, List<Expression> conjuncts) {
    if (expression instanceof And and) {
      split(and.left(), conjuncts);
      split(and.right(), conjuncts);
    } else {
      conjuncts.add(expression);
    }
  }

  /** {@code requested}, and all fields of the columns that the condition reads. */
  StructType withColumns(StructType requested) {
    Map<String, StructField> all = new LinkedHashMap<>();
    Arrays.stream(requested.fields()).forEach(field -> all.put(field.name(), field));
    Set<String> tested =
        Scala.list(condition.references().toSeq()).stream().map(Attribute::name).collect(Collectors.toSet());
    Arrays.stream(schema.fields())
        .filter(field -> tested.contains(field.name()))
        .forEach(field -> all.put(field.name(), field));
    return new StructType(all.values().toArray(StructField[]::new));
  }

  /**
   * The adapter from {@code read}, which has all of {@link #withColumns}, to the rows and columns that were requested.
   *
   * @param metadata the metadata to append; null for none
   */
  RowAdapter adapter(StructType read, StructType requested, FileMetadata metadata) {
    List<Attribute> input = new ArrayList<>();
    for (StructField field : read.fields()) {
      input.add(
          columns.stream()
              .filter(column -> column.name().equals(field.name()) && column.dataType().equals(field.dataType()))
              .findFirst()
              .orElseGet(() -> DataTypeUtils.toAttribute(field)));
    }
    Set<String> names = Set.of(requested.fieldNames());
    List<StructField> output =
        new ArrayList<>(Arrays.stream(read.fields()).filter(field -> names.contains(field.name())).toList());
    if (metadata != null) {
      output.add(metadata.column());
    }
    return new RowAdapter(condition, input, metadata, new StructType(output.toArray(StructField[]::new)));
  }
}
