package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;

/** Formats a planner predicate for EXPLAIN as SQL, with long lists and long text shortened. */
public final class PredicateText {
  private static final int MAX_VALUES = 5;
  private static final int MAX_TEXT = 40;
  private static final DateTimeFormatter CLOCK =
      new DateTimeFormatterBuilder()
          .appendPattern("uuuu-MM-dd HH:mm:ss")
          .appendFraction(ChronoField.MICRO_OF_SECOND, 0, 6, true)
          .toFormatter(Locale.ROOT);

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
    if (node.has("sql")) {
      return node.get("sql").asText();
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
    String type = node.path("type").asText();
    if (op.equals("in")) {
      return column + " IN (" + valueTexts(node.get("values"), type) + ")";
    }
    if (op.equals("contains")) {
      String part = node.get("part").asText();
      String array = part.equals("element") ? column : "map_" + part + "s(" + column + ")";
      return "arrays_overlap(" + array + ", array(" + valueTexts(node.get("values"), type) + "))";
    }
    if (op.equals("starts with")) {
      return "startswith(" + column + ", " + valueText(node.get("value"), type) + ")";
    }
    String text = column + " " + op.toUpperCase(Locale.ROOT);
    return node.has("value") ? text + " " + valueText(node.get("value"), type) : text;
  }

  private static String valueTexts(JsonNode all, String type) {
    List<String> values = new ArrayList<>();
    for (int i = 0; i < all.size() && i < MAX_VALUES; i++) {
      values.add(valueText(all.get(i), type));
    }
    if (all.size() > MAX_VALUES) {
      values.add("… " + (all.size() - MAX_VALUES) + " more");
    }
    return String.join(", ", values);
  }

  private static String valueText(JsonNode value, String type) {
    if (value.isNull()) {
      return "NULL";
    }
    if (value.has("base64")) { // a string that is not UTF-8
      return hex(value.get("base64").asText());
    }
    String text = value.asText();
    return switch (type) {
      case "string" -> "'" + shorten(text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")) + "'";
      case "binary" -> hex(text);
      case "boolean" -> text.toUpperCase(Locale.ROOT);
      case "decimal" -> text.contains(".") ? text : text + "BD";
      case "float" -> Character.isLetter(text.charAt(text.length() - 1)) ? "double('" + text + "')" : text + "D";
      case "date" -> "DATE '" + LocalDate.ofEpochDay(value.asLong()) + "'";
      case "timestamp" -> "TIMESTAMP '" + clock(value.asLong()) + "+00:00'";
      case "timestamp_ntz" -> "TIMESTAMP_NTZ '" + clock(value.asLong()) + "'";
      default -> text;
    };
  }

  private static String clock(long micros) {
    Instant instant = Instant.EPOCH.plus(micros, ChronoUnit.MICROS);
    return CLOCK.format(LocalDateTime.ofInstant(instant, ZoneOffset.UTC));
  }

  private static String hex(String base64) {
    return "X'" + shorten(HexFormat.of().formatHex(Base64.getDecoder().decode(base64))) + "'";
  }

  private static String shorten(String text) {
    return text.length() > MAX_TEXT ? text.substring(0, MAX_TEXT) + "…" : text;
  }
}
