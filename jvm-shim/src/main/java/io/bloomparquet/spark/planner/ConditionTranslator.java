package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
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
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MapKeys;
import org.apache.spark.sql.catalyst.expressions.MapValues;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;

/**
 * Translates conditions for which there is no connector predicate, or none that {@link PlannerPredicate} translates: on
 * elements of lists and maps, on fields of VARIANT columns, and on columns that are cast to another type. The result may
 * only stand under And and Or.
 *
 * <p>{@code contains} in the result says that a leaf column holds one of the values. It is necessary, not sufficient;
 * hence never under NOT.
 */
final class CatalystPredicate {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
  private static final String ELEMENT = "element";
  private static final String KEY = "key";
  private static final String VALUE = "value";

  private final PlannerPredicate columns;

  CatalystPredicate(PlannerPredicate columns) {
    this.columns = columns;
  }

  /**
   * A column, or a part of one.
   *
   * @param part which values of the list or map {@code path} are meant; null for a column that is neither
   * @param key the key whose value is meant; null if it is not known
   * @param variant the field of the VARIANT {@code path}; null for a column that is none
   */
  private record Access(List<String> path, String part, Values key, VariantField variant) {
    Access field(String name) {
      List<String> longer = new ArrayList<>(path);
      longer.add(name);
      return new Access(longer, part, key, null);
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

  /** The JSON of {@code expression}, or of a weaker predicate; null if it cannot be translated. */
  JsonNode of(Expression expression) {
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
    return comparison(expression, null);
  }

  private JsonNode comparison(Expression expression, Parameter parameter) {
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
      List<Object> values = new ArrayList<>(scala.jdk.javaapi.CollectionConverters.asJava(in.hset()));
      return compared("in", in.child(), new Values(in.child().dataType(), values), parameter);
    }
    if (!(expression instanceof BinaryComparison comparison) || !PlannerPredicate.FLIPPED.containsKey(comparison.symbol())) {
      return null;
    }
    String op = comparison.symbol();
    return comparison.right() instanceof Literal
        ? compared(op, comparison.left(), literal(comparison.right()), parameter)
        : compared(PlannerPredicate.FLIPPED.get(op), comparison.right(), literal(comparison.left()), parameter);
  }

  private JsonNode compared(String op, Expression operand, Values values, Parameter parameter) {
    Access access = item(operand, parameter);
    if (access != null || values == null || !(operand instanceof Cast cast)) {
      return leaf(op, access, values);
    }
    Access column = item(cast.child(), parameter);
    List<JsonNode> all = new ArrayList<>();
    for (CastComparison each : CastComparison.of(cast, op, values.values)) {
      all.add(leaf(each.op(), column, new Values(each.type(), each.values(), true)));
    }
    return PlannerPredicate.join("and", all, true);
  }

  private JsonNode leaf(String op, Access access, Values values) {
    if (access == null || values == null) {
      return null;
    }
    boolean isEquality = op.equals("=") || op.equals("in") || op.equals("<=>");
    if (access.part == null) {
      return node(op, access, values);
    }
    if (!isEquality || (op.equals("<=>") && values.values.contains(null))) {
      return null;
    }
    List<JsonNode> both = new ArrayList<>();
    both.add(node("contains", access, values));
    if (access.key != null) {
      both.add(node("contains", new Access(access.path, KEY, null, null), access.key));
    }
    return PlannerPredicate.join("and", both, true);
  }

  private JsonNode node(String op, Access access, Values values) {
    DataType type = columns.comparable(access.path, access.part);
    if (type != null && access.variant != null) {
      type = access.variant.type();
    }
    String name = PlannerValue.typeName(values.type);
    if (type == null || name == null || !(values.isOfColumn || LosslessCast.isLossless(type, values.type))) {
      return null;
    }
    ObjectNode node = JSON.objectNode().put("op", op);
    access.path.forEach(node.putArray("column")::add);
    if (access.part != null) {
      node.put("part", access.part);
    }
    if (access.variant != null) {
      access.variant.addTo(node);
    }
    node.put("type", name);
    ArrayNode translated = JSON.arrayNode(values.values.size());
    for (Object each : values.values) {
      JsonNode value = PlannerValue.of(each, values.type);
      if (value == null) {
        return null;
      }
      translated.add(value);
    }
    boolean isList = op.equals("in") || op.equals("contains");
    return isList ? node.set("values", translated) : node.set("value", translated.get(0));
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
      return new Access(variant.column(), null, null, variant);
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
    return parameter == null && expression instanceof Attribute ? access(path(expression), null, null) : null;
  }

  private static Access access(List<String> path, String part, Values key) {
    return path == null ? null : new Access(path, part, key, null);
  }

  /** The path of a column, perhaps through a list to a field of its structs; null for other expressions. */
  static List<String> path(Expression expression) {
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
