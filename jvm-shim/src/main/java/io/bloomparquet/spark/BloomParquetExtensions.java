package io.bloomparquet.spark;

import io.bloomparquet.spark.files.ConnectorsRule;
import io.bloomparquet.spark.load.LoadRule;
import io.bloomparquet.spark.plain.EarlyLook;
import io.bloomparquet.spark.plain.PlainScans;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.SparkVersions;
import io.bloomparquet.spark.write.WriteStrategy;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import scala.runtime.BoxedUnit;

/**
 * Prunes Spark's own scans of Parquet and ORC files, and checks overwrites. Spark finds this class by itself if the
 * jar is on the class path when a session starts; {@code spark.sql.extensions} may name it too.
 */
public final class BloomParquetExtensions implements SparkSessionExtensionsProvider {
  private static final Set<SparkSessionExtensions> EXTENDED =
      Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

  /**
   * Registers the rules. Spark reads a session's extensions for each query, so this also works for a running session,
   * and for the sessions made from it. Only the rule of the analyzer must be there before the session's first query.
   */
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    DriverSettings.makeStatic();
    if (EXTENDED.add(extensions)) {
      SparkVersions.injectEarly(extensions, ConnectorsRule::new); // runs before Spark opens paths
      extensions.injectOptimizerRule(session -> new LoadRule()); // the others look for Spark's relations
      extensions.injectOptimizerRule(EarlyLook::new);
      extensions.injectOptimizerRule(PlainScans::install);
      extensions.injectPlannerStrategy(WriteStrategy::new);
    }
    return BoxedUnit.UNIT;
  }

  /** Adds the extensions to a session, unless it has them. */
  static void install(SparkSession session) {
    var classic = SparkVersions.classic(session);
    if (classic != null) {
      new BloomParquetExtensions().apply(classic.extensions());
    }
  }

  /** Our sources call this: a jar that was added to a running session has no other chance. */
  static void installInActiveSession() {
    SparkSession.getActiveSession().foreach(
        session -> {
          install(session);
          return BoxedUnit.UNIT;
        });
  }
}
