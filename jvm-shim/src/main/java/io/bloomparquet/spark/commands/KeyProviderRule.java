package io.bloomparquet.spark.commands;

import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;

/**
 * Who names a key provider for what he writes believes that it is encrypted. The provider is for reading; Spark's writer
 * encrypts by parquet-java's properties, and where these say nothing, files would be in plain text.
 */
public final class KeyProviderRule {
  private static final String OPTION = "keyProvider";
  private static final String FACTORY = "parquet.crypto.factory.class";
  private static final String BY_PROPERTIES = "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory";
  private static final String[] MASTER_KEYS = {
    "parquet.encryption.footer.key", "parquet.encryption.column.keys", "parquet.encryption.uniform.key"
  };

  private KeyProviderRule() {}

  /**
   * Throws {@link IllegalArgumentException} where files would be in plain text.
   *
   * @param options of the write or its table, with what Spark has added of the session's
   * @param session its options, which are for what it reads as well
   * @param conf what the writer heeds
   */
  public static void check(Map<String, String> options, Map<String, String> session, Configuration conf) {
    String provider = find(options);
    if (provider != null && !provider.equals(find(session)) && !encrypts(conf)) {
      throw new IllegalArgumentException(
          "option keyProvider is for reading and encrypts nothing; for encrypted files, give "
              + FACTORY
              + " and parquet.encryption.footer.key with column.keys, or uniform.key; for files in plain text, no keyProvider");
    }
  }

  private static String find(Map<String, String> options) {
    Map<String, String> folded = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    folded.putAll(options);
    return folded.get(OPTION);
  }

  /** Of another factory than parquet-java's own it is not known what it does. */
  private static boolean encrypts(Configuration conf) {
    String factory = conf.getTrimmed(FACTORY, "");
    if (factory.isEmpty()) {
      return false;
    }
    return !factory.equals(BY_PROPERTIES) || Stream.of(MASTER_KEYS).anyMatch(key -> !conf.getTrimmed(key, "").isEmpty());
  }
}
