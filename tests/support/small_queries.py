"""The environment of programs that start a Spark of their own: it interprets queries, as that of tests."""

from __future__ import annotations

import sys

from tests.support.spark import FOR_SMALL_QUERIES, INTERPRETED

_OPTIONS = " ".join(f"--conf {name}={value}" for name, value in (FOR_SMALL_QUERIES | INTERPRETED).items())
ENVIRONMENT = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": f"{_OPTIONS} pyspark-shell"}
