"""Random joins return the same rows with pruning as without: kinds of joins, keys, build sides, hints and settings.

`BLOOMPARQUET_CASES` is how many joins to try, in tens.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.jar.test_plain_joins import joined
from tests.support.joins import assert_same_rows
from tests.support.spark import conf

__all__ = ["joined"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("transparent")]

CASES = int(os.environ.get("BLOOMPARQUET_CASES", "300")) // 10
KEYS = [
    "f.id = d.k", "f.narrow = d.k", "f.narrow = d.small", "f.s = d.s", "f.dec = d.dec", "f.x = d.x", "f.id = d.x",
    "f.real = d.real", "f.st.id = d.k", "f.id = d.maybe", "f.id <=> d.maybe", "f.narrow = d.huge", "f.part = d.p",
    "f.id + 1 = d.k", "CAST(f.id AS STRING) = d.k", "f.x = d.dec", "f.dec = d.x", "f.s = d.name", "f.id < d.k",
]  # fmt: skip
BUILDS = [
    "d", "(SELECT * FROM d WHERE k < 24)", "(SELECT * FROM d WHERE name = 'nobody')", "(SELECT DISTINCT * FROM d)",
    "(SELECT * FROM d ORDER BY k DESC LIMIT 3)", "(SELECT a.* FROM d a JOIN d b ON a.k = b.k WHERE b.small > 40)",
    "(SELECT * FROM d UNION ALL SELECT * FROM d)", "(SELECT d.* FROM d LEFT JOIN f ON d.k = f.id WHERE f.id IS NULL)",
]  # fmt: skip
FACTS = [
    "f", "(SELECT * FROM f WHERE s > 's04')", "(SELECT * FROM f WHERE part = 1)",
    "(SELECT * FROM f UNION ALL SELECT * FROM f)", "(SELECT f.* FROM f JOIN d e ON f.narrow = e.small)",
]  # fmt: skip
KINDS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
HINTS = ["", "/*+ BROADCAST(f) */", "/*+ BROADCAST(d) */", "/*+ MERGE(d) */", "/*+ SHUFFLE_HASH(d) */"]
SETTINGS = {
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.sql.autoBroadcastJoinThreshold": ["-1", "10mb"],
    "spark.sql.adaptive.autoBroadcastJoinThreshold": ["-1", "10mb"],
    "spark.sql.exchange.reuse": ["true", "true", "false"],
    "spark.sql.ansi.enabled": ["true", "false"],
    "spark.sql.parquet.enableVectorizedReader": ["true", "false"],
}


def test_random_joins_lose_no_row(joined: SparkSession) -> None:
    tally: Counter[str] = Counter()

    @settings(max_examples=CASES)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        kind, hint = draws.draw(st.sampled_from(KINDS)), draws.draw(st.sampled_from(HINTS))
        on = " AND ".join(draws.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True)))
        facts, build = draws.draw(st.sampled_from(FACTS)), draws.draw(st.sampled_from(BUILDS))
        columns = "f.*" if kind in KINDS[4:] else "f.*, d.*"
        sql = f"SELECT {hint} {columns} FROM {facts} f {kind} {build} d ON {on}"
        if draws.draw(st.booleans()):
            sql = sql.replace(columns, "count(*), max(f.s)", 1)
        note(sql)
        values = draws.draw(st.fixed_dictionaries({key: st.sampled_from(of) for key, of in SETTINGS.items()}))
        with conf(joined, {**values, "spark.sql.ansi.enabled": "false"} if "STRING" in on else values):
            rows, frame = assert_same_rows(joined, sql)
            tally["rows"] += bool(rows)
            tally["pruned"] += any(plan.kept < plan.total for plan in last_plan(frame))

    check()
    assert tally["rows"] > CASES // 4
    assert tally["pruned"] > CASES // 20
