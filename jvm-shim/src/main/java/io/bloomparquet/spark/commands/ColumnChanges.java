package io.bloomparquet.spark.commands;

import io.bloomparquet.spark.scan.PrunedTable;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.Thrown;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.AddColumns;
import org.apache.spark.sql.catalyst.plans.logical.AlterColumns;
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.DropColumns;
import org.apache.spark.sql.catalyst.plans.logical.RenameColumn;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceColumns;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils$;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Refuses the column changes that Spark refuses for its built-in file tables. The files do not change with the catalog:
 * a renamed column would be NULL, and a column of another type an error.
 */
final class ColumnChanges {
  private final ResolvedTable table;
  private final PrunedTable files;

  private ColumnChanges(ResolvedTable table, PrunedTable files) {
    this.table = table;
    this.files = files;
  }

  /** Throws Spark's error if {@code command} is on one of our tables and not allowed. */
  static void check(AlterTableCommand command) {
    if (command.table() instanceof ResolvedTable table && table.table() instanceof PrunedTable files) {
      new ColumnChanges(table, files).checkThat(command);
    }
  }

  private void checkThat(AlterTableCommand command) {
    if (command instanceof RenameColumn) {
      throw unsupported("RENAME COLUMN");
    } else if (command instanceof DropColumns) {
      throw unsupported("DROP COLUMN");
    } else if (command instanceof ReplaceColumns) {
      throw unsupported("REPLACE COLUMNS");
    } else if (command instanceof AddColumns) {
      Scala.list(command.changes()).forEach(change -> checkAdded((TableChange.AddColumn) change));
    } else if (command instanceof AlterColumns) {
      List<TableChange> changes = Scala.list(command.changes());
      if (changes.stream().map(each -> List.of(column(each).fieldNames())).distinct().count() > 1) {
        throw unsupported("ALTER COLUMN in bulk");
      }
      changes.forEach(change -> checkAltered(column(change)));
    }
  }

  private void checkAdded(TableChange.AddColumn column) {
    if (column.fieldNames().length > 1) {
      throw unsupported("ADD COLUMN with qualified column");
    }
    if (!column.isNullable()) {
      throw Thrown.unchecked(QueryCompilationErrors$.MODULE$.addColumnWithV1TableCannotSpecifyNotNullError());
    }
    if (column.position() instanceof TableChange.After after && isPartition(after.column())) {
      throw unsupported("ADD COLUMN after a partition column");
    }
    if (!files.supportsDataType(column.dataType())) {
      throw Thrown.unchecked(
          QueryCompilationErrors$.MODULE$.dataTypeUnsupportedByDataSourceError(
              files.formatName(),
              new StructField(column.fieldNames()[0], column.dataType(), true, Metadata.empty())));
    }
  }

  private void checkAltered(TableChange.ColumnChange change) {
    if (change.fieldNames().length > 1) {
      throw unsupported("ALTER COLUMN with qualified column");
    }
    if (change instanceof TableChange.UpdateColumnNullability) {
      throw unsupported("ALTER COLUMN ... SET NOT NULL");
    }
    if (change instanceof TableChange.UpdateColumnPosition) {
      throw unsupported("ALTER COLUMN ... FIRST | ALTER");
    }
    String name = change.fieldNames()[0];
    if (isPartition(name)) {
      throw Thrown.unchecked(QueryCompilationErrors$.MODULE$.cannotAlterPartitionColumn(tableName(), name));
    }
    if (change instanceof TableChange.UpdateColumnType update) {
      StructType schema = files.schema();
      Option<Object> index = schema.getFieldIndex(name);
      StructField field = index.isDefined() ? schema.apply((int) index.get()) : null;
      if (field == null || !isSame(declared(field), update.newDataType())) {
        throw typeChange(name, field, update.newDataType());
      }
    }
  }

  private RuntimeException typeChange(String name, StructField field, DataType type) {
    StructField changed = new StructField(name, type, true, Metadata.empty());
    return Thrown.unchecked(
        QueryCompilationErrors$.MODULE$.alterTableChangeColumnNotSupportedForColumnTypeError(
            tableName(), field == null ? changed : field, changed, table.origin()));
  }

  /** The type with the length of CHAR and VARCHAR, which Spark keeps in the metadata. */
  private static DataType declared(StructField field) {
    return CharVarcharUtils$.MODULE$.getRawType(field.metadata()).getOrElse(field::dataType);
  }

  /** The collation of a string may change: files have none. */
  private static boolean isSame(DataType one, DataType other) {
    return one.equals(other)
        || (one instanceof StringType
            && withoutCollations(one.catalogString()).equals(withoutCollations(other.catalogString())));
  }

  private static String withoutCollations(String type) {
    return type.replaceAll(" collate \\w+", "");
  }

  private boolean isPartition(String name) {
    return Arrays.stream(files.partitioning())
        .flatMap(transform -> Arrays.stream(transform.references()))
        .anyMatch(column -> column.fieldNames()[0].equalsIgnoreCase(name));
  }

  private static TableChange.ColumnChange column(TableChange change) {
    return (TableChange.ColumnChange) change;
  }

  private String tableName() {
    return table.catalog().name() + "." + String.join(".", table.identifier().namespace()) + "." + table.identifier().name();
  }

  private RuntimeException unsupported(String operation) {
    return Thrown.unchecked(
        QueryCompilationErrors$.MODULE$.unsupportedTableOperationError(table.catalog(), table.identifier(), operation));
  }
}
