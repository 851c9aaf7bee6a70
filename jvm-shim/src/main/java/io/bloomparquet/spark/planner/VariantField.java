package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.SparkVersions;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.variant.VariantGet;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * A field of a VARIANT column.
 *
 * @param path Spark's path of the field, such as {@code $.a['b.c']}
 * @param type what the field is cast to
 */
record VariantField(List<String> column, String path, DataType type) {
  /**
   * Spark's mark of the fields of a struct that stands for a VARIANT. Since 4.1, scans read only the fields that a query
   * asks for: {@code variant_get(v, '$.a', 'int')} becomes {@code v.`0`}, and the mark of the field 0 holds the path.
   */
  static final String MARK = "__VARIANT_METADATA_KEY";

  private static final String ROOT = "$";

  /** The field that {@code expression} reads; null if it reads something else. */
  static VariantField of(Expression expression) {
    if (expression instanceof VariantGet get) {
      VariantField outer = of(get.left());
      boolean isPath = get.right() instanceof Literal literal && literal.value() != null;
      String inner = isPath ? ((Literal) get.right()).value().toString() : "";
      return outer != null && SparkVersions.isVariant(outer.type) && inner.startsWith(ROOT)
          ? new VariantField(outer.column, outer.path + inner.substring(ROOT.length()), get.dataType())
          : null;
    }
    if (expression instanceof Cast cast && SparkVersions.isVariant(cast.child().dataType())) {
      VariantField field = of(cast.child());
      return field == null ? null : new VariantField(field.column, field.path, cast.dataType());
    }
    if (expression instanceof GetStructField get) {
      StructField field = ((StructType) get.child().dataType()).fields()[get.ordinal()];
      if (field.metadata().contains(MARK)) {
        List<String> column = ConditionTranslator.path(get.child());
        String path = field.metadata().getMetadata(MARK).getString("path");
        return column == null ? null : new VariantField(column, path, field.dataType());
      }
    }
    List<String> column = SparkVersions.isVariant(expression.dataType()) ? ConditionTranslator.path(expression) : null;
    return column == null ? null : new VariantField(column, ROOT, expression.dataType());
  }
}
