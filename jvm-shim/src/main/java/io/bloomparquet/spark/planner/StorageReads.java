package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.support.DaemonThreads;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.AccessDeniedException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;

/**
 * Byte ranges that a planner asks for, which Hadoop's file systems read here: with the credentials of Spark, which never
 * leave this JVM. The files of a request are read side by side. Nothing here waits in the thread that receives requests.
 *
 * <p>{@code pyspark_bloomparquet/jar/protocol.py} describes requests and answers.
 */
final class StorageReads {
  private static final int MAX_ANSWER_BYTES = 16 << 20; // of one answer
  private static final int FIELDS = 3;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ExecutorService THREADS = DaemonThreads.pool(32, "bloomparquet-read");
  private static final ScheduledThreadPoolExecutor CLOCK =
      new ScheduledThreadPoolExecutor(1, work -> DaemonThreads.of(work, "bloomparquet-clock"));

  static {
    CLOCK.setRemoveOnCancelPolicy(true); // what it would end holds the bytes that were read
  }

  private final long number;
  private final BiConsumer<byte[], byte[]> send;
  private final List<FileRead> reads = new ArrayList<>();
  private final List<Future<?>> jobs = new ArrayList<>();
  private Future<?> clock;
  private byte[] result;
  private int left;

  /** One file: its status, null if it is read whole, and the ranges to read. */
  private record FileRead(FileSystem storage, Path path, FileStatus status, List<Range> ranges) {}

  private record Range(long start, int length, int at) {}

  private StorageReads(long number, BiConsumer<byte[], byte[]> send) {
    this.number = number;
    this.send = send;
  }

  /**
   * Begins to read.
   *
   * @param body the ranges: the positions of their files in the request, then all starts, then all lengths
   * @param millis after which it is an error that the storage has not answered
   * @param send sends the head and the body of the answer
   */
  static void begin(JsonNode request, ByteBuffer body, long millis, BiConsumer<byte[], byte[]> send) {
    StorageReads reads = new StorageReads(request.path("read").asLong(), send);
    for (JsonNode file : request.path("files")) {
      Storages.Storage storage = Storages.numbered(file.path(0).asInt());
      if (storage == null) {
        reads.finish("the storage was closed, because many others were used since; query again", "io");
        return;
      }
      Path path = new Path(file.path(1).asText());
      FileVersion version = new FileVersion(file.path(2).asLong(), file.path(3).asLong(), 0, 0);
      FileStatus status = version.size() < 0 ? null : status(path, version, storage.files());
      if (status == null && version.size() >= 0) {
        reads.finish(path + " is read for a plan that has ended", "io");
        return;
      }
      reads.reads.add(new FileRead(storage.files(), path, status, new ArrayList<>()));
    }
    int ranges = body.remaining() / (FIELDS * Long.BYTES);
    long total = 0;
    for (int i = 0; i < ranges; i++) {
      long length = body.getLong((2 * ranges + i) * Long.BYTES);
      if (length < 0 || total + length > MAX_ANSWER_BYTES) {
        throw new IllegalArgumentException("a request for more than " + MAX_ANSWER_BYTES + " bytes");
      }
      Range range = new Range(body.getLong((ranges + i) * Long.BYTES), (int) length, (int) total);
      reads.reads.get((int) body.getLong(i * Long.BYTES)).ranges.add(range);
      total += length;
    }
    reads.result = new byte[(int) total];
    reads.begin(millis);
  }

  private static FileStatus status(Path path, FileVersion version, FileSystem files) {
    boolean neverChanges = version.modified() == FileVersion.NEVER_CHANGES;
    return neverChanges ? new FileStatus(version.size(), false, 1, 1 << 25, 0, path) : Look.of(path, version, files);
  }

  private synchronized void begin(long millis) {
    left = reads.size();
    for (FileRead each : reads) {
      jobs.add(THREADS.submit(() -> run(each)));
    }
    // The retries of a storage may last longer than anyone waits.
    String late = "the storage did not answer within " + millis + " ms";
    clock = CLOCK.schedule(() -> finish(late, "io"), millis, TimeUnit.MILLISECONDS);
  }

  private void run(FileRead file) {
    try {
      read(file);
      synchronized (this) {
        if (--left > 0) {
          return;
        }
      }
      finish(null, null);
    } catch (Throwable error) { // whatever it is, the planner waits for an answer
      Throwable cause = cause(error);
      String kind = kind(cause);
      String text = kind.equals("io") || cause.getMessage() == null ? cause.toString() : cause.getMessage();
      String message = text.lines().findFirst().orElse("");
      finish(message.contains(file.path.getName()) ? message : file.path + ": " + message, kind);
    }
  }

  private void read(FileRead file) throws IOException, InterruptedException, ExecutionException {
    FutureDataInputStreamBuilder opening = file.storage.openFile(file.path);
    if (file.status == null) {
      readWhole(file.path, opening.opt(Options.OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY, "whole-file"));
    } else {
      readRanges(
          file.ranges,
          opening
              .withFileStatus(file.status)
              .opt(Options.OpenFileOptions.FS_OPTION_OPENFILE_LENGTH, Long.toString(file.status.getLen()))
              .opt(Options.OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY, "random"));
    }
  }

  private void readWhole(Path path, FutureDataInputStreamBuilder opening)
      throws IOException, InterruptedException, ExecutionException {
    try (FSDataInputStream in = opening.build().get()) {
      result = in.readNBytes(MAX_ANSWER_BYTES + 1);
      if (result.length > MAX_ANSWER_BYTES) {
        throw new IOException(path + " has more than " + MAX_ANSWER_BYTES + " bytes; expected no more");
      }
    }
  }

  private void readRanges(List<Range> ranges, FutureDataInputStreamBuilder opening)
      throws IOException, InterruptedException, ExecutionException {
    try (FSDataInputStream in = opening.build().get()) {
      List<FileRange> asked = new ArrayList<>();
      for (Range range : ranges) {
        asked.add(FileRange.createFileRange(range.start, range.length));
      }
      in.readVectored(asked, ByteBuffer::allocate); // also for one: S3A's readFully hides the cause of an error
      for (int i = 0; i < asked.size(); i++) {
        asked.get(i).getData().get().get(result, ranges.get(i).at, ranges.get(i).length);
      }
    }
  }

  /** Answers, once: with the bytes if {@code error} is null. */
  private void finish(String error, String kind) {
    synchronized (this) {
      if (left < 0) {
        return;
      }
      left = -1;
      if (error != null) {
        jobs.forEach(job -> job.cancel(true));
      }
      if (clock != null) {
        clock.cancel(false);
      }
    }
    ObjectNode head = JsonNodeFactory.instance.objectNode().put("read", number);
    if (error != null) {
      head.put("error", error).put("kind", kind);
    }
    try {
      send.accept(JSON.writeValueAsBytes(head), error == null ? result : new byte[0]);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static Throwable cause(Throwable error) {
    boolean isWrapped = error instanceof ExecutionException || error instanceof CompletionException;
    return isWrapped && error.getCause() != null ? cause(error.getCause()) : error;
  }

  private static String kind(Throwable error) {
    if (error instanceof FileNotFoundException) {
      return "missing";
    }
    if (error instanceof EOFException) {
      return "end";
    }
    return error instanceof AccessDeniedException || error instanceof AccessControlException ? "denied" : "io";
  }
}
