package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.DataType;

/**
 * A predicate as the planner understands it, and the parts that it does not. {@code
 * pyspark_bloomparquet/jar/protocol.py} describes the JSON. The text of a predicate is SQL, with long lists and long
 * text shortened.
 */
public sealed interface PlannerPredicate {

  ObjectNode toJson();

  /** The predicates that are not AND, OR or NOT. */
  default Stream<PlannerPredicate> leaves() {
    return Stream.of(this);
  }

  /** The leaves that the planner can judge. */
  default Stream<Leaf> judged() {
    return leaves().filter(Leaf.class::isInstance).map(Leaf.class::cast);
  }

  /** The levels of AND, OR and NOT. */
  default int depth() {
    return 0;
  }

  /**
   * A predicate without {@link Opaque} that is TRUE for at least the same rows; null if there is none. Of AND, an
   * opaque part is left out; of OR, it drops the whole OR. Under NOT it is the other way round.
   *
   * @param positive whether the predicate stands under an even number of negations
   */
  default PlannerPredicate weakened(boolean positive) {
    return this;
  }

  /**
   * Whether planning can pay. Spark adds IS NOT NULL to every join and comparison; alone it excludes next to nothing,
   * and footers would be read for it.
   */
  default boolean isWorthPlanning() {
    return judged().anyMatch(leaf -> !leaf.op.equals(Leaf.IS_NOT_NULL));
  }

  /** Spark's types of the columns: {@code [[["address", "city"], "string"], …]}. A field of a VARIANT has its own. */
  default ArrayNode readerTypes() {
    ArrayNode pairs = JsonNodeFactory.instance.arrayNode();
    judged()
        .map(Leaf::column)
        .filter(column -> column.variant == null)
        .distinct()
        .forEach(column -> column.addTypeTo(pairs.addArray()));
    return pairs;
  }

  /** The conjunction of {@code parts}, some of which may be null; null if all are. */
  static PlannerPredicate and(Stream<PlannerPredicate> parts) {
    return Junction.of("and", parts.filter(Objects::nonNull).toList());
  }

  /** @param word {@code and} or {@code or} */
  record Junction(String word, List<PlannerPredicate> parts) implements PlannerPredicate {

    /** Merges nested junctions of the same word, so that a chain of a thousand is flat. Null if there are no parts. */
    static PlannerPredicate of(String word, List<PlannerPredicate> parts) {
      return parts.size() <= 1
          ? parts.stream().findAny().orElse(null)
          : new Junction(word, parts.stream().flatMap(each -> operands(each, word)).toList());
    }

    private static Stream<PlannerPredicate> operands(PlannerPredicate each, String word) {
      return each instanceof Junction same && same.word.equals(word) ? same.parts.stream() : Stream.of(each);
    }

    @Override
    public Stream<PlannerPredicate> leaves() {
      return parts.stream().flatMap(PlannerPredicate::leaves);
    }

    @Override
    public int depth() {
      return 1 + parts.stream().mapToInt(PlannerPredicate::depth).max().getAsInt();
    }

    @Override
    public PlannerPredicate weakened(boolean positive) {
      List<PlannerPredicate> known =
          parts.stream().map(each -> each.weakened(positive)).filter(Objects::nonNull).toList();
      boolean mayDrop = word.equals("and") == positive;
      return known.size() < parts.size() && !mayDrop ? null : of(word, known);
    }

    @Override
    public ObjectNode toJson() {
      ObjectNode node = JsonNodeFactory.instance.objectNode();
      ArrayNode nodes = node.putArray(word);
      parts.forEach(part -> nodes.add(part.toJson()));
      return node;
    }

    @Override
    public String toString() {
      return parts.stream()
          .map(part -> part instanceof Junction ? "(" + part + ")" : part.toString())
          .collect(Collectors.joining(" " + word.toUpperCase(Locale.ROOT) + " "));
    }
  }

  record Not(PlannerPredicate child) implements PlannerPredicate {
    @Override
    public Stream<PlannerPredicate> leaves() {
      return child.leaves();
    }

    @Override
    public int depth() {
      return 1 + child.depth();
    }

    @Override
    public PlannerPredicate weakened(boolean positive) {
      PlannerPredicate known = child.weakened(!positive);
      return known == null ? null : new Not(known);
    }

    @Override
    public ObjectNode toJson() {
      return JsonNodeFactory.instance.objectNode().set("not", child.toJson());
    }

    @Override
    public String toString() {
      return "NOT (" + child + ")";
    }
  }

  /**
   * A column, or a part of one.
   *
   * @param part of a list or map: {@code element}, {@code key} or {@code value}; null for other columns
   * @param function {@code lower} or {@code upper}; null for the column itself
   * @param variant the field of a VARIANT column; null for other columns
   * @param type Spark's type of the column
   */
  record Column(List<String> path, String part, String function, VariantField variant, DataType type) {

    private void addTo(ObjectNode leaf) {
      path.forEach(leaf.putArray("column")::add);
      if (part != null) {
        leaf.put("part", part);
      }
      if (function != null) {
        leaf.put("case", function);
      }
      if (variant != null) {
        leaf.putObject("variant").put("path", variant.path()).put("type", variant.type().simpleString());
      }
    }

    private void addTypeTo(ArrayNode pair) {
      ArrayNode column = pair.addArray();
      path.forEach(column::add);
      if (part != null) {
        column.add(part);
      }
      pair.add(type.simpleString());
    }

    @Override
    public String toString() {
      String name = String.join(".", path);
      if (variant != null) {
        return "variant_get(" + name + ", " + variant.path() + ", " + variant.type().simpleString() + ")";
      }
      if (function != null) {
        return function + "(" + name + ")";
      }
      return part == null || part.equals("element") ? name : "map_" + part + "s(" + name + ")";
    }
  }

  /**
   * @param type of the values, as {@link PlannerValue} names it; null if there are none
   * @param values in JSON
   */
  record Leaf(String op, Column column, String type, List<JsonNode> values) implements PlannerPredicate {
    static final String IS_NOT_NULL = "is not null";

    private boolean hasList() {
      return op.equals("in") || op.equals("contains");
    }

    @Override
    public ObjectNode toJson() {
      ObjectNode node = JsonNodeFactory.instance.objectNode().put("op", op);
      column.addTo(node);
      if (type != null) {
        node.put("type", type);
        node.set(
            hasList() ? "values" : "value",
            hasList() ? JsonNodeFactory.instance.arrayNode().addAll(values) : values.get(0));
      }
      return node;
    }

    @Override
    public String toString() {
      String literals = PlannerValue.texts(values, type);
      return switch (op) {
        case "in" -> column + " IN (" + literals + ")";
        case "contains" -> "arrays_overlap(" + column + ", array(" + literals + "))";
        case "starts with" -> "startswith(" + column + ", " + literals + ")";
        default -> column + " " + op.toUpperCase(Locale.ROOT) + (values.isEmpty() ? "" : " " + literals);
      };
    }
  }

  /**
   * A condition that the planner cannot judge, only in explanations.
   *
   * @param known the reason, if it is not the condition's own; else null
   */
  record Opaque(Expression condition, WhyNot known) implements PlannerPredicate {
    @Override
    public PlannerPredicate weakened(boolean positive) {
      return null;
    }

    private WhyNot reason() {
      return known == null ? WhyNot.of(condition) : known;
    }

    @Override
    public ObjectNode toJson() {
      ObjectNode node = JsonNodeFactory.instance.objectNode().put("op", "opaque");
      return node.put("sql", WhyNot.sql(condition)).put("reason", reason().name());
    }

    @Override
    public String toString() {
      return WhyNot.sql(condition) + " (" + reason().text() + ")";
    }
  }
}
