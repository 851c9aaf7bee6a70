package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SparkVersions;
import io.bloomparquet.spark.tables.DeltaTable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.parquet.hadoop.ParquetInputFormat;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.BucketingUtils$;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.Option;

/**
 * The files that one of Spark's scans reads. Partition pruning, dynamic partition pruning and bucket pruning are
 * already applied. A path may be listed twice; then its rows are read twice.
 */
final class ScannedFiles {
  private final FileSourceScanExec scan;
  private final List<FileStatusWithMetadata> files = new ArrayList<>();
  private final List<Directory> directories = new ArrayList<>();
  private final FileListing listing;

  /** @param end the position after the directory's last file */
  private record Directory(InternalRow values, int end) {}

  /** @param scan whose subqueries have run */
  ScannedFiles(FileSourceScanExec scan) {
    this.scan = scan;
    boolean hasPrunedBuckets = scan.optionalBucketSet().isDefined() && usesBuckets(scan);
    SparkVersions.forEachDirectory(
        scan,
        (values, listed) -> {
          while (listed.hasNext()) {
            FileStatusWithMetadata file = listed.next();
            if (!hasPrunedBuckets || !isInPrunedBucket(file)) {
              files.add(file);
            }
          }
          directories.add(new Directory(values, files.size()));
        });
    listing =
        DeltaTable.isScannedBy(scan.relation())
            ? FileListing.ofTable(files.stream().map(FileStatusWithMetadata::fileStatus).toList(), null, null)
            : FileListing.of(files);
  }

  private static boolean usesBuckets(FileSourceScanExec scan) {
    return scan.bucketedScan() || scan.relation().sparkSession().sessionState().conf().bucketingEnabled();
  }

  private boolean isInPrunedBucket(FileStatusWithMetadata file) {
    Option<Object> bucket = BucketingUtils$.MODULE$.getBucketId(file.getPath().getName());
    return bucket.isDefined() && !scan.optionalBucketSet().get().get((Integer) bucket.get());
  }

  FileListing listing() {
    return listing;
  }

  /** Spark's scan of the files that {@code plan} keeps, in the versions that were planned. */
  KeptFiles kept(PlanResult plan) {
    List<PartitionDirectory> kept = new ArrayList<>();
    Map<FileVersion, Integer> positions = new IdentityHashMap<>();
    int file = 0;
    int range = 0;
    for (Directory directory : directories) {
      List<FileStatusWithMetadata> some = new ArrayList<>();
      for (; file < directory.end; file++) {
        if (range == plan.ranges() || plan.file(range) != file) {
          continue;
        }
        FileVersion version = listing.version(file, plan);
        positions.put(version, file);
        some.add(version.applyTo(files.get(file)));
        while (range < plan.ranges() && plan.file(range) == file) {
          range++;
        }
      }
      kept.add(new PartitionDirectory(directory.values, Scala.seq(some)));
    }
    return new KeptFiles(scanOf(kept, plan.filtersDecided()), positions);
  }

  /**
   * A copy of the scan that reads only these files. The planner has asked their Bloom filters already. Where these
   * decided, dictionaries would hardly exclude more: each is another request.
   */
  private FileSourceScanExec scanOf(List<PartitionDirectory> kept, boolean filtersDecided) {
    HadoopFsRelation all = scan.relation();
    Map<String, String> options = new HashMap<>(Scala.map(all.options()));
    options.put(ParquetInputFormat.BLOOM_FILTERING_ENABLED, "false");
    if (filtersDecided) {
      options.put(ParquetInputFormat.DICTIONARY_FILTERING_ENABLED, "false");
    }
    HadoopFsRelation relation =
        new HadoopFsRelation(
            new KeptFileIndex(all.location(), Scala.seq(kept)),
            all.partitionSchema(),
            all.dataSchema(),
            all.bucketSpec(),
            all.fileFormat(),
            Scala.map(options),
            all.sparkSession());
    return (FileSourceScanExec) SparkVersions.copy(scan, all, relation);
  }
}
