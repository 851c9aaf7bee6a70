"""Conditions on functions of columns and comparisons of two columns in text: which rows are read, and what is refused.

:mod:`tests.spark.test_computed` compares their values with Spark's.
"""

from __future__ import annotations

import datetime as dt
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest

import bloomparquet as bp
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.predicate import to_sql
from bloomparquet.query.sql.parse import parse_where
from tests.support.commands import Run
from tests.support.files import hive, write, write_groups

ROWS = 400
WORDS = [f"w{i}" if i % 7 else None for i in range(ROWS)]
DATA = pa.table(
    {
        "id": [i * 7919 % 4_001 for i in range(ROWS)],
        "word": WORDS,
        "other": [f" w{i - i % 2} " for i in range(ROWS)],
        "s": [{"word": word, "a.b": i} for i, word in enumerate(WORDS)],
        "x.y": range(ROWS),
        "day": [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(ROWS)],
        "at": pa.array(range(ROWS), pa.timestamp("us", "UTC")),
        "local": pa.array(range(ROWS), pa.timestamp("us")),
        "ns": pa.array(range(ROWS), pa.timestamp("ns")),
        "f32": pa.array(range(ROWS), pa.float32()),
        "big": pa.array(range(ROWS), pa.decimal128(38, 20)),
        "long": pa.array(range(ROWS), pa.decimal128(38, 0)),
        "tags": [[1]] * ROWS,
    }
)
AN_ID = DATA["id"][123].as_py()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("t") / "0.parquet", DATA, ["id"], rows_per_group=100)


READ: dict[str, tuple[int, Any]] = {  # the row groups that are kept, and which rows match
    f"id = {AN_ID} AND length(word) = 4": (1, lambda i: i == 123),
    f"id = {AN_ID} AND length(word) = 3": (1, lambda i: False),
    f"id = {AN_ID} OR length(word) = 2": (4, lambda i: i == 123 or len(WORDS[i] or "") == 2),
    f"NOT (id <> {AN_ID} OR word = trim(other))": (1, lambda i: i == 123),
    "word = trim(other)": (4, lambda i: WORDS[i] is not None and i % 2 == 0),
    "NOT word = trim(other)": (4, lambda i: WORDS[i] is not None and i % 2 == 1),
    "NOT (word <=> trim(other))": (4, lambda i: WORDS[i] is None or i % 2 == 1),
    "day >= DATE '2027-01-30' AND month(day) = 2": (1, lambda i: i >= 396),
    "length(s.word) = 2 AND `x.y` = s.`a.b`": (4, lambda i: len(WORDS[i] or "") == 2),
    "length(word) IS NULL": (4, lambda i: WORDS[i] is None),
    "`x.y` BETWEEN 100 AND id": (3, lambda i: 100 <= i <= i * 7919 % 4_001),
    "upper(word) LIKE 'W_' AND ltrim(other) < 'w3'": (4, lambda i: i in (1, 2, 3)),
}


@pytest.mark.parametrize("where", READ)
def test_rows_match_and_the_rest_of_an_and_skips(where: str, path: str) -> None:
    kept, matches = READ[where]
    expected = [i for i in range(ROWS) if matches(i)]
    assert bp.read_table(path, where)["x.y"].to_pylist() == expected
    plan = bp.plan(path, where)
    assert (plan.kept, "not used: " in repr(plan)) == (kept, True)
    batches = bp.scan_batches(path, where, ["word"])
    assert batches.read_all()["word"].to_pylist() == [WORDS[i] for i in expected]
    assert bp.Dataset.open(path).read_table(where.replace("word", "WORD"), case_sensitive=False).num_rows == len(
        expected
    )


@pytest.mark.parametrize("where", READ)
def test_text_of_a_predicate_is_parsed_back(where: str) -> None:
    predicate = parse_where(where)
    assert parse_where(to_sql(predicate)) == predicate
    assert pickle.loads(pickle.dumps(predicate)) == predicate
    long = " AND ".join(f"length(word) <> {i}" for i in range(1_000, 1_200))
    assert len(str(parse_where(f"concat(word, '{'x' * 10_000}') = other"))) < 1_000
    assert parse_where(to_sql(parse_where(long))) == parse_where(long)


REFUSED = {
    "length(id) = 3": "length needs a column of text, but id is of type int64",
    "trim(word) = 5": r"column 'trim\(word\)' is of type string, but is compared with the int 5",
    "lower(trim(at)) = 'x'": r"cannot evaluate trim\(at\): trim needs a column of text, but at is",
    "substring(id, 1) = 'x'": "substring needs a column of text, but id is of type int64",
    "concat(word, '-', id) = 'x'": "concat needs columns of text, but id is of type int64; leave this condition out",
    "year(at) = 1970": "year needs a column of dates, but at is of type timestamp",
    "abs(word) = 1": "abs needs a column of numbers, but word is of type string",
    "abs(long) = 1": "abs needs decimals of at most 34 digits",
    "isnan(id)": "isnan needs a column of floating-point numbers",
    "tags = tags": "column tags is of type list",
    "s <=> s": "column s is of type struct",
    "id = word": "the types are int64 and string",
    "id = f32": "the types are int64 and float",
    "big = f32": "the types are decimal128",
    "big = long": "the types are decimal128",
    "at = local": "the types are timestamp",
    "local < ns": "the types are timestamp",
    "day = at": "the types are date32",
    "length(no) = 3": "column 'no' is in none of the files",
    "trim(BOTH 'x' FROM word) = 'y'": 'cannot use "TRIM.* in place of a column also lower, upper, length',
    "length(word) BETWEEN SYMMETRIC 3 AND 1": "cannot use",
    "substring(word, id) = 'x'": "cannot use",
    "left(word, 1.5) = 'x'": "cannot use",
    "id BETWEEN reverse(word) AND 5": "cannot use 'id >= REVERSE",
    "concat(word, NULL) = 'x'": "cannot use",
    "word COLLATE UNICODE_CI = other": "cannot use",
}


@pytest.mark.parametrize("where", REFUSED)
def test_other_meanings_are_refused(where: str, path: str) -> None:
    with pytest.raises(bp.PlanError, match=REFUSED[where]):
        bp.read_table(path, where)


def test_text_that_is_not_utf_8_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    bad = pa.array([b"a\xff", b"b"]).cast(pa.binary())
    text = pa.StringArray.from_buffers(2, bad.buffers()[1], bad.buffers()[2])
    path = write(tmp_path / "x.parquet", {"c": text})
    for where in ("length(c) = 1", "substring(c, 1, 1) = 'b'"):
        with pytest.raises(bp.FormatError, match=r"x\.parquet: cannot evaluate .* not UTF-8"):
            bp.read_table(path, where)
    assert bp.read_table(path, "trim(c) = 'b' OR NOT c <> concat(c, '')").num_rows == 2


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_a_number_without_an_absolute_value_is_an_error(tmp_path: Path, kind: pa.DataType) -> None:
    least = -(1 << kind.bit_width - 1)
    path = write_groups(tmp_path / "x.parquet", [{"c": pa.array([least + 1, 3], kind)}, {"c": pa.array([least], kind)}])
    assert bp.read_table(path, f"abs(c) IN (3, {-least - 1}) AND c > {least}").num_rows == 2
    with pytest.raises(bp.PlanError, match=r"x\.parquet: cannot evaluate abs\(c\).*spark\.sql\.ansi\.enabled"):
        bp.read_table(path, "abs(c) = 3")


@pytest.mark.parametrize(
    "kind",
    [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    ids=["large", "view", "dictionary"],
)
def test_arrow_types_of_text_have_the_same_values(kind: pa.DataType) -> None:
    text = pa.array([" é", "e ", None, "", "\U0001f600"])
    other = pa.array(["é", "e ", "x", "", "\U0001f600 "])
    structs = pa.StructArray.from_arrays([text.cast(kind)], ["t"], mask=pa.array([False, False, False, True, False]))
    plain, table = pa.table({"t": text, "o": other}), pa.table({"t": text.cast(kind), "o": other, "s": structs})
    functions = ["trim({})", "length({})", "upper({})", "substring({}, -1, 1)", "concat({}, o)", "right({}, 1)"]
    for function in functions:
        for where in (
            f"{function} = {function.replace('{}', 'o')}",
            f"{function} IS NULL",
            f"{function} <=> {function}",
        ):
            expected = mask(parse_where(where.replace("{}", "t")), plain).to_pylist()
            assert mask(parse_where(where.replace("{}", "t")), table).to_pylist() == expected, where
            of_null = mask(parse_where(where.replace("{}", "s.t")), table).to_pylist()
            assert of_null[:3] + of_null[4:] == expected[:3] + expected[4:]
            assert of_null[3] is (None if "=" in where and "<=>" not in where else True)


def test_encoded_numbers_and_times_have_the_same_values() -> None:
    cents = pa.array([1, 250, None, 400]).cast(pa.decimal128(21, 2))
    plain = pa.table({"i": [1, 2, None, 4], "d": cents, "t": pa.array([1, 2, None, 4], pa.timestamp("us"))})
    encoded = pa.table({name: plain[name].combine_chunks().dictionary_encode() for name in plain.column_names})
    for where in ("i = d", "d <= i", "abs(d) = 4", "t <=> t", "i < 3 AND d >= d"):
        expected = mask(parse_where(where), plain).to_pylist()
        assert mask(parse_where(where), encoded).to_pylist() == expected, where
        mixed = pa.table({"i": encoded["i"], "d": plain["d"], "t": encoded["t"]})
        assert mask(parse_where(where), mixed).to_pylist() == expected, where


def test_a_time_beyond_the_common_unit_is_an_error() -> None:
    times = pa.table({"s": pa.array([2**62], pa.timestamp("s")), "us": pa.array([0], pa.timestamp("us"))})
    with pytest.raises(bp.PlanError, match=r"cannot evaluate s < us: a value does not fit"):
        mask(parse_where("s < us"), times)


def test_columns_that_files_lack_and_partitions_are_operands(tmp_path: Path) -> None:
    parts = {
        "p=de/0": pa.table({"c": ["de", "x", None], "i": [0, 1, 2]}),
        "p=ch/1": pa.table({"c": ["de", "ch"], "i": [3, 4], "extra": ["ch", None]}),
    }
    root = hive(tmp_path / "t", {name.split("/")[0]: part for name, part in parts.items()})
    matching = {
        "c = p": [4, 0], "length(p) = 2 AND c <> p": [3, 1], "extra <=> c": [2], "extra = p": [3],
        "length(extra) = 2": [3], "concat(extra, c) IS NULL": [4, 0, 1, 2], "upper(p) = 'CH'": [3, 4],
        "NOT extra = c": [3],
    }  # fmt: skip
    for where, expected in matching.items():
        assert sorted(bp.read_table(root, where)["i"].to_pylist()) == sorted(expected), where


def test_a_column_without_a_type_is_null_in_every_row() -> None:
    """A column that no readable file has is like a column of nulls."""
    table = pa.table({"c": ["a", None], "n": [1.0, None], "k": [3, 4]})
    nulls = table.append_column("no", pa.nulls(2, pa.string())).append_column("nil", pa.nulls(2, pa.float64()))
    wheres = [
        *(f"{left} {symbol} {right}" for left, right in (("no", "c"), ("c", "no"), ("nil", "n"), ("no", "no"))
          for symbol in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
        "length(no) = 1", "length(no) IS NULL", "trim(no) <=> NULL", "concat(no, c) = 'a'", "isnan(nil)",
        "abs(nil) <=> n", "NOT isnan(nil)", "lower(no) IN ('a')", "length(no) = k", "upper(no) LIKE 'a'",
    ]  # fmt: skip
    for where in wheres:
        assert mask(parse_where(where), table).to_pylist() == mask(parse_where(where), nulls).to_pylist(), where


def test_stripes_and_the_command_line_read_the_same_rows(tmp_path: Path, path: str, run: Run) -> None:
    columns = ["id", "word", "other", "day", "local"]
    pa.orc.write_table(DATA.select(columns), str(tmp_path / "x.orc"), stripe_size=1_000)
    for where in ("word = trim(other) AND id < 2000", "year(day) = 2027 OR length(word) = 2", "local < local"):
        expected = bp.read_table(path, where, columns).to_pylist()
        assert bp.read_table(str(tmp_path / "x.orc"), where, ["id", "word", "other", "day"]).num_rows == len(expected)
        printed = run("read", path, "--where", where, "--columns", "id", "--json")
        assert (printed.code, printed.err) == (0, "")
        assert printed.lines() == [{"id": row["id"]} for row in expected]


def test_conditions_on_text_with_a_collation_are_refused(tmp_path: Path) -> None:
    """Spark compares such text by rules that bytes do not follow. Null tests and other columns are not concerned."""
    spark = {"type": "struct", "fields": [
        {"name": "c", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}},
        {"name": "d", "type": "string", "nullable": True, "metadata": {}},
    ]}  # fmt: skip
    for schema, refused in ((json.dumps(spark), ["c"]), ("__COLLATIONS", ["c", "d"])):
        table = pa.table({"c": ["a", None], "d": ["a", "b"]})
        table = table.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": schema})
        path = write(tmp_path / "x.parquet", table)
        wheres = {"c = 'A'": "c", "d = 'a'": "d", "length(c) = 1": "c", "trim(d) = 'a'": "d", "C = d": "c"}
        for where, column in wheres.items():
            if column in refused:
                with pytest.raises(bp.UnsupportedError, match=rf"x\.parquet: cannot compare .*{column}.* collation"):
                    bp.read_table(path, where, case_sensitive=False)
            else:
                assert bp.read_table(path, where).num_rows == 1
        assert bp.read_table(path, "c IS NULL")["d"].to_pylist() == ["b"]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")], ids=str)
def test_conditions_on_days_of_the_julian_calendar_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    """Spark reads other days than the file has. Null tests, other columns and younger days are not concerned."""
    old, new = ([None, dt.date(year, 1, 1)] for year in (1500, 2020))
    groups = [
        {"c": pa.array(days).cast(kind), "s": pa.array([{"d": day} for day in days]), "i": [i, i + 1]}
        for i, days in ((0, old), (2, new))
    ]
    literal = "DATE '1500-01-01'" if pa.types.is_date(kind) else "TIMESTAMP '1500-01-01 00:00:00Z'"
    wheres = [f"c = {literal}", f"NOT c > {literal}", "s.d = DATE '1500-01-01'", "year(s.d) = 1500", "c <= C"]
    others = {"c IS NULL": 2, "i = 1": 1, "i >= 2 AND year(s.d) = 2020 AND c <=> c": 1}
    for legacy in (True, False):
        names = {"org.apache.spark.version": "4.0.0"} | ({"org.apache.spark.legacyDateTime": ""} if legacy else {})
        tables = [pa.table(group).replace_schema_metadata(names) for group in groups]
        path = write_groups(tmp_path / "x.parquet", tables)
        assert {where: bp.read_table(path, where).num_rows for where in others} == others
        for where in wheres:
            if legacy:
                with pytest.raises(bp.UnsupportedError, match=r"x\.parquet: column .* calendar of Spark 2"):
                    bp.read_table(path, where, case_sensitive=False)
            else:
                assert bp.read_table(path, where, case_sensitive=False).num_rows > 0, where
