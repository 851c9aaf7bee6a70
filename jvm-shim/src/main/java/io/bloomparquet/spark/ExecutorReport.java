package io.bloomparquet.spark;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.plain.ExecutorJar;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.SerializableConfiguration;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** A task that says, as JSON, on which executor it runs, which jar that executor has, and whether it reads a file. */
final class ExecutorReport implements Function<String, String> {
  private static final long serialVersionUID = 1L;

  private final SerializableConfiguration conf;

  private ExecutorReport(SerializableConfiguration conf) {
    this.conf = conf;
  }

  /**
   * The reports of all executors that the application has, each as JSON. An executor that is busy for longer than
   * {@code spark.locality.wait} is missing among them.
   *
   * @param file the file to read; may be empty
   */
  static List<String> ofAll(SparkSession session, String file, long seconds)
      throws ExecutionException, InterruptedException, TimeoutException {
    SparkContext context = session.sparkContext();
    ExecutorJar.isAvailable(context); // as a query does
    List<Tuple2<String, Seq<String>>> tasks = new ArrayList<>();
    for (BlockManagerId each : Scala.map(SparkEnv.get().blockManager().master().getMemoryStatus()).keySet()) {
      if (!each.isDriver() || context.isLocal()) {
        // Spark's name for an executor as the location of a task; see TaskLocation
        tasks.add(new Tuple2<>(file, Scala.seq(List.of("executor_" + each.host() + "_" + each.executorId()))));
      }
    }
    if (tasks.isEmpty()) { // dynamic allocation starts one
      tasks.add(new Tuple2<>(file, Scala.seq(List.of())));
    }
    ExecutorReport report = new ExecutorReport(new SerializableConfiguration(session.sessionState().newHadoopConf()));
    JavaFutureAction<List<String>> job =
        context
            .makeRDD(Scala.seq(tasks), ClassTag$.MODULE$.<String>apply(String.class))
            .toJavaRDD()
            .map(report)
            .collectAsync();
    try {
      return job.get(seconds, TimeUnit.SECONDS);
    } finally {
      job.cancel(true);
    }
  }

  @Override
  public String call(String file) {
    ObjectNode report = JsonNodeFactory.instance.objectNode();
    report.put("executor", SparkEnv.get().executorId()).put("host", SparkEnv.get().blockManager().blockManagerId().host());
    report.put("version", DriverSettings.version());
    if (!file.isEmpty()) {
      Path path = new Path(file);
      try (FSDataInputStream stream = path.getFileSystem(conf.value()).open(path)) {
        stream.read();
      } catch (IOException | RuntimeException error) {
        report.put("error", error.toString());
      }
    }
    return report.toString();
  }
}
