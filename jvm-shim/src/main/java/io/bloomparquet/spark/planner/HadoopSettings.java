package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.files.LocalPaths;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Hadoop's settings for the storage of a scan's files: endpoint, credentials, encryption. Secrets go to the planner by
 * its standard input only.
 *
 * <p>A setting for the bucket or account goes before the general one, as in Hadoop's connectors. The planner gets it by
 * the general name. {@code pyspark_bloomparquet/jar/hadoop_storage.py} says what the settings mean for pyarrow.
 */
final class HadoopSettings {
  private static final String CREDENTIAL_STORES = "security.credential.provider.path";
  private static final String HADOOP = "hadoop.";
  private static final String S3A_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem";

  /**
   * @param prefix how the names begin
   * @param names of settings, without the prefix
   * @param secrets names of settings that a credential store may hold, without the prefix
   */
  private record Connector(String prefix, List<String> names, List<String> secrets) {}

  private static final Connector S3A =
      new Connector(
          "fs.s3a.",
          List.of(
              "endpoint",
              "endpoint.region",
              "path.style.access",
              "connection.ssl.enabled",
              "aws.credentials.provider",
              "delegation.token.binding",
              "accesspoint.arn",
              "requester.pays.enabled",
              "signing-algorithm",
              "s3.signing-algorithm",
              "custom.signers",
              "s3.client.factory.impl",
              "proxy.host",
              "proxy.port",
              "proxy.ssl.enabled"),
          List.of(
              "access.key",
              "secret.key",
              "session.token",
              "encryption.algorithm",
              "server-side-encryption-algorithm",
              "proxy.username",
              "proxy.password"));

  private static final Connector GCS =
      new Connector(
          "",
          List.of(
              "fs.gs.storage.root.url",
              "fs.gs.auth.type",
              "fs.gs.auth.null.enable",
              "google.cloud.auth.null.enable",
              "fs.gs.auth.service.account.json.keyfile",
              "google.cloud.auth.service.account.json.keyfile",
              "fs.gs.auth.impersonation.service.account",
              "fs.gs.encryption.algorithm",
              "fs.gs.requester.pays.mode",
              "fs.gs.proxy.address"),
          List.of());

  private static final Connector AZURE =
      new Connector(
          "fs.azure.",
          List.of(
              "account.auth.type",
              "account.oauth.provider.type",
              "account.keyprovider",
              "sas.token.provider.type",
              "encryption.context.provider.type"),
          List.of(
              "account.key",
              "account.oauth2.client.id",
              "account.oauth2.client.secret",
              "account.oauth2.client.endpoint",
              "sas.fixed.token",
              "encryption.encoded.client-provided-key"));

  private static final Map<String, Connector> CONNECTORS =
      Map.of("s3a", S3A, "gs", GCS, "abfs", AZURE, "abfss", AZURE);

  private HadoopSettings() {}

  /** The settings by which Spark opens {@code file}. Empty for local files, and for storages that we do not know. */
  static ObjectNode of(Path file, Supplier<Configuration> session) throws PlannerException {
    ObjectNode settings = JsonNodeFactory.instance.objectNode();
    String scheme = file.toUri().getScheme();
    String authority = file.toUri().getAuthority();
    if (LocalPaths.isLocal(file) || scheme == null || authority == null) {
      return settings;
    }
    try {
      Configuration conf = session.get();
      boolean isS3 = scheme.equalsIgnoreCase("s3") && S3A_CLASS.equals(conf.getTrimmed("fs.s3.impl"));
      Connector connector = isS3 ? S3A : CONNECTORS.get(scheme.toLowerCase(Locale.ROOT));
      if (connector == null) {
        return settings;
      }
      conf = inUse(file, scheme, conf);
      if (connector == S3A) {
        conf = withStoresOfBucket(conf, authority);
      }
      for (String name : connector.names()) {
        put(settings, connector.prefix() + name, text(conf, connector, name, authority));
      }
      for (String name : connector.secrets()) {
        put(settings, connector.prefix() + name, secret(conf, connector, name, authority));
      }
      return settings;
    } catch (IOException error) {
      throw cannotRead(scheme, authority, error.toString());
    } catch (RuntimeException error) { // a value with too many variables; the message may show a secret
      throw cannotRead(scheme, authority, error.getClass().getName());
    }
  }

  private static PlannerException cannotRead(String scheme, String authority, String reason) {
    return new PlannerException("cannot read Hadoop's settings for " + scheme + "://" + authority + ": " + reason);
  }

  private static void put(ObjectNode settings, String name, String value) {
    if (value != null && !value.isEmpty()) {
      settings.put(name, value);
    }
  }

  /**
   * The configuration of the file system that Spark listed the files with. Hadoop keeps one for each bucket and user,
   * whatever is set later: to follow the session's settings could mean to read another storage than Spark.
   */
  private static Configuration inUse(Path file, String scheme, Configuration session) throws IOException {
    if (session.getBoolean("fs." + scheme + ".impl.disable.cache", false)) {
      return session; // each call would open another one
    }
    Configuration conf = FileSystem.get(file.toUri(), session).getConf();
    return conf == null ? session : conf;
  }

  /** The names that may have the value, the most specific first. */
  private static Stream<String> names(Connector connector, String name, String authority) {
    String general = connector.prefix() + name;
    if (connector == S3A) {
      return Stream.of(connector.prefix() + "bucket." + authority + "." + name, general);
    }
    if (connector == AZURE) {
      String account = authority.substring(authority.indexOf('@') + 1);
      String container = authority.substring(0, Math.max(authority.indexOf('@'), 0));
      return Stream.of(general + "." + container + "." + account, general + "." + account, general);
    }
    return Stream.of(general);
  }

  private static String text(Configuration conf, Connector connector, String name, String authority) {
    return names(connector, name, authority)
        .map(conf::getTrimmed)
        .filter(each -> each != null)
        .findFirst()
        .orElse(null);
  }

  /** From a credential store of the configuration, or from the configuration itself. */
  private static String secret(Configuration conf, Connector connector, String name, String authority)
      throws IOException {
    for (String each : names(connector, name, authority).toList()) {
      char[] password = conf.getPassword(each);
      if (password != null && password.length > 0) {
        return new String(password).trim();
      }
    }
    return null;
  }

  /** S3A has credential stores of its own, and of a bucket, which go before Hadoop's. */
  private static Configuration withStoresOfBucket(Configuration conf, String bucket) {
    String stores = text(conf, S3A, CREDENTIAL_STORES, bucket);
    String general = conf.getTrimmed(HADOOP + CREDENTIAL_STORES, "");
    if (stores == null || stores.isEmpty() || general.contains(stores)) { // S3A has added them itself
      return conf;
    }
    Configuration all = new Configuration(conf);
    all.set(HADOOP + CREDENTIAL_STORES, general.isEmpty() ? stores : stores + "," + general);
    return all;
  }
}
