package io.bloomparquet.spark.write;

import io.bloomparquet.spark.support.OptionNames;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;

/**
 * Refuses the option {@code keyProvider} on a write that would not encrypt. The provider is for reads only: Spark's
 * writer encrypts by parquet-java's properties.
 */
final class KeyProviderRule {
  private static final String OPTION = "keyProvider";
  private static final String FACTORY = "parquet.crypto.factory.class";
  private static final String BY_PROPERTIES = "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory";
  private static final String[] MASTER_KEYS = {
    "parquet.encryption.footer.key", "parquet.encryption.column.keys", "parquet.encryption.uniform.key"
  };

  private KeyProviderRule() {}

  /**
   * Throws {@link IllegalArgumentException} if the option is given and the files would not be encrypted.
   *
   * @param options of the write or its table, perhaps with the session's
   * @param session the session's options; its keyProvider is meant for reads
   * @param conf of the writer
   */
  static void check(Map<String, String> options, Map<String, String> session, Configuration conf) {
    String provider = OptionNames.merge(options).get(OPTION);
    if (provider != null && !provider.equals(session.get(OPTION)) && !encrypts(conf)) {
      throw new IllegalArgumentException(
          "option keyProvider is for reading and encrypts nothing. To write encrypted files, set "
              + FACTORY
              + ", and parquet.encryption.uniform.key, or parquet.encryption.footer.key and "
              + "parquet.encryption.column.keys; to write plain text, remove keyProvider");
    }
  }

  /** Whether the writer encrypts. A factory other than parquet-java's is assumed to. */
  private static boolean encrypts(Configuration conf) {
    String factory = conf.getTrimmed(FACTORY, "");
    if (factory.isEmpty()) {
      return false;
    }
    return !factory.equals(BY_PROPERTIES)
        || Stream.of(MASTER_KEYS).anyMatch(key -> !conf.getTrimmed(key, "").isEmpty());
  }
}
