package io.bloomparquet.spark.filters;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.io.api.RecordConsumer;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;

/** Passes records on to parquet-java, and the values of columns with a filter to {@link FilteredColumn}. */
final class HashingConsumer extends RecordConsumer {
  /** A field of the schema. {@code children} is null for a leaf, {@code column} for a field without a filter. */
  private record Field(Field parent, Field[] children, FilteredColumn column) {}

  private final List<FilteredColumn> columns = new ArrayList<>();
  private RecordConsumer next;
  private Field current;
  private long rows;

  HashingConsumer(MessageType schema, FilterPlan plan) {
    // parquet-java keys the filters of a row group by this path, so columns that share one path get no filter.
    Map<String, Integer> paths = new HashMap<>();
    for (ColumnDescriptor column : schema.getColumns()) {
      paths.merge(String.join(".", column.getPath()), 1, Integer::sum);
    }
    Map<String, FilterPlan.Column> chosen = new HashMap<>(plan.columns());
    chosen.keySet().removeIf(path -> paths.getOrDefault(path, 0) != 1);
    current = field(schema, null, "", chosen, plan.maxBytes());
  }

  private Field field(
      Type type, Field parent, String path, Map<String, FilterPlan.Column> chosen, int maxBytes) {
    if (type.isPrimitive()) {
      FilterPlan.Column column = chosen.get(path);
      if (column == null) {
        return new Field(parent, null, null);
      }
      FilteredColumn filtered = new FilteredColumn(path, column, maxBytes);
      columns.add(filtered);
      return new Field(parent, null, filtered);
    }
    GroupType group = type.asGroupType();
    Field field = new Field(parent, new Field[group.getFieldCount()], null);
    for (int i = 0; i < group.getFieldCount(); i++) {
      String name = group.getFieldName(i);
      field.children[i] = field(group.getType(i), field, path.isEmpty() ? name : path + "." + name, chosen, maxBytes);
    }
    return field;
  }

  List<FilteredColumn> columns() {
    return columns;
  }

  /** The number of records since {@link #startRowGroup}. */
  long rows() {
    return rows;
  }

  void startRowGroup(RecordConsumer next) {
    this.next = next;
    rows = 0;
    columns.forEach(FilteredColumn::clear);
  }

  @Override
  public void startMessage() {
    next.startMessage();
  }

  @Override
  public void endMessage() {
    next.endMessage();
    rows++;
  }

  @Override
  public void startField(String field, int index) {
    next.startField(field, index);
    current = current.children[index];
  }

  @Override
  public void endField(String field, int index) {
    next.endField(field, index);
    current = current.parent;
  }

  @Override
  public void startGroup() {
    next.startGroup();
  }

  @Override
  public void endGroup() {
    next.endGroup();
  }

  @Override
  public void addInteger(int value) {
    next.addInteger(value);
    if (current.column != null) {
      current.column.add(value);
    }
  }

  @Override
  public void addLong(long value) {
    next.addLong(value);
    if (current.column != null) {
      current.column.add(value);
    }
  }

  @Override
  public void addBoolean(boolean value) {
    next.addBoolean(value);
  }

  @Override
  public void addBinary(Binary value) {
    next.addBinary(value);
    if (current.column != null) {
      current.column.add(value);
    }
  }

  @Override
  public void addFloat(float value) {
    next.addFloat(value);
    if (current.column != null) {
      current.column.add(value);
    }
  }

  @Override
  public void addDouble(double value) {
    next.addDouble(value);
    if (current.column != null) {
      current.column.add(value);
    }
  }

  @Override
  public void flush() {
    next.flush();
  }
}
