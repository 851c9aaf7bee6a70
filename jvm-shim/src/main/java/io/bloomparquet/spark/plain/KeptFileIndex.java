package io.bloomparquet.spark.plain;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** The kept files of Spark's file index. Lists all of them, whatever the filters: the scan's are already applied. */
record KeptFileIndex(FileIndex all, Seq<PartitionDirectory> kept) implements FileIndex {

  @Override
  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    return kept;
  }

  @Override
  public Seq<Path> rootPaths() {
    return all.rootPaths();
  }

  @Override
  public String[] inputFiles() {
    return all.inputFiles();
  }

  @Override
  public void refresh() {
    all.refresh();
  }

  @Override
  public long sizeInBytes() {
    return all.sizeInBytes();
  }

  @Override
  public StructType partitionSchema() {
    return all.partitionSchema();
  }
}
