"""The log of a running Spark, its event log, and EXPLAIN, as text to search."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


@contextmanager
def recorded(spark: SparkSession, home: Path) -> Iterator[Path]:
    """Write Spark's log at level INFO and its event log to files below `home`, in a block."""
    jvm: Any = spark._jvm
    context = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    settings = context.conf().set("spark.eventLog.compress", "false")
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener
    events = listener(
        home.name, jvm.scala.Option.empty(), jvm.java.net.URI(home.as_uri()), settings, context.hadoopConfiguration()
    )
    log4j = jvm.org.apache.logging.log4j
    root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    builder = log4j.core.appender.FileAppender.newBuilder()
    builder.setName(home.name)
    builder.withFileName(str(home / "log"))
    builder.setLayout(log4j.core.layout.PatternLayout.createDefaultLayout())
    appender = builder.build()
    events.start()
    appender.start()
    context.addSparkListener(events)
    root.addAppender(appender, log4j.Level.INFO, None)
    spark.sparkContext.setLogLevel("INFO")
    try:
        yield home
    finally:
        spark.sparkContext.setLogLevel("ERROR")
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(events)
        root.removeAppender(home.name)
        events.stop()
        appender.stop()


def text_below(home: Path) -> str:
    """All files below `home`, as one text."""
    return "\n".join(path.read_bytes().decode("latin-1") for path in sorted(home.rglob("*")) if path.is_file())


def explained(frame: DataFrame, *modes: str) -> str:
    """EXPLAIN in these modes; by default in all of them."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        for mode in modes or ("extended", "formatted", "codegen", "cost"):
            frame.explain(mode=mode)
    return text.getvalue()
