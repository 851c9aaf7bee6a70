"""Which failures random SQL takes for those of Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.differential import pairs
from tests.differential.loads import Load
from tests.differential.pairs import JAR, OWN_V2, PLAIN, WHERE, Outcome, Pair
from tests.differential.random_files import DataSet
from tests.differential.random_sql import ROWS, Predicate, Statement

ROW = Outcome(("7",))
NANOS = Outcome(error="FAILED_READ_FILE", message="java.lang.IllegalArgumentException: nanos > 999999999 or < 0")
OTHER = Outcome(error="FAILED_READ_FILE", message="java.io.EOFException: Read past end of RLE integer")


@pytest.mark.parametrize(
    ("format_", "way", "ours", "by_v2", "is_sparks"),
    [
        ("orc", JAR, NANOS, NANOS, True),
        ("orc", WHERE, NANOS, NANOS, True),
        ("orc", JAR, NANOS, ROW, False),
        ("orc", JAR, NANOS, OTHER, False),
        ("orc", JAR, OTHER, OTHER, False),
        ("orc", PLAIN, NANOS, NANOS, False),
        ("parquet", JAR, NANOS, NANOS, False),
    ],
)
def test_times_before_1970_for_which_sparks_v2_reader_fails(
    format_: str, way: str, ours: Outcome, by_v2: Outcome, is_sparks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: dict[str | None, Outcome] = {None: ROW, way: ours, OWN_V2: by_v2}
    monkeypatch.setattr(pairs, "run", lambda _spark, _pair, by: outcomes[by])
    monkeypatch.setattr(pairs, "_pushed", lambda _spark, _pair: ROW)
    monkeypatch.setattr(pairs, "is_refusal", lambda _way, _outcome: False)
    pair = Pair(Load(DataSet(Path("t"), format_, (), (), "")), Statement(ROWS, Predicate("", leaf="TRUE")), way)
    tally: Counter[str] = Counter()
    difference = pairs.compare(cast(Any, None), pair, tally)
    assert (difference is None) == is_sparks
    assert tally["Spark's other reader fails as well"] == is_sparks


KEPT_1, KEPT_2 = ((SimpleNamespace(kept=kept, total=3, skipped=Counter()),) for kept in (1, 2))


@pytest.mark.parametrize(
    ("format_", "way", "without", "pushed", "is_sparks"),
    [
        ("orc", JAR, Outcome(("7",), plans=KEPT_2), NANOS, True),
        ("orc", JAR, Outcome(("7",), plans=KEPT_1), NANOS, False),
        ("orc", JAR, Outcome(("8",), plans=KEPT_2), NANOS, False),
        ("orc", JAR, Outcome(("7",), plans=KEPT_2), Outcome(("9",)), False),
        ("orc", PLAIN, Outcome(("7",), plans=KEPT_2), NANOS, False),
        ("parquet", JAR, Outcome(("7",), plans=KEPT_2), NANOS, False),
    ],
)
def test_rows_that_sparks_orc_filters_lose(
    format_: str, way: str, without: Outcome, pushed: Outcome, is_sparks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only if the plan is the same without these filters, and the rows are all there."""

    def run(_spark: Any, pair: Pair, by: str | None) -> Outcome:
        if by is None:
            return ROW
        return without if pair.load.settings.get("spark.sql.orc.filterPushdown") == "false" else ours

    ours = Outcome(plans=KEPT_2)
    monkeypatch.setattr(pairs, "run", run)
    monkeypatch.setattr(pairs, "_pushed", lambda _spark, _pair: pushed)
    pair = Pair(Load(DataSet(Path("t"), format_, (), (), "")), Statement(ROWS, Predicate("", leaf="TRUE")), way)
    assert (pairs.compare(cast(Any, None), pair, Counter()) is None) == is_sparks


@pytest.mark.parametrize(
    ("way", "by_v2", "is_sparks"),
    [(JAR, ROW, True), (WHERE, ROW, True), (JAR, Outcome(("8",)), False), (JAR, OTHER, False), (PLAIN, ROW, False)],
)
def test_files_that_only_sparks_v2_reader_reads(
    way: str, by_v2: Outcome, is_sparks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: dict[str | None, Outcome] = {None: OTHER, way: ROW, OWN_V2: by_v2}
    monkeypatch.setattr(pairs, "run", lambda _spark, _pair, by: outcomes[by])
    monkeypatch.setattr(pairs, "_pushed", lambda _spark, _pair: OTHER)
    pair = Pair(Load(DataSet(Path("t"), "orc", (), (), "")), Statement(ROWS, Predicate("", leaf="TRUE")), way)
    tally: Counter[str] = Counter()
    assert (pairs.compare(cast(Any, None), pair, tally) is None) == is_sparks
    assert tally["Spark's own V2 reads it as well"] == is_sparks


@pytest.mark.parametrize(
    ("way", "rows", "error", "is_sparks"),
    [
        (WHERE, (), "ARITHMETIC_OVERFLOW", True),
        (WHERE, ("7",), "ARITHMETIC_OVERFLOW", False),
        (WHERE, (), "INTERNAL_ERROR", False),
        (JAR, (), "ARITHMETIC_OVERFLOW", False),
    ],
)
def test_conditions_that_spark_does_not_evaluate(
    way: str, rows: tuple[str, ...], error: str, is_sparks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: dict[str | None, Outcome] = {None: Outcome(rows), way: Outcome(error=error)}
    monkeypatch.setattr(pairs, "run", lambda _spark, _pair, by: outcomes[by])
    monkeypatch.setattr(pairs, "_pushed", lambda _spark, _pair: ROW)
    pair = Pair(Load(DataSet(Path("t"), "parquet", (), (), "")), Statement(ROWS, Predicate("", leaf="TRUE")), way)
    assert (pairs.compare(cast(Any, None), pair, Counter()) is None) == is_sparks
