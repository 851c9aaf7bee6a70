package io.bloomparquet.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A Python process that plans, one for each interpreter and as long-lived as this JVM, so that what it remembers serves
 * all sessions and queries. Not one of Spark's own Python workers: those end after a minute of idleness and serve one
 * query at a time.
 *
 * <p>Requests and answers are frames over its standard input and output: a length (int, big-endian) and so many bytes of
 * JSON, a length and so many bytes of data. An answer carries the {@code id} of its request; answers come in any order, and
 * between them, while there is work, signs of life. The process ends when its input does, so it cannot outlive the JVM.
 */
final class PlannerProcess {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int VERSION = 2;

  /** Files of the working directory, which is first on the path of such a program, must not shadow modules. */
  private static final String MAIN =
      "import sys; sys.path[:] = filter(None, sys.path); from pyspark_bloomparquet.planner_worker import main; main()";

  private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(30);
  private static final long SILENT_NANOS = TimeUnit.SECONDS.toNanos(20);
  private static final long STUCK_NANOS = TimeUnit.MINUTES.toNanos(10);
  static final int LARGEST_FRAME = 1 << 30;
  private static final Map<PythonCommand, PlannerProcess> RUNNING = new ConcurrentHashMap<>();

  private final PythonCommand command;
  private final Process process;
  private final DataOutputStream requests;
  private final Map<Long, Waiting> waiting = new ConcurrentHashMap<>();
  private final AtomicLong ids = new AtomicLong();
  private final ExecutorService writer = Executors.newSingleThreadExecutor(PlannerProcess::thread);
  private volatile boolean served;
  private volatile long heardAt = System.nanoTime();
  private volatile String ended;
  private volatile long endedAt;

  private PlannerProcess(PythonCommand command) throws IOException {
    this.command = command;
    ProcessBuilder builder =
        new ProcessBuilder(
            command.interpreter(), "-c", MAIN);
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    Map<String, String> environment = builder.environment();
    if (!command.path().isEmpty()) {
      environment.merge("PYTHONPATH", command.path(), (old, more) -> more + File.pathSeparator + old);
    }
    process = builder.start();
    requests = new DataOutputStream(process.getOutputStream());
    thread(this::receive).start();
  }

  private static Thread thread(Runnable work) {
    Thread thread = new Thread(work, "bloomparquet-planner");
    thread.setDaemon(true);
    return thread;
  }

  /** The process of an interpreter; started if need be, its imports go on while the caller does other things. */
  static PlannerProcess of(PythonCommand command) throws PlannerException {
    PlannerProcess found = RUNNING.get(command);
    if (found == null || found.ended != null) {
      synchronized (RUNNING) {
        found = RUNNING.get(command);
        if (found != null && found.ended != null && System.nanoTime() - found.endedAt < RETRY_NANOS && !found.served) {
          throw new PlannerException(found.ended);
        }
        if (found == null || found.ended != null) {
          try {
            found = new PlannerProcess(command);
          } catch (IOException error) {
            throw new PlannerException("cannot start the planner: " + error.getMessage());
          }
          RUNNING.put(command, found);
        }
      }
    }
    return found;
  }

  CompletableFuture<PlanResult> ask(ObjectNode request, FileListing listing) throws PlannerException {
    CompletableFuture<PlanResult> answer = new CompletableFuture<>();
    long id = ids.incrementAndGet();
    byte[] head = toBytes(request.put("id", id).put("version", VERSION).put("files", listing.count()));
    long now = System.nanoTime();
    if (waiting.isEmpty()) {
      heardAt = now; // who had nothing to do need not have said anything
    }
    waiting.put(id, new Waiting(answer, now));
    // A pipe takes so much and then blocks until it is read: who waits for the answer must not wait for that.
    try {
      writer.execute(() -> write(head, listing.bytes()));
    } catch (RejectedExecutionException error) {
      answer.completeExceptionally(new PlannerException(ended));
    }
    return answer;
  }

  /**
   * Ends the process if it must hang: silent while it has work, or at one plan for longer than any can take. Another one
   * serves the next query.
   */
  void endIfHung() {
    long now = System.nanoTime();
    if (now - heardAt > SILENT_NANOS || waiting.values().stream().anyMatch(each -> now - each.since() > STUCK_NANOS)) {
      process.destroyForcibly();
    }
  }

  private record Waiting(CompletableFuture<PlanResult> answer, long since) {}

  private static byte[] toBytes(ObjectNode request) throws PlannerException {
    try {
      byte[] bytes = JSON.writeValueAsBytes(request);
      if (bytes.length > LARGEST_FRAME) {
        throw new PlannerException("a predicate of " + bytes.length + " bytes is more than a planner can be told");
      }
      return bytes;
    } catch (JsonProcessingException error) {
      throw new PlannerException("the predicate cannot be sent to the planner: " + error.getOriginalMessage());
    }
  }

  private void write(byte[] head, byte[] body) {
    try {
      requests.writeInt(head.length);
      requests.write(head);
      requests.writeInt(body.length);
      requests.write(body);
      requests.flush();
    } catch (IOException error) {
      process.destroy(); // which ends what reads the answers, and that tells
    }
  }

  private void receive() {
    try (DataInputStream answers = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16))) {
      while (true) {
        JsonNode head = JSON.readTree(frame(answers));
        ByteBuffer body = ByteBuffer.wrap(frame(answers));
        Waiting found = waiting.remove(head.path("id").asLong());
        served = true;
        heardAt = System.nanoTime();
        if (found == null) {
          continue; // a sign of life
        }
        if (head.has("error")) {
          found.answer().completeExceptionally(
              new PlannerException(head.get("error").asText(), head.path("fatal").asBoolean()));
        } else {
          found.answer().complete(PlanResult.of(head.path("plan"), body));
        }
      }
    } catch (IOException | RuntimeException | OutOfMemoryError error) {
      end(error);
    }
  }

  private void end(Throwable error) {
    process.destroy();
    // A pipe fails, also by our own closing it after a write failed, because nobody is at its other end.
    boolean pipe = error instanceof IOException && !(error instanceof JsonProcessingException);
    String how = pipe ? "ended" : "sent what is no answer (" + inShort(error) + ")";
    try {
      how += process.waitFor(5, TimeUnit.SECONDS) ? " with exit code " + process.exitValue() : "";
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    endedAt = System.nanoTime();
    ended =
        String.format(
            "the planner (%s) %s%s",
            command.interpreter(),
            how,
            served ? "" : "; can that Python import pyspark_bloomparquet? Name another by " + PythonCommand.INTERPRETER);
    tellEnd();
    // Whoever came in between is told by the writer, or not let in by it.
    writer.execute(this::tellEnd);
    writer.shutdown();
  }

  private void tellEnd() {
    waiting.values().forEach(each -> each.answer().completeExceptionally(new PlannerException(ended)));
    waiting.clear();
  }

  private static String inShort(Throwable error) {
    return error instanceof JsonProcessingException json ? json.getOriginalMessage() : error.getMessage();
  }

  private static byte[] frame(DataInputStream stream) throws IOException {
    int length = stream.readInt();
    if (length < 0 || length > LARGEST_FRAME) {
      throw new IllegalStateException("a frame of " + length + " bytes");
    }
    byte[] bytes = stream.readNBytes(length); // grows by what really comes
    if (bytes.length < length) {
      throw new EOFException();
    }
    return bytes;
  }

}
