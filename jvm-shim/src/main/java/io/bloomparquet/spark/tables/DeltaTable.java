package io.bloomparquet.spark.tables;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.planner.PlannerValue;
import io.bloomparquet.spark.planner.ReaderColumns;
import io.bloomparquet.spark.planner.ReaderSettings;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import java.util.Arrays;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Scans of Delta Lake tables, which Spark's own reader of Parquet reads. */
public final class DeltaTable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String PACKAGE = "org.apache.spark.sql.delta.";

  /** Not a subclass: it may read other rows than the files hold. */
  private static final String FORMAT = PACKAGE + "DeltaParquetFileFormat";

  private static final String STRATEGY = PACKAGE + "PreprocessTableWithDVsStrategy";

  /** Columns that Delta's reader makes. They are in the relation's schema, and in no file. */
  private static final String INTERNAL = "__delta_internal_";

  private DeltaTable() {}

  public static boolean isScannedBy(HadoopFsRelation relation) {
    return relation.fileFormat().getClass().getName().equals(FORMAT)
        && relation.location().getClass().getName().startsWith(PACKAGE);
  }

  /** Whether a part of a file may be read alone. Delta may count the deleted rows from the start of the part that is read. */
  public static boolean readsParts(HadoopFsRelation relation) {
    return relation.fileFormat().isSplitable(relation.sparkSession(), relation.options(), new Path("/"));
  }

  public static boolean isInternal(Attribute column) {
    return column.name().startsWith(INTERNAL);
  }

  /**
   * Plans as Delta does, whose strategy adds the filter of deleted rows. It runs jobs of its own, so it must not be asked
   * twice.
   */
  public static Seq<SparkPlan> plan(LogicalPlan plan) {
    for (var each : Scala.list(SparkSession.active().sessionState().planner().strategies())) {
      if (each.getClass().getName().equals(STRATEGY)) {
        return each.apply(plan);
      }
    }
    return FileSourceStrategy$.MODULE$.apply(plan);
  }

  /** The columns of the log. A relation has others, for changes or deleted rows for example. */
  public static ReaderColumns columns(HadoopFsRelation relation) {
    SparkSession session = relation.sparkSession();
    try {
      StructType logged = Members.call(relation.fileFormat(), "referenceSchema");
      String mapping = Members.call(Members.<Object>call(relation.fileFormat(), "columnMappingMode"), "name");
      boolean isMapped = !mapping.equals("none");
      StructType known = filter(logged, each -> !isMapped || isKnown(each.dataType()));
      Set<String> names = Arrays.stream(known.fields()).map(StructField::name).collect(Collectors.toSet());
      StructType columns = filter(relation.schema(), each -> names.contains(each.name()));
      ObjectNode table = JsonNodeFactory.instance.objectNode().put("kind", "delta").put("mapping", mapping);
      table.put("location", relation.location().rootPaths().apply(0).toString());
      table.set("fields", isMapped ? JSON.readTree(known.json()).path("fields") : null);
      String reason =
          isMapped
              ? null
              : ReaderSettings.unplannableReason(session, FileFormat.PARQUET, columns, relation.options());
      return new ReaderColumns(
          session, FileFormat.PARQUET, columns, relation.partitionSchema(), reason, table);
    } catch (UnknownMemberException | JsonProcessingException error) {
      StructType none = new StructType();
      return new ReaderColumns(session, FileFormat.PARQUET, none, none, error.getMessage(), null);
    }
  }

  private static StructType filter(StructType type, Predicate<StructField> isKept) {
    return new StructType(Arrays.stream(type.fields()).filter(isKept).toArray(StructField[]::new));
  }

  /** Whether the planner knows the columns of files that have this type in the table. */
  private static boolean isKnown(DataType type) {
    if (type instanceof StructType struct) {
      return Arrays.stream(struct.fields()).allMatch(each -> isKnown(each.dataType()));
    }
    if (type instanceof MapType map) {
      return isKnown(map.keyType()) && isKnown(map.valueType());
    }
    return type instanceof ArrayType list ? isKnown(list.elementType()) : PlannerValue.typeName(type) != null;
  }
}
