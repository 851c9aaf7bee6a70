package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import io.bloomparquet.spark.planner.PlannerPredicate.Column;
import io.bloomparquet.spark.planner.PlannerPredicate.Leaf;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.ArrayContains;
import org.apache.spark.sql.catalyst.expressions.ArrayExists;
import org.apache.spark.sql.catalyst.expressions.ArraysOverlap;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ElementAt;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetArrayItem;
import org.apache.spark.sql.catalyst.expressions.GetArrayStructFields;
import org.apache.spark.sql.catalyst.expressions.GetMapValue;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Lower;
import org.apache.spark.sql.catalyst.expressions.MapKeys;
import org.apache.spark.sql.catalyst.expressions.MapValues;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.expressions.Upper;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;

/**
 * Translates conditions without AND, OR and NOT. Conditions on elements of lists and maps, on fields of VARIANT columns
 * and on columns that are cast to another type may become weaker. For example, {@code contains} says that a leaf column
 * holds one of the values.
 */
public final class ConditionTranslator {
  private static final String ELEMENT = "element";
  private static final String KEY = "key";
  private static final String VALUE = "value";

  /** Each comparison, and the one that is equal to it with its sides exchanged. */
  private static final Map<String, String> FLIPPED =
      Map.of("=", "=", "<=>", "<=>", "<", ">", "<=", ">=", ">", "<", ">=", "<=");

  private static final Set<String> EQUALITIES = Set.of("=", "<=>", "in");

  private final ReaderColumns columns;

  ConditionTranslator(ReaderColumns columns) {
    this.columns = columns;
  }

  /**
   * A column, or a part of one.
   *
   * @param part which values of the list or map {@code path} are meant; null for a column that is neither
   * @param key the key whose value is meant; null if it is not known
   * @param function {@code lower} or {@code upper}; null for the column itself
   * @param variant the field of the VARIANT {@code path}; null for a column that is none
   */
  private record Access(List<String> path, String part, Values key, String function, VariantField variant) {
    Access(List<String> path, String part, Values key) {
      this(path, part, key, null, null);
    }

    Access field(String name) {
      List<String> longer = new ArrayList<>(path);
      longer.add(name);
      return new Access(longer, part, key);
    }
  }

  /** @param isOfColumn whether they are compared with the column itself, not with its cast to their type */
  private record Values(DataType type, List<Object> values, boolean isOfColumn) {
    Values(DataType type, List<Object> values) {
      this(type, values, false);
    }
  }

  /** The parameter of a lambda function, and what it stands for. */
  private record Parameter(ExprId id, Access access) {}

  PlannerPredicate in(List<String> path, DataType type, List<Object> values) {
    return leaf("in", new Access(path, null, null), new Values(type, values));
  }

  /** The translation of {@code expression}, or of a weaker condition; null if it cannot be translated. */
  PlannerPredicate of(Expression expression) {
    if (expression instanceof IsNull test) {
      return nullTest("is null", path(test.child()));
    }
    if (expression instanceof IsNotNull test) {
      return nullTest(Leaf.IS_NOT_NULL, path(test.child()));
    }
    if (expression instanceof StartsWith starts) {
      return leaf("starts with", access(path(starts.left()), null, null), literal(starts.right()));
    }
    if (expression instanceof ArrayContains contains) {
      return leaf("=", collection(contains.left()), literal(contains.right()));
    }
    if (expression instanceof ArraysOverlap overlap) {
      Values right = arrayLiteral(overlap.right());
      return right != null
          ? leaf("in", collection(overlap.left()), right)
          : leaf("in", collection(overlap.right()), arrayLiteral(overlap.left()));
    }
    if (expression instanceof ArrayExists exists
        && exists.function() instanceof LambdaFunction lambda
        && lambda.arguments().size() == 1
        && lambda.arguments().head() instanceof NamedLambdaVariable variable) {
      Access elements = collection(exists.argument());
      return elements == null ? null : comparison(lambda.function(), new Parameter(variable.exprId(), elements));
    }
    return expression instanceof Attribute || expression instanceof GetStructField
        ? leaf("=", access(path(expression), null, null), literal(Literal.TrueLiteral()))
        : comparison(expression, null);
  }

  private PlannerPredicate nullTest(String op, List<String> path) {
    DataType type = path == null ? null : columns.comparable(path, null);
    return type == null ? null : new Leaf(op, new Column(path, null, null, null, type), null, List.of());
  }

  private PlannerPredicate comparison(Expression expression, Parameter parameter) {
    if (expression instanceof In in) {
      List<Object> values = new ArrayList<>();
      for (Expression each : Scala.list(in.list())) {
        if (!(each instanceof Literal literal)) {
          return null;
        }
        values.add(literal.value());
      }
      return compared("in", in.value(), new Values(in.value().dataType(), values), parameter);
    }
    if (expression instanceof InSet in) {
      List<Object> values = new ArrayList<>(Scala.set(in.hset()));
      return compared("in", in.child(), new Values(in.child().dataType(), values), parameter);
    }
    if (!(expression instanceof BinaryComparison comparison) || !FLIPPED.containsKey(comparison.symbol())) {
      return null;
    }
    String op = comparison.symbol();
    return comparison.right() instanceof Literal
        ? compared(op, comparison.left(), literal(comparison.right()), parameter)
        : compared(FLIPPED.get(op), comparison.right(), literal(comparison.left()), parameter);
  }

  private PlannerPredicate compared(String op, Expression operand, Values values, Parameter parameter) {
    Access access = item(operand, parameter);
    if (access != null || values == null || !(operand instanceof Cast cast)) {
      return leaf(op, access, values);
    }
    Access column = item(cast.child(), parameter);
    return PlannerPredicate.and(
        CastComparison.of(cast, op, values.values).stream()
            .map(each -> leaf(each.op(), column, new Values(each.type(), each.values(), true))));
  }

  private PlannerPredicate leaf(String op, Access access, Values values) {
    if (access == null || values == null) {
      return null;
    }
    boolean isEquality = EQUALITIES.contains(op);
    if (access.part == null) {
      return access.function == null || isEquality ? known(op, access, values) : null;
    }
    if (!isEquality || (op.equals("<=>") && values.values.contains(null))) {
      return null;
    }
    PlannerPredicate value = known("contains", access, values);
    return access.key == null
        ? value
        : PlannerPredicate.and(
            Stream.of(value, known("contains", new Access(access.path, KEY, null), access.key)));
  }

  private Leaf known(String op, Access access, Values values) {
    DataType type = columns.comparable(access.path, access.part);
    DataType compared = type == null || access.variant == null ? type : access.variant.type();
    String name = PlannerValue.typeName(values.type);
    if (type == null || name == null || !(values.isOfColumn || LosslessCast.isLossless(compared, values.type))) {
      return null;
    }
    List<JsonNode> translated = values.values.stream().map(each -> PlannerValue.of(each, values.type)).toList();
    return translated.contains(null)
        ? null
        : new Leaf(op, new Column(access.path, access.part, access.function, access.variant, type), name, translated);
  }

  private static Values literal(Expression expression) {
    return expression instanceof Literal literal
        ? new Values(literal.dataType(), Collections.singletonList(literal.value()))
        : null;
  }

  private static Values arrayLiteral(Expression expression) {
    return expression instanceof Literal literal
            && literal.dataType() instanceof ArrayType type
            && literal.value() instanceof ArrayData array
        ? new Values(type.elementType(), Arrays.asList(array.toObjectArray(type.elementType())))
        : null;
  }

  /** The values of an array. */
  private static Access collection(Expression expression) {
    if (expression instanceof Cast cast && LosslessCast.isLossless(cast.child().dataType(), cast.dataType())) {
      return collection(cast.child());
    }
    if (expression instanceof MapKeys keys) {
      return access(path(keys.child()), KEY, null);
    }
    if (expression instanceof MapValues values) {
      return access(path(values.child()), VALUE, null);
    }
    return access(path(expression), ELEMENT, null);
  }

  /** A single value: of a column, of one element of a list, of one key of a map, or of one field of a VARIANT. */
  private static Access item(Expression expression, Parameter parameter) {
    VariantField variant = parameter == null ? VariantField.of(expression) : null;
    if (variant != null) {
      return new Access(variant.column(), null, null, null, variant);
    }
    if (expression instanceof Cast cast && LosslessCast.isLossless(cast.child().dataType(), cast.dataType())) {
      return item(cast.child(), parameter);
    }
    if (expression instanceof NamedLambdaVariable variable) {
      return parameter != null && variable.exprId().equals(parameter.id) ? parameter.access : null;
    }
    if (parameter == null && expression instanceof GetArrayItem element) {
      return access(path(element.child()), ELEMENT, null);
    }
    if (parameter == null && expression instanceof GetMapValue value) {
      return access(path(value.child()), VALUE, literal(value.key()));
    }
    // A default for missing elements may equal the literal, and is in no file.
    if (parameter == null && expression instanceof ElementAt at && at.defaultValueOutOfBound().isEmpty()) {
      boolean isMap = at.left().dataType() instanceof MapType;
      return access(path(at.left()), isMap ? VALUE : ELEMENT, isMap ? literal(at.right()) : null);
    }
    if (expression instanceof GetStructField field) {
      Access struct = item(field.child(), parameter);
      boolean isKnown =
          struct != null && struct.variant == null && (struct.part == null || struct.part.equals(ELEMENT));
      return isKnown ? struct.field(field.extractFieldName()) : null;
    }
    if (parameter == null && (expression instanceof Lower || expression instanceof Upper)) {
      List<String> path = path(expression.children().apply(0));
      return path == null ? null : new Access(path, null, null, expression instanceof Lower ? "lower" : "upper", null);
    }
    return parameter == null && expression instanceof Attribute ? access(path(expression), null, null) : null;
  }

  private static Access access(List<String> path, String part, Values key) {
    return path == null ? null : new Access(path, part, key);
  }

  /** The path of a column, perhaps through a list to a field of its structs; null for other expressions. */
  public static List<String> path(Expression expression) {
    if (expression instanceof Attribute column) {
      return List.of(column.name());
    }
    if (expression instanceof GetStructField field) {
      return path(field.child(), field.extractFieldName());
    }
    if (expression instanceof GetArrayStructFields fields) {
      return path(fields.child(), fields.field().name());
    }
    return expression instanceof Cast cast && LosslessCast.isLossless(cast.child().dataType(), cast.dataType())
        ? path(cast.child())
        : null;
  }

  private static List<String> path(Expression parent, String name) {
    Access access = access(path(parent), null, null);
    return access == null ? null : access.field(name).path;
  }
}
