package io.bloomparquet.spark.support;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Threads that do not keep the JVM alive. */
public final class DaemonThreads {
  private DaemonThreads() {}

  public static Thread of(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    return thread;
  }

  public static ExecutorService pool(int threads, String name) {
    return Executors.newFixedThreadPool(threads, work -> of(work, name));
  }
}
