"""``make fuzz``: run the targets under `atheris`, one after the other, and add up what was executed.

Each target runs in a process of its own. It goes on after a find, which is minimised and stored in ``build/fuzz``;
inputs that reached new code are kept there too, so that the next run continues. The figures of all runs are added up
in ``build/fuzz/figures.json``. The target ``hypothesis`` runs the core's Hypothesis tests under `hypofuzz`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
_STATUS = re.compile(r"^#(\d+)\s+\S+\s+(?:cov: (\d+) )?ft: (\d+) corp: (\d+)/(\S+)", re.MULTILINE)
_PREDICATES = re.compile(r"^PREDICATES (\d+)", re.MULTILINE)
_TALLY_EVERY = 256  # executions
_ALLOCATION = 3 << 30  # bytes of address space
_RAW_SHARE = 0.25  # of the mutations: those of atheris, which know no structure
HYPOTHESIS = "hypothesis"
_HYPOTHESIS_FOLDERS = ["tests/parquet", "tests/query", "tests/orc", "tests/planning", "tests/storage", "tests/writing"]


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
    finds = 0
    for name in names:
        if name == HYPOTHESIS:
            finds += run_hypothesis(options.seconds)
        else:
            finds += run(name, options.seconds, options.executions)
    return 1 if finds else 0


def names_of_targets() -> list[str]:
    from tests.fuzz.targets import TARGETS

    return list(TARGETS)


def run(name: str, seconds: int, executions: int) -> int:
    """Fuzz one target in a child process and report. Returns the number of its finds that are stored."""
    from tests.fuzz.folder import remove_folder_of  # lazy import: the child imports the package under instrumentation

    log = BUILD / name / "log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started = dt.datetime.now(dt.timezone.utc)
    with open(log, "w", encoding="utf-8") as file:
        limits = ["--seconds", str(seconds), "--executions", str(executions)]
        command = [sys.executable, "-m", "tests.fuzz", name, *limits, "--inside"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
        process.wait()
    remove_folder_of(process.pid)
    took = (dt.datetime.now(dt.timezone.utc) - started).total_seconds()
    output = log.read_text(encoding="utf-8", errors="replace")
    lines = _STATUS.findall(output)
    if not lines:
        print(f"{name}: did not start; see {log}\n{output[-2000:]}", flush=True)
        return 1
    executed, _, features, inputs, size = lines[-1]
    finds = sorted(path.stem for path in (BUILD / name / "finds").glob("*.txt"))
    predicates = int((_PREDICATES.findall(output) or ["0"])[-1])
    figures = add_figures(name, int(executed), predicates, took, int(features), int(inputs), size, finds)
    planned = f" with {predicates:,} predicates" if predicates else ""
    ended = "" if process.returncode == 0 else f"; ENDED WITH {process.returncode}, see {log}"
    print(
        f"{name}: {int(executed):,} executions{planned}, {int(executed) / took:,.0f} per second, {features} features, "
        f"a corpus of {inputs} inputs ({size}); {figures['executions']:,} executions in all runs; "
        f"{len(finds)} finds{ended}",
        flush=True,
    )
    for find in finds:
        print(f"  {BUILD / name / 'finds' / find}", flush=True)
    return len(finds) + (process.returncode != 0)


def run_hypothesis(seconds: int) -> int:
    """Let `hypofuzz` run the core's Hypothesis tests, then run what failed once more with pytest. Returns whether
    anything failed."""
    log = BUILD / HYPOTHESIS / "log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [Path(sys.executable).with_name("hypothesis"), "fuzz", "--no-dashboard", "--numprocesses", "1", "--"]
    with open(log, "w", encoding="utf-8") as file:
        # The default profile always has the same cases.
        environment = {**os.environ, "HYPOTHESIS_PROFILE": "long"}
        process = subprocess.Popen(
            [*command, *_HYPOTHESIS_FOLDERS], cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(seconds)
            print(f"{HYPOTHESIS}: ended early with {process.returncode}; see {log}", flush=True)
            return 1
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            process.wait()
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "found"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis and not spark and not jar", *_HYPOTHESIS_FOLDERS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    print(f"{HYPOTHESIS}: {seconds} seconds; the tests with the inputs that failed: {done.stdout[-2000:]}", flush=True)
    return done.returncode


def add_figures(
    name: str, executions: int, predicates: int, took: float, features: int, inputs: int, size: str, finds: list[str]
) -> dict[str, Any]:
    path = BUILD / "figures.json"
    every: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    before = every.get(name, {"executions": 0, "seconds": 0})
    every[name] = {
        "executions": before["executions"] + executions,
        "predicates": before.get("predicates", 0) + predicates,
        "seconds": round(before["seconds"] + took),
        "executions_per_second": round(executions / took),
        "features": features,
        "corpus": {"inputs": inputs, "size": size},
        "finds": finds,
        "last_run": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
    }
    path.write_text(json.dumps(every, indent=1) + "\n")
    return every[name]


def fuzz(name: str, seconds: int, executions: int) -> None:
    """Fuzz one target in this process; it ends the process."""
    import atheris
    from atheris import import_hook

    from tests.fuzz.branches import Branches, instrumented_functions, shrink_stack

    patch_code = import_hook.patch_code
    import_hook.patch_code = lambda code, flow: shrink_stack(patch_code(code, flow), code)
    # Nothing of the package may be imported before. Comparisons are not traced, which takes as long as everything else:
    # our mutators know the numbers that matter.
    with import_hook.HookManager({"bloomparquet", "pyspark_bloomparquet"}, set(), True, trace_dataflow=False):
        from tests.fuzz.preload import load_package

        load_package()
        from tests.fuzz.targets import TARGETS
    import logging
    import random
    import time
    import warnings

    from tests.fuzz.target import CORPUS, TALLY, examine, limit_memory, minimise

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
    folders = [corpus, seeds, *([CORPUS / name] if (CORPUS / name).is_dir() else [])]
    inputs = sum(len(list(folder.iterdir())) for folder in folders)
    branches = Branches(atheris, instrumented_functions(), complete=2 + inputs)
    chance = random.Random(time.time_ns())
    executions_until_tally = itertools.cycle(range(_TALLY_EVERY))

    def test_one_input(data: bytes) -> None:
        branches.trace(lambda: execute(data))
        if TALLY.predicates and not next(executions_until_tally):
            print(f"PREDICATES {TALLY.predicates}", flush=True)

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
        "-rss_limit_mb=4096", f"-artifact_prefix={finds}/ended-", "-reload=0", "-verbosity=1", *map(str, folders),
    ]  # fmt: skip
    atheris.Setup(arguments, test_one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
