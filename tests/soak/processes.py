"""The processes of a run, found by a variable in their environment, which every child inherits. Linux only."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

MARK = "BLOOMPARQUET_SOAK"
"""The environment variable whose value names the run."""

DRIVER, CLIENT, PLANNER, EXECUTOR, PYTHON_WORKER, WORKER, MASTER, OTHER = (
    "driver's JVM", "driver's Python", "planner", "executor", "Python worker", "worker", "master", "other",
)  # fmt: skip
_ROLES = {
    "pyspark_bloomparquet.jar.planner_worker": PLANNER,
    "CoarseGrainedExecutorBackend": EXECUTOR,
    "org.apache.spark.deploy.worker.Worker": WORKER,
    "org.apache.spark.deploy.master.Master": MASTER,
    "org.apache.spark.deploy.SparkSubmit": DRIVER,
    "pyspark.daemon": PYTHON_WORKER,
    "tests.soak.driver": CLIENT,
}


_SECONDS_TO_ANSWER = 20
_SECONDS_FOR_CLEANER = 2
_CLASS = re.compile(r"^ *\d+: +\d+ +(\d+) +(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Process:
    pid: int
    role: str
    command: str

    def is_alive(self) -> bool:
        """Whether it still runs. A zombie does not."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state != "Z"

    def resident_bytes(self) -> int:
        """The resident memory of the process; 0 if it has ended."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (FileNotFoundError, ProcessLookupError):
            return 0

    def live_objects(self) -> dict[str, int]:
        """The bytes of a JVM's objects after a collection, by class; empty if it has ended, or does not answer.

        Spark's cleaner drops what a first collection found unused, such as broadcasts. A second one frees that.
        """
        if not self._jcmd("GC.run"):
            return {}
        time.sleep(_SECONDS_FOR_CLEANER)
        lines = _CLASS.finditer(self._jcmd("GC.class_histogram"))
        return {line[2]: int(line[1]) for line in lines}

    def _jcmd(self, command: str) -> str:
        """What the JVM answers to a command; empty if it has ended, or does not answer."""
        if not self._catches_quit():
            return ""
        arguments = ["jcmd", str(self.pid), command]
        try:
            done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=_SECONDS_TO_ANSWER)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout

    def _catches_quit(self) -> bool:
        """Whether `jcmd` may ask it. It sends SIGQUIT, which ends a JVM that is still starting."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        caught = re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (signal.SIGQUIT - 1) & 1)

    def open_files(self) -> int:
        """The number of its file descriptors; 0 if it has ended."""
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            return 0


def running(mark: str) -> list[Process]:
    """All processes of a run, in the order of their ids."""
    wanted = f"{MARK}={mark}".encode()
    processes = []
    for entry in sorted((entry for entry in os.listdir("/proc") if entry.isdigit()), key=int):
        try:
            if wanted not in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                continue
            command = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended, or is another user's
            continue
        process = Process(int(entry), role_of(command), command)
        if process.pid != os.getpid() and process.is_alive():
            processes.append(process)
    return processes


def role_of(command: str) -> str:
    return next((role for text, role in _ROLES.items() if text in command), OTHER)
