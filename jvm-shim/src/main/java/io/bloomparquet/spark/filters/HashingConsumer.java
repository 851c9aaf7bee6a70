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

/** Passes records on to parquet-java, and what is in the columns that get a filter to these. */
final class HashingConsumer extends RecordConsumer {
  /** Where in the schema a record is. */
  private record Place(Place above, Place[] below, FilteredColumn column) {}

  private final List<FilteredColumn> columns = new ArrayList<>();
  private RecordConsumer next;
  private Place place;
  private long rows;

  HashingConsumer(MessageType schema, FilterPlan plan) {
    // parquet-java knows the filters of a row group by such paths, and confuses those of columns that share one.
    Map<String, Integer> paths = new HashMap<>();
    for (ColumnDescriptor column : schema.getColumns()) {
      paths.merge(String.join(".", column.getPath()), 1, Integer::sum);
    }
    Map<String, FilterPlan.Column> planned = new HashMap<>(plan.columns());
    planned.keySet().removeIf(path -> paths.getOrDefault(path, 0) != 1);
    place = place(schema, null, "", planned, plan.maxBytes());
  }

  private Place place(
      Type type, Place above, String path, Map<String, FilterPlan.Column> planned, int maxBytes) {
    if (type.isPrimitive()) {
      FilterPlan.Column column = planned.get(path);
      if (column == null) {
        return new Place(above, null, null);
      }
      FilteredColumn found = new FilteredColumn(path, column, maxBytes);
      columns.add(found);
      return new Place(above, null, found);
    }
    GroupType group = type.asGroupType();
    Place found = new Place(above, new Place[group.getFieldCount()], null);
    for (int i = 0; i < group.getFieldCount(); i++) {
      String name = group.getFieldName(i);
      found.below[i] = place(group.getType(i), found, path.isEmpty() ? name : path + "." + name, planned, maxBytes);
    }
    return found;
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
    place = place.below[index];
  }

  @Override
  public void endField(String field, int index) {
    next.endField(field, index);
    place = place.above;
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
    if (place.column != null) {
      place.column.add(value);
    }
  }

  @Override
  public void addLong(long value) {
    next.addLong(value);
    if (place.column != null) {
      place.column.add(value);
    }
  }

  @Override
  public void addBoolean(boolean value) {
    next.addBoolean(value);
  }

  @Override
  public void addBinary(Binary value) {
    next.addBinary(value);
    if (place.column != null) {
      place.column.add(value);
    }
  }

  @Override
  public void addFloat(float value) {
    next.addFloat(value);
    if (place.column != null) {
      place.column.add(value);
    }
  }

  @Override
  public void addDouble(double value) {
    next.addDouble(value);
    if (place.column != null) {
      place.column.add(value);
    }
  }

  @Override
  public void flush() {
    next.flush();
  }
}
