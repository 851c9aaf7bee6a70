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
 * The filters that parquet-java keeps of each row group until it ends the file, where it writes them, encrypted if the
 * column is. It has no way in for filters that are not its own; so these are put where it keeps them, which is the same
 * in parquet-java 1.16 and 1.17.
 */
final class RowGroupFilters {
  private static final Logger LOG = LoggerFactory.getLogger("bloomparquet");

  /** How to get from a writer of records to what it keeps. */
  private record Way(Field records, Field file, Field rowGroups, Field filters) {
    static Way find() {
      try {
        Field records = ParquetRecordWriter.class.getDeclaredField("internalWriter");
        Field file = records.getType().getDeclaredField("parquetFileWriter");
        Field rowGroups = ParquetFileWriter.class.getDeclaredField("blocks");
        Field filters = ParquetFileWriter.class.getDeclaredField("bloomFilters");
        for (Field field : List.of(records, file, rowGroups, filters)) {
          field.setAccessible(true);
        }
        boolean known =
            file.getType() == ParquetFileWriter.class
                && rowGroups.getType() == List.class
                && filters.getGenericType().getTypeName()
                    .equals("java.util.List<java.util.Map<java.lang.String, " + BloomFilter.class.getName() + ">>");
        return known ? new Way(records, file, rowGroups, filters) : null;
      } catch (ReflectiveOperationException | RuntimeException error) {
        return null;
      }
    }
  }

  private static final Way WAY = Way.find();

  static {
    if (WAY == null) {
      LOG.warn(
          "this version of parquet-java is not known: its own adaptive Bloom filters are written, which take longer and "
              + "have 1 MiB at most unless parquet.bloom.filter.max.bytes says otherwise");
    }
  }

  private final List<?> rowGroups;
  private final List<Map<String, BloomFilter>> filters;

  @SuppressWarnings("unchecked") // what the field is declared as was looked at
  RowGroupFilters(RecordWriter<?, ?> writer) {
    try {
      Object file = WAY.file.get(WAY.records.get(writer));
      rowGroups = (List<?>) WAY.rowGroups.get(file);
      filters = (List<Map<String, BloomFilter>>) WAY.filters.get(file);
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Whether there is a way to what parquet-java keeps; if not, the log has said so once. */
  static boolean areReachable() {
    return WAY != null;
  }

  /** The number of row groups that are finished. */
  int finished() {
    return rowGroups.size();
  }

  /** Whether the row group that was finished last is of so many rows, and has a place for filters. */
  boolean lastIs(int number, long rows) {
    return rowGroups.size() == number
        && filters.size() == number
        && rowGroups.get(number - 1) instanceof BlockMetaData last
        && last.getRowCount() == rows;
  }

  /** Gives a column of the row group that was finished last its filter. */
  void put(String path, SplitBlocks filter) {
    filters.get(filters.size() - 1).put(path, new BlockSplitBloomFilter(filter.toBytes()));
  }
}
