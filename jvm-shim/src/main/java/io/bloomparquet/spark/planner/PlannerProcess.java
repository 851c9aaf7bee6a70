package io.bloomparquet.spark.planner;

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
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;

/**
 * A Python process that plans, one for each interpreter and as long-lived as this JVM, so that what it remembers serves
 * all sessions and queries. Not one of Spark's own Python workers: those end after a minute of idleness and serve one
 * query at a time.
 *
 * <p>Requests and answers are frames over its standard input and output: a length (int, big-endian) and so many bytes of
 * JSON, a length and so many bytes of data. An answer carries the {@code id} of its request; answers come in any order, and
 * between them, every two seconds while there is work, signs of life. The process ends when its input does, so it cannot
 * outlive the JVM.
 *
 * <p>A process that ends, or hangs and is ended, fails the requests that wait for it; the next query starts another one.
 * A process that ended before its first answer will do so again, for example because of a missing package: then no other
 * is started for a while. A signal tells nothing about the next process, so there the first two are replaced at once.
 */
final class PlannerProcess {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int VERSION = 3;

  /** Files of the working directory, which is first on the path of such a program, must not shadow modules. */
  private static final String MAIN =
      "import sys; sys.path[:] = filter(None, sys.path); from pyspark_bloomparquet.jar.planner_worker import main; main()";

  private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(30);
  private static final int MOST_KILLED = 2;
  private static final long STUCK_NANOS = TimeUnit.MINUTES.toNanos(10);

  /**
   * For how many seconds a process with work may neither send anything nor use the CPU. Four signs of life are missing
   * then. A process that holds Python's global lock, or is starved on a loaded machine, still uses the CPU now and then.
   */
  private static final int MOST_IDLE = 8;

  /** As {@code MOST_IDLE}, before the first frame: imports send no signs of life, and may wait for a slow disk. */
  private static final int MOST_IDLE_AT_START = 20;

  /** For how many seconds a process with work may send nothing although it uses the CPU. */
  private static final int MOST_SILENT = 60;

  static final int LARGEST_FRAME = 1 << 30;
  private static final Map<PythonCommand, PlannerProcess> RUNNING = new ConcurrentHashMap<>();

  private final PythonCommand command;
  private final int killedBefore;
  private final Process process;
  private final ErrorOutput errors;
  private final DataOutputStream requests;
  private final Map<Long, Waiting> waiting = new ConcurrentHashMap<>();
  private final AtomicLong ids = new AtomicLong();
  private final ExecutorService writer = Executors.newSingleThreadExecutor(PlannerProcess::thread);
  private final AtomicLong frames = new AtomicLong();
  private volatile boolean killed;
  private volatile long endedAt;
  private volatile String ended;

  /** @param killedBefore how many processes before this one were killed without an answer */
  private PlannerProcess(PythonCommand command, int killedBefore) throws IOException {
    this.command = command;
    this.killedBefore = killedBefore;
    ProcessBuilder builder =
        new ProcessBuilder(
            command.interpreter(), "-c", MAIN);
    Map<String, String> environment = builder.environment();
    if (!command.path().isEmpty()) {
      environment.merge("PYTHONPATH", command.path(), (old, more) -> more + File.pathSeparator + old);
    }
    process = builder.start();
    errors = new ErrorOutput(process.getErrorStream());
    requests = new DataOutputStream(process.getOutputStream());
    thread(this::receive).start();
    thread(this::watch).start();
  }

  private static Thread thread(Runnable work) {
    Thread thread = new Thread(work, "bloomparquet-planner");
    thread.setDaemon(true);
    return thread;
  }

  /** The process of an interpreter; started if need be, its imports go on while the caller does other things. */
  static PlannerProcess of(PythonCommand command) throws PlannerException {
    PlannerProcess running = RUNNING.get(command);
    if (running == null || running.ended != null) {
      synchronized (RUNNING) {
        running = RUNNING.get(command);
        try {
          if (running == null || running.ended != null) {
            running = running == null ? new PlannerProcess(command, 0) : running.successor();
            RUNNING.put(command, running);
          }
        } catch (IOException error) {
          throw new PlannerException("cannot start the planner: " + error.getMessage());
        }
      }
    }
    return running;
  }

  private PlannerProcess successor() throws PlannerException, IOException {
    if (frames.get() > 0) {
      return new PlannerProcess(command, 0);
    }
    boolean again = killed && killedBefore + 1 < MOST_KILLED;
    if (!again && System.nanoTime() - endedAt < RETRY_NANOS) {
      throw new PlannerException(ended);
    }
    return new PlannerProcess(command, killed ? killedBefore + 1 : 0);
  }

  CompletableFuture<PlanResult> ask(ObjectNode request, FileListing listing) throws PlannerException {
    CompletableFuture<PlanResult> answer = new CompletableFuture<>();
    long id = ids.incrementAndGet();
    byte[] head = toBytes(request.put("id", id).put("version", VERSION).put("files", listing.count()));
    waiting.put(id, new Waiting(answer, System.nanoTime()));
    // A pipe takes so much and then blocks until it is read: who waits for the answer must not wait for that.
    try {
      writer.execute(() -> write(head, listing.bytes()));
    } catch (RejectedExecutionException error) {
      failWaiting();
    }
    if (ended != null) {
      failWaiting(); // whoever ended it may not have seen this request
    }
    return answer;
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
      if (!hasExited()) { // else whoever receives says how
        end("does not read its requests");
      }
    }
  }

  private void receive() {
    try (DataInputStream answers = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16))) {
      while (true) {
        JsonNode head = JSON.readTree(frame(answers));
        ByteBuffer body = ByteBuffer.wrap(frame(answers));
        frames.incrementAndGet();
        Waiting asker = waiting.remove(head.path("id").asLong());
        if (asker == null) {
          continue; // a sign of life
        }
        if (head.has("error")) {
          asker.answer().completeExceptionally(
              new PlannerException(head.get("error").asText(), head.path("fatal").asBoolean()));
        } else {
          asker.answer().complete(PlanResult.of(head.path("plan"), head.path("versions").asInt(), body));
        }
      }
    } catch (JsonProcessingException error) {
      end("sent what is no answer (" + error.getOriginalMessage() + ")");
    } catch (RuntimeException | OutOfMemoryError error) {
      end("sent what is no answer (" + error.getMessage() + ")");
    } catch (IOException error) { // the pipe has no other end any more
      end(hasExited() ? null : "closed its output");
    }
  }

  /**
   * Ends the process when it hangs. Counts the seconds in which this thread ran rather than reading a clock, so that a
   * pause of this JVM is not taken for silence of the planner.
   */
  private void watch() {
    long framesBefore = 0;
    Duration cpuBefore = Duration.ZERO;
    int silent = 0;
    int idle = 0;
    while (ended == null) {
      try {
        Thread.sleep(1000);
      } catch (InterruptedException error) {
        return;
      }
      long now = System.nanoTime();
      if (waiting.values().stream().anyMatch(each -> now - each.since() > STUCK_NANOS)) {
        end("did not answer for " + TimeUnit.NANOSECONDS.toSeconds(STUCK_NANOS) + " s");
      } else if (waiting.isEmpty() || frames.get() != framesBefore) {
        framesBefore = frames.get();
        silent = 0;
        idle = 0;
      } else {
        Duration cpu = cpuTime();
        silent++;
        idle = cpu.equals(cpuBefore) ? idle + 1 : 0;
        cpuBefore = cpu;
        if (idle >= (framesBefore == 0 ? MOST_IDLE_AT_START : MOST_IDLE)) {
          end("gave no sign of life for " + silent + " s and used no CPU time; was it stopped?");
        } else if (silent >= MOST_SILENT && framesBefore > 0) {
          end("gave no sign of life for " + silent + " s");
        }
      }
    }
  }

  /** What the process and those below it have used; always another value on a system that does not tell. */
  private Duration cpuTime() {
    return Stream.concat(Stream.of(process.toHandle()), process.descendants())
        .map(each -> each.info().totalCpuDuration().orElseGet(() -> Duration.ofNanos(System.nanoTime())))
        .reduce(Duration.ZERO, Duration::plus);
  }

  /** Gives a process whose pipe broke the time to exit by itself: only then is there an exit code to tell. */
  private boolean hasExited() {
    try {
      return process.waitFor(2, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** @param hung what the process did that it has to be ended for; null if it exited by itself */
  private void end(String hung) {
    synchronized (this) {
      if (ended != null) {
        return;
      }
      killed = hung == null && signal() > 0;
      endedAt = System.nanoTime();
      ended = describe(hung);
    }
    // SIGKILL also ends a stopped process; an interpreter that is a script may have the planner as its child.
    process.descendants().forEach(ProcessHandle::destroyForcibly);
    process.destroyForcibly();
    failWaiting();
    writer.shutdown();
  }

  private String describe(String hung) {
    // One process hangs or is killed once; of one that cannot start, each further one would only be said again.
    String which = hung == null && !killed ? "" : ", process " + process.pid();
    String how =
        hung != null
            ? hung + "; it was ended"
            : killed ? "was killed by signal " + signal() : "exited with code " + process.exitValue() + errors.lastLine();
    boolean hint = frames.get() == 0 && hung == null && !killed;
    return String.format(
        "the planner (%s%s) %s%s",
        command.interpreter(),
        which,
        how,
        hint ? "; can that Python import pyspark_bloomparquet? Name another by " + PythonCommand.INTERPRETER : "");
  }

  /** The signal that ended the process, by the convention of shells, which Java's exit values follow; else 0. */
  private int signal() {
    int code = process.exitValue();
    return code > 128 && code <= 128 + 64 ? code - 128 : 0;
  }

  private void failWaiting() {
    waiting.values().forEach(each -> each.answer().completeExceptionally(new PlannerException(ended)));
    waiting.clear();
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
