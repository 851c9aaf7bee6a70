package io.bloomparquet.spark.filters;

import io.bloomparquet.spark.support.OptionNames;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.orc.OrcConf;
import org.apache.orc.OrcUtils;
import org.apache.orc.TypeDescription;
import org.apache.spark.sql.types.StructType;

/**
 * The Bloom filters of an ORC write: {@code bloomColumns="user_id,address.city"} or {@code *}, and {@code
 * bloomFpp=0.01} ({@link BloomFpp}). ORC's own writer makes them, one for each row group and column, sized for {@code
 * orc.row.index.stride} distinct values.
 *
 * <p>ORC's options {@code orc.bloom.filter.columns} and {@code orc.bloom.filter.fpp} work too. Setting one thing in
 * both ways is an error.
 */
public final class OrcWriteOptions implements FilterOptions {
  private static final String COLUMNS = OrcConf.BLOOM_FILTER_COLUMNS.getAttribute();
  private static final String FPP = OrcConf.BLOOM_FILTER_FPP.getAttribute();
  private static final String EVERY = "*";
  private static final String WITHOUT_FILTERS = "0.11";

  private final Set<String> chosen = new TreeSet<>();
  private final OptionalDouble fpp;

  /**
   * Checks the options, and throws {@link IllegalArgumentException}.
   *
   * @param options of a write; Spark may have changed the names to lower case
   * @param schema of the files
   */
  public OrcWriteOptions(Map<String, String> options, StructType schema) {
    Map<String, String> given = OptionNames.merge(options);
    given.keySet().forEach(OptionNames::checkForOrc);
    fpp = BloomFpp.of(given);
    if (fpp.isPresent() && given.containsKey(FPP)) {
      throw new IllegalArgumentException(
          String.format(
              "options bloomFpp is '%s' and %s is '%s'; expected one of them: ORC has one false positive probability "
                  + "for all columns",
              given.get("bloomFpp"), FPP, given.get(FPP)));
    }
    if (given.containsKey("bloomColumns")) {
      findable(schema)
          .choose(
              given.get("bloomColumns"),
              WrittenColumns.Leaf::mayProfit,
              (leaf, optional) -> choose(leaf, optional, given));
    }
  }

  /** The columns of the files. A column that ORC's writer cannot find by its name gets no filter. */
  private static WrittenColumns findable(StructType schema) {
    WrittenColumns columns = WrittenColumns.of(schema);
    TypeDescription type = org.apache.spark.sql.execution.datasources.orc.OrcUtils.orcTypeDescription(schema);
    List<Integer> ids = new ArrayList<>();
    leaves(type, ids);
    Iterator<Integer> id = ids.iterator();
    return columns.map(
        leaf -> {
          boolean[] only = new boolean[type.getMaximumId() + 1];
          only[id.next()] = true;
          return leaf.noFilterReason() != null || Arrays.equals(OrcUtils.includeColumns(leaf.path(), type), only)
              ? leaf
              : leaf.withoutFilter(
                  "has a name that ORC's writer cannot find: it splits names at dots and commas, and ignores case");
        });
  }

  /** The ids of the leaf columns, in the order of {@link WrittenColumns}. */
  private static void leaves(TypeDescription type, List<Integer> ids) {
    if (type.getChildren() == null) {
      ids.add(type.getId());
    } else {
      type.getChildren().forEach(child -> leaves(child, ids));
    }
  }

  private void choose(WrittenColumns.Leaf leaf, boolean optional, Map<String, String> given) {
    String own = given.getOrDefault(COLUMNS, "");
    if (Arrays.stream(own.split(",")).anyMatch(each -> each.trim().equalsIgnoreCase(leaf.path()))) {
      if (optional) {
        return;
      }
      throw new IllegalArgumentException(
          String.format(
              "options bloomColumns is '%s' and %s is '%s', and both name '%s'; name it in one of them",
              given.get("bloomColumns"), COLUMNS, own, leaf.path()));
    }
    chosen.add(leaf.path());
  }

  @Override
  public void applyTo(Configuration conf) {
    fpp.ifPresent(given -> conf.setDouble(FPP, given));
    if (chosen.isEmpty()) {
      return;
    }
    if (!OrcConf.ENABLE_INDEXES.getBoolean(conf)
        || OrcConf.ROW_INDEX_STRIDE.getLong(conf) == 0
        || OrcConf.WRITE_FORMAT.getString(conf).equals(WITHOUT_FILTERS)) {
      throw new IllegalArgumentException(
          String.format(
              "option bloomColumns needs indexes, but the settings turn them off: %s is %s, %s is %d and %s is %s",
              OrcConf.ENABLE_INDEXES.getAttribute(),
              OrcConf.ENABLE_INDEXES.getBoolean(conf),
              OrcConf.ROW_INDEX_STRIDE.getAttribute(),
              OrcConf.ROW_INDEX_STRIDE.getLong(conf),
              OrcConf.WRITE_FORMAT.getAttribute(),
              OrcConf.WRITE_FORMAT.getString(conf)));
    }
    String own = conf.get(COLUMNS, "");
    if (!own.equals(EVERY)) {
      conf.set(COLUMNS, String.join(",", chosen) + (own.isBlank() ? "" : "," + own));
    }
  }
}
