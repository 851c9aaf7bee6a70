package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.support.FileFormat;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The columns of files, as Spark reads them. */
public final class ReaderColumns {
  /** Spark's mark of a column that was added with a default: files without it have that value, not nulls. */
  private static final String EXISTENCE_DEFAULT = "EXISTS_DEFAULT";

  private static final String CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING";

  private final FileFormat format;
  private final StructType schema;
  private final StructType partitions;
  private final String unplannableReason;
  private final ObjectNode table;
  private final boolean caseSensitive;

  /**
   * @param unplannableReason why columns cannot be matched, so that nothing is planned; null if they can
   * @param table whose log says which columns of files are these; null if their names do
   */
  public ReaderColumns(
      SparkSession session,
      FileFormat format,
      StructType schema,
      StructType partitions,
      String unplannableReason,
      ObjectNode table) {
    this.format = format;
    this.schema = schema;
    this.partitions = partitions;
    this.unplannableReason = unplannableReason;
    this.table = table;
    this.caseSensitive = session.sessionState().conf().caseSensitiveAnalysis();
  }

  FileFormat format() {
    return format;
  }

  String unplannableReason() {
    return unplannableReason;
  }

  /** The table as the planner knows it; null if columns are those of the files. */
  ObjectNode table() {
    return table;
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
  boolean arePartitions(Set<String> columns) {
    return !columns.isEmpty() && columns.stream().allMatch(column -> find(partitions, column) != null);
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
