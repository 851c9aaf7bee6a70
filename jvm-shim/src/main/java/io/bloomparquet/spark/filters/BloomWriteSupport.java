package io.bloomparquet.spark.filters;

import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.io.api.RecordConsumer;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's rows as Parquet's records; with a filter made of each column's values when a row group is finished, which is
 * when its values are counted and the size can be right.
 *
 * <p>parquet-java prepares for every row group before its first row, and finalizes after the last one of all.
 */
final class BloomWriteSupport extends ParquetWriteSupport {
  private static final Logger LOG = LoggerFactory.getLogger("bloomparquet");

  private final String file;
  private final FilterPlan plan;
  private HashingConsumer consumer;
  private RowGroupFilters filters;
  private int rowGroups;

  BloomWriteSupport(String file, FilterPlan plan) {
    this.file = file;
    this.plan = plan;
  }

  /** Names where the filters go, before the first row is written. */
  void writeTo(RowGroupFilters filters) {
    this.filters = filters;
  }

  @Override
  public WriteSupport.WriteContext init(Configuration configuration) {
    WriteSupport.WriteContext context = super.init(configuration);
    consumer = new HashingConsumer(context.getSchema(), plan);
    return context;
  }

  @Override
  public void prepareForWrite(RecordConsumer next) {
    finishRowGroup();
    consumer.startRowGroup(next);
    super.prepareForWrite(consumer);
  }

  @Override
  public WriteSupport.FinalizedWriteContext finalizeWrite() {
    finishRowGroup();
    for (FilteredColumn column : consumer.columns()) {
      String warning = column.warning(file, plan);
      if (warning != null) {
        LOG.warn(warning);
      }
    }
    return super.finalizeWrite();
  }

  private void finishRowGroup() {
    if (consumer.rows() == 0 || filters == null) {
      return;
    }
    rowGroups++;
    if (!filters.lastIs(rowGroups, consumer.rows())) {
      // A filter of other rows than those of its row group would hide them.
      LOG.warn(
          "{}: row group {} is not the one of {} rows that was written; it and those behind it get no Bloom filter",
          file,
          filters.finished(),
          consumer.rows());
      filters = null;
      return;
    }
    for (FilteredColumn column : consumer.columns()) {
      SplitBlocks filter = column.filter();
      if (filter != null) {
        filters.put(column.path(), filter);
      }
    }
  }
}
