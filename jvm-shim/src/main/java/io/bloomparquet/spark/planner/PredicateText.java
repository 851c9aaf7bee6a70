package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Formats a planner predicate for EXPLAIN. The text is not valid SQL: strings are not quoted. */
public final class PredicateText {
  private static final int MAX_VALUES = 5;

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
    String name = String.join(".", path);
    String column = node.has("case") ? node.get("case").asText() + "(" + name + ")" : name;
    if (node.has("variant")) {
      JsonNode field = node.get("variant");
      column = "variant_get(" + name + ", " + field.get("path").asText() + ", " + field.get("type").asText() + ")";
    }
    String op = node.get("op").asText();
    if (op.equals("in")) {
      return column + " IN (" + valueTexts(node.get("values")) + ")";
    }
    if (op.equals("contains")) {
      String part = node.get("part").asText();
      String array = part.equals("element") ? column : "map_" + part + "s(" + column + ")";
      return "arrays_overlap(" + array + ", array(" + valueTexts(node.get("values")) + "))";
    }
    String text = column + " " + op.toUpperCase(Locale.ROOT);
    return node.has("value") ? text + " " + valueText(node.get("value")) : text;
  }

  private static String valueTexts(JsonNode all) {
    List<String> values = new ArrayList<>();
    for (int i = 0; i < all.size() && i < MAX_VALUES; i++) {
      values.add(valueText(all.get(i)));
    }
    if (all.size() > MAX_VALUES) {
      values.add("… " + (all.size() - MAX_VALUES) + " more");
    }
    return String.join(", ", values);
  }

  private static String valueText(JsonNode value) {
    String text = value.isTextual() ? value.asText() : value.toString();
    return text.length() > 40 ? text.substring(0, 40) + "…" : text;
  }
}
