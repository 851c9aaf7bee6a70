"""Comparisons of columns under casts that Spark leaves in place."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.files import write_groups
from tests.support.plain import compare
from tests.support.spark import conf
from tests.support.spark_rows import skipped_by

pytestmark = pytest.mark.slow

DAY, EXACT = dt.date(2024, 1, 1), 2**53
SCHEMA = pa.schema(
    [
        ("i", pa.int32()), ("l", pa.int64()), ("big", pa.int64()), ("d", pa.date32()), ("s", pa.string()),
        ("p", pa.decimal128(10, 2)), ("q", pa.decimal128(38, 20)), ("n", pa.list_(pa.int64())),
    ]
)  # fmt: skip
BLOOM = ["i", "l", "big", "d", "s", "p", "q", "n.list.element"]


def row(i: int) -> dict[str, object]:
    return {
        "i": i, "l": i - 20, "big": EXACT + i, "d": DAY + dt.timedelta(i), "s": str(i),
        "p": Decimal(i) + Decimal("0.10"), "q": Decimal(i * 10**20 // 7).scaleb(-20), "n": [i, None],
    }  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four row groups, with the numbers 10 i + {0, 2, 4, null}."""
    groups = [[*(row(10 * i + k) for k in (0, 2, 4)), dict.fromkeys(SCHEMA.names)] for i in range(4)]
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in groups]
    return write_groups(tmp_path_factory.mktemp("casts") / "x.parquet", tables, BLOOM)


# Conditions, and how many row groups are skipped.
SKIPPED = {
    "CAST(i AS STRING) = '12'": 3,
    "CAST(i AS STRING) IN ('12', '13', NULL)": 3,
    "CAST(i AS STRING) IN ('012', ' 12', '12.0', '', '-0', 'x')": 4,
    "CAST(l AS STRING) = '-8'": 3,
    "CAST(d AS STRING) = '2024-01-13'": 3,
    "array_contains(n, 12) AND CAST(n[0] AS STRING) = '12'": 3,
    "CAST(l AS INT) = -8": 3,
    "CAST(i AS TINYINT) < 10": 3,
    "CAST(l AS DECIMAL(5, 2)) = -8.00": 3,
    "CAST(p AS DECIMAL(9, 3)) = 12.1": 3,
    "CAST(p AS DECIMAL(9, 3)) BETWEEN 12 AND 14": 3,
    "l = -8D": 3,
    "l > 5.5D": 3,
    "-5.5D >= l": 2,
    "CAST(i AS FLOAT) = 12": 3,
    "p = 12.1D": 3,
    "p < 0.1D": 3,
    "q = CAST(12 / 7D AS DOUBLE)": 3,
    f"big = CAST({EXACT + 13} AS DOUBLE)": 1,
    "CAST(i AS STRING) <> '12'": 0,
    "CAST(i AS STRING) <=> NULL": 0,
    "CAST(l AS DECIMAL(1, 0)) <=> NULL": 0,
    "try_cast(i AS TINYINT) IS NULL": 0,
    "CAST(d AS STRING) IN ('2024-01-13', 'x')": 0,
    "CAST(p AS STRING) = '12.10'": 0,
    "CAST(p AS INT) = 12": 0,
    "CAST(s AS INT) = 13": 0,
    "l < double('NaN')": 0,
    "q = 1e300D": 0,
}


@pytest.mark.parametrize("ansi", [True, False])
def test_rows_are_those_of_an_unpruned_scan(ansi: bool, path: str, jar_spark: SparkSession) -> None:
    expected = {where: n for where, n in SKIPPED.items() if ansi == ("try_" not in where and "(1, 0)" not in where)}
    with conf(jar_spark, {"spark.sql.ansi.enabled": str(ansi).lower()}):
        assert skipped_by(jar_spark.read.parquet(path), expected) == expected


def test_integers_that_wrap_around_are_kept(path: str, jar_spark: SparkSession) -> None:
    """Without ANSI mode, 2^53 + 12 is 12 as INT."""
    with conf(jar_spark, {"spark.sql.ansi.enabled": "false"}):
        ran = compare(jar_spark, lambda: jar_spark.read.parquet(path).where("CAST(big AS INT) = 12"))
    assert (len(ran.rows), ran.skipped) == (1, 0)


def test_no_number_that_rounds_to_the_literal_is_lost(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Each row group has one number of each type. Spark casts it, and looks up what it got."""
    rng = random.Random(5)
    kinds = {"a": pa.int64(), "b": pa.decimal128(18, 7), "c": pa.decimal128(38, 18), "d": pa.int32()}

    def number(kind: pa.DataType) -> int | Decimal:
        if pa.types.is_integer(kind):
            return rng.randrange(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1))
        unscaled = rng.randrange(10 ** rng.randint(1, kind.precision)) * rng.choice((1, -1))
        return Decimal(unscaled).scaleb(-kind.scale) if unscaled < 10**28 else Decimal(f"{unscaled}E-{kind.scale}")

    rows = [{name: number(kind) for name, kind in kinds.items()} for _ in range(20)]
    tables = [pa.Table.from_pylist([each], pa.schema(kinds.items())) for each in rows]
    path = write_groups(tmp_path / "x.parquet", tables, list(kinds))
    casts = [f"CAST({name} AS {to})" for name in kinds for to in ("DOUBLE", "FLOAT")]
    frame = jar_spark.read.parquet(path)
    values = frame.selectExpr(*(f"{cast} AS `{i}`" for i, cast in enumerate(casts))).collect()
    wheres = []
    for i, cast in enumerate(casts):
        to = cast.split()[-1][:-1]
        literals = [f"{to}('{each[i]!r}')" for each in rng.sample(values, 4)]
        wheres += [f"{cast} = {literals[0]}", f"{cast} IN ({', '.join(literals)})"]
        wheres += [f"{cast} {op} {literals[1]}" for op in ("<=", ">=")]
    assert all(frame.selectExpr(*(f"count_if({where})" for where in wheres)).collect()[0]), "the literals are values"
    skipped_by(frame, wheres)
