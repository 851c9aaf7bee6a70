package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.support.DaemonThreads;
import io.bloomparquet.spark.support.DriverSettings;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A Python process that plans. There is one for each interpreter. It lives as long as the Spark application, so that
 * its cache serves all sessions and queries. Spark's own Python workers would not do: they end after an idle minute,
 * and serve one query at a time.
 *
 * <p>Requests and answers are frames on its standard input and output. {@code pyspark_bloomparquet/jar/protocol.py}
 * describes them. The process ends with its input, so it cannot outlive the JVM.
 *
 * <p>When a process ends, or hangs and is killed, its pending requests fail, and the next query starts another process. But
 * a process that ends before its first answer, for example for a missing package, may do so again: then the next process
 * starts 30 s later at the earliest.
 */
final class PlannerProcess {
  /** Raise it with {@code VERSION} in {@code protocol.py}, which says when. */
  private static final int VERSION = 12;

  /** Drops the working directory from the module path: its files must not shadow modules. */
  private static final String MAIN =
      "import sys; sys.path[:] = filter(None, sys.path); "
          + "from pyspark_bloomparquet.jar.planner_worker import main; main()";

  private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(30);

  private static final long STUCK_NANOS = TimeUnit.MINUTES.toNanos(10);

  /** How long the watchdog's seconds are. Tests shorten them. */
  private static final String SECOND_MILLIS = "bloomparquet.planner.secondMillis";

  private static final Map<DriverSettings.Python, PlannerProcess> RUNNING = new HashMap<>();

  static {
    Runtime.getRuntime().addShutdownHook(new Thread(PlannerProcess::resumeAll, "bloomparquet-planner-shutdown"));
  }

  private final DriverSettings.Python python;
  private final Process process;
  private final ErrorOutput errors;
  private final DataOutputStream requests;
  private final Map<Long, Waiting> waiting = new ConcurrentHashMap<>();
  private final AtomicLong ids = new AtomicLong();
  private final ExecutorService writer = Executors.newSingleThreadExecutor(PlannerProcess::thread);
  private final AtomicLong frames = new AtomicLong();
  private volatile long endedAt;
  private volatile String ended;

  private PlannerProcess(DriverSettings.Python python) throws IOException {
    this.python = python;
    ProcessBuilder builder = new ProcessBuilder(python.interpreter(), "-c", MAIN);
    Map<String, String> environment = builder.environment();
    if (!python.path().isEmpty()) {
      environment.merge("PYTHONPATH", python.path(), (old, more) -> more + File.pathSeparator + old);
    }
    process = builder.start();
    errors = new ErrorOutput(process.getErrorStream());
    requests = new DataOutputStream(process.getOutputStream());
    thread(this::receive).start();
    thread(this::watch).start();
  }

  private static Thread thread(Runnable work) {
    return DaemonThreads.of(work, "bloomparquet-planner");
  }

  /** The process of an interpreter. Starts one if need be, and does not wait for its imports. */
  static synchronized PlannerProcess of(DriverSettings.Python python) throws PlannerException {
    PlannerProcess running = RUNNING.get(python);
    if (running == null || running.ended != null) {
      if (running != null && running.frames.get() == 0 && System.nanoTime() - running.endedAt < RETRY_NANOS) {
        throw new PlannerException(running.ended);
      }
      try {
        running = new PlannerProcess(python);
      } catch (IOException error) {
        throw new PlannerException("cannot start the planner: " + error.getMessage());
      }
      RUNNING.put(python, running);
    }
    return running;
  }

  /** The process of an interpreter; null if none is running. */
  static synchronized PlannerProcess running(DriverSettings.Python python) {
    PlannerProcess running = RUNNING.get(python);
    return running == null || running.ended != null ? null : running;
  }

  /**
   * Resumes all planners, so that they end. A planner ends at the end of its input, but a stopped planner (SIGSTOP)
   * does not see that end, and would stay for ever. The signal changes nothing for planners that run.
   */
  private static synchronized void resumeAll() {
    String ids =
        RUNNING.values().stream()
            .flatMap(PlannerProcess::handles)
            .filter(ProcessHandle::isAlive)
            .map(each -> Long.toString(each.pid()))
            .collect(Collectors.joining(" "));
    if (!ids.isEmpty()) {
      try {
        new ProcessBuilder("/bin/sh", "-c", "kill -CONT " + ids).start();
      } catch (IOException error) {
        // without a shell, a stopped planner stays; this JVM ends, and nobody would read a warning
      }
    }
  }

  /** Ends all planners, by the end of their input: they write their caches first. The next application has its own. */
  static synchronized void endAll() {
    resumeAll();
    for (PlannerProcess each : RUNNING.values()) {
      try {
        each.writer.execute(each::closeRequests);
      } catch (RejectedExecutionException error) {
        // it has ended
      }
    }
    RUNNING.clear();
  }

  /** Lets the process look at files that a plan of the query {@code execution} will need. There is no answer. */
  void look(FileListing listing, String execution) throws PlannerException {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("version", VERSION).put("look", listing.digest()).put("execution", execution);
    send(Frames.toBytes(request), new byte[0]);
  }

  /** Lets the process forget what it has read of storages: it may be of other versions. There is no answer. */
  void forget(Collection<Storages.Storage> storages) {
    try {
      ObjectNode request = JsonNodeFactory.instance.objectNode().put("version", VERSION);
      ArrayNode numbers = request.putArray("forget");
      storages.forEach(each -> numbers.add(each.number()));
      send(Frames.toBytes(request), new byte[0]);
    } catch (PlannerException error) {
      throw new IllegalStateException(error); // a request that is small
    }
  }

  /**
   * @param request without the fields of the listing
   * @param millis how long the caller waits for the plan
   */
  CompletableFuture<PlanResult> ask(ObjectNode request, FileListing listing, long millis) {
    long id = ids.incrementAndGet();
    FileVersions known = listing.versions(this);
    byte[] head;
    try {
      request.put("id", id).put("version", VERSION);
      request.put("files", listing.count()).put("listing", listing.digest()).put("revision", known.revision());
      head = Frames.toBytes(request);
    } catch (PlannerException error) {
      return CompletableFuture.failedFuture(error);
    }
    Waiting waits = new Waiting(new CompletableFuture<>(), listing, known, head, millis, System.nanoTime());
    waiting.put(id, waits);
    send(head, new byte[0]);
    return waits.answer();
  }

  /** A request that has no answer yet. */
  private record Waiting(
      CompletableFuture<PlanResult> answer,
      FileListing listing,
      FileVersions known,
      byte[] head,
      long millis,
      long since) {}

  /** Sends in another thread: a full pipe blocks, and planningTimeout must hold for the caller. */
  private void send(byte[] head, byte[] listing) {
    try {
      writer.execute(() -> write(head, listing));
    } catch (RejectedExecutionException error) {
      failWaiting();
    }
    if (ended != null) {
      failWaiting(); // the thread that ended it may not have seen this request
    }
  }

  private void write(byte[] head, byte[] body) {
    try {
      Frames.write(requests, head, body);
    } catch (IOException error) {
      if (!hasExited()) { // else receive() reports the exit
        end("does not read its requests");
      }
    }
  }

  private void closeRequests() {
    try {
      requests.close();
    } catch (IOException error) {
      // it has ended
    }
  }

  private void receive() {
    try (DataInputStream answers = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16))) {
      while (true) {
        JsonNode head = Frames.json(answers);
        ByteBuffer body = ByteBuffer.wrap(Frames.part(answers));
        frames.incrementAndGet();
        if (head.has("read")) {
          StorageReads.begin(head, body, patience(), this::send);
          continue;
        }
        Waiting request = waiting.remove(head.path("id").asLong());
        if (request != null) { // else it is a sign of life
          answer(request, head, body);
        }
      }
    } catch (JsonProcessingException error) {
      end("sent an invalid answer (" + error.getOriginalMessage() + ")");
    } catch (RuntimeException | OutOfMemoryError error) {
      end("sent an invalid answer (" + error.getMessage() + ")");
    } catch (IOException error) { // the pipe was closed
      end(hasExited() ? null : "closed its output");
    }
  }

  /** How long, in milliseconds, the most patient caller waits for a plan; 0 if none waits. */
  private long patience() {
    return waiting.values().stream().mapToLong(Waiting::millis).max().orElse(0);
  }

  private void answer(Waiting request, JsonNode head, ByteBuffer body) {
    try {
      if (head.has("unknown")) {
        byte[] listing = request.listing().bytes();
        waiting.put(head.path("id").asLong(), request);
        send(request.head(), listing);
      } else if (head.has("error")) {
        throw new PlannerException(head.get("error").asText(), head.path("fatal").asBoolean());
      } else if (head.has("unplanned")) {
        request.answer().complete(PlanResult.none(head.get("unplanned").asText()));
      } else {
        PlanResult result = PlanResult.of(head, body, request.listing().count(), this, request.known());
        request.listing().remember(result.versions());
        request.answer().complete(result);
      }
    } catch (PlannerException error) {
      request.answer().completeExceptionally(error);
    }
  }

  /** Ends the process when it hangs. */
  private void watch() {
    Watchdog watchdog = new Watchdog();
    long second = Long.getLong(SECOND_MILLIS, 1000);
    while (ended == null) {
      try {
        Thread.sleep(second);
      } catch (InterruptedException error) {
        return;
      }
      long now = System.nanoTime();
      boolean isStuck = waiting.values().stream().anyMatch(each -> now - each.since() > STUCK_NANOS);
      String hung =
          isStuck
              ? "did not answer for " + TimeUnit.NANOSECONDS.toSeconds(STUCK_NANOS) + " s"
              : watchdog.check(!waiting.isEmpty(), frames.get(), this::cpuTime);
      if (hung != null) {
        end(hung);
      }
    }
  }

  /** The process and its children: the interpreter may be a script that runs the planner. */
  private Stream<ProcessHandle> handles() {
    return Stream.concat(Stream.of(process.toHandle()), process.descendants());
  }

  /** The CPU time of the process and its children. Where the system does not report it, a new value for each call. */
  private Duration cpuTime() {
    return handles()
        .map(each -> each.info().totalCpuDuration().orElseGet(() -> Duration.ofNanos(System.nanoTime())))
        .reduce(Duration.ZERO, Duration::plus);
  }

  /** Waits a little for the process to exit by itself: only then there is an exit code to report. */
  private boolean hasExited() {
    try {
      return process.waitFor(2, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** @param hung why the process must be killed; null if it exited by itself */
  private void end(String hung) {
    synchronized (this) {
      if (ended != null) {
        return;
      }
      endedAt = System.nanoTime();
      ended = describe(hung);
    }
    // Descendants too: the interpreter may be a script that runs the planner as its child.
    process.descendants().forEach(ProcessHandle::destroyForcibly);
    process.destroyForcibly();
    failWaiting();
    writer.shutdown();
  }

  private String describe(String hung) {
    String which = python.interpreter() + ", process " + process.pid();
    if (hung != null) {
      return String.format("the planner (%s) %s; it was ended", which, hung); // it has no exit code yet
    }
    int code = process.exitValue();
    if (code > 128 && code <= 128 + 64) { // Java adds a signal to 128, as shells do
      return String.format("the planner (%s) was killed by signal %d", which, code - 128);
    }
    String hint = "; check that this Python can import pyspark_bloomparquet, or name another in " + DriverSettings.PYTHON;
    return String.format(
        "the planner (%s) exited with code %d%s%s",
        python.interpreter(), // without the process, attempts that fail alike are reported once
        code,
        errors.lastLine(),
        frames.get() == 0 ? hint : "");
  }

  private void failWaiting() {
    for (Long id : waiting.keySet()) {
      Waiting request = waiting.remove(id); // it may be answered meanwhile
      if (request != null) {
        request.answer().completeExceptionally(new PlannerException(ended));
      }
    }
  }
}
