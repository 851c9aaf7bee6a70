"""``python -m tests.connectors.random_tables iceberg|delta --seconds N --seed S``: random tables and queries.

Prints what was compared, and each difference with how to repeat it. Exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from pyspark_bloomparquet import attach
from tests.connectors.pairs import Counts
from tests.connectors.session import application


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("format", choices=("iceberg", "delta"))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tables = import_module(f"tests.connectors.{given.format}_tables")
    total, begun, shown = Counts(), time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as home, application(Path(home)) as spark:
        attach(spark)
        spark.sparkContext.setLogLevel("OFF")  # some statements fail, off and on
        logging.disable()
        for counts in tables.rounds(spark, Path(home), given.seed):
            for each in counts.differences:
                print(f"DIFFERENCE {each}", flush=True)
            total += counts
            seconds = time.monotonic() - begun
            if seconds > shown + 60:
                print(f"{seconds:.0f} s: {total}", flush=True)
                shown = seconds
            if seconds > given.seconds:
                break
        print(f"seed {given.seed}, {time.monotonic() - begun:.0f} s: {total}")
    sys.exit(bool(total.differences))


if __name__ == "__main__":
    main()
