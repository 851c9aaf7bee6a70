package io.bloomparquet.spark.support;

import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Conversions between Java's and Scala's collections, and Scala's way to throw. */
public final class Scala {
  private Scala() {}

  public static <T> Seq<T> seq(Collection<T> items) {
    return CollectionConverters.asScala(items).toSeq();
  }

  public static <T> List<T> list(scala.collection.Seq<T> items) {
    return CollectionConverters.asJava(items);
  }

  public static <T> Set<T> set(scala.collection.Set<T> items) {
    return CollectionConverters.asJava(items);
  }

  public static <T> Iterator<T> iterator(scala.collection.Iterator<T> items) {
    return CollectionConverters.asJava(items);
  }

  public static <K, V> Map<K, V> map(scala.collection.Map<K, V> items) {
    return CollectionConverters.asJava(items);
  }

  /** Keeps the case of the keys. */
  public static scala.collection.immutable.Map<String, String> map(
      org.apache.spark.sql.util.CaseInsensitiveStringMap items) {
    return map(items.asCaseSensitiveMap());
  }

  public static <K, V> scala.collection.immutable.Map<K, V> map(Map<K, V> items) {
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(items));
  }

  /** Throws {@code error} as it is, as Scala does with checked exceptions; never returns. */
  @SuppressWarnings("unchecked")
  public static <E extends Throwable> RuntimeException unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
