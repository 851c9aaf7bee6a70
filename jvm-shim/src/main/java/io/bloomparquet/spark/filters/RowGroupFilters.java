package io.bloomparquet.spark.filters;

import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.parquet.column.values.bloomfilter.BlockSplitBloomFilter;
import org.apache.parquet.column.values.bloomfilter.BloomFilter;
import org.apache.parquet.hadoop.ParquetFileWriter;
import org.apache.parquet.hadoop.ParquetRecordWriter;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Adds filters to the list that parquet-java keeps of each row group, and writes at the end of the file, encrypted if
 * the column is. It has no interface for that, so private fields are read by reflection. They are the same in
 * parquet-java 1.16 and 1.17.
 */
final class RowGroupFilters {
  private static final Logger LOG = LoggerFactory.getLogger("bloomparquet");

  /** The private fields, on the way from a record writer to the filters. */
  private record Fields(Field records, Field file, Field rowGroups, Field filters) {
    static Fields find() {
      try {
        Field records = ParquetRecordWriter.class.getDeclaredField("internalWriter");
        Field file = records.getType().getDeclaredField("parquetFileWriter");
        Field rowGroups = ParquetFileWriter.class.getDeclaredField("blocks");
        Field filters = ParquetFileWriter.class.getDeclaredField("bloomFilters");
        for (Field field : List.of(records, file, rowGroups, filters)) {
          field.setAccessible(true);
        }
        boolean isSupported =
            file.getType() == ParquetFileWriter.class
                && rowGroups.getType() == List.class
                && filters.getGenericType().getTypeName()
                    .equals("java.util.List<java.util.Map<java.lang.String, " + BloomFilter.class.getName() + ">>");
        return isSupported ? new Fields(records, file, rowGroups, filters) : null;
      } catch (ReflectiveOperationException | RuntimeException error) {
        return null;
      }
    }
  }

  private static final Fields FIELDS = Fields.find();

  static {
    if (FIELDS == null) {
      LOG.warn(
          "this version of parquet-java is not supported: its own adaptive Bloom filters are written, which take "
              + "longer and have at most 1 MiB unless parquet.bloom.filter.max.bytes is larger");
    }
  }

  private final List<?> rowGroups;
  private final List<Map<String, BloomFilter>> filters;

  @SuppressWarnings("unchecked") // Fields.find() checked the declared type
  RowGroupFilters(RecordWriter<?, ?> writer) {
    try {
      Object file = FIELDS.file.get(FIELDS.records.get(writer));
      rowGroups = (List<?>) FIELDS.rowGroups.get(file);
      filters = (List<Map<String, BloomFilter>>) FIELDS.filters.get(file);
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Whether this version of parquet-java has these fields. If not, that was logged once. */
  static boolean isSupported() {
    return FIELDS != null;
  }

  /** The number of finished row groups. */
  int finished() {
    return rowGroups.size();
  }

  /** Whether {@code number} row groups are finished, the last one with {@code rows} rows and a map for filters. */
  boolean lastIs(int number, long rows) {
    return rowGroups.size() == number
        && filters.size() == number
        && rowGroups.get(number - 1) instanceof BlockMetaData last
        && last.getRowCount() == rows;
  }

  /** Adds the filter of a column to the row group that was finished last. */
  void put(String path, SplitBlocks filter) {
    filters.get(filters.size() - 1).put(path, new BlockSplitBloomFilter(filter.toBytes()));
  }
}
