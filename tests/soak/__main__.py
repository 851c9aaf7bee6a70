"""``python -m tests.soak``: the soak test. Ends with 1 if anything was wrong, unexplained, left behind, or grew."""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.soak import leftovers
from tests.soak.clusters import CLUSTERS, LocalCluster, Standalone, environment, spawn
from tests.soak.data import Tables
from tests.soak.driver import MOST_SECONDS
from tests.soak.journal import Journal
from tests.soak.killer import Killer
from tests.soak.processes import running
from tests.soak.sampler import Sampler

_SAMPLE_EVERY = 3.0
_SECONDS_TO_START = 600.0
_STRIKE_BETWEEN = 4.0, 12.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="of each cluster with kills")
    parser.add_argument("--queries", type=int, default=10_000, help="operations after the kills, for memory")
    parser.add_argument("--calm-minutes", type=float, default=60, help="the most minutes for these")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--cluster", choices=[*CLUSTERS, "both"], default="both")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that everything ends with the run
    names = list(CLUSTERS) if arguments.cluster == "both" else [arguments.cluster]
    failures = [f"{name}: {failure}" for name in names for failure in Run(name, arguments).run()]
    print("\n".join(["", *failures, f"seed {arguments.seed}: {len(failures)} failures"]))
    sys.exit(bool(failures))


class Run:
    """One cluster: its drivers, the killer, and the judges."""

    def __init__(self, cluster: str, arguments: argparse.Namespace) -> None:
        self.arguments, self.cluster = arguments, cluster
        self.home = Path(tempfile.mkdtemp(prefix="bloomparquet-soak-"))
        self.mark = self.home.name
        self.tables = Tables(self.home / "tables")
        self.killer = Killer(self.mark, random.Random(f"{arguments.seed} {cluster}"))
        self.sampler = Sampler(self.mark)
        names = [f"driver{i}" for i in range(CLUSTERS[cluster].drivers)]
        self.journal = Journal([self.home / f"{name}.jsonl" for name in names])
        self.names = names

    def run(self) -> list[str]:
        """Run it, print what happened, and return the failures."""
        print(f"{self.cluster}: {self.home}", flush=True)
        self.tables.make()
        variables = environment(self.home, self.mark)
        cluster = CLUSTERS[self.cluster](self.home, variables)
        drivers: list[subprocess.Popen[bytes]] = []
        try:
            share = max(1, self.arguments.clients // len(self.names))
            for name in self.names:
                command = [sys.executable, "-m", "tests.soak.driver", cluster.master, str(self.home), name, str(share)]
                drivers.append(spawn([*command, str(self.arguments.seed)], self.home, variables, f"{name}.log"))
            failures = self._watch(cluster, drivers)
            cluster.stop()
            left = leftovers.processes(self.mark)
        finally:
            for process in running(self.mark):
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            for driver in drivers:
                driver.wait()
        failures += [f"process left behind: {line}" for line in left]
        failures += [f"file left behind: {path}" for path in leftovers.files(self.home, self.tables)]
        if not failures:
            shutil.rmtree(self.home)
        return failures

    def _watch(self, cluster: LocalCluster | Standalone, drivers: list[subprocess.Popen[bytes]]) -> list[str]:
        self._wait_until_all_work(drivers)
        began = time.monotonic()
        self._kill_for(self.arguments.minutes * 60, cluster, drivers)
        calm_since, minutes = time.time(), (time.monotonic() - began) / 60
        self.journal.read(None)
        killed_operations = self.journal.operations
        print(f"with kills, {minutes:.1f} minutes: {killed_operations} operations", flush=True)
        self._sample_until(killed_operations + self.arguments.queries, calm_since, drivers)
        (self.home / "stop").touch()
        failures = [self._wait(name, driver) for name, driver in zip(self.names, drivers, strict=True)]
        failures = [failure for failure in failures if failure]
        self.journal.read(calm_since)
        print("\n".join(self.journal.report((time.monotonic() - began) / 60)))
        print("kills: " + ", ".join(f"{name} {count}" for name, count in sorted(self.killer.done.items())))
        failures += [f"WRONG ROWS: {line}" for line in self.journal.wrong]
        failures += [f"unexplained error: {line}" for line in self.journal.unexplained]
        for line, grew in self.sampler.report():
            print(line)
            failures += [f"not flat: {line}"] if grew else []
        return failures

    def _wait(self, name: str, driver: subprocess.Popen[bytes]) -> str:
        """Wait for the end of a driver. Returns what was wrong with it."""
        try:
            code = driver.wait(MOST_SECONDS + 60)
        except subprocess.TimeoutExpired:
            return f"{name} did not end"
        return f"{name} ended with {code}; see {self.home / f'{name}.log'}" if code else ""

    def _wait_until_all_work(self, drivers: list[subprocess.Popen[bytes]]) -> None:
        deadline = time.monotonic() + _SECONDS_TO_START
        while not all(path.exists() and path.read_bytes().count(b'"kind"') for path in self.journal.paths):
            if time.monotonic() > deadline or any(driver.poll() is not None for driver in drivers):
                raise RuntimeError(f"the drivers did not start; see {self.home}/driver*.log")
            time.sleep(0.5)

    def _kill_for(
        self, seconds: float, cluster: LocalCluster | Standalone, drivers: list[subprocess.Popen[bytes]]
    ) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and all(driver.poll() is None for driver in drivers):
            time.sleep(min(self.killer.random.uniform(*_STRIKE_BETWEEN), max(0.0, deadline - time.monotonic())))
            cluster.repair()
            self.killer.strike()
        cluster.repair()

    def _sample_until(self, operations: int, calm_since: float, drivers: list[subprocess.Popen[bytes]]) -> None:
        """Nothing is killed any more: sample until so many operations are done."""
        deadline = time.monotonic() + self.arguments.calm_minutes * 60
        while self.journal.operations < operations and time.monotonic() < deadline:
            if any(driver.poll() is not None for driver in drivers):
                return
            time.sleep(_SAMPLE_EVERY)
            self.sampler.sample()
            self.journal.read(calm_since)


if __name__ == "__main__":
    main()
