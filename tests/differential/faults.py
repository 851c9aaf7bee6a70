"""Takes protections out of a copy of the product, one by one, and counts the pairs until random SQL notices.

``make random-sql FAULTS=1``. Each fault is a textual change that loses rows or invents them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.differential.pairs import IN_PYTHON, JAR, PLAIN

ROOT = Path(__file__).resolve().parent.parent.parent
IN_SPARK = (PLAIN, JAR)
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
        "conjunction = isinstance(predicate, p.And) != negated", "conjunction = isinstance(predicate, p.And)",
    ),
    Fault(
        "predicates: <=> NULL matches nothing", f"{_CORE}/query/normal_form.py",
        "return p.IsNotNull(leaf.column) if negated else p.IsNull(leaf.column)\n        return p.Not",
        "return p.Always(False)\n        return p.Not",
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
        "planning: an index speaks for files that changed", f"{_CORE}/planning/cache/file_positions.py",
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


def pairs_until_found(fault: Fault, home: Path, most: int, seed: str) -> int | None:
    """The number of pairs that found the fault; None if `most` did not suffice."""
    paths = [copied(fault, home) / "python", ROOT]
    arguments = ["--pairs", str(most), "--seed", seed, "--ways", ",".join(fault.ways)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.differential.random_run", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        cwd=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"DIFFERENCE after ([\d,]+) pairs", run.stdout)
    if found is None and run.returncode:
        raise RuntimeError(f"random SQL ended with {run.returncode}: {run.stderr[-2000:]}")
    return None if found is None else int(found[1].replace(",", ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3_000, help="give up after so many")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", help="a regular expression: only faults whose names have it")
    arguments = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as home:
        for fault in (each for each in FAULTS if re.search(arguments.only, each.name)):
            started = time.monotonic()
            count = pairs_until_found(fault, Path(home), arguments.pairs, arguments.seed)
            missed += count is None
            result = f"found after {count:,} pairs" if count is not None else "NOT FOUND"
            print(f"{fault.name}: {result}, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
