package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.support.Scala;
import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.execution.datasources.FileFormat$;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The hidden column {@code _metadata} with the file of each row and the row's index in it. Spark has it for files that
 * it reads through V1 data sources only.
 *
 * @param fields the fields that the query reads
 */
record FileMetadata(StructType fields) implements Serializable {
  static final String NAME = FileFormat$.MODULE$.METADATA_NAME();

  private static final String ROW_INDEX = ParquetFileFormat.ROW_INDEX();

  /** The column by which Spark's Parquet reader returns row indexes. */
  private static final StructField ROW_INDEX_READ =
      new StructField(
          ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME(),
          DataTypes.LongType,
          true,
          org.apache.spark.sql.types.Metadata.empty());

  static MetadataColumn[] columns(FileFormat format) {
    StructField[] all =
        Scala.list(format.metadataSchemaFields()).stream()
            .map(field -> DataTypes.createStructField(field.name(), field.dataType(), field.nullable()))
            .toArray(StructField[]::new);
    return new MetadataColumn[] {
      new MetadataColumn() {
        @Override
        public String name() {
          return NAME;
        }

        @Override
        public DataType dataType() {
          return new StructType(all);
        }

        @Override
        public boolean isNullable() {
          return false;
        }
      }
    };
  }

  /** The metadata column among {@code requested}; null if it is not, or if the table has a column of that name. */
  static FileMetadata in(StructType requested, StructType table) {
    boolean own = Arrays.asList(table.fieldNames()).contains(NAME);
    return own || !Arrays.asList(requested.fieldNames()).contains(NAME)
        ? null
        : new FileMetadata((StructType) requested.apply(NAME).dataType());
  }

  static StructType without(StructType requested) {
    return new StructType(
        Arrays.stream(requested.fields()).filter(field -> !field.name().equals(NAME)).toArray(StructField[]::new));
  }

  /** {@code columns}, and the row index if it must be read. */
  StructType withRead(StructType columns) {
    return hasRowIndex() ? columns.add(ROW_INDEX_READ) : columns;
  }

  StructField column() {
    return DataTypes.createStructField(NAME, fields, false);
  }

  /** The column that the reader returns for the field; null for a field that depends on the file only. */
  String readAs(String field) {
    return field.equals(ROW_INDEX) ? ROW_INDEX_READ.name() : null;
  }

  private boolean hasRowIndex() {
    return Arrays.asList(fields.fieldNames()).contains(ROW_INDEX);
  }

  /** The values that depend on the file, in the order of the fields; null for a field that is read. */
  InternalRow valuesOf(PartitionedFile file) {
    Object[] values =
        Arrays.stream(fields.fieldNames())
            .map(
                name ->
                    readAs(name) != null
                        ? null
                        : CatalystTypeConverters.convertToCatalyst(
                            FileFormat$.MODULE$.BASE_METADATA_EXTRACTORS().apply(name).apply(file)))
            .toArray();
    return new GenericInternalRow(values);
  }

  /** The file of the partition that is being read; {@code before} is a guess, or null. */
  static PartitionedFile current(FilePartition partition, PartitionedFile before) {
    long start = InputFileBlockHolder.getStartOffset();
    String path = InputFileBlockHolder.getInputFilePath().toString();
    if (before != null && before.start() == start && before.urlEncodedPath().equals(path)) {
      return before;
    }
    List<PartitionedFile> files = Arrays.asList(partition.files());
    return files.stream()
        .filter(file -> file.start() == start && file.urlEncodedPath().equals(path))
        .findFirst()
        .orElseThrow(() -> new IllegalStateException("reading " + path + ", which is none of " + files));
  }
}
