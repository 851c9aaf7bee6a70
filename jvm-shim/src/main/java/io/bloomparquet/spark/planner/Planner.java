package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.support.FileFormat;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Decides whether to ask the planner, and asks it. Nothing that goes wrong here is an error of the query: then there is
 * no plan, which is said once, and everything is read.
 */
public final class Planner {
  private static final Logger LOG = LoggerFactory.getLogger("bloomparquet");
  private static final int MOST_TOLD = 1000;
  private static final Set<String> TOLD = ConcurrentHashMap.newKeySet();

  private Planner() {}

  /** Starts the planner of a session. The first query that needs a plan reports a planner that did not start. */
  public static void start(SparkSession session) {
    try {
      PlannerProcess.of(PythonCommand.of(session));
    } catch (PlannerException error) {
      // reported by the first query
    }
  }

  /** @param predicate that {@code predicates} made, or null */
  public static PlanResult plan(
      SparkSession session,
      List<PartitionDirectory> directories,
      PlannerPredicate predicates,
      JsonNode predicate,
      ScanOptions options) {
    FileFormat format = predicates.format();
    if (options.planning() == ScanOptions.Planning.OFF) {
      return PlanResult.none("planning is off");
    }
    if (!PlannerPredicate.isWorthPlanning(predicate)) {
      return PlanResult.none(
          predicates.doubt() == null
              ? "no predicate that " + format.unit() + "s can be excluded by"
              : predicates.doubt());
    }
    int files = FileListing.count(directories);
    if (files == 0) {
      return PlanResult.empty();
    }
    if (options.planning() == ScanOptions.Planning.AUTO && files > options.maxFiles()) {
      return PlanResult.none(
          String.format("%d files are more than maxFilesPlannedOnDriver, %d", files, options.maxFiles()));
    }
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("format", format.shortName());
    request.set("predicate", predicate);
    request.set("shownAs", predicates.shownAs(predicate));
    request.put("caseSensitive", predicates.caseSensitive());
    // Of Parquet, a timestamp whose meaning hangs on a zone excludes nothing.
    ReaderZone.tell(format == FileFormat.ORC ? ReaderZone.of(session.sparkContext()) : null, predicate, request);
    ObjectNode given = request.putObject("options");
    options.planner().forEach(given::put);
    try {
      PlanResult result = ask(PythonCommand.of(session), request, FileListing.of(directories), options.timeoutMillis());
      result.toJson().path("warnings").forEach(each -> tell(each.asText()));
      return result;
    } catch (PlannerException error) {
      if (error.fatal()) {
        throw new IllegalStateException(error.getMessage(), error);
      }
      tell(error.getMessage() + "; everything is read, as by spark.read." + format.shortName());
      return PlanResult.failed(error.getMessage());
    }
  }

  private static PlanResult ask(PythonCommand python, ObjectNode request, FileListing listing, long timeoutMillis)
      throws PlannerException {
    PlannerProcess planner = PlannerProcess.of(python);
    try {
      PlanResult result = planner.ask(request, listing).get(timeoutMillis, TimeUnit.MILLISECONDS);
      result.check(listing.count());
      return result;
    } catch (TimeoutException error) {
      // The planner goes on, and remembers what it reads: the next query may find it done.
      throw new PlannerException(
          String.format(
              "planning %d files took longer than planningTimeout, %d ms", listing.count(), timeoutMillis));
    } catch (ExecutionException error) {
      throw error.getCause() instanceof PlannerException cause ? cause : new PlannerException(error.getCause().toString());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new PlannerException("interrupted while waiting for a plan");
    }
  }

  private static void tell(String message) {
    if (TOLD.size() < MOST_TOLD && TOLD.add(message)) {
      LOG.warn(message);
    }
  }
}
