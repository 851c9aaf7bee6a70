package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.files.PresentVersions;
import io.bloomparquet.spark.planner.Storages.Storage;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.FileFormat;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Decides whether to ask the planner, and asks it. If planning fails, everything is read, and a warning says why: each
 * text once, and at most {@link #MAX_WARNINGS} texts. Only an error that the planner calls fatal fails the query, such
 * as an unusable filter with {@code onFilterError=fail}.
 */
public final class Planner {
  private static final Logger LOG = LoggerFactory.getLogger("bloomparquet");
  private static final int MAX_WARNINGS = 1000;
  private static final int MIN_LOOKED_AT = 100; // looking at fewer files takes less time than another message
  private static final Set<String> WARNED = ConcurrentHashMap.newKeySet();
  private static final Set<SparkContext> APPLICATIONS =
      Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

  private Planner() {}

  /** Starts the planner of a session. The first query that needs a plan reports a planner that did not start. */
  public static void start(SparkSession session) {
    try {
      process(session);
    } catch (PlannerException error) {
      // reported by the first query
    }
  }

  /** The planner of a session, which ends with the session's application. */
  private static PlannerProcess process(SparkSession session) throws PlannerException {
    SparkContext application = session.sparkContext();
    if (APPLICATIONS.add(application)) {
      application.addSparkListener(
          new SparkListener() {
            @Override
            public void onApplicationEnd(SparkListenerApplicationEnd end) {
              PlannerProcess.endAll();
            }
          });
    }
    return PlannerProcess.of(DriverSettings.python(application));
  }

  /**
   * Lets the planner look at the present versions of local files, for a plan of the running query. A plan must not go by
   * versions from before its query began, so nothing happens outside of one.
   */
  public static void lookAt(SparkSession session, FileListing files) {
    String execution = execution(session);
    if (!isBeginning(execution) || files.count() < MIN_LOOKED_AT || !LocalPaths.isLocal(files.path(0))) {
      return;
    }
    try {
      PlannerProcess planner = PlannerProcess.running(DriverSettings.python(session.sparkContext()));
      if (planner != null) {
        planner.look(files, execution);
      }
    } catch (PlannerException error) {
      // the plan itself reports it
    }
  }

  /**
   * Whether Spark still optimizes the query {@code execution}. While a query runs, other DataFrames may be planned
   * under its name: {@code df.rdd} has no execution of its own, in {@code foreachBatch} for example.
   */
  private static boolean isBeginning(String execution) {
    QueryExecution query = execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
    return query != null
        && query.getClass() == QueryExecution.class // not a batch of a stream
        && !query.tracker().phases().contains(QueryPlanningTracker.PLANNING());
  }

  /** The execution id of the query that this thread runs; null if there is none. */
  public static String execution(SparkSession session) {
    return session.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
  }

  /**
   * @param predicate may be null
   * @param explain whether an explanation is among the counts
   */
  public static PlanResult plan(
      SparkSession session,
      FileListing files,
      ReaderColumns columns,
      PlannerPredicate predicate,
      ScanOptions options,
      boolean explain) {
    FileFormat format = columns.format();
    if (options.planning().equals(ScanOptions.OFF)) {
      return PlanResult.none("planning is off");
    }
    if (predicate == null || !(explain || predicate.isWorthPlanning())) {
      return PlanResult.none(
          columns.unplannableReason() == null
              ? "the query has no filter that can skip " + format.unit() + "s"
              : columns.unplannableReason());
    }
    if (files.count() == 0) {
      return PlanResult.empty();
    }
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("format", format.shortName());
    request.put("explain", explain);
    request.put("execution", execution(session));
    request.set("predicate", predicate.toJson());
    request.set("readerTypes", predicate.readerTypes());
    request.set("table", columns.table());
    request.put("caseSensitive", columns.caseSensitive());
    // Without a zone, a Parquet timestamp that depends on one excludes nothing.
    ReaderZone.addTo(request, format == FileFormat.ORC ? ReaderZone.of(session.sparkContext()) : null, predicate);
    ObjectNode plannerOptions = request.putObject("options");
    options.planner().forEach(plannerOptions::put);
    try {
      String index = IndexLocation.qualified(session, options.planner().get("index"));
      plannerOptions.put("index", index);
      Map<String, Storage> storages = files.storages(() -> options.hadoopConf(session));
      storages.putAll(IndexLocation.storage(index, () -> options.hadoopConf(session)));
      ObjectNode described = request.putObject("storages");
      storages.forEach(
          (root, each) ->
              described
                  .putObject(root)
                  .put("number", each.number())
                  .put("key", each.key())
                  .put("isFirst", each.isFirst()));
      PlanResult result = ask(session, request, files, storages, options.timeoutMillis());
      result.toJson().path("warnings").forEach(each -> warnOnce(each.asText()));
      return result;
    } catch (PlannerException error) {
      if (error.fatal()) {
        throw new IllegalStateException(error.getMessage(), error);
      }
      warnOnce("Spark reads everything, as without bloomparquet: " + error.getMessage());
      return PlanResult.failed(error.getMessage());
    }
  }

  /** The result of a scan that cannot be planned for a reason that the user should know. Warns of it, once. */
  public static PlanResult declined(String reason) {
    warnOnce("Spark reads everything, as without bloomparquet: " + reason);
    return PlanResult.none(reason);
  }

  /** A plan of the present versions of the files. */
  private static PlanResult ask(
      SparkSession session, ObjectNode request, FileListing files, Map<String, Storage> storages, long timeoutMillis)
      throws PlannerException {
    PlannerProcess planner = process(session);
    if (files.neverChange() || LocalPaths.isLocal(files.path(0))) {
      return await(planner.ask(request, files, timeoutMillis), files, timeoutMillis, timeoutMillis);
    }
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMillis);
    PresentVersions.Opener opener = path -> storages.get(Storages.root(path)).files();
    Look look = Look.begin(files.look(opener, timeoutMillis));
    // It may come after planningTimeout. Then what was read until it came is kept for later queries.
    CompletableFuture<PlanResult> answer =
        planner.ask(request, files, timeoutMillis).whenComplete((result, error) -> look.end());
    boolean isKnown = false; // that what was read is of the listed versions
    try {
      PlanResult result = await(answer, files, millisUntil(end), timeoutMillis);
      if (look.readUnpinned()) {
        files.look(opener, millisUntil(end));
      }
      isKnown = true;
      return result;
    } finally {
      if (!isKnown) {
        answer.whenCompleteAsync(
            (result, error) -> lookAgain(look, files, opener, timeoutMillis, () -> planner.forget(storages.values())));
      }
    }
  }

  /** After an answer that nobody waited for, or an error. */
  private static void lookAgain(
      Look look, FileListing files, PresentVersions.Opener opener, long millis, Runnable forget) {
    if (look.readUnpinned()) {
      try {
        files.look(opener, millis);
      } catch (PlannerException doubtful) {
        forget.run();
      }
    }
  }

  private static long millisUntil(long end) {
    return TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
  }

  private static PlanResult await(
      CompletableFuture<PlanResult> answer, FileListing listing, long millis, long timeoutMillis)
      throws PlannerException {
    try {
      return answer.get(millis, TimeUnit.MILLISECONDS);
    } catch (TimeoutException error) {
      // The planner goes on, and caches what it reads for the next query.
      throw new PlannerException(
          String.format(
              "planning %d files took longer than planningTimeout, %d ms; raise it, or build an index "
                  + "(bloomparquet index build)",
              listing.count(), timeoutMillis));
    } catch (ExecutionException error) {
      throw error.getCause() instanceof PlannerException cause
          ? cause
          : new PlannerException(error.getCause().toString());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new PlannerException("interrupted while waiting for a plan");
    }
  }

  private static void warnOnce(String message) {
    if (WARNED.size() < MAX_WARNINGS && WARNED.add(message)) {
      LOG.warn(message);
    }
  }
}
