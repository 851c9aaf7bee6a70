"""Takes protections out of a copy of the product, one by one, and counts the pairs until random SQL notices.

``make random-sql FAULTS=1``. Each fault is a textual change that loses rows or invents them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tests.differential import batches, random_run
from tests.differential.pairs import IN_PYTHON, JAR, PLAIN, Pair

ROOT = Path(__file__).resolve().parent.parent.parent
IN_SPARK = (PLAIN, JAR)
RECORD = "record.pickle"
_CORE, _JAVA = "python/bloomparquet", "jvm-shim/src/main/java/io/bloomparquet/spark"


@dataclass(frozen=True)
class Fault:
    name: str
    file: str
    old: str
    new: str
    ways: tuple[str, ...] = IN_PYTHON

    def apply(self, copy: Path) -> None:
        """Change the product in `copy`. Raises ValueError if the text is not there exactly once."""
        path = copy / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(
                f"fault {self.name!r}: expected its text once in {self.file}, found {text.count(self.old)}"
            )
        path.write_text(text.replace(self.old, self.new))


FAULTS = [
    Fault(
        "values: filters are asked for 0.0, not for -0.0", f"{_CORE}/query/ordering.py",
        "ordered[zero : zero + 1] = [-0.0, 0.0]", "ordered[zero : zero + 1] = [0.0]",
    ),
    Fault(
        "values: NaN is not above the maximum", f"{_CORE}/planning/evidence/statistics.py",
        "bounds.known & ~may_hold_nan(chunks) if upwards else bounds.known", "bounds.known",
    ),
    Fault(
        "values: bounds of unsigned integers are signed", f"{_CORE}/parquet/values/encoding.py",
        'return node.annotation is not None and node.annotation.kind == "INTEGER" and node.annotation.signed is False',
        "return False",
    ),
    Fault(
        "values: old dates are those of the file's calendar", f"{_CORE}/query/ordering.py",
        "return None if any(value < _OLDEST_DATE for value in exact) else", "return",
    ),
    Fault(
        "values: integers that a reader cuts short are judged", f"{_CORE}/planning/judge.py",
        " or not self._table.is_lossless(i, leaf_column, reader_type):", ":", IN_SPARK,
    ),
    Fault(
        "values: a DECIMAL that a reader shows without its point is judged",
        f"{_CORE}/planning/parquet/row_groups.py",
        "    if family == \"integer\":\n        low, high =",
        "    if family == \"decimal\" and reader_type in _INTEGER_BITS:\n        return True\n"
        "    if family == \"integer\":\n        low, high =",
        IN_SPARK,
    ),
    Fault(
        "values: fields of structs in structs by ORC C++ lie where they were written", f"{_CORE}/orc/writer_quirks.py",
        "    return structs > 1", "    return False",
    ),
    Fault(
        "predicates: NOT of AND is an AND", f"{_CORE}/query/normal_form.py",
        "conjunction = isinstance(predicate, And) != negated", "conjunction = isinstance(predicate, And)",
    ),
    Fault(
        "predicates: <=> NULL matches nothing", f"{_CORE}/query/normal_form.py",
        "return IsNotNull(leaf.column) if negated else IsNull(leaf.column)\n        return Not",
        "return Always(False)\n        return Not",
    ),
    Fault(
        "predicates: NOT (c <=> v) is not TRUE for NULL", f"{_CORE}/planning/evidence/statistics.py",
        "return (chunks.counts.nulls != 0) | differs, None", "return differs, None",
    ),
    Fault(
        "predicates: NOT LIKE by one bound", f"{_CORE}/planning/evidence/statistics.py",
        "keep[i] = not (lower.startswith(prefix) and upper.startswith(prefix))",
        "keep[i] = not lower.startswith(prefix)",
    ),
    Fault(
        "planning: a column that a file lacks is not NULL there", f"{_CORE}/planning/judge.py",
        "codes[self._table.members(i)] = KEPT if value_for_null(leaf) is True else Decision.NULLS.code",
        "codes[self._table.members(i)] = Decision.NULLS.code",
    ),
    Fault(
        "planning: an index speaks for files that changed", f"{_CORE}/planning/index/file_positions.py",
        "same &= are_same", "same &= True",
    ),
    Fault(
        "planning: values of a VARIANT outside of its leaf", f"{_CORE}/planning/evidence/variants.py",
        "conclusive |= np.all([(each.nulls == count) & (each.values == count) for each in residuals], axis=0)",
        "conclusive[:] = len(residuals) > 0", IN_SPARK,
    ),
    Fault(
        "jar: one side of OR is enough", f"{_JAVA}/planner/PlannerPredicate.java",
        'boolean mayDrop = word.equals("and") == positive;', "boolean mayDrop = true;", IN_SPARK,
    ),
    Fault(
        "jar: every cast keeps every value", f"{_JAVA}/planner/LosslessCast.java",
        "return from.equals(to) || (from instanceof FloatType && to instanceof DoubleType);", "return true;", IN_SPARK,
    ),
    Fault(
        "jar: an outer join is pruned by its keys", f"{_JAVA}/plain/JoinKeys.java",
        "PARTITION_PRUNING.canPruneLeft(join.joinType()) : PARTITION_PRUNING.canPruneRight(join.joinType())",
        "true : true", IN_SPARK,
    ),
    Fault(
        "jar: a list is compared as one of its elements", f"{_JAVA}/planner/ConditionTranslator.java",
        "if (!isEquality || (op.equals(\"<=>\") && values.values.contains(null))) {\n      return null;\n    }",
        "if (!isEquality) {\n      op = \"=\";\n    }", IN_SPARK,
    ),
]  # fmt: skip


def copied(fault: Fault, home: Path) -> Path:
    """A copy of the product with `fault`, its jar compiled again if need be."""
    copy = home / "product"
    shutil.rmtree(copy, ignore_errors=True)
    for part in ("python", "jvm-shim"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / file, copy / file)
    fault.apply(copy)
    if fault.file.endswith(".java"):
        subprocess.run([sys.executable, copy / "jvm-shim" / "build.py"], check=True, stdout=subprocess.DEVNULL)
    return copy


def pairs_until_found(fault: Fault, home: Path, most: int) -> int | None:
    """The number of pairs that found the fault; None if `most` did not suffice."""
    paths = [copied(fault, home) / "python", ROOT]
    arguments = ["--replay", str(home), "--pairs", str(most), "--ways", ",".join(fault.ways)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.differential.faults", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        cwd=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"DIFFERENCE after ([\d,]+) pairs", run.stdout)
    if found is None and run.returncode:
        raise RuntimeError(f"random SQL ended with {run.returncode}: {run.stderr[-2000:]}")
    if found is None:
        return None
    shown = run.stdout.partition(found[0])[2].strip()
    print("    " + shown.replace("\n", "\n    "), flush=True)
    return int(found[1].replace(",", ""))


def record(home: Path, most: int, seed: str, groups: Collection[tuple[str, ...]]) -> str:
    """Record what plain Spark answers, so that no fault needs to ask it again, until there are `most` pairs for each
    group of ways. Returns a summary.

    Pairs that the product refuses are recorded too: with a fault, it may skip the row group for which it refuses.
    """
    recorded: batches.Record = []
    tally: Counter[str] = Counter()
    spark = random_run.session(home)
    for number in itertools.count():
        counts = {group: sum(len(each.statements) for each in recorded if each.way in group) for group in groups}
        ways = [way for group in groups if counts[group] < most for way in group]
        if not ways:
            break
        numbers = iter([number])
        for found in random_run.differences(spark, seed, numbers, home, tally, ways, shrink=False, record=recorded):
            print(f"left out, as it differs without a fault: {found.pair}\n=> {found.text}", flush=True)
    spark.stop()
    (home / RECORD).write_bytes(pickle.dumps(recorded))
    return random_run.summary(tally)


def replay(home: Path, ways: Collection[str], most: int) -> int:
    """Compare the product, which may have a fault, with what was recorded. Returns 1 after the first difference."""
    recorded: batches.Record = pickle.loads((home / RECORD).read_bytes())
    spark = None if set(ways) <= set(IN_PYTHON) else random_run.session(home)
    count, tally = 0, Counter[str]()
    for each in (each for each in recorded if each.way in ways):
        if spark is None:
            ours = batches.in_python(each.load, each.statements, each.way, tally)
        else:
            ours = batches.in_spark(spark, each.load, each.statements, each.way, tally)
        for i, rows in ours.items():
            count += 1
            if rows != each.right[i]:
                print(f"DIFFERENCE after {count:,} pairs\n{Pair(each.load, each.statements[i], each.way)}")
                print(f"=> {'an error' if rows is None else len(rows)} for {len(each.right[i])} rows")
                return 1
            if count >= most:
                return 0
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3_000, help="give up after so many")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", help="a regular expression: only faults whose names have it")
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ways", type=lambda text: text.split(","), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if arguments.replay:
        return replay(arguments.replay, arguments.ways, arguments.pairs)
    missed = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as home:
        chosen = [fault for fault in FAULTS if re.search(arguments.only, fault.name)]
        groups = {fault.ways for fault in chosen}
        print(f"recorded:\n{record(Path(home), arguments.pairs, arguments.seed, groups)}", flush=True)
        for fault in chosen:
            started = time.monotonic()
            count = pairs_until_found(fault, Path(home), arguments.pairs)
            missed += count is None
            result = f"found after {count:,} pairs" if count is not None else "NOT FOUND"
            print(f"{fault.name}: {result}, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
