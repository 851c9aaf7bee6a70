"""Predicates on elements of lists and on keys and values of maps: what they skip, and what they must not skip."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.query.evaluate.mask import mask
from tests.support.core import (
    BLOOM_OFFSET,
    Field,
    column_metadata,
    edit_footer,
    empty_filters,
    kept_indexes,
    plan_with,
    rows_of,
)
from tests.support.files import write, write_groups
from tests.support.row_oracle import oracle

LEAVES = ["tags.list.element", "m.key_value.key", "m.key_value.value", "items.list.element.sku"]
STATISTICS = 12  # field of ColumnMetaData
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("items", pa.list_(pa.struct([("sku", pa.int64()), ("n", pa.int32())]))),
    ]
)
GROUPS: list[list[dict[str, Any]]] = [
    [
        {"id": 0, "tags": ["a", "q"], "m": [("k", 1), ("l", 9)], "items": [{"sku": 1, "n": 1}, {"sku": 9, "n": 2}]},
        {"id": 1, "tags": [], "m": [], "items": []},
    ],
    [
        {"id": 2, "tags": ["b", None, "q"], "m": [("k", 2), ("z", 9)], "items": [{"sku": 2, "n": 1}, None]},
        {"id": 3, "tags": ["m"], "m": [("a", None)], "items": [{"sku": None, "n": 7}, {"sku": 9, "n": 7}]},
    ],
    [{"id": 4, "tags": None, "m": None, "items": None}, {"id": 5, "tags": [], "m": [], "items": []}],
    [{"id": 6, "tags": [None], "m": [("q", None)], "items": [None, {"sku": None, "n": 1}]}],
]


def groups(rows: list[list[dict[str, Any]]] = GROUPS) -> list[pa.Table]:
    return [pa.Table.from_pylist(group, SCHEMA) for group in rows]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_groups(tmp_path_factory.mktemp("elements") / "x.parquet", groups(), LEAVES)


CASES: list[tuple[str, set[int], list[int]]] = [
    ("array_contains(tags, 'a')", {0}, [0]),
    ("array_contains(tags, 'q')", {0, 1}, [0, 2]),
    ("array_contains(tags, 'c')", set(), []),
    ("arrays_overlap(tags, array('a', 'm', NULL))", {0, 1}, [0, 3]),
    ("exists(tags, x -> x = 'b')", {1}, [2]),
    ("m['k'] = 1", {0}, [0]),
    ("m['k'] = 9", {0, 1}, []),
    ("element_at(m, 'z') = 9", {1}, [2]),
    ("map_contains_key(m, 'q')", {3}, [6]),
    ("array_contains(map_values(m), 2)", {1}, [2]),
    ("tags[0] = 'm'", {1}, [3]),
    ("element_at(tags, -1) = 'q'", {0, 1}, [0, 2]),
    ("array_contains(items.sku, 2)", {1}, [2]),
    ("array_contains(items.sku, 9)", {0, 1}, [0, 3]),
    ("array_contains(tags, 'q') AND m['k'] = 2", {1}, [2]),
    # A negation proves nothing about the other elements.
    ("NOT array_contains(tags, 'q')", {0, 1, 2, 3}, [1, 3, 5]),
    ("NOT (array_contains(tags, 'q') OR array_contains(tags, 'm'))", {0, 1, 2, 3}, [1, 5]),
    ("m['k'] <> 1", {0, 1, 2, 3}, [2]),
    ("NOT (array_contains(tags, 'q') AND id < 2)", {0, 1, 2, 3}, [1, 2, 3, 4, 5, 6]),
]


@pytest.mark.parametrize(("where", "kept", "ids"), CASES)
def test_elements_exclude_row_groups(where: str, kept: set[int], ids: list[int], path: str) -> None:
    assert kept_indexes(bp.plan(path, where)) == kept
    assert rows_of(bp.read_table(path, where), "id") == ids
    assert sorted(row for batch in bp.scan_batches(path, where) for row in batch["id"].to_pylist()) == ids


@pytest.mark.parametrize("evidence", ["bloom", "statistics"])
def test_each_kind_of_evidence_suffices(evidence: str, tmp_path: Path) -> None:
    path = write_groups(tmp_path / "x.parquet", groups(), LEAVES)

    def remove_other(metadata: dict[int, Field]) -> None:
        for row_group in range(len(GROUPS)):
            for column in range(1, 5):
                column_metadata(metadata, row_group, column).pop(STATISTICS if evidence == "bloom" else BLOOM_OFFSET, 0)

    edit_footer(path, remove_other)
    expected: dict[str, dict[str, set[int]]] = {  # min/max of `tags` in row group 0 are a and q
        "array_contains(tags, 'm')": {"bloom": {1}, "statistics": {0, 1}},
        "m['k'] = 1": {"bloom": {0}, "statistics": {0}},
        "map_contains_key(m, 'z')": {"bloom": {1}, "statistics": {1}},
        "array_contains(items.sku, 1)": {"bloom": {0}, "statistics": {0}},
    }
    for where, kept in expected.items():
        plan = bp.plan(path, where)
        assert kept_indexes(plan) & {0, 1} == kept[evidence], where
        assert set(plan.skipped) <= {evidence}, where


def test_chunk_of_nulls_and_empty_lists_holds_no_element(tmp_path: Path) -> None:
    path = write_groups(tmp_path / "x.parquet", groups()[2:])
    assert bp.plan(path, "array_contains(tags, 'a')").skipped == {"statistics": 2}
    assert bp.plan(path, "array_contains(tags, 'a') OR tags IS NULL").kept == 2


def test_fewer_nulls_than_slots_prove_nothing(tmp_path: Path) -> None:
    """Some writers do not count empty lists as nulls, and a null count alone says nothing about other slots."""
    path = write_groups(tmp_path / "x.parquet", groups()[:1])
    assert bp.plan(path, "array_contains(tags, 'a')").kept == 1

    def remove_bounds(metadata: dict[int, Field]) -> None:
        statistics = column_metadata(metadata, 0, 1)[STATISTICS].value
        for number in (1, 2, 5, 6):
            statistics.pop(number, None)

    edit_footer(path, remove_bounds)
    assert bp.plan(path, "array_contains(tags, 'zz')").kept == 1


def test_filters_that_were_never_filled_prove_nothing(tmp_path: Path) -> None:
    path = empty_filters(write_groups(tmp_path / "x.parquet", groups()[:1], LEAVES), column=1)
    plan = bp.plan(path, "array_contains(tags, 'q')")
    assert plan.kept == 1
    assert "never filled" in str(plan.errors[0])


def test_lists_of_lists_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"c": [[[1], [2, 3]], []]})
    for function in (bp.plan, bp.read_table):
        with pytest.raises(bp.PlanError, match=r"column 'c' is a list; .* needs a list of values that are not nested"):
            function(path, "array_contains(c, 5)")
    assert plan_with(path, "array_contains(c, 5)", strict=False).kept == 1


def test_elements_of_the_wrong_kind_are_an_error(path: str) -> None:
    cases = {
        "array_contains(id, 1)": "is a plain column; .* needs a list",
        "map_contains_key(tags, 'k')": "is a list; .* needs a map",
        "id[0] = 1": "is a plain column; .* needs a list or map",
        "array_contains(tags, 1)": "is of type string, but is compared with the int 1",
        "array_contains(items, 1)": "needs a list of values that are not nested",
    }
    for where, message in cases.items():
        for function in (bp.plan, bp.read_table):
            with pytest.raises(bp.PlanError, match=message):
                function(path, where)
        assert plan_with(path, where, strict=False).kept == 4, where
    for where in ("tags['k'] = 'a'", "array_contains(items.other, 1)"):
        with pytest.raises(bp.PlanError, match=r"needs an integer as the position|no field 'other'"):
            bp.read_table(path, where)


def test_list_in_one_file_and_map_in_another(tmp_path: Path) -> None:
    write(tmp_path / "list.parquet", {"c": [["a", "b"]]})
    write(tmp_path / "map.parquet", {"c": pa.array([[(0, "b")], [(1, "b")]], pa.map_(pa.int64(), pa.string()))})
    assert bp.plan(tmp_path, "c[1] = 'b'").kept == 2
    assert bp.plan(tmp_path, "c[2] = 'b'").kept == 1
    assert bp.plan(tmp_path, "c[1] = 'c'").kept == 0


def test_reader_that_narrows_integers_skips_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"c": [[2**32 + 5]]})
    where = bp.ContainsAny("c", [5])
    assert plan_with(path, where, reader_types={("c", "element"): "bigint"}).kept == 0
    assert plan_with(path, where, reader_types={("c", "element"): "int"}).kept == 1


def test_the_type_in_the_file_decides_the_hash(tmp_path: Path) -> None:
    day = dt.date(2024, 5, 17)
    kinds: dict[pa.DataType, list[Any]] = {
        pa.int8(): [1, 5], pa.uint32(): [1, 2**32 - 1], pa.float32(): [0.5, -0.0], pa.date32(): [day],
        pa.decimal128(9, 2): [Decimal("1.50")], pa.decimal128(30, 2): [Decimal("1.50")],
        pa.timestamp("ms", "UTC"): [dt.datetime(2024, 5, 17, tzinfo=dt.timezone.utc)], pa.binary(): [b"x"],
        pa.large_string(): ["x"], pa.dictionary(pa.int32(), pa.string()): ["x", "y"],
    }  # fmt: skip
    for kind, values in kinds.items():
        table = pa.table({"c": pa.array([values, []], pa.list_(kind))})
        path = write(tmp_path / "x.parquet", table, ["c.list.element"])
        for value in values:
            assert bp.read_table(path, bp.ContainsAny("c", [value])).num_rows == 1, kind
            assert bp.read_table(path, bp.ItemIn("c", values.index(value), [value])).num_rows == 1, kind
        other = bytes(5) if kind == pa.binary() else "other" if isinstance(values[0], str) else None
        other = other or (day.replace(year=2025) if kind == pa.date32() else None)
        other = other or (dt.datetime(2025, 1, 1, tzinfo=dt.timezone.utc) if pa.types.is_timestamp(kind) else 3)
        assert bp.plan(path, bp.ContainsAny("c", [other])).kept == 0, kind
    assert bp.read_table(write(tmp_path / "x.parquet", {"c": [[-0.0]]}), "array_contains(c, 0.0D)").num_rows == 1


@pytest.mark.parametrize("kind", [pa.large_list, pa.list_view, lambda value: pa.list_(value, 2)])
def test_arrow_lists_of_every_kind(kind: Any) -> None:
    lists = pa.array([[1, 2], None, [3, None]], kind(pa.int64())).slice(1)
    batch = pa.record_batch({"c": lists})
    assert mask(bp.ContainsAny("c", [3]), batch).to_pylist() == [None, True]
    assert mask(bp.ContainsAny("c", [4]), batch).to_pylist() == [None, None]
    assert mask(bp.ItemIn("c", -1, [3], first=1), batch).to_pylist() == [None, None]
    assert mask(bp.ItemIn("c", 0, [4]), batch).to_pylist() == [None, False]


def test_first_of_equal_keys_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"m": pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))})
    assert [bp.read_table(path, f"m['k'] = {value}").num_rows for value in (1, 2)] == [1, 0]


def test_probe_asks_the_filters_of_elements(path: str) -> None:
    def answers(column: str, value: Any) -> list[bool]:
        return [answer.verdict is bp.Verdict.MIGHT_MATCH for answer in bp.probe(path, column=column, value=value)]

    assert answers("tags.element", "q")[:2] == [True, True]
    assert answers("tags.element", "m")[:2] == [False, True]
    assert answers("m.key", "l")[:2] == [True, False]
    assert answers("m.value", 2)[:2] == [False, True]
    assert answers("items.sku.element", 2)[:2] == [False, True]


def test_orc_keeps_all_stripes(tmp_path: Path) -> None:
    path = str(tmp_path / "x.orc")
    table = pa.concat_tables(groups())
    pyarrow.orc.write_table(table, path)
    for where, _, ids in CASES:
        if "items." not in where:
            plan = bp.plan(path, where)
            assert plan.kept == (0 if where.endswith("array())") else plan.total), where
        assert rows_of(bp.read_table(path, where), "id") == ids, where


VALUES = st.integers(0, 6)
LISTS = st.none() | st.lists(st.none() | VALUES, max_size=4)
MAPS = st.none() | st.lists(st.tuples(VALUES, st.none() | VALUES), max_size=3)
ROWS = st.lists(st.tuples(LISTS, MAPS), max_size=5)
LAW_SCHEMA = pa.schema([("n", pa.int64()), ("l", pa.list_(pa.int64())), ("m", pa.map_(pa.int32(), pa.int64()))])
ATOMS = st.one_of(
    st.builds(lambda values: bp.ContainsAny("l", values), st.lists(st.none() | VALUES, max_size=3)),
    st.builds(
        lambda values, of: bp.ContainsAny("m", values, of),
        st.lists(VALUES, max_size=2),
        st.sampled_from(["key", "value"]),
    ),
    st.builds(
        lambda item, values, first: bp.ItemIn("l", item, values, first=first),
        st.integers(-3, 3),
        st.lists(st.none() | VALUES, max_size=2),
        st.sampled_from([0, 1]),
    ),
    st.builds(lambda key, values: bp.ItemIn("m", key, values), st.none() | VALUES, st.lists(VALUES, max_size=2)),
    st.sampled_from([bp.IsNull("l"), bp.IsNotNull("m"), bp.Gt("n", 3)]),
)
PREDICATES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(st.builds(bp.Not, inner), st.builds(bp.And, inner, inner), st.builds(bp.Or, inner, inner)),
    max_leaves=4,
)


@given(st.lists(ROWS, min_size=1, max_size=4), st.lists(PREDICATES, min_size=1, max_size=5), st.integers(0, 3))
def test_no_matching_row_is_skipped(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], predicates: list[bp.Predicate], evidence: int
) -> None:
    """With filters and bounds, with one of them, and with neither."""
    path = str(tmp_path_factory.getbasetemp() / "law.parquet")
    bloom = {name: {"ndv": 8} for name in ("l.list.element", "m.key_value.key", "m.key_value.value")}
    everything: list[dict[str, Any]] = []
    with pq.ParquetWriter(
        path, LAW_SCHEMA, bloom_filter_options=bloom if evidence & 1 else None, write_statistics=bool(evidence & 2)
    ) as writer:
        for members in rows:
            group = [{"n": len(everything) + i, "l": values, "m": pairs} for i, (values, pairs) in enumerate(members)]
            writer.write_table(pa.Table.from_pylist(group, LAW_SCHEMA))
            everything += group
    for predicate in predicates:
        cells = ({(name,): cell for name, cell in row.items()} for row in everything)
        expected = [oracle(predicate, row, lambda _, cell, literal: (cell, literal)) for row in cells]
        table = pa.Table.from_pylist(everything, LAW_SCHEMA)
        assert mask(predicate, table).to_pylist() == expected, predicate
        assert rows_of(bp.read_table(path, predicate), "n") == [i for i, is_true in enumerate(expected) if is_true]
