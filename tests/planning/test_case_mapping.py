"""Evidence about ``lower(column)`` and ``upper(column)``: null counts, and filters of the expression."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.query.evaluate.mask import mask
from tests.support.core import kept_indexes, plan_with, rows_of
from tests.support.expression_filters import Cells, with_filters
from tests.support.files import hive, write, write_groups

GROUPS: list[Cells] = [
    ["Ann@X.org", "bob", None],
    ["CARL", "dora"],
    [None, None],
    ["\u212aarl", "\u0130"],  # Kelvin sign, I with dot
    ["", "ann@x.org"],
]


@pytest.fixture
def path(tmp_path: Path) -> str:
    groups = [{"id": [10 * i + k for k in range(len(cells))], "c": cells} for i, cells in enumerate(GROUPS)]
    schema = pa.schema([("id", pa.int64()), ("c", pa.string())])
    return write_groups(tmp_path / "x.parquet", [pa.table(group, schema) for group in groups], ["c"])


@pytest.mark.parametrize(
    ("where", "kept", "ids"),
    [
        ("lower(c) = 'ann@x.org'", {0, 3, 4}, [0, 41]),
        ("upper(c) IN ('CARL', 'EVE')", {1, 3}, [10]),
        ("lower(c) = 'nobody'", {3}, []),
        ("lower(c) = 'karl'", {3}, [30]),
        ("lower(c) <=> 'bob'", {0, 3}, [1]),
        ("lower(c) = 'i\u0307'", {0, 1, 3, 4}, [31]),  # asks no filter
        ("lower(c) IN ('dora', '\u00e9')", {0, 1, 3, 4}, [11]),  # nor does this
        ("lower(c) = 'bob' OR upper(c) = 'DORA'", {0, 1, 3}, [1, 11]),
        ("lower(c) <> 'bob'", {0, 1, 3, 4}, [0, 10, 11, 30, 31, 40, 41]),
        ("NOT (lower(c) <=> 'bob')", {0, 1, 2, 3, 4}, [0, 2, 10, 11, 20, 21, 30, 31, 40, 41]),
    ],
)
def test_filters_of_expressions_skip_row_groups(
    where: str, kept: set[int], ids: list[int], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = bp.plan(path, where)
    assert set(without.skipped) <= {"statistics"}
    assert rows_of(bp.read_table(path, where), "id") == ids
    with_filters(monkeypatch, GROUPS)
    plan = bp.plan(path, where)
    assert kept_indexes(plan) == kept
    assert plan.skipped["bloom"] == without.kept - plan.kept
    assert rows_of(bp.read_table(path, where), "id") == ids


_text = st.text(st.sampled_from("aAkKiIsS\u00df\u017f\u212a\u0130\u0131\u03a3\u03c3\u03c2\ufb01"), max_size=3)
_groups = st.lists(st.lists(st.none() | _text, min_size=1, max_size=4), min_size=1, max_size=5)
_leaf = st.one_of(
    st.builds(bp.CaseIn, st.just("c"), st.sampled_from(["lower", "upper"]), st.lists(st.none() | _text, max_size=3)),
    st.builds(bp.EqNullSafe, st.just("c"), st.none() | _text),
    st.builds(bp.Lt, st.just("c"), _text),
)
_tree = st.recursive(
    _leaf,
    lambda child: st.builds(bp.Not, child) | st.builds(bp.And, child, child) | st.builds(bp.Or, child, child),
    max_leaves=4,
)


@settings(max_examples=60)
@given(_groups, _tree, st.sets(st.integers(0, 4)))
def test_no_row_group_with_a_match_is_skipped(
    tmp_path_factory: pytest.TempPathFactory, groups: list[Cells], tree: bp.Predicate, missing: set[int]
) -> None:
    tables = [
        pa.table({"c": pa.array(cells, pa.string()), "group": [i] * len(cells)}) for i, cells in enumerate(groups)
    ]
    path = write_groups(tmp_path_factory.mktemp("case") / "x.parquet", tables, ["c"])
    table = bp.read_table(path)
    expected = table.filter(mask(tree, table))
    with pytest.MonkeyPatch.context() as patch:
        with_filters(patch, groups, missing)
        assert bp.read_table(path, tree) == expected
        kept = kept_indexes(bp.plan(path, tree))
        assert kept >= set(expected["group"].to_pylist())
        if isinstance(tree, bp.CaseIn) and any(value is not None for value in tree.values):
            # Readers differ on what these are mapped to.
            assert kept >= {i for i, cells in enumerate(groups) if not all(map(str.isascii, filter(None, cells)))}


def test_partition_values_are_mapped(tmp_path: Path) -> None:
    root = hive(tmp_path, {"c=Ann": {"id": [1]}, "c=BOB": {"id": [2]}, "c=\u212a": {"id": [3]}})
    plan = bp.plan(root, "lower(c) = 'bob'")
    assert (plan.kept, plan.skipped) == (1, {"partition": 2})
    assert rows_of(bp.read_table(root, "lower(c) IN ('bob', 'k')"), "id") == [2, 3]


def test_columns_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"id": [1], "s": [{"c": "A"}]})
    for where in ("lower(id) = 'x'", "lower(id) = 1", "lower(s) = 'x'"):
        for function in (bp.plan, bp.read_table):
            with pytest.raises(bp.PlanError, match=r"lower needs a column of text|is a struct"):
                function(path, where)
        assert plan_with(path, where, strict=False).kept == 1
    assert rows_of(bp.read_table(path, "lower(s.c) = 'a'"), "id") == [1]
