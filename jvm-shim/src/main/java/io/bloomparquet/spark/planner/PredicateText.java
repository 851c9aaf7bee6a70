package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** A planner's predicate for EXPLAIN: short, and much like SQL. */
public final class PredicateText {
  private static final int MOST_VALUES = 5;

  private PredicateText() {}

  public static String of(JsonNode node) {
    if (node == null) {
      return "no predicate";
    }
    for (String word : List.of("and", "or")) {
      if (node.has(word)) {
        List<String> parts = new ArrayList<>();
        node.get(word).forEach(part -> parts.add(part.has("and") || part.has("or") ? "(" + of(part) + ")" : of(part)));
        return String.join(" " + word.toUpperCase(Locale.ROOT) + " ", parts);
      }
    }
    if (node.has("not")) {
      return "NOT (" + of(node.get("not")) + ")";
    }
    List<String> path = new ArrayList<>();
    node.get("column").forEach(part -> path.add(part.asText()));
    String column = String.join(".", path);
    String op = node.get("op").asText();
    if (op.equals("in")) {
      List<String> values = new ArrayList<>();
      JsonNode all = node.get("values");
      for (int i = 0; i < all.size() && i < MOST_VALUES; i++) {
        values.add(shown(all.get(i)));
      }
      if (all.size() > MOST_VALUES) {
        values.add("… " + (all.size() - MOST_VALUES) + " more");
      }
      return column + " IN (" + String.join(", ", values) + ")";
    }
    String told = column + " " + op.toUpperCase(Locale.ROOT);
    return node.has("value") ? told + " " + shown(node.get("value")) : told;
  }

  private static String shown(JsonNode value) {
    String text = value.isTextual() ? value.asText() : value.toString();
    return text.length() > 40 ? text.substring(0, 40) + "…" : text;
  }
}
