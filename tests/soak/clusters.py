"""The clusters: Spark's local-cluster, and a standalone master with two workers. All are processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pyspark

from tests.soak.processes import MARK

_SPARK_HOME = Path(pyspark.__file__).parent
_ROOT = Path(__file__).resolve().parents[2]


def environment(home: Path, mark: str) -> dict[str, str]:
    """The environment variables that all processes of a run inherit. Their temporary files are below `home`."""
    for name in ("tmp", "local", "work"):
        (home / name).mkdir(parents=True, exist_ok=True)
    return {
        **os.environ, MARK: mark, "SPARK_HOME": str(_SPARK_HOME), "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1", "TMPDIR": str(home / "tmp"),
        "SPARK_LOCAL_DIRS": str(home / "local"), "SPARK_WORKER_DIR": str(home / "work"),
        "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={home / 'tmp'}", "SPARK_DAEMON_MEMORY": "128m",
        "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "python")]),
    }  # fmt: skip


def spawn(command: list[str], home: Path, variables: Mapping[str, str], log: str) -> subprocess.Popen[bytes]:
    with (home / log).open("ab") as out:
        return subprocess.Popen(command, cwd=home, env=variables, stdout=out, stderr=out, stdin=subprocess.DEVNULL)


class LocalCluster:
    """Two workers in the driver's JVM, whose executors are processes. It has one driver."""

    name = "local-cluster"
    master = "local-cluster[2,1,1024]"
    drivers = 1

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        pass

    def repair(self) -> None:
        """Nothing to do: Spark starts executors again."""

    def stop(self) -> None:
        """Nothing to do: the cluster ends with its driver."""


class Standalone:
    """A master and two workers, which are started again when they end. It has two drivers."""

    name = "standalone"
    drivers = 2

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        self._home = home
        options = "-Dspark.deploy.maxExecutorRetries=-1 -XX:+UseSerialGC"
        self._variables = {**variables, "SPARK_MASTER_OPTS": options, "SPARK_WORKER_OPTS": "-XX:+UseSerialGC"}
        self._port = _free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._master = self._start("master.Master", "--host", "127.0.0.1", "--port", str(self._port))
        self._wait_for_master()
        self._workers = [self._worker(i) for i in range(2)]

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(_SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        return spawn([*command, "--webui-port", "0"], self._home, self._variables, "cluster.log")

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        work = str(self._home / "work" / str(number))
        return self._start("worker.Worker", "--host", "127.0.0.1", "-c", "2", "-m", "2g", "-d", work, self.master)

    def _wait_for_master(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self._master.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.5)
        raise RuntimeError(f"the master did not start; see {self._home / 'cluster.log'}")

    def repair(self) -> None:
        """Start workers again that were killed."""
        for i, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self._workers[i] = self._worker(i)

    def stop(self) -> None:
        for process in (*self._workers, self._master):
            process.terminate()
        for process in (*self._workers, self._master):
            process.wait(60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


CLUSTERS = {each.name: each for each in (LocalCluster, Standalone)}
