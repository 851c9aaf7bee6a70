"""A driver: threads that each do one operation after another until a file says stop. One JSON line for each."""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pyspark_bloomparquet import DefaultSource, attach
from tests.soak.data import Tables
from tests.soak.operations import OPERATIONS, Client, WrongRowsError
from tests.support.scenarios import PYTHON

MOST_SECONDS = 240
"""An operation that takes longer hangs."""
_COLLECT_EVERY = 5


class PythonSource(DefaultSource):
    """The data source without the jar, under a name of its own."""

    @classmethod
    def name(cls) -> str:
        return PYTHON


def start(master: str, home: Path, name: str) -> SparkSession:
    settings = {
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "512m", "spark.executor.memory": "512m",
        "spark.executor.cores": "1", "spark.cores.max": "2", "spark.sql.shuffle.partitions": "2",
        "spark.task.maxFailures": "8", "spark.deploy.maxExecutorRetries": "-1", "spark.scheduler.mode": "FAIR",
        # What Spark keeps of past queries grows up to these numbers, which a short run would not reach.
        "spark.ui.retainedJobs": "50", "spark.ui.retainedStages": "50", "spark.ui.retainedTasks": "500",
        "spark.sql.ui.retainedExecutions": "50", "spark.ui.retainedDeadExecutors": "10",
        "spark.sql.hive.filesourcePartitionFileCacheSize": str(4 << 20),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}/derby -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.sql.warehouse.dir": f"{home}/warehouse", "spark.bloomparquet.cacheDirectory": f"{home}/cache",
    }  # fmt: skip
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = attach(builder.getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(PythonSource)
    return spark


class Log:
    """Writes a line for each operation, from many threads."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        self._lock = threading.Lock()

    def write(self, **line: Any) -> None:
        with self._lock:
            self._file.write(json.dumps({"at": time.time(), **line}) + "\n")


def work(client: Client, stop: Path, log: Log, doing: dict[str, tuple[str, float]]) -> None:
    """Do random operations until `stop` exists."""
    kinds = list(OPERATIONS)
    weights = [weight for _, weight in OPERATIONS.values()]
    while not stop.exists():
        (kind,) = client.random.choices(kinds, weights)
        began = time.monotonic()
        doing[client.name] = kind, began
        outcome: dict[str, str] = {}
        try:
            OPERATIONS[kind][0](client)
        except WrongRowsError as error:
            outcome = {"wrong": str(error)}
        except Exception as error:  # noqa: BLE001 - each error is counted by its name
            outcome = {"error": f"{type(error).__name__}: {error}"[:20_000]}
        log.write(kind=kind, client=client.name, seconds=time.monotonic() - began, **outcome)
    doing.pop(client.name, None)


def main() -> None:
    master, home, name, clients, seed = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
    stop, log = home / "stop", Log(home / f"{name}.jsonl")
    spark = start(master, home, name)
    doing: dict[str, tuple[str, float]] = {}
    threads = []
    for i in range(clients):
        who = f"{name}-{i}"
        client = Client(spark, Tables(home / "tables"), who, random.Random(f"{seed} {who}"))
        threads.append(threading.Thread(target=work, args=(client, stop, log, doing), daemon=True))
    for thread in threads:
        thread.start()
    while not stop.exists():
        gc.collect()  # the JVM keeps what Python's objects refer to
        deadline = time.monotonic() + _COLLECT_EVERY
        while time.monotonic() < deadline and not stop.exists():
            time.sleep(0.5)
    deadline = time.monotonic() + MOST_SECONDS
    for thread in threads:
        thread.join(max(0.1, deadline - time.monotonic()))
    for who, (kind, began) in list(doing.items()):
        log.write(kind=kind, client=who, seconds=time.monotonic() - began, error="hung: it did not end")
    spark.stop()
    log.write(stopped=True)
    if doing:
        os._exit(1)


if __name__ == "__main__":
    main()
