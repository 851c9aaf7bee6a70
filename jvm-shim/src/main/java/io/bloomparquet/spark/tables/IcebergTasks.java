package io.bloomparquet.spark.tables;

import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.support.Scala;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.Partition;
import scala.Option;
import scala.collection.immutable.Seq;

/** The scan tasks in the partitions of one of Iceberg's scans. A task reads a file, or a part of one. */
public final class IcebergTasks {
  private static final String INPUT = "org.apache.iceberg.spark.source.SparkInputPartition";

  /** Of one task. Each part opens the file again. */
  private static final int MAX_PARTS = 32;

  private final Partition[] partitions;
  private final Map<Object, Integer> fileOf = new IdentityHashMap<>(); // the position in the listing, by task
  private final List<FileStatus> files = new ArrayList<>();
  private IcebergIo io;

  /** @param partitions of the scan's RDD */
  public IcebergTasks(Partition[] partitions) throws UnknownMemberException {
    this.partitions = partitions;
    Map<String, Integer> positions = new HashMap<>(); // by location
    for (Partition partition : partitions) {
      for (Object input : inputs(partition)) {
        for (Object task : tasks(input)) {
          io = io == null ? IcebergIo.of(Members.call(input, "io")) : io;
          if (isPlannable(task)) {
            Object file = Members.call(task, "file");
            String location = Members.call(file, "location");
            fileOf.put(task, positions.computeIfAbsent(location, each -> positions.size()));
            if (positions.size() > files.size()) {
              long size = Members.<Long>call(file, "fileSizeInBytes");
              files.add(new FileStatus(size, false, 1, 1, 0, io.path(location)));
            }
          }
        }
      }
    }
  }

  /** The files that the planner can open. */
  public FileListing listing() {
    return io == null
        ? FileListing.ofTable(List.of(), null, null)
        : FileListing.ofTable(files, io.opener(), io.conf());
  }

  /**
   * The partitions with only what is kept of their tasks.
   *
   * @param keepsCount whether Spark relies on the number of partitions, and on which rows are in which
   */
  public Partition[] kept(PlanResult plan, boolean keepsCount) throws UnknownMemberException {
    Map<Integer, List<long[]>> ranges = new HashMap<>();
    for (int i = 0; i < plan.ranges(); i++) {
      long[] range = {plan.start(i), plan.start(i) + plan.length(i)};
      ranges.computeIfAbsent(plan.file(i), file -> new ArrayList<>()).add(range);
    }
    Map<Object, Object> pruned = new IdentityHashMap<>(); // a partition may stand in several of Spark's
    List<Partition> kept = new ArrayList<>();
    for (Partition partition : partitions) {
      List<Object> inputs = new ArrayList<>();
      for (Object input : inputs(partition)) {
        if (!pruned.containsKey(input)) {
          pruned.put(input, kept(input, ranges));
        }
        if (pruned.get(input) != null) {
          inputs.add(pruned.get(input));
        }
      }
      if (keepsCount || !inputs.isEmpty()) {
        kept.add(partition(partition, kept.size(), inputs));
      }
    }
    return kept.toArray(Partition[]::new);
  }

  /** {@code input} with what is kept of its tasks; null if nothing is. */
  private Object kept(Object input, Map<Integer, List<long[]>> ranges) throws UnknownMemberException {
    List<Object> kept = new ArrayList<>();
    for (Object task : tasks(input)) {
      Integer file = fileOf.get(task);
      if (file == null) {
        kept.add(task);
        continue;
      }
      long start = Members.<Long>call(task, "start");
      long end = start + Members.<Long>call(task, "length");
      for (long[] part : within(ranges.getOrDefault(file, List.of()), start, end)) {
        kept.add(part[0] == start && part[1] == end ? task : split(task, part));
      }
    }
    return kept.isEmpty() ? null : withTasks(input, kept);
  }

  private static Object split(Object task, long[] part) throws UnknownMemberException {
    Class<?> split = Members.type(task, "org.apache.iceberg.BaseFileScanTask$SplitScanTask");
    Class<?> fileTask = Members.type(task, "org.apache.iceberg.FileScanTask");
    return Members.create(split, List.of(long.class, long.class, fileTask), part[0], part[1] - part[0], task);
  }

  /** The parts of the ranges from {@code start} to {@code end}; adjacent ones are one part. */
  private static List<long[]> within(List<long[]> ranges, long start, long end) {
    List<long[]> parts = new ArrayList<>();
    for (long[] range : ranges) {
      long from = Math.max(range[0], start);
      long to = Math.min(range[1], end);
      long[] last = parts.isEmpty() ? null : parts.get(parts.size() - 1);
      if (from < to && last != null && (from <= last[1] || parts.size() == MAX_PARTS)) {
        last[1] = Math.max(last[1], to);
      } else if (from < to) {
        parts.add(new long[] {from, to});
      }
    }
    return parts;
  }

  private static Object withTasks(Object input, List<Object> tasks) throws UnknownMemberException {
    Object group = Members.call(input, "taskGroup");
    Class<?> struct = Members.type(input, "org.apache.iceberg.StructLike");
    Class<?> groups = Members.type(input, "org.apache.iceberg.BaseScanTaskGroup");
    Object kept =
        Members.create(groups, List.of(struct, Collection.class), Members.<Object>call(group, "groupingKey"), tasks);
    List<Field> fields =
        Arrays.stream(input.getClass().getDeclaredFields())
            .filter(field -> Modifier.isFinal(field.getModifiers()) && !Modifier.isStatic(field.getModifiers()))
            .toList();
    Object[] arguments = new Object[fields.size()];
    try {
      for (int i = 0; i < arguments.length; i++) {
        fields.get(i).setAccessible(true);
        Object value = fields.get(i).get(input);
        arguments[i] = value == group ? kept : value;
      }
    } catch (IllegalAccessException error) {
      throw new UnknownMemberException(error.toString());
    }
    return Members.create(input.getClass(), fields.stream().<Class<?>>map(Field::getType).toList(), arguments);
  }

  private static List<Object> inputs(Partition partition) throws UnknownMemberException {
    List<Object> inputs = new ArrayList<>();
    if (Members.has(partition, "inputPartitions")) {
      inputs.addAll(Scala.list(Members.<scala.collection.Seq<Object>>call(partition, "inputPartitions")));
    } else { // since Spark 4.2
      Members.<Option<Object>>call(partition, "inputPartition").foreach(inputs::add);
    }
    for (Object input : inputs) {
      if (!input.getClass().getName().equals(INPUT)) {
        throw new UnknownMemberException("a partition is a " + input.getClass().getName());
      }
    }
    return inputs;
  }

  private static Partition partition(Partition like, int index, List<Object> inputs) throws UnknownMemberException {
    boolean holdsMany = Members.has(like, "inputPartitions");
    Object held = holdsMany ? Scala.seq(inputs) : Option.apply(inputs.isEmpty() ? null : inputs.get(0));
    List<Class<?>> parameters = List.of(int.class, holdsMany ? Seq.class : Option.class);
    return (Partition) Members.create(like.getClass(), parameters, index, held);
  }

  private static Collection<Object> tasks(Object input) throws UnknownMemberException {
    return Members.call(Members.call(input, "taskGroup"), "tasks");
  }

  /** Whether a task reads rows of a Parquet file that the planner can open. Others are left as they are. */
  private boolean isPlannable(Object task) throws UnknownMemberException {
    if (!Members.type(task, "org.apache.iceberg.FileScanTask").isInstance(task)
        || Members.<Boolean>call(task, "isDataTask")) {
      return false;
    }
    Object file = Members.call(task, "file");
    return io.isPath(Members.call(file, "location"))
        && Members.call(file, "content").toString().equals("DATA")
        && Members.call(file, "format").toString().equals("PARQUET")
        && Members.call(file, "keyMetadata") == null;
  }
}
