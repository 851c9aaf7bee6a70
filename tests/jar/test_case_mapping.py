"""Conditions on ``lower(column)`` and ``upper(column)``: Python maps text as Spark does, and all readers agree."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.query.evaluate.case_mapping import map_case
from pyspark_bloomparquet import last_plan
from tests.support.files import write_groups
from tests.support.plain import compare_all
from tests.support.scenarios import UNPRUNED, Readers, ask_all, texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

# Letters with special rules, with letters, marks and punctuation that decide how a sigma is mapped.
CONFUSING = (
    "aAkKiIsS\u00df\u017f\u212a\u0130\u0131\u03a3\u03c3\u03c2\u03b1\u0391\ufb01\u01c5\u0149\u1e9e\U00010400"
    "\u0345\u0307\u0301\u00ad\u02b0\u05d0\u4e2d.'-1 "
)


def differs_by_version(text: str) -> bool:
    """Whether a letter of `text` is younger than Python's Unicode data."""
    return any(unicodedata.category(letter) == "Cn" for letter in text)


def test_python_maps_all_letters_as_spark_does(jar_spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(7)
    letters = [chr(i) for i in range(0x20000) if not 0xD800 <= i < 0xE000]
    phrases = ["".join(rng.choices(CONFUSING, k=rng.randint(2, 8))) for _ in range(20_000)]
    table = pa.table({"c": [*letters, *phrases]})
    pq.write_table(table, tmp_path / "x.parquet")
    answer = jar_spark.read.parquet(str(tmp_path)).selectExpr("c", "lower(c) AS lower", "upper(c) AS upper").toArrow()
    assert answer.num_rows == table.num_rows
    for case in ("lower", "upper"):
        ours = map_case(answer["c"], case)  # type: ignore[arg-type]
        rows = zip(answer["c"].to_pylist(), ours.to_pylist(), answer[case].to_pylist(), strict=True)
        different = [(text, mine, sparks) for text, mine, sparks in rows if mine != sparks]
        assert not [row for row in different if not differs_by_version(row[0] + row[2])], case


GROUPS: list[list[str | None]] = [
    ["Ann@X.org", "bob", None],
    ["CARL", "dora"],
    [None, None],
    ["\u212aarl", "\u0130", "stra\u00dfe", "\u039f\u0394\u039f\u03a3"],
    ["", "ann@x.org"],
]
# Conditions, and how many row groups are skipped: the last by its ids, and that of nulls unless NULL matches.
WHERES = {
    "lower(c) = 'ann@x.org'": 2,
    "lower(c) IN ('bob', 'dora', NULL)": 2,
    "lower(c) <=> NULL": 1,
    "NOT (lower(c) <=> 'bob')": 1,
    "lower(c) NOT IN ('bob', 'carl')": 2,
    "lower(c) IN ('karl', 'k', 'i\u0307')": 2,
    "lower(c) = '\u03bf\u03b4\u03bf\u03c2'": 2,
    f"lower(c) IN ({', '.join(repr(f'x{i}') for i in range(20))}, 'bob')": 2,
    "lower(s.c) <=> 'bob' OR NOT upper(c) = 'DORA'": 2,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    schema = pa.schema([("id", pa.int64()), ("c", pa.string()), ("s", pa.struct([("c", pa.string())]))])
    groups = []
    for i, cells in enumerate(GROUPS):
        rows = [{"id": 10 * i + k, "c": cell, "s": {"c": cell}} for k, cell in enumerate(cells)]
        groups.append(pa.Table.from_pylist(rows, schema))
    return write_groups(tmp_path_factory.mktemp("case") / "x.parquet", groups, ["c"])


def test_all_readers_agree_on_lower_and_upper(path: str, readers: Readers) -> None:
    """The condition on `id` has evidence, so that there is a plan."""
    wheres = [f"({where}) AND id < 39" for where in WHERES]
    queries = compare_all(readers.spark, readers.oracle(path).where, wheres)
    rows, frame = ask_all(readers.jar(path, where=where) for where in wheres)
    options = zip(rows, last_plan(frame), strict=True)
    for where, skipped, (found, plan) in zip(wheres, WHERES.values(), options, strict=True):
        assert (where, texts(found)) == (where, queries[where].rows)
        assert (where, bp.read_table(path, where)["id"].to_pylist()) == (where, sorted(row.id for row in found))
        for each in (plan, *queries[where].plans):
            assert (where, each.skipped) == (where, {"statistics": skipped, "bloom": 0})
            assert ("lower(" in str(each.where) or "upper(" in str(each.where)) == ("<=> NULL" not in where)


def test_other_collations_and_padded_text_are_left_to_spark(jar_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    jar_spark.sql(
        "SELECT id, CAST(concat('A', id) AS STRING) AS c, concat('A', id) COLLATE UTF8_LCASE AS l FROM range(20)"
    ).write.parquet(path)
    with conf(jar_spark, UNPRUNED):
        jar_spark.sql(
            f"CREATE TABLE padded (id BIGINT, c CHAR(5), l STRING COLLATE UTF8_LCASE) USING parquet LOCATION '{path}'"
        )
    try:
        wheres = ["lower(c) = 'a3'", "lower(c) = 'a3   '", "upper(l) = 'a3'", "lower(l) IN ('A3', 'b')"]
        frame = jar_spark.table("padded")
        for pruned in compare_all(jar_spark, lambda where: frame.where(f"{where} AND id < 10"), wheres).values():
            assert "id < 10" in str(pruned.plans[0].where)
            assert "lower(" not in str(pruned.plans[0].where)
            assert "upper(" not in str(pruned.plans[0].where)
    finally:
        jar_spark.sql("DROP TABLE padded")
