package io.bloomparquet.spark.files;

import io.bloomparquet.spark.support.OptionLayers;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.Thrown;
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
 * The log of a table of Delta Lake, Iceberg or Hudi, which says which files hold the table's rows. Deleted rows are still
 * in files below the table's directory, so these files are not read as if they were the table, and nothing is written
 * there. The planner's {@code table_log.py} applies the same rule; {@code tests/support/table_logs.py} has the directories
 * that both must judge alike.
 *
 * @param table the directory of the table
 * @param directory that of the log
 */
public record TableLog(Kind kind, Path table, Path directory) {

  /** A product, and how Spark and Python read its tables. */
  enum Kind {
    DELTA("Delta Lake", "delta", "deltalake"),
    ICEBERG("Iceberg", "iceberg", "pyiceberg"),
    HUDI("Hudi", "hudi", "hudi");

    private final String title;
    private final String format;
    private final String pythonPackage;

    Kind(String title, String format, String pythonPackage) {
      this.title = title;
      this.format = format;
      this.pythonPackage = pythonPackage;
    }
  }

  private static final String OPTION = "tableLog";
  private static final Map<String, Kind> LOGS = Map.of("_delta_log", Kind.DELTA, ".hoodie", Kind.HUDI);
  private static final String ICEBERG = "metadata";
  private static final int THREADS = 8;

  /** More directories than this are not asked for one by one where each costs a few requests. */
  private static final int MOST_ASKED = 64;

  /** The {@code files}, unless they may belong to a table with a log and the options do not say to ignore it. */
  public static <T extends PartitioningAwareFileIndex> T refuseReading(T files, Map<String, String> options, Configuration conf) {
    if (isIgnored(options)) {
      return files;
    }
    try {
      List<Path> roots = Scala.list(files.rootPaths());
      // To look at the files takes their partitions, which the files of a log may not fit into.
      Set<Path> asked = new HashSet<>();
      TableLog log = roots.size() == 1 ? above(Set.copyOf(roots), asked, conf) : null;
      if (log == null) {
        Set<Path> directories = directories(roots, Scala.list(files.allFiles()));
        boolean asks = directories.stream().filter(each -> isAsked(each) && !asked.contains(each)).count() <= MOST_ASKED;
        log = asks ? above(directories, asked, conf) : listed(roots, directories, conf);
      }
      if (log == null) {
        return files;
      }
      throw new UnsupportedOperationException(
          String.format(
              "%s: its log, %s, says which files hold its rows, and other files may lie here that hold deleted rows. Read "
                  + "it with spark.read.format(\"%s\").load(\"%s\"), or in Python with the package %s. To read the bare "
                  + "files, give the option tableLog=ignore",
              log, log.directory, log.kind.format, log.table, log.kind.pythonPackage));
    } catch (IOException error) {
      throw Thrown.unchecked(error);
    }
  }

  /**
   * Refuses to write to a directory that is or lies in a table with a log.
   *
   * @param deletes whether what lies in the directory is deleted, and the tables below with it
   */
  public static void refuseWriting(Path path, boolean deletes, Configuration conf) {
    try {
      Path target = path.getFileSystem(conf).makeQualified(path);
      TableLog log = above(Set.of(target), new HashSet<>(), conf);
      if (log == null && deletes) {
        Path real = RealPaths.isLocal(target) ? new RealPaths(conf).of(target) : target;
        log = below(real, conf).stream().findFirst().orElse(null);
      }
      if (log != null) {
        throw log.unwritable();
      }
    } catch (IOException error) {
      throw Thrown.unchecked(error);
    }
  }

  public UnsupportedOperationException unwritable() {
    return new UnsupportedOperationException(
        String.format(
            "%s: its log, %s, says which files it has and how large each is, so a file that is new here would be ignored, "
                + "and one that is gone would be missed. Nothing was written; write to another directory, or write the "
                + "table with %s",
            this, directory, kind.title));
  }

  @Override
  public String toString() {
    return table + " is a table of " + kind.title;
  }

  /** The table that a file or directory, met below a directory that is listed, is the log of; null if it is none. */
  public static TableLog at(Path path, boolean isDirectory) {
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
    String given = OptionLayers.of(options).getOrDefault(OPTION, "error").trim();
    if (!given.equalsIgnoreCase("error") && !given.equalsIgnoreCase("ignore")) {
      throw new IllegalArgumentException("option " + OPTION + " is '" + given + "'; expected error or ignore");
    }
    return given.equalsIgnoreCase("ignore");
  }

  /** The directories that are read, those that the files lie in, and those of the files that links lead to. */
  private static Set<Path> directories(List<Path> roots, List<FileStatus> files) throws IOException {
    Set<Path> directories = new LinkedHashSet<>(roots);
    files.forEach(file -> directories.remove(file.getPath()));
    for (FileStatus file : files) {
      directories.add(file.getPath().getParent());
      if (RealPaths.isLink(file.getPath())) {
        directories.add(localPath(RealPaths.local(file.getPath()).toRealPath().getParent()));
      }
    }
    return directories;
  }

  /**
   * The log of a table that one of {@code directories} is or lies in, also through symbolic links; null if there is none.
   *
   * @param asked gets the directories that were looked at, which are not looked at again
   */
  private static TableLog above(Set<Path> directories, Set<Path> asked, Configuration conf) throws IOException {
    List<Path> all = new ArrayList<>();
    for (Path directory : directories) {
      add(directory, asked, all);
    }
    List<Path> tables = new ArrayList<>();
    for (Path table : all) {
      if (RealPaths.isLocal(table)) {
        TableLog log = localLog(table);
        if (log != null) {
          return log;
        }
      } else if (isAsked(table)) {
        tables.add(table);
      }
    }
    return tables.isEmpty() ? null : logElsewhere(tables, conf);
  }

  /** Where it costs a request to ask, tables are not taken to begin in a partition's directory. */
  private static boolean isAsked(Path directory) {
    return !RealPaths.isLocal(directory) && !directory.getName().contains("=");
  }

  /** One listing of all below {@code roots}: where there are many directories, that takes fewer requests. */
  private static TableLog listed(List<Path> roots, Set<Path> directories, Configuration conf) throws IOException {
    TableLog log = above(Set.copyOf(roots), new HashSet<>(), conf);
    for (Path root : log == null ? roots : List.<Path>of()) {
      for (TableLog below : below(root, conf)) {
        if (directories.stream().anyMatch(directory -> RealPaths.isIn(below.table, directory))) {
          return below;
        }
      }
    }
    return log;
  }

  /** Adds {@code directory} and those above it, and where links among them lead, to {@code asked} and so to {@code all}. */
  private static void add(Path directory, Set<Path> asked, List<Path> all) throws IOException {
    for (Path each = directory; each != null && asked.add(each); each = each.getParent()) {
      all.add(each);
      if (RealPaths.isLink(each) && Files.exists(RealPaths.local(each))) {
        add(localPath(RealPaths.local(each).toRealPath()), asked, all);
      }
    }
  }

  private static Path localPath(java.nio.file.Path path) {
    return new Path("file", null, path.toString());
  }

  private static TableLog localLog(Path table) throws IOException {
    java.nio.file.Path directory = RealPaths.local(table);
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

  /** Asks for all logs at once: on an object store each answer takes a while. */
  private static TableLog logElsewhere(List<Path> tables, Configuration conf) throws IOException {
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
      throw Thrown.unchecked(error.getCause());
    } finally {
      threads.shutdownNow();
    }
  }

  private static TableLog logIn(FileSystem files, Kind kind, Path table, String name) throws IOException {
    Path directory = new Path(table, name);
    try {
      if (!files.exists(directory) || !files.getFileStatus(directory).isDirectory()) {
        return null;
      }
      if (kind == Kind.ICEBERG) {
        RemoteIterator<FileStatus> each = files.listStatusIterator(directory);
        while (each.hasNext()) {
          if (isIcebergMetadata(each.next().getPath().getName())) {
            return new TableLog(kind, table, directory);
          }
        }
        return null;
      }
      return new TableLog(kind, table, directory);
    } catch (AccessControlException | java.nio.file.AccessDeniedException error) {
      return null; // Who may read a table's files need not be allowed to look above them.
    }
  }

  /** Logs of tables below a directory: of a local one the first that is met. Links are not followed. */
  private static Set<TableLog> below(Path directory, Configuration conf) throws IOException {
    Set<TableLog> logs = new LinkedHashSet<>();
    Consumer<TableLog> add = log -> Stream.ofNullable(log).forEach(logs::add);
    FileSystem files = directory.getFileSystem(conf);
    if (RealPaths.isLocal(directory)) {
      if (Files.isDirectory(RealPaths.local(directory))) {
        Files.walkFileTree(RealPaths.local(directory), new Visitor(add));
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
      return FileVisitResult.CONTINUE; // Another job has removed it, or nobody here may delete what is in it.
    }

    @Override
    public FileVisitResult visitFile(java.nio.file.Path path, BasicFileAttributes attributes) {
      return visit(path, false);
    }

    private FileVisitResult visit(java.nio.file.Path path, boolean isDirectory) {
      TableLog log = at(localPath(path), isDirectory);
      logs.accept(log);
      return log == null ? FileVisitResult.CONTINUE : FileVisitResult.TERMINATE;
    }
  }

  private static boolean isIcebergMetadata(String name) {
    return name.equals("version-hint.text") || name.endsWith(".metadata.json") || name.endsWith(".metadata.json.gz");
  }
}
