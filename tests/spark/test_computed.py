"""Conditions on functions of columns and comparisons of two columns: their rows are Spark's, whatever the values."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.query.domains import arrow_family
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.query.values import to_sql
from tests.spark.compare import load, parquet, partitions
from tests.support.files import write
from tests.support.spark import conf

ROWS, BATCH = 600, 60
NAN, INFINITY = float("nan"), float("inf")
TEXTS = [
    None, "", " ", "  ", "a", " a", "a ", "  a b ", "\ta\t", "\n a", "\u00a0a\u00a0", "\u3000a", "a\u2003", "\0",
    "a\0 ", "é", "e\u0301", "éa", "ß", "İ", "ı", "i", "Σ", "ΑΣ", "ς", "σ", "Ǆ", "ﬃ", "A", "ab", "AB", "aB", "abc",
    "%", "_", "\\", "\U0001f600", "\U0001f600\U0001f600a", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\ud7ff",
    "\ue000", "\uffff", "\U0010ffff", "\u0301", "z" * 40,
]  # fmt: skip
FLOATS = [
    None,
    NAN,
    -NAN,
    INFINITY,
    -INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    127.0,
    5e-324,
    16777216.0,
    -(2.0**63),
    2.0**63,
]
DOUBLES = [*FLOATS, 0.1, 9007199254740992.0, 9007199254740993.0, 1e300, -1e-300]
DAYS = [None, 0, -1, 1, 18_262, 19_782, 11_016, -719_163, -719_528, -719_529, -141_428, -141_427, 2_932_896]
DAYS += [2_932_897, 2**31 - 1, -(2**31), -800_000, 47_482]
MICROS = [None, 0, -1, 1, 999, 1_000, -1_000, 10**15, -(10**15), 253_402_300_799_999_999, -62_135_596_800_000_000]


def integers(bits: int, *, signed: bool = True) -> list[int | None]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    within = [
        value for value in (0, 1, 2, 127, 2**24 + 1, 2**53 + 1, -1, -128, low + 1, high - 1) if low <= value <= high
    ]
    return [None, low, high, *within]


def decimals(precision: int, scale: int) -> list[Decimal | None]:
    most = 10**precision - 1
    unscaled = [0, 1, -1, most, -most, *(step * 10**scale for step in (1, -1, 127) if abs(step * 10**scale) <= most)]
    return [None, *(Decimal((value < 0, tuple(map(int, str(abs(value)))), -scale)) for value in unscaled)]


DECIMALS = ((3, 2), (9, 2), (18, 18), (20, 0), (34, 6), (38, 0), (38, 10))
CELLS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    **{name: (pa.string(), TEXTS) for name in ("t", "u")},
    **{name: (pa.binary(), [None, b"", b"\0", b"a", b"a\xff", b"\x7f", b"\x80", b" a "]) for name in ("x", "y")},
    **{f"i{bits}": (getattr(pa, f"int{bits}")(), integers(bits)) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (getattr(pa, f"uint{bits}")(), integers(bits, signed=False)) for bits in (8, 16, 32, 64)},
    "f32": (pa.float32(), FLOATS), "g32": (pa.float32(), FLOATS),
    "f64": (pa.float64(), DOUBLES), "g64": (pa.float64(), DOUBLES),
    **{f"d{p}_{s}": (pa.decimal128(p, s), decimals(p, s)) for p, s in DECIMALS},
    "day": (pa.date32(), DAYS), "other_day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", "UTC"), MICROS), "at_ms": (pa.timestamp("ms", "UTC"), MICROS[:-3]),
    "local": (pa.timestamp("us"), MICROS), "local_ms": (pa.timestamp("ms"), MICROS[:-3]),
    "yes": (pa.bool_(), [None, True, False]), "no": (pa.bool_(), [None, True, False]),
}  # fmt: skip
NUMBERS = [name for name, (kind, _) in CELLS.items() if arrow_family(kind) in ("integer", "float", "decimal")]
INTEGERS = [name for name in NUMBERS if pa.types.is_integer(CELLS[name][0])]
OF_TEXT = [
    "length({})", "trim({})", "ltrim({})", "rtrim({})", "lower({})", "upper({})", "{} || u", "concat({}, '-', u, {})",
    "length(trim({}))", "upper(substring(trim({}), 2))", "char_length(concat(' ', {}))", "trim(LEADING FROM {})",
    *(f"substring({{}}, {p})" for p in (-3, -1, 0, 1, 2, 2**31 - 1)),
    *(f"substring({{}}, {p}, {n})" for p, n in product((-9, -2, -1, 0, 1, 2), (-1, 0, 1, 2, 5, 2**31 - 1))),
    *(f"{side}({{}}, {n})" for side, n in product(("left", "right"), (-1, 0, 1, 2, 99))),
]  # fmt: skip
OF_OTHERS = [
    *(f"abs({name})" for name in NUMBERS if not name.startswith("d38")), "isnan(f32)", "isnan(f64)",
    *(f"{part}({day})" for part in ("year", "month", "day", "dayofmonth") for day in ("day", "other_day")),
]  # fmt: skip
SYMBOLS = ["=", "<>", "<=>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]
PAIRS = [
    ("t", "u"), ("s.t", "u"), ("x", "y"), ("f32", "g32"), ("f64", "g64"), ("f32", "f64"), ("day", "other_day"),
    ("at", "at_ms"), ("local", "local_ms"), ("yes", "no"), ("trim(t)", "u"), ("lower(t)", "upper(u)"),
    ("abs(f64)", "g64"), ("length(t)", "i16"), ("year(day)", "year(other_day)"), ("abs(f32)", "f64"),
    ("isnan(f64)", "yes"), ("length(t)", "d9_2"),
]  # fmt: skip
OF_NUMBERS = [
    *combinations(INTEGERS, 2), *((name, "f64") for name in INTEGERS if name != "u64"),
    *((name, kind) for name in INTEGERS for kind in ("d3_2", "d9_2", "d18_18", "d38_0")),
    ("d3_2", "d18_18"), ("d9_2", "d20_0"), ("d9_2", "d38_10"), ("d20_0", "d38_0"), ("d34_6", "d38_10"),
]  # fmt: skip
NESTED = [
    "NOT (length(t) = 1 AND i8 > 0)", "length(t) = 1 OR t = u OR i8 IS NULL", "NOT (t = u OR isnan(f64))",
    "trim(t) LIKE 'a%' AND NOT upper(u) LIKE '%B'", "length(t) BETWEEN 2 AND 3", "length(t) NOT BETWEEN 2 AND i16",
    "i8 BETWEEN i16 AND i32", "length(t) IN (1, NULL)", "length(t) NOT IN (1, 2)", "trim(t) IN ('a', '')",
    "lower(t) IS NULL AND i8 IS NOT NULL", "startswith(ltrim(t), 'a')", "contains(upper(t), 'B')",
    "endswith(rtrim(t), 'a')", "lower(t) > 'a'", "3 < length(t)", "length(t) = NULL", "NOT (length(t) <=> NULL)",
    "NOT isnan(f32)", "isnan(f32) IS TRUE", "abs(d9_2) = 1.27BD", "abs(f64) < 0.5",
    "trim(t) = trim(t)",
]  # fmt: skip


def draw(name: str, rng: random.Random) -> pa.Array:
    kind, cells = CELLS[name]
    values = [*cells, *rng.choices(cells, k=ROWS - len(cells))]
    rng.shuffle(values)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    return pa.array(values, kind)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = random.Random(3)
    columns = {name: draw(name, rng) for name in CELLS}
    for one, other in (
        ("t", "u"),
        ("f64", "g64"),
        ("i8", "i16"),
        ("d9_2", "d38_10"),
        ("at", "at_ms"),
    ):  # some are equal
        equal = columns[one].cast(columns[other].type, safe=False)
        columns[other] = pa.concat_arrays([equal.slice(0, ROWS // 4), columns[other].slice(ROWS // 4)])
    nested = pa.StructArray.from_arrays([draw("t", rng)], ["t"])
    data = pa.table({"i": range(ROWS), **columns, "s": nested})
    return write(tmp_path_factory.mktemp("computed") / "x.parquet", data, ["i"], rows_per_group=ROWS // 4)


def by_spark(spark: SparkSession, path: str, columns: Sequence[str]) -> Iterator[list[Any]]:
    """The values of each of `columns` in the order of the rows, as Spark reads the file."""
    for start in range(0, len(columns), BATCH):  # Spark compiles many columns slowly
        named = [f"{column} AS `{i}`" for i, column in enumerate(columns[start : start + BATCH])]
        table = spark.read.parquet(path).selectExpr("i", *named).toArrow().sort_by("i")
        yield from (column.to_pylist() for column in table.columns[1:])


@pytest.mark.slow
def test_functions_have_sparks_values(spark: SparkSession, path: str) -> None:
    functions = [*(text.format(*[name] * 2) for text in OF_TEXT for name in ("t", "s.t")), *OF_OTHERS]
    data = pq.read_table(path)
    with conf(spark, {"spark.sql.ansi.enabled": "false"}):  # abs of the least value is an error otherwise
        values = list(by_spark(spark, path, functions))
    for function, expected in zip(functions, values, strict=True):
        least = function in ("abs(i8)", "abs(i16)", "abs(i32)", "abs(i64)")
        kept = data.filter(pa.array([not (least and value is not None and value < 0) for value in expected]))
        wanted = [expected[i] for i in kept["i"].to_pylist()]
        for value in dict.fromkeys(repr(each) for each in wanted):
            literal = next(each for each in wanted if repr(each) == value)
            found = mask(parse_where(f"{function} <=> {to_sql(literal)}"), kept).to_pylist()
            assert found == [same(each, literal) for each in wanted], (function, value)


def same(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other)


def test_comparisons_of_columns_are_sparks(spark: SparkSession, path: str) -> None:
    of_numbers = [f"{left} {symbol} {right}" for left, right in OF_NUMBERS for symbol in ("=", "<", "<=>")]
    wheres = [*NESTED, *(f"{left} {symbol} {right}" for left, right in PAIRS for symbol in SYMBOLS), *of_numbers]
    data = pq.read_table(path)
    ours = [mask(parse_where(where), data).to_pylist() for where in wheres]
    for ansi, zone in (("true", "America/St_Johns"), ("false", "UTC")):
        with conf(spark, {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}):
            for where, found, expected in zip(wheres, ours, by_spark(spark, path, wheres), strict=True):
                assert found == expected, (where, ansi)


@pytest.mark.parametrize(
    ("where", "most"),
    [
        ("i = 599 AND length(t) >= 0", 1),
        ("i < 300 AND trim(t) = trim(u)", 2),
        ("NOT (i >= 150 OR isnan(f64) OR day < other_day)", 1),
        ("T = u OR S.t LIKE '%a' AND abs(F64) <= g64", 4),
    ],
)
def test_a_load_has_sparks_rows_and_skips(spark: SparkSession, path: str, where: str, most: int) -> None:
    ours, theirs = load(spark, path, where=where, maxPartitionBytes="1", openCostInBytes="1"), parquet(spark, path)
    expected = sorted(row["i"] for row in theirs.where(where).select("i").collect())
    assert expected
    assert sorted(row["i"] for row in ours.select("i").collect()) == expected
    assert partitions(ours) == most
    assert bp.read_table(path, where, ["i"], case_sensitive=False)["i"].to_pylist() == expected


def test_a_load_refuses_conditions_on_a_collation(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.sql("SELECT CAST('a' AS STRING COLLATE UTF8_LCASE) AS c, 'A' AS d, 1 AS i")
    frame.write.parquet(path)
    assert parquet(spark, path).where("c = 'A' COLLATE UTF8_LCASE").count() == 1  # which comparing bytes does not find
    for where in ("c = d", "c = 'A'"):
        with pytest.raises(bp.UnsupportedError, match="collation"):
            bp.read_table(path, where)
        with pytest.raises(Exception, match="collation"):
            load(spark, path, "i INT", where=where).collect()
    assert load(spark, path, "i INT", where="c IS NOT NULL AND d = 'A'").count() == 1
