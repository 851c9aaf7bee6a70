package io.bloomparquet.spark.tables;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.planner.ReaderColumns;
import io.bloomparquet.spark.support.FileFormat;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The table of one of Iceberg's scans, at the snapshot and with the columns that are read. */
public final class IcebergTable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String SCANS = "org.apache.iceberg.spark.source.";

  /**
   * Scans that only read rows. Of others, such as {@code SparkCopyOnWriteScan}, what is not read is deleted, or is a change
   * of its own.
   */
  private static final Set<String> READ = Set.of(SCANS + "SparkBatchQueryScan", SCANS + "SparkIncrementalAppendScan");

  /** Field ids from here on are of metadata columns, such as {@code _pos} and {@code _row_id}. */
  private static final int FIRST_METADATA_ID = Integer.MAX_VALUE - 1000;

  private final ObjectNode table = JsonNodeFactory.instance.objectNode();
  private final StructType columns;

  /** @param scan that only reads rows of an Iceberg table */
  public IcebergTable(Scan scan) throws UnknownMemberException {
    Object iceberg = Members.call(scan, "table");
    Map<String, String> properties = Members.call(iceberg, "properties");
    String mapping = properties.get("schema.name-mapping.default");
    try {
      ArrayNode fields = fields(scan, identitySources(iceberg));
      Set<String> names = new HashSet<>();
      fields.forEach(each -> names.add(each.path("name").asText()));
      columns =
          new StructType(
              Arrays.stream(scan.readSchema().fields())
                  .filter(each -> names.contains(each.name()))
                  .toArray(StructField[]::new));
      String location = Members.call(iceberg, "location");
      table.put("kind", "iceberg").put("location", IcebergIo.of(Members.call(iceberg, "io")).path(location).toString());
      table.set("fields", fields);
      table.set("nameMapping", mapping == null ? null : JSON.readTree(mapping));
    } catch (JsonProcessingException error) {
      throw new UnknownMemberException(error.toString());
    }
  }

  public static boolean isScannedBy(Scan scan) {
    return scan.getClass().getName().startsWith(SCANS);
  }

  /** Whether {@code scan} only reads rows of an Iceberg table. */
  public static boolean isReadBy(Scan scan) {
    return READ.contains(scan.getClass().getName());
  }

  public String location() {
    return table.path("location").asText();
  }

  /** The columns that the planner may judge. */
  public ReaderColumns columns(SparkSession session) {
    return new ReaderColumns(session, FileFormat.PARQUET, columns, new StructType(), null, table);
  }

  /**
   * The columns of the scan that have the values of the files, in Iceberg's JSON. Left out are those of metadata; those by
   * whose values a spec partitions the table, as the partition's value goes before that of the file; those with a default,
   * which files may lack; and those of types that the planner does not know.
   */
  private static ArrayNode fields(Scan scan, Set<Integer> identitySources)
      throws UnknownMemberException, JsonProcessingException {
    Object schema = Members.call(scan, Members.has(scan, "projection") ? "projection" : "expectedSchema");
    Class<?> parser = Members.type(schema, "org.apache.iceberg.SchemaParser");
    String text = (String) Members.call(parser, null, "toJson", schema.getClass(), schema);
    ArrayNode fields = JsonNodeFactory.instance.arrayNode();
    for (JsonNode field : JSON.readTree(text).path("fields")) {
      if (field.path("id").asInt() < FIRST_METADATA_ID
          && field.findValues("id").stream().noneMatch(id -> identitySources.contains(id.asInt()))
          && field.findValue("initial-default") == null
          && isKnown(field.path("type"))) {
        fields.add(field);
      }
    }
    return fields;
  }

  private static Set<Integer> identitySources(Object iceberg) throws UnknownMemberException {
    Set<Integer> sources = new HashSet<>();
    for (Object spec : Members.<Map<Integer, Object>>call(iceberg, "specs").values()) {
      for (Object field : Members.<List<Object>>call(spec, "fields")) {
        if (Members.<Boolean>call(Members.call(field, "transform"), "isIdentity")) {
          sources.add(Members.call(field, "sourceId"));
        }
      }
    }
    return sources;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof IcebergTable that && table.equals(that.table);
  }

  @Override
  public int hashCode() {
    return table.hashCode();
  }

  private static boolean isKnown(JsonNode type) {
    if (type.isTextual()) {
      String name = type.asText();
      return !name.startsWith("geo") && !name.equals("variant") && !name.equals("unknown");
    }
    return switch (type.path("type").asText()) {
      case "struct" -> type.path("fields").findValues("type").stream().allMatch(IcebergTable::isKnown);
      case "list" -> isKnown(type.path("element"));
      case "map" -> isKnown(type.path("key")) && isKnown(type.path("value"));
      default -> false;
    };
  }
}
