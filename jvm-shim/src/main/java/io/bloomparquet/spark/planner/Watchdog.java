package io.bloomparquet.spark.planner;

import java.time.Duration;
import java.util.function.Supplier;

/**
 * Tells from the signs of life of a process whether it hangs. It is asked every second, and counts these instead of
 * reading a clock: a pause of this JVM is not a silence of the process.
 */
final class Watchdog {
  /**
   * Seconds in which a working process may neither send a frame nor use the CPU: four signs of life are missing then. A
   * process that holds Python's global lock, or is starved on a loaded machine, still uses some CPU time.
   */
  private static final int MAX_IDLE = 8;

  /** Before the first frame: imports send no signs of life, and may wait for a slow disk. */
  private static final int MAX_IDLE_AT_START = 20;

  /** Seconds in which a working process may send no frame although it uses the CPU. */
  private static final int MAX_SILENT = 60;

  private long framesBefore;
  private Duration cpuBefore = Duration.ZERO;
  private int silent;
  private int idle;

  /**
   * What is wrong with the process; null if nothing is.
   *
   * @param isWorking whether it has a request to answer
   * @param frames how many it has sent
   * @param cpuTime that it has used
   */
  String check(boolean isWorking, long frames, Supplier<Duration> cpuTime) {
    if (!isWorking || frames != framesBefore) {
      framesBefore = frames;
      silent = 0;
      idle = 0;
      return null;
    }
    Duration cpu = cpuTime.get();
    silent++;
    idle = cpu.equals(cpuBefore) ? idle + 1 : 0;
    cpuBefore = cpu;
    if (idle >= (frames == 0 ? MAX_IDLE_AT_START : MAX_IDLE)) {
      return "gave no sign of life for " + silent + " s and used no CPU time; was it stopped?";
    }
    return silent >= MAX_SILENT && frames > 0 ? "gave no sign of life for " + silent + " s" : null;
  }
}
