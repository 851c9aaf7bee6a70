package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
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
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Translates literals for the planner, from Spark's internal form to JSON, and from JSON to SQL for EXPLAIN. {@code
 * pyspark_bloomparquet/jar/protocol.py} lists the types.
 */
public final class PlannerValue {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

  // Python's dates have the years 1 to 9999.
  private static final long FIRST_DAY = LocalDate.of(1, 1, 1).toEpochDay();
  private static final long LAST_DAY = LocalDate.of(9999, 12, 31).toEpochDay();
  private static final long MICROS_PER_DAY = 86_400_000_000L;

  private static final int MAX_VALUES = 5;
  private static final int MAX_TEXT = 40;
  private static final DateTimeFormatter CLOCK =
      new DateTimeFormatterBuilder()
          .appendPattern("uuuu-MM-dd HH:mm:ss")
          .appendFraction(ChronoField.MICRO_OF_SECOND, 0, 6, true)
          .toFormatter(Locale.ROOT);

  private PlannerValue() {}

  /** The planner's name of a type; null for a type that it cannot compare, or whose equal values may be stored as
   * different bytes. */
  public static String typeName(DataType type) {
    if (type instanceof BooleanType) {
      return "boolean";
    }
    if (type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof LongType) {
      return "int" + 8 * type.defaultSize();
    }
    if (type instanceof FloatType || type instanceof DoubleType) {
      return "float";
    }
    if (type instanceof DecimalType) {
      return "decimal";
    }
    // Not CHAR and VARCHAR, which are padded and trimmed. Not a collation, which makes unequal bytes equal.
    if (type.equals(DataTypes.StringType)) {
      return "string";
    }
    if (type instanceof BinaryType) {
      return "binary";
    }
    if (type instanceof DateType) {
      return "date";
    }
    if (type instanceof TimestampType) {
      return "timestamp";
    }
    return type instanceof TimestampNTZType ? "timestamp_ntz" : null;
  }

  /** The JSON of a value. SQL's NULL is JSON's null. Java's null stands for a value that Python cannot represent. */
  static JsonNode of(Object value, DataType type) {
    if (value == null) {
      return NullNode.instance;
    }
    if (value instanceof Boolean flag) {
      return JSON.booleanNode(flag);
    }
    if (type instanceof FloatType || type instanceof DoubleType) {
      return JSON.textNode(Double.toString(((Number) value).doubleValue()));
    }
    if (value instanceof Decimal decimal) {
      return JSON.textNode(decimal.toJavaBigDecimal().toPlainString());
    }
    if (value instanceof UTF8String text) {
      byte[] bytes = text.getBytes();
      try {
        // This decoder throws for invalid UTF-8. String's constructor would replace it.
        return JSON.textNode(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
      } catch (CharacterCodingException error) {
        return JSON.objectNode().put("base64", Base64.getEncoder().encodeToString(bytes));
      }
    }
    if (value instanceof byte[] bytes) {
      return JSON.textNode(Base64.getEncoder().encodeToString(bytes));
    }
    long number = ((Number) value).longValue();
    boolean isTimestamp = type instanceof TimestampType || type instanceof TimestampNTZType;
    long day = isTimestamp ? Math.floorDiv(number, MICROS_PER_DAY) : number;
    boolean fits = !(isTimestamp || type instanceof DateType) || (day >= FIRST_DAY && day <= LAST_DAY);
    return fits ? JSON.numberNode(number) : null;
  }

  /** SQL's literals for values in JSON, with long lists and long text shortened. */
  static String texts(List<JsonNode> all, String type) {
    List<String> values = new ArrayList<>();
    for (int i = 0; i < all.size() && i < MAX_VALUES; i++) {
      values.add(text(all.get(i), type));
    }
    if (all.size() > MAX_VALUES) {
      values.add("… " + (all.size() - MAX_VALUES) + " more");
    }
    return String.join(", ", values);
  }

  private static String text(JsonNode value, String type) {
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
