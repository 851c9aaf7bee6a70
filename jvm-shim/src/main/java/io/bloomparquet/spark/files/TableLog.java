package io.bloomparquet.spark.files;

import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.security.AccessControlException;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;

/**
 * The log of a Delta Lake, Iceberg or Hudi table. Only the log says which files hold the table's rows: other files in
 * the directory may hold deleted rows. So such a directory is not read as plain files, and not written to. The planner
 * applies the same rule; {@code tests/support/table_logs.py} has the cases that both are tested with.
 *
 * @param table the directory of the table
 * @param directory the directory of the log
 */
public record TableLog(Kind kind, Path table, Path directory) {

  /** A table format, and how Spark and Python read it. */
  enum Kind {
    DELTA("Delta Lake", "delta", "bloomparquet.Dataset.from_delta"),
    ICEBERG("Iceberg", "iceberg", "bloomparquet.Dataset.from_iceberg"),
    HUDI("Hudi", "hudi", "the package hudi");

    private final String title;
    private final String format;
    private final String pythonReader;

    Kind(String title, String format, String pythonReader) {
      this.title = title;
      this.format = format;
      this.pythonReader = pythonReader;
    }
  }

  private static final String OPTION = "tableLog";
  private static final Map<String, Kind> LOGS = Map.of("_delta_log", Kind.DELTA, ".hoodie", Kind.HUDI);
  private static final String ICEBERG = "metadata";
  private static final int THREADS = 8;

  /** Above this many remote directories, one listing of everything is cheaper than requests for each directory. */
  private static final int MAX_REMOTE_DIRECTORIES = 64;

  /** Throws if {@code files} may belong to a table with a log, unless the options say to ignore it. */
  public static void refuseReading(PartitioningAwareFileIndex files, Map<String, String> options, Configuration conf) {
    if (isIgnored(options)) {
      return;
    }
    try {
      List<Path> roots = Scala.list(files.rootPaths());
      // Before allFiles(): Spark infers partitions there, and fails on the files of a log.
      Set<Path> visited = new HashSet<>();
      TableLog log = roots.size() == 1 ? above(Set.copyOf(roots), visited, conf) : null;
      if (log == null) {
        Set<Path> directories = directories(roots, Scala.list(files.allFiles()));
        long remote = directories.stream().filter(each -> isRemoteTable(each) && !visited.contains(each)).count();
        log =
            remote <= MAX_REMOTE_DIRECTORIES
                ? above(directories, visited, conf)
                : listed(roots, directories, conf);
      }
      if (log != null) {
        throw new UnsupportedOperationException(
            String.format(
                "%s: its log, %s, says which files hold its rows; other files here may hold deleted rows. Read "
                    + "it with spark.read.format(\"%s\").load(\"%s\"), or in Python with %s. To read the "
                    + "bare files, set the option tableLog=ignore",
                log, log.directory, log.kind.format, log.table, log.kind.pythonReader));
      }
    } catch (IOException error) {
      throw Scala.unchecked(error);
    }
  }

  /**
   * Throws if {@code path} is or lies in a table with a log.
   *
   * @param deletes whether the write also deletes what is in the directory, which must then hold no such table
   */
  public static void refuseWriting(Path path, boolean deletes, Configuration conf) {
    try {
      Path target = path.getFileSystem(conf).makeQualified(path);
      TableLog log = above(Set.of(target), new HashSet<>(), conf);
      if (log == null && deletes) {
        boolean mayBeLink = LocalPaths.isLocal(target) && Files.exists(LocalPaths.local(target));
        Path real = mayBeLink ? LocalPaths.ofLocal(LocalPaths.local(target).toRealPath()) : target;
        log = below(real, conf).stream().findFirst().orElse(null);
      }
      if (log != null) {
        throw new UnsupportedOperationException(
            String.format(
                "%s: its log, %s, says which files it has, so a new file would be ignored and a deleted one would be "
                    + "missing. Nothing was written; write to another directory, or write the table with %s",
                log, log.directory, log.kind.title));
      }
    } catch (IOException error) {
      throw Scala.unchecked(error);
    }
  }

  @Override
  public String toString() {
    return table + " is a table of " + kind.title;
  }

  /** The log that a file or directory in a listing is, or is part of; null if it is none. */
  private static TableLog at(Path path, boolean isDirectory) {
    Kind kind = isDirectory ? LOGS.get(path.getName()) : null;
    if (kind != null) {
      return new TableLog(kind, path.getParent(), path);
    }
    Path parent = path.getParent();
    boolean isIceberg =
        !isDirectory && isIcebergMetadata(path.getName()) && parent.getName().equals(ICEBERG) && !parent.isRoot();
    return isIceberg ? new TableLog(Kind.ICEBERG, parent.getParent(), parent) : null;
  }

  private static boolean isIgnored(Map<String, String> options) {
    String given = OptionNames.merge(options).getOrDefault(OPTION, "error").trim();
    if (!given.equalsIgnoreCase("error") && !given.equalsIgnoreCase("ignore")) {
      throw new IllegalArgumentException("option " + OPTION + " is '" + given + "'; expected error or ignore");
    }
    return given.equalsIgnoreCase("ignore");
  }

  /** The directories among {@code roots}, and the directories of {@code files} and of the targets of links. */
  private static Set<Path> directories(List<Path> roots, List<FileStatus> files) throws IOException {
    Set<Path> directories = new LinkedHashSet<>(roots);
    files.forEach(file -> directories.remove(file.getPath()));
    for (FileStatus file : files) {
      directories.add(file.getPath().getParent());
      if (LocalPaths.isLink(file.getPath())) {
        directories.add(LocalPaths.ofLocal(LocalPaths.local(file.getPath()).toRealPath().getParent()));
      }
    }
    return directories;
  }

  /**
   * The log of a table that one of {@code directories} is or lies in, also by symbolic links; null if there is none.
   *
   * @param visited the directories that were already looked at, which are skipped; the ones looked at are added
   */
  private static TableLog above(Set<Path> directories, Set<Path> visited, Configuration conf) throws IOException {
    List<Path> all = new ArrayList<>();
    for (Path directory : directories) {
      add(directory, visited, all);
    }
    List<Path> tables = new ArrayList<>();
    for (Path table : all) {
      if (LocalPaths.isLocal(table)) {
        TableLog log = localLog(table);
        if (log != null) {
          return log;
        }
      } else if (isRemoteTable(table)) {
        tables.add(table);
      }
    }
    return tables.isEmpty() ? null : remoteLog(tables, conf);
  }

  /** Remote directories cost a request. A table does not start at a partition's directory, so these are skipped. */
  private static boolean isRemoteTable(Path directory) {
    return !LocalPaths.isLocal(directory) && !directory.getName().contains("=");
  }

  /** The log that {@link #above} finds, by one listing of everything below {@code roots}. */
  private static TableLog listed(List<Path> roots, Set<Path> directories, Configuration conf) throws IOException {
    TableLog log = above(Set.copyOf(roots), new HashSet<>(), conf);
    for (Path root : log == null ? roots : List.<Path>of()) {
      for (TableLog below : below(root, conf)) {
        if (directories.stream().anyMatch(directory -> LocalPaths.isIn(below.table, directory))) {
          return below;
        }
      }
    }
    return log;
  }

  /**
   * Adds {@code directory}, its ancestors, and the targets of links among them to {@code all}, unless in {@code
   * visited}.
   */
  private static void add(Path directory, Set<Path> visited, List<Path> all) throws IOException {
    for (Path each = directory; each != null && visited.add(each); each = each.getParent()) {
      all.add(each);
      if (LocalPaths.isLink(each) && Files.exists(LocalPaths.local(each))) {
        add(LocalPaths.ofLocal(LocalPaths.local(each).toRealPath()), visited, all);
      }
    }
  }

  private static TableLog localLog(Path table) throws IOException {
    java.nio.file.Path directory = LocalPaths.local(table);
    for (Map.Entry<String, Kind> each : LOGS.entrySet()) {
      if (Files.isDirectory(directory.resolve(each.getKey()))) {
        return new TableLog(each.getValue(), table, new Path(table, each.getKey()));
      }
    }
    java.nio.file.Path metadata = directory.resolve(ICEBERG);
    if (Files.isDirectory(metadata) && Files.isReadable(metadata)) {
      try (Stream<java.nio.file.Path> files = Files.list(metadata)) {
        if (files.anyMatch(file -> isIcebergMetadata(file.getFileName().toString()))) {
          return new TableLog(Kind.ICEBERG, table, new Path(table, ICEBERG));
        }
      }
    }
    return null;
  }

  /** Looks for all logs in parallel, because each request to an object store takes a while. */
  private static TableLog remoteLog(List<Path> tables, Configuration conf) throws IOException {
    List<Future<TableLog>> answers = new ArrayList<>();
    ExecutorService threads = Executors.newFixedThreadPool(Math.min(THREADS, tables.size() * (LOGS.size() + 1)));
    try {
      for (Path table : tables) {
        FileSystem files = table.getFileSystem(conf);
        LOGS.forEach((name, kind) -> answers.add(threads.submit(() -> logIn(files, kind, table, name))));
        answers.add(threads.submit(() -> logIn(files, Kind.ICEBERG, table, ICEBERG)));
      }
      for (Future<TableLog> answer : answers) {
        if (answer.get() != null) {
          return answer.get();
        }
      }
      return null;
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while looking for the logs of tables", error);
    } catch (ExecutionException error) {
      throw Scala.unchecked(error.getCause());
    } finally {
      threads.shutdownNow();
    }
  }

  private static TableLog logIn(FileSystem files, Kind kind, Path table, String name) throws IOException {
    Path directory = new Path(table, name);
    try {
      boolean isLog = files.exists(directory) && files.getFileStatus(directory).isDirectory();
      if (isLog && kind == Kind.ICEBERG) {
        isLog = false;
        RemoteIterator<FileStatus> each = files.listStatusIterator(directory);
        while (!isLog && each.hasNext()) {
          isLog = isIcebergMetadata(each.next().getPath().getName());
        }
      }
      return isLog ? new TableLog(kind, table, directory) : null;
    } catch (AccessControlException | java.nio.file.AccessDeniedException error) {
      return null; // a user who may read the files need not be allowed to look above them
    }
  }

  /** The logs below a directory; of a local directory, the first one only. Does not follow links. */
  private static Set<TableLog> below(Path directory, Configuration conf) throws IOException {
    Set<TableLog> logs = new LinkedHashSet<>();
    Consumer<TableLog> add = log -> Stream.ofNullable(log).forEach(logs::add);
    FileSystem files = directory.getFileSystem(conf);
    if (LocalPaths.isLocal(directory)) {
      if (Files.isDirectory(LocalPaths.local(directory))) {
        Files.walkFileTree(LocalPaths.local(directory), new Visitor(add));
      }
    } else if (files.exists(directory)) {
      RemoteIterator<LocatedFileStatus> each = files.listFiles(directory, true);
      while (each.hasNext()) {
        Path file = each.next().getPath();
        add.accept(at(file, false));
        for (Path above = file.getParent(); !above.equals(directory) && !above.isRoot(); above = above.getParent()) {
          add.accept(at(above, true));
        }
      }
    }
    return logs;
  }

  private static final class Visitor extends SimpleFileVisitor<java.nio.file.Path> {
    private final Consumer<TableLog> logs;

    Visitor(Consumer<TableLog> logs) {
      this.logs = logs;
    }

    @Override
    public FileVisitResult preVisitDirectory(java.nio.file.Path path, BasicFileAttributes attributes) {
      return visit(path, true);
    }

    @Override
    public FileVisitResult visitFileFailed(java.nio.file.Path path, IOException error) {
      return FileVisitResult.CONTINUE; // deleted by another job, or not readable and so not deletable
    }

    @Override
    public FileVisitResult visitFile(java.nio.file.Path path, BasicFileAttributes attributes) {
      return visit(path, false);
    }

    private FileVisitResult visit(java.nio.file.Path path, boolean isDirectory) {
      TableLog log = at(LocalPaths.ofLocal(path), isDirectory);
      logs.accept(log);
      return log == null ? FileVisitResult.CONTINUE : FileVisitResult.TERMINATE;
    }
  }

  private static boolean isIcebergMetadata(String name) {
    return name.equals("version-hint.text") || name.endsWith(".metadata.json") || name.endsWith(".metadata.json.gz");
  }
}
