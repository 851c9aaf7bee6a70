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

/** A condition that belongs to a load: its rows are those for which the condition is TRUE, whatever a query adds. */
final class LoadPredicate {
  /** What brings literals to the column's side and type; the whole optimizer would see that there are no rows. */
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

  /** The load is all of its rows. */
  static LoadPredicate none(StructType schema) {
    return new LoadPredicate(schema, List.of(), Literal.create(true, DataTypes.BooleanType));
  }

  /**
   * Parses and resolves {@code sql} as Spark would now in {@code SELECT * … WHERE sql}; Spark's errors pass through.
   *
   * @param zone the time zone that {@code sql} is meant in; null for the session's
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
    // Functions that are defined in SQL become plans of their own around the condition.
    if (!(plan instanceof Filter analyzed && analyzed.child() instanceof LocalRelation)) {
      throw notOfRows(sql);
    }
    plan = new Filter(inline(analyzed.condition(), columns, new HashMap<>()), analyzed.child());
    for (Rule<LogicalPlan> rule : RULES) {
      plan = rule.apply(plan);
    }
    Expression condition = ((Filter) plan).condition();
    if (SubqueryExpression$.MODULE$.hasSubquery(condition) || !condition.deterministic() || !isOfRows(condition)) {
      throw notOfRows(sql);
    }
    return new LoadPredicate(schema, columns, condition);
  }

  private static IllegalArgumentException notOfRows(String sql) {
    return new IllegalArgumentException(
        "option where is '"
            + sql
            + "'; expected a condition that each row answers by itself: without subqueries, random values, functions in "
            + "Python or defined in SQL, and the current user; use .where(…) for these");
  }

  /** Whether a task can evaluate {@code expression}, without the planning that a whole query gets. */
  private static boolean isOfRows(Expression expression) {
    boolean itself = !(expression instanceof Unevaluable) || expression instanceof Attribute;
    return itself && Scala.list(expression.children()).stream().allMatch(LoadPredicate::isOfRows);
  }

  /**
   * BETWEEN and the like name a common part and refer to it; only a whole query's optimizer makes columns of such. Columns
   * get the names that they have in the schema: SQL may write them in another case.
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

  /** Two conditions are equal if they are the same expression, resolved by the same settings, over the same columns. */
  @Override
  public boolean equals(Object other) {
    return other instanceof LoadPredicate that && schema.equals(that.schema) && byPosition().equals(that.byPosition());
  }

  @Override
  public int hashCode() {
    return byPosition().hashCode();
  }

  /** A text that only equal conditions share. */
  String id() {
    try {
      String text = schema.json() + byPosition().toJSON();
      return UUID.nameUUIDFromBytes(text.getBytes(StandardCharsets.UTF_8)).toString();
    } catch (RuntimeException error) {
      return UUID.randomUUID().toString(); // of an expression that has no such text
    }
  }

  /** The condition without the ids that each load gives its columns. */
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
    List<Expression> found = new ArrayList<>();
    split(condition, found);
    found.removeIf(each -> each instanceof Literal literal && Boolean.TRUE.equals(literal.value()));
    return found;
  }

  /**
   * The conjuncts that Spark's reader may be told of. Not those by which it leaves out rows that match: parquet-java
   * knows 0.0 from -0.0 and has no NaN in its bounds, and takes a dot in a name for the way into a struct. A query's
   * own conjuncts are Spark's to push or not, and the rows are then those of {@code spark.read.parquet}.
   *
   * @param partitions columns that are not in the files
   * @param byName whether the other columns have the same names there; parquet-java is always asked by name
   */
  List<Expression> pushable(StructType partitions, boolean byName) {
    Set<String> outside = Set.of(partitions.fieldNames());
    List<Expression> found = new ArrayList<>(conjuncts());
    found.removeIf(
        conjunct ->
            Scala.list(conjunct.references().toSeq()).stream()
                .anyMatch(column -> !outside.contains(column.name()) && (isDelicate(column) || !byName)));
    return found;
  }

  private static boolean isDelicate(Attribute column) {
    return column.name().contains(".")
        || column.dataType().existsRecursively(type -> type instanceof FloatType || type instanceof DoubleType);
  }

  private static void split(Expression expression, List<Expression> found) {
    if (expression instanceof And and) {
      split(and.left(), found);
      split(and.right(), found);
    } else {
      found.add(expression);
    }
  }

  /** {@code asked}, and the columns that the condition looks at, these whole. */
  StructType withColumns(StructType asked) {
    Map<String, StructField> all = new LinkedHashMap<>();
    Arrays.stream(asked.fields()).forEach(field -> all.put(field.name(), field));
    Set<String> tested =
        Scala.list(condition.references().toSeq()).stream().map(Attribute::name).collect(Collectors.toSet());
    Arrays.stream(schema.fields())
        .filter(field -> tested.contains(field.name()))
        .forEach(field -> all.put(field.name(), field));
    return new StructType(all.values().toArray(StructField[]::new));
  }

  /**
   * From rows of {@code read}, which has all of {@link #withColumns}, to the rows and columns that were asked for.
   *
   * @param metadata what to add of {@code _metadata}; null if nothing
   */
  RowAdapter over(StructType read, StructType asked, FileMetadata metadata) {
    List<Attribute> input = new ArrayList<>();
    for (StructField field : read.fields()) {
      input.add(
          columns.stream()
              .filter(column -> column.name().equals(field.name()) && column.dataType().equals(field.dataType()))
              .findFirst()
              .orElseGet(() -> DataTypeUtils.toAttribute(field)));
    }
    Set<String> names = Set.of(asked.fieldNames());
    List<StructField> output =
        new ArrayList<>(Arrays.stream(read.fields()).filter(field -> names.contains(field.name())).toList());
    if (metadata != null) {
      output.add(metadata.column());
    }
    return new RowAdapter(condition, input, metadata, new StructType(output.toArray(StructField[]::new)));
  }
}
