package io.bloomparquet.spark.filters;

import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.io.api.RecordConsumer;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's write support, which also makes the filters of each row group when it is complete: only then the number of
 * distinct values is known, and with it the right size.
 *
 * <p>parquet-java calls {@code prepareForWrite} before each row group, and {@code finalizeWrite} at the end.
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

  /** Must be called before the first row. */
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
      // A filter at the wrong row group would hide matching rows.
      LOG.warn(
          "{}: row group {} does not have the {} rows that were written to it; it and later ones get no Bloom filter",
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
