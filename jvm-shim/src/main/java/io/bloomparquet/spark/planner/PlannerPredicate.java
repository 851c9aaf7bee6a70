package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.support.FileFormat;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Translates Spark's predicates for the planner. The result is TRUE for at least the same rows. An untranslatable part
 * of AND is left out; of OR, it drops the whole OR. Under NOT it is the other way round.
 *
 * <p>The result is JSON. {@code pyspark_bloomparquet/jar/protocol.py} describes its grammar.
 */
public final class PlannerPredicate {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

  /** Spark's mark of a column that was added with a default: files without it have that value, not nulls. */
  private static final String EXISTENCE_DEFAULT = "EXISTS_DEFAULT";

  /**
   * The deepest JSON that is sent. The planner accepts 100 levels of AND, OR and NOT. AND and OR take two levels of
   * JSON, an object and an array; NOT takes one, and Spark removes double negations. So 150 levels are at most 100.
   */
  private static final int MAX_DEPTH = 150;

  /** Each comparison, and the one that is equal to it with its sides exchanged. */
  static final Map<String, String> FLIPPED =
      Map.of("=", "=", "<=>", "<=>", "<", ">", "<=", ">=", ">", "<", ">=", "<=");

  /** Spark's functions that map the case of text, and their names in the planner's predicates. */
  private static final Map<String, String> CASES = Map.of("LOWER", "lower", "UPPER", "upper");

  private static final Set<String> EQUALITIES = Set.of("=", "<=>", "in");

  private static final String IS_NOT_NULL = "is not null";
  private static final String CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING";

  private final FileFormat format;
  private final StructType schema;
  private final StructType partitions;
  private final String unplannableReason;
  private final boolean caseSensitive;

  /** @param unplannableReason why columns cannot be matched by name, so that nothing is planned; null if they can */
  public PlannerPredicate(
      SparkSession session, FileFormat format, StructType schema, StructType partitions, String unplannableReason) {
    this.format = format;
    this.schema = schema;
    this.partitions = partitions;
    this.unplannableReason = unplannableReason;
    this.caseSensitive = session.sessionState().conf().caseSensitiveAnalysis();
  }

  FileFormat format() {
    return format;
  }

  String unplannableReason() {
    return unplannableReason;
  }

  /** Whether names that differ by case only are different columns. */
  boolean caseSensitive() {
    return caseSensitive;
  }

  /** Whether the planner can look up values of this column. */
  public boolean canLookUp(List<String> path) {
    DataType type = comparable(path, null);
    return type != null && PlannerValue.typeName(type) != null;
  }

  /** Whether these columns, at least one, are all partition columns. */
  boolean isOfPartitions(Set<String> columns) {
    return !columns.isEmpty() && columns.stream().allMatch(column -> find(partitions, column) != null);
  }

  /** The conjunction of those {@code conjuncts} that can be translated; null if none can. */
  public JsonNode ofAll(List<? extends org.apache.spark.sql.catalyst.expressions.Expression> conjuncts) {
    List<JsonNode> translated = new ArrayList<>();
    for (var conjunct : conjuncts) {
      translated.add(weaker(conjunct));
    }
    return notTooDeep(join("and", translated, true));
  }

  /** @param conjuncts the runtime predicates of one execution */
  public JsonNode ofAll(Predicate[] conjuncts) {
    List<JsonNode> translated = new ArrayList<>();
    for (Predicate conjunct : conjuncts) {
      translated.add(of(conjunct, true));
    }
    return notTooDeep(join("and", translated, true));
  }

  private static JsonNode notTooDeep(JsonNode predicate) {
    return predicate == null || depth(predicate) <= MAX_DEPTH ? predicate : null;
  }

  private static int depth(JsonNode node) {
    int deepest = 0;
    for (JsonNode part : node) {
      deepest = Math.max(deepest, depth(part));
    }
    return 1 + deepest;
  }

  /**
   * Whether planning can pay. Spark adds IS NOT NULL to every join and comparison; alone it excludes next to nothing,
   * and footers would be read for it.
   */
  static boolean isWorthPlanning(JsonNode predicate) {
    if (predicate == null) {
      return false;
    }
    return predicate.has("op")
        ? !predicate.get("op").asText().equals(IS_NOT_NULL)
        : StreamSupport.stream(predicate.spliterator(), false)
            .flatMap(part -> part.isArray() ? StreamSupport.stream(part.spliterator(), false) : Stream.of(part))
            .anyMatch(PlannerPredicate::isWorthPlanning);
  }

  public static JsonNode and(JsonNode left, JsonNode right) {
    List<JsonNode> both = new ArrayList<>();
    both.add(left);
    both.add(right);
    return join("and", both, true);
  }

  /** Translates the parts of And and Or one by one, because Spark translates a predicate whole or not at all. */
  private JsonNode weaker(org.apache.spark.sql.catalyst.expressions.Expression expression) {
    JsonNode translated = weakerByConnector(expression);
    return translated == null ? new CatalystPredicate(this).of(expression) : translated;
  }

  private JsonNode weakerByConnector(org.apache.spark.sql.catalyst.expressions.Expression expression) {
    if (expression instanceof org.apache.spark.sql.catalyst.expressions.And and) {
      return join("and", children(and.left(), and.right()), true);
    }
    if (expression instanceof org.apache.spark.sql.catalyst.expressions.Or or) {
      return join("or", children(or.left(), or.right()), false);
    }
    Option<Predicate> translated;
    try {
      translated = DataSourceV2Strategy$.MODULE$.translateFilterV2(expression);
    } catch (AssertionError | RuntimeException error) {
      // Spark asserts that children are predicates, but one that it folded is the literal NULL. And it evaluates
      // constants, which may overflow: that is an error only if there is a row.
      return null;
    }
    return translated.isEmpty() ? null : of(translated.get(), true);
  }

  private List<JsonNode> children(org.apache.spark.sql.catalyst.expressions.Expression... expressions) {
    List<JsonNode> children = new ArrayList<>();
    for (var expression : expressions) {
      children.add(weaker(expression));
    }
    return children;
  }

  /** @param positive whether the predicate stands under an even number of negations */
  private JsonNode of(Predicate predicate, boolean positive) {
    Expression[] children = predicate.children();
    switch (predicate.name()) {
      case "AND":
        return join("and", List.of(predicate.children()), positive, positive);
      case "OR":
        return join("or", List.of(predicate.children()), positive, !positive);
      case "NOT":
        return not(children[0] instanceof Predicate child ? of(child, !positive) : null);
      case "<>":
        return not(leaf("=", children));
      case "IS_NULL":
        return leaf("is null", children);
      case "IS_NOT_NULL":
        return leaf(IS_NOT_NULL, children);
      case "STARTS_WITH":
        return leaf("starts with", children);
      case "IN":
        return leaf("in", children);
      case "=", "<=>", "<", "<=", ">", ">=":
        return leaf(predicate.name(), children);
      default:
        return null;
    }
  }

  private JsonNode join(String word, List<Expression> parts, boolean positive, boolean mayDrop) {
    List<JsonNode> children = new ArrayList<>();
    for (Expression part : parts) {
      children.add(part instanceof Predicate child ? of(child, positive) : null);
    }
    return join(word, children, mayDrop);
  }

  static JsonNode join(String word, List<JsonNode> parts, boolean mayDrop) {
    if (parts.contains(null) && !mayDrop) {
      return null;
    }
    List<JsonNode> children = new ArrayList<>();
    for (JsonNode part : parts) {
      if (part != null && part.has(word)) {
        part.get(word).forEach(children::add); // keeps a chain of a thousand flat
      } else if (part != null) {
        children.add(part);
      }
    }
    if (children.isEmpty()) {
      return null;
    }
    if (children.size() == 1) {
      return children.get(0);
    }
    return JSON.objectNode().set(word, JSON.arrayNode().addAll(children));
  }

  private static JsonNode not(JsonNode child) {
    return child == null ? null : JSON.objectNode().set("not", child);
  }

  private JsonNode leaf(String op, Expression[] children) {
    NamedReference column = children.length == 0 ? null : column(children[0]);
    if (column == null) {
      return children.length == 2 && column(children[1]) != null && FLIPPED.containsKey(op)
          ? leaf(FLIPPED.get(op), new Expression[] {children[1], children[0]})
          : null;
    }
    DataType type = comparable(List.of(column.fieldNames()), null);
    if (type == null) {
      return null;
    }
    ObjectNode node = JSON.objectNode().put("op", op);
    if (children[0] instanceof GeneralScalarExpression function) {
      // Other collations map case by other rules, and compare otherwise.
      if (!type.equals(DataTypes.StringType) || !EQUALITIES.contains(op)) {
        return null;
      }
      node.put("case", CASES.get(function.name()));
    }
    ArrayNode path = node.putArray("column");
    for (String name : column.fieldNames()) {
      path.add(name);
    }
    if (children.length == 1 && !op.equals("in")) { // IN has no values when the other side of a join has no rows
      return node;
    }
    String name = PlannerValue.typeName(type);
    if (name == null) {
      return null;
    }
    node.put("type", name);
    ArrayNode values = JSON.arrayNode(children.length - 1);
    for (int i = 1; i < children.length; i++) {
      if (!(children[i] instanceof Literal<?> literal) || !literal.dataType().equals(type)) {
        return null;
      }
      JsonNode value = PlannerValue.of(literal.value(), type);
      if (value == null) {
        return null;
      }
      values.add(value);
    }
    if (op.equals("in")) {
      return node.set("values", values);
    }
    return children.length == 2 ? node.set("value", values.get(0)) : null;
  }

  /** The column that {@code expression} is, or whose case it maps; null for other expressions. */
  private static NamedReference column(Expression expression) {
    if (expression instanceof GeneralScalarExpression function && CASES.containsKey(function.name())) {
      return function.children().length == 1 && function.children()[0] instanceof NamedReference column ? column : null;
    }
    return expression instanceof NamedReference column ? column : null;
  }

  /** Spark's types of the columns of a predicate: {@code [[["address", "city"], "string"], …]}. */
  ArrayNode readerTypes(JsonNode predicate) {
    Map<JsonNode, String> types = new LinkedHashMap<>();
    for (JsonNode leaf : predicate.findParents("column")) {
      if (leaf.has("variant")) { // which holds its type
        continue;
      }
      List<String> path = new ArrayList<>();
      leaf.get("column").forEach(name -> path.add(name.asText()));
      String part = leaf.has("part") ? leaf.get("part").asText() : null;
      ArrayNode column = leaf.get("column").deepCopy();
      types.put(part == null ? column : column.add(part), comparable(path, part).simpleString());
    }
    ArrayNode pairs = JSON.arrayNode();
    types.forEach((column, type) -> pairs.addArray().add(column).add(type));
    return pairs;
  }

  /**
   * The type of a column whose values in the files are what Spark reads; null for other columns.
   *
   * @param part of a list or map: {@code element}, {@code key} or {@code value}; {@code path} may then lead through a
   *     list into structs. Null for other columns
   */
  DataType comparable(List<String> path, String part) {
    if (unplannableReason != null
        || find(partitions, path.get(0)) != null
        || (part != null && format == FileFormat.ORC)) {
      return null;
    }
    DataType type = schema;
    boolean inList = false;
    for (String name : path) {
      if (part != null && !inList && type instanceof ArrayType list) {
        type = list.elementType();
        inList = true;
      }
      StructField field = type instanceof StructType struct ? find(struct, name) : null;
      if (field == null
          || Stream.of(EXISTENCE_DEFAULT, CHAR_VARCHAR, VariantField.MARK).anyMatch(field.metadata()::contains)) {
        return null;
      }
      type = field.dataType();
    }
    if (part == null || inList) {
      return part == null || part.equals("element") ? type : null;
    }
    if (type instanceof ArrayType list) {
      return part.equals("element") ? list.elementType() : null;
    }
    boolean isMap = type instanceof MapType && !part.equals("element");
    return isMap ? part.equals("key") ? ((MapType) type).keyType() : ((MapType) type).valueType() : null;
  }

  private StructField find(StructType struct, String name) {
    for (StructField field : struct.fields()) {
      if (caseSensitive ? field.name().equals(name) : field.name().equalsIgnoreCase(name)) {
        return field;
      }
    }
    return null;
  }
}
