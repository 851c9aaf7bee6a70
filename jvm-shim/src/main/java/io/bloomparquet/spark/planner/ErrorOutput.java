package io.bloomparquet.spark.planner;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/** Copies the standard error of a process to the standard error of this JVM, and keeps the last line. */
final class ErrorOutput {
  private static final int MAX_LINE = 500;
  private static final FileOutputStream OURS = new FileOutputStream(FileDescriptor.err);

  private final Thread copying;
  private final StringBuilder kept = new StringBuilder();

  ErrorOutput(InputStream stream) {
    copying = new Thread(() -> copy(stream), "bloomparquet-planner-errors");
    copying.setDaemon(true);
    copying.start();
  }

  private void copy(InputStream stream) {
    byte[] bytes = new byte[1 << 13];
    try (stream) {
      for (int count = stream.read(bytes); count >= 0; count = stream.read(bytes)) {
        keep(new String(bytes, 0, count, StandardCharsets.UTF_8));
        try {
          OURS.write(bytes, 0, count);
        } catch (IOException error) {
          // the standard error of this JVM is closed; the process must still be able to write
        }
      }
    } catch (IOException error) {
      // the process has ended
    }
  }

  private synchronized void keep(String text) {
    kept.append(text);
    kept.delete(0, Math.max(0, kept.length() - 2 * MAX_LINE));
  }

  /** A colon and the last line with text in it; empty if there is none. Waits for the output of an exited process. */
  String lastLine() {
    try {
      copying.join(TimeUnit.SECONDS.toMillis(1)); // a child process may hold the pipe open
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    synchronized (this) {
      String text = kept.toString().strip();
      String line = text.substring(Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1).strip();
      return line.isEmpty() ? "" : ": " + line.substring(0, Math.min(line.length(), MAX_LINE));
    }
  }
}
