"""Compares the package with a row-by-row oracle in plain Python: every type, and tens of predicates for each data set.

The files are Parquet, and ORC of pyarrow. For every case, a row group with a matching row is kept, `read_table` gives
exactly the matching rows, and every filter is usable. In files without statistics only the filters decide.
"""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.query.predicate import to_sql
from tests.differential import oracle, writers
from tests.differential.cases import Case, Data, File, cases, data_sets
from tests.differential.kinds import KINDS, NAN, ORC_NAMES
from tests.support.switches import is_on, require_off, require_used

pytestmark = pytest.mark.slow

_NO_TEXT = ("time", "uuid")  # families whose literals our own SQL has no spelling for


def examples(share: float) -> settings:
    """A share of the profile's number of examples. HYPOTHESIS_PROFILE=long makes all of these tests long."""
    return settings(max_examples=max(1, round(settings().max_examples * share)))


def check_cases(
    data: Data,
    chosen: Sequence[Case],
    tally: Counter[str],
    say: Callable[[str], None] = print,
    write: Callable[[Data, Path], list[Path]] = writers.write,
) -> None:
    """Check the three properties for each of `chosen`, on the files that `write` makes of `data`."""
    root = Path(tempfile.mkdtemp(prefix="bloomparquet-differential-"))
    try:
        files = [str(path) for path in write(data, root)]
        rows = oracle.rows_of(data)
        expected = oracle.expected_rows(data)
        names = oracle.column_names(data)
        everything = bp.read_table(root, merge_schema=True)
        assert sorted(everything.column_names) == sorted(names)
        in_file_order = sorted(range(len(data.files)), key=lambda i: files[i])
        order = [rid for i in in_file_order for rid in range(data.first_rid(i), data.first_rid(i) + data.files[i].rows)]
        assert oracle.comparable_rows(everything, names) == [expected[rid] for rid in order]
        kinds = data.schema_kinds()
        for case in chosen:
            where = spelled(case, kinds)
            say(f"where = {where!r}, which is {to_sql(case.predicate)}")  # the last one noted is the one that failed
            wanted = {rid for rid, row in enumerate(rows) if oracle.truth(case.predicate, row, kinds, data.timezone)}
            plan = bp.plan(root, where, timezone=data.timezone)
            check_law(plan, data, files, wanted)
            require_off(plan)
            if all(file.statistics for file in data.files):  # without null counts a chunk of nulls gives an error
                assert not plan.errors
            table = bp.read_table(root, where, merge_schema=True, timezone=data.timezone)
            assert table.schema == everything.schema
            assert oracle.comparable_rows(table, names) == [expected[rid] for rid in order if rid in wanted]
            count(tally, plan, wanted)
            tally["kept in vain"] += plan.kept - sum(bool(wanted & group) for group in _groups(data, files).values())
    finally:
        shutil.rmtree(root)


def count(tally: Counter[str], plan: bp.ScanPlan, wanted: set[int]) -> None:
    """Count a case, its row groups, and those that are skipped by each kind of evidence."""
    tally.update({"cases": 1, "matching": bool(wanted), "row groups": plan.total, **plan.skipped})


def check_law(plan: bp.ScanPlan, data: Data, files: Sequence[str], wanted: set[int]) -> None:
    """A row group with a matching row is never skipped, and the plan lists every row group once."""
    groups = _groups(data, files)
    listed: set[tuple[str, int]] = set()
    for group in plan.row_groups:
        if group.index is None:
            assert not group.kept
            members = {key for key in groups if key[0] == group.path}
        else:
            members = {(group.path, group.index)}
        assert not members & listed
        listed |= members
        if not group.kept:
            for key in members:
                assert not groups.get(key, set()) & wanted, (
                    f"{key} was skipped by {group.reason}, but rows {groups[key] & wanted} match"
                )
    assert {key for key, rids in groups.items() if rids} <= listed
    assert plan.kept + plan.skipped.total() == plan.total


def _groups(data: Data, files: Sequence[str]) -> dict[tuple[str, int], set[int]]:
    """The row ids of every row group, by file and index."""
    ids = {}
    for number, file in enumerate(data.files):
        first = data.first_rid(number)
        for index, start in enumerate(range(0, file.rows, file.group_size)):
            ids[files[number], index] = set(range(first + start, first + min(start + file.group_size, file.rows)))
    return ids


def spelled(case: Case, kinds: dict[Any, Any]) -> Any:
    """The predicate in one of the forms of `where`: an object, the package's SQL, or other SQL."""
    from bloomparquet.query.predicate import columns

    style, predicate = case.style % 3, case.predicate
    if style == 0:
        return predicate
    families = {kinds[column].family for column in columns(predicate) if column in kinds}
    if re.search(r"\d{39}", to_sql(predicate)):  # too many digits for SQL's DECIMAL
        return predicate
    if style == 1:
        return to_sql(predicate)
    return predicate if families & set(_NO_TEXT) else oracle.spark_sql(predicate, kinds, case.style)


_FORMATS = {"parquet": (writers.write, list(KINDS), 0.4), "orc": (writers.write_orc, ORC_NAMES, 0.2)}
"""The writer, the kinds, and the share of the examples of each format."""


@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "filters only"])
@pytest.mark.parametrize("file_format", _FORMATS)
def test_read_table_gives_exactly_the_matching_rows(file_format: str, statistics: bool) -> None:
    tally: Counter[str] = Counter()
    write, names, share = _FORMATS[file_format]

    @examples(share)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        data = draws.draw(data_sets(spark=False, only=names), label="data")
        if not statistics:
            data = dataclasses.replace(data, files=tuple(dataclasses.replace(f, statistics=False) for f in data.files))
        check_cases(data, draws.draw(cases(data, spark=False), label="cases"), tally, note, write)

    check()
    print(f"\n{dict(tally)}")
    assert tally["cases"] >= 12 * examples(share).max_examples
    # Rows matched, and all evidence was used.
    assert tally["matching"] > tally["cases"] / 4
    require_used(tally, "statistics", 0)
    require_used(tally, "bloom", tally["row groups"] / (400 if statistics else 60))
    if statistics and is_on("statistics", "bloom", "partitions"):
        assert tally["kept in vain"] < tally["row groups"] / 2


@pytest.mark.parametrize(("file_format", "kind"), [(each, kind) for each in _FORMATS for kind in _FORMATS[each][1]])
def test_random_files_of_every_type_lose_no_row(file_format: str, kind: str) -> None:
    """One column of one type in small row groups."""
    tally: Counter[str] = Counter()
    write = _FORMATS[file_format][0]

    @examples(0.04)  # two: the first example of Hypothesis is the least, a file without rows
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        data = draws.draw(data_sets(spark=False, only=[kind], plain=True, max_files=2), label="data")
        check_cases(data, draws.draw(cases(data, spark=False, number=30), label="cases"), tally, note, write)

    check()
    assert tally["cases"]


# The kinds that each writer stores unchanged.
_COMMON = [
    name for name, kind in KINDS.items() if kind.spark and not kind.int96 and name not in ("date64", "dictionary")
]
_WRITERS = {
    "duckdb": (writers.write_by_duckdb, [*_COMMON, "uuid", "timestamp[ns]", "time[us]"]),
    "datafusion": (
        writers.write_by_datafusion,
        [*_COMMON, "float16", "timestamp[ns]", "timestamp[ns, UTC]", "time[us]"],
    ),
}


@pytest.mark.parametrize("writer", list(_WRITERS))
def test_files_by_other_writers(writer: str) -> None:
    pytest.importorskip(writer)
    write, names = _WRITERS[writer]
    tally: Counter[str] = Counter()

    @examples(0.2)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        data = draws.draw(data_sets(spark=False, only=names, max_files=4), label="data")
        if writer == "duckdb":
            files = tuple(dataclasses.replace(f, group_size=max(1, f.rows), statistics=False) for f in data.files)
            data = dataclasses.replace(data, files=files)
        check_cases(data, draws.draw(cases(data, spark=False), label="cases"), tally, note, write)

    check()
    print(f"\n{dict(tally)}")
    assert tally["cases"] >= 12 * examples(0.2).max_examples
    if writer != "duckdb":  # it writes filters only for dictionaries
        require_used(tally, "bloom", 0)


def _single(kind: str, *values: Any, file_kind: str | None = None, **how: Any) -> Data:
    """One column `a` of `kind` in two files: one of `file_kind` with only `values`, and an empty one of `kind`."""
    stored, rows = KINDS[file_kind or kind], len(values)
    some = File({("a",): stored}, {("a",): list(values)}, rows=rows, group_size=rows, **how)
    return Data({("a",): KINDS[kind]}, (some, File({("a",): KINDS[kind]}, {("a",): []}, rows=0, group_size=1)))


# Rare traps, and cases that once gave wrong results.
_RARE = {
    "a filter that holds -0.0 alone is asked for 0.0": (
        _single("float64", -0.0, statistics=False),
        bp.Eq("a", 0.0),
    ),
    "and one that holds 0.0 alone for -0.0": (_single("float32", 0.0, statistics=False), bp.In("a", (-0.0, 1.0))),
    "NaN equals a NaN of other bits": (_single("float64", NAN, statistics=False), bp.Eq("a", math.nan)),
    "NaN before a number does not hide it": (_single("float64", 1.0, math.nan, 5.0), bp.GtEq("a", 5.0)),
    "text after a NUL may exceed the bounds": (_single("string", "a\0b", "a\0z"), bp.Gt("a", "a\0c")),
    "a decimal has one text": (_single("decimal(38,10)", Decimal("1.5000000000")), bp.Eq("a", 1.5)),
    "a literal may have more digits than the column": (
        _single("decimal(9,2)", Decimal("1.50")),
        bp.Lt("a", Decimal("1.501")),
    ),
    "what can never be true gives no rows, but all columns": (_single("int64", 1), bp.NotIn("a", (1, None))),
}
_RARE_IN_PARQUET = {
    "a whole number in an INT32 file, read as a double, equals a decimal beside it": (
        _single("float64", 1.0, file_kind="int32"),
        bp.Eq("a", Decimal("1.00000000000000000001")),
    ),
    "and is not above one just below it": (
        _single("float64", 1.0, file_kind="int32"),
        bp.LtEq("a", Decimal("0.99999999999999999999999")),
    ),
    "a UUID in a file without Arrow's schema equals its text": (
        _single("uuid", bytes(16), store_schema=False),
        bp.Eq("a", "00000000-0000-0000-0000-000000000000"),
    ),
    "an instant is no other for the zone that one file shows it in": (
        _single("timestamp[us, Europe/Berlin]", 10**9, store_schema=False),
        bp.Eq("a", "1970-01-01 00:00:01"),
    ),
}


@pytest.mark.parametrize("file_format", _FORMATS)
@pytest.mark.parametrize("name", [*_RARE, *_RARE_IN_PARQUET])
def test_rare_cases_lose_no_row(name: str, file_format: str) -> None:
    if name in _RARE or file_format == "parquet":
        data, predicate = (_RARE | _RARE_IN_PARQUET)[name]
        check_cases(data, [Case(predicate, style) for style in range(3)], Counter(), write=_FORMATS[file_format][0])
