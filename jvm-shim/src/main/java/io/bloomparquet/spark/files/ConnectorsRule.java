package io.bloomparquet.spark.files;

import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import java.net.URI;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoDir;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Option;

/**
 * Applies {@link Connectors} to the paths of SQL statements, before Spark opens them: its own error for a path query
 * names neither the path nor the cause. Changes no plan.
 */
public final class ConnectorsRule extends Rule<LogicalPlan> {
  private final SparkSession session;

  public ConnectorsRule(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    check(plan);
    return plan;
  }

  private void check(LogicalPlan plan) {
    if (plan.analyzed()) {
      return;
    }
    if (plan instanceof UnresolvedRelation relation) {
      List<String> name = Scala.list(relation.multipartIdentifier());
      if (name.size() == 2) { // of a path query: the format and the path
        require(name.get(0), name.get(1));
      }
    } else if (plan instanceof CreateTable create) {
      check(create.tableSpec());
    } else if (plan instanceof CreateTableAsSelect create) {
      check(create.tableSpec());
    } else if (plan instanceof InsertIntoDir insert) {
      Option<URI> location = insert.storage().locationUri();
      require(insert.provider().getOrElse(() -> ""), location.isDefined() ? location.get().toString() : "");
    }
    Scala.list(plan.children()).forEach(this::check);
  }

  private void check(TableSpecBase table) {
    if (table instanceof UnresolvedTableSpec spec) {
      require(spec.provider().getOrElse(() -> ""), spec.location().getOrElse(() -> ""));
    }
  }

  private void require(String source, String path) {
    Stream.of(FileFormat.values())
        .filter(format -> format.source().equalsIgnoreCase(source) && !path.isEmpty())
        .forEach(format -> Connectors.require(format, List.of(path), session.sessionState().newHadoopConf()));
  }
}
