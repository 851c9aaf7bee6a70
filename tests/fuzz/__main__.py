"""``make fuzz``: run the targets under `atheris`, one after the other, and add up what was executed.

Each target runs in a process of its own. It goes on after a find, which is minimised and stored in ``build/fuzz``;
inputs that reached new code are kept there too, so that the next run continues. The figures of all runs are added up
in ``build/fuzz/figures.json``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import pkgutil
import random
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
_STATUS = re.compile(r"^#(\d+)\s+\S+\s+(?:cov: \d+ )?ft: (\d+) corp: (\d+)/(\S+)", re.MULTILINE)
_ALLOCATION = 3 << 30  # bytes of address space
_RAW_SHARE = 0.25  # of the mutations: those of atheris, which know no structure


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", help="all of them if none is named")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--executions", type=int, default=-1, help="for each target, at most")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        fuzz(options.targets[0], options.seconds, options.executions)
    names = options.targets or names_of_targets()
    return 1 if sum(run(name, options.seconds, options.executions) for name in names) else 0


def names_of_targets() -> list[str]:
    from tests.fuzz.targets import TARGETS

    return list(TARGETS)


def run(name: str, seconds: int, executions: int) -> int:
    """Fuzz one target in a child process and report. Returns the number of its finds that are stored."""
    from tests.fuzz.folder import remove_folder_of  # lazy import: the child imports the package under instrumentation

    log = BUILD / name / "log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with open(log, "w", encoding="utf-8") as file:
        limits = ["--seconds", str(seconds), "--executions", str(executions)]
        command = [sys.executable, "-m", "tests.fuzz", name, *limits, "--inside"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
        process.wait()
    remove_folder_of(process.pid)
    took = time.monotonic() - started
    output = log.read_text(encoding="utf-8", errors="replace")
    lines = _STATUS.findall(output)
    if not lines:
        print(f"{name}: did not start; see {log}\n{output[-2000:]}", flush=True)
        return 1
    executed, features, inputs, size = lines[-1]
    finds = sorted(path.stem for path in (BUILD / name / "finds").glob("*.txt"))
    total = add_figures(name, int(executed), took)
    ended = "" if process.returncode == 0 else f"; ENDED WITH {process.returncode}, see {log}"
    print(
        f"{name}: {int(executed):,} executions, {int(executed) / took:,.0f} per second, {features} features, "
        f"a corpus of {inputs} inputs ({size}); {total:,} executions in all runs; {len(finds)} finds{ended}",
        flush=True,
    )
    for find in finds:
        print(f"  {BUILD / name / 'finds' / find}", flush=True)
    return len(finds) + (process.returncode != 0)


def add_figures(name: str, executions: int, took: float) -> int:
    """Add a run to the figures. Returns the target's executions in all runs."""
    path = BUILD / "figures.json"
    every = json.loads(path.read_text()) if path.exists() else {}
    before = every.get(name, {"executions": 0, "seconds": 0})
    total = int(before["executions"] + executions)
    every[name] = {"executions": total, "seconds": round(before["seconds"] + took)}
    path.write_text(json.dumps(every, indent=1) + "\n")
    return total


def fuzz(name: str, seconds: int, executions: int) -> None:
    """Fuzz one target in this process; it ends the process."""
    import atheris

    # Nothing of the package may be imported before, and everything now: what is imported later is not instrumented.
    with atheris.instrument_imports(include=["bloomparquet", "pyspark_bloomparquet"]):
        import bloomparquet

        for module in pkgutil.walk_packages(bloomparquet.__path__, "bloomparquet."):
            importlib.import_module(module.name)
        from tests.fuzz.targets import TARGETS
    from tests.fuzz.target import CORPUS, examine, limit_memory, minimise

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    target = TARGETS[name]
    corpus, seeds, finds = (BUILD / name / each for each in ("corpus", "seeds", "finds"))
    for folder in (corpus, seeds, finds):
        folder.mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate(target.seeds()):
        (seeds / str(i)).write_bytes(seed)
    known = {path.stem for path in finds.glob("*.txt")}
    limit_memory(_ALLOCATION)
    chance = random.Random(time.time_ns())

    def execute(data: bytes) -> None:
        find = examine(target, data)
        if find is not None and find.signature not in known:
            known.add(find.signature)
            smallest = minimise(target, data, find.signature)
            again = examine(target, smallest) or find
            (finds / f"{find.signature}.bin").write_bytes(smallest)
            (finds / f"{find.signature}.txt").write_text(again.report, encoding="utf-8", errors="replace")
            print(f"FIND {find.signature}", flush=True)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        if chance.random() < _RAW_SHARE:
            return bytes(atheris.Mutate(data, max_size))
        return target.mutate(data, chance)[:max_size]

    arguments = [
        "fuzz", f"-max_total_time={seconds}", f"-runs={executions}", f"-max_len={target.max_bytes}", "-timeout=300",
        "-rss_limit_mb=4096", f"-artifact_prefix={finds}/ended-", "-reload=0", "-verbosity=1", str(corpus), str(seeds),
        str(CORPUS / name),
    ]  # fmt: skip
    atheris.Setup(arguments, execute, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
