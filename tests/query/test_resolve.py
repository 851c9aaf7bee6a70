"""Resolving column names in files with different schemas."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.query.columns import Annotation, FileSchema, SchemaNode
from bloomparquet.query.resolve import find_leaf, require_comparable, resolve_names
from tests.support.core import Field, edit_footer, kept, plan_with
from tests.support.files import hive, write

EVEN = list(range(0, 100, 2))


def test_dotted_name_means_one_column_in_all_files(tmp_path: Path) -> None:
    """The first file has only the struct: there the column `a.b` is missing, and so null in every row."""
    write(tmp_path / "1.parquet", {"a": pa.array([{"b": 5}, {"b": 6}])})
    write(tmp_path / "2.parquet", {"a.b": [7, 8]})
    assert kept(bp.plan(tmp_path, bp.IsNull("a.b"))) == {("1.parquet", 0)}
    assert bp.read_table(tmp_path, "`a.b` IS NULL").num_rows == 2
    assert bp.read_table(tmp_path, bp.Eq("a.b", 5)).num_rows == 0
    assert bp.read_table(tmp_path, bp.Eq("a.b", 7)).num_rows == 1


def test_nested_leaf_is_found_by_its_path(tmp_path: Path) -> None:
    rows = [{"x": value, "deep": {"y": str(value)}} if value % 10 else None for value in EVEN]
    path = write(tmp_path / "x.parquet", {"st": pa.array(rows)}, ["st.x", "st.deep.y"])
    assert bp.plan(path, "st.x = 31").skipped == {"bloom": 1}
    assert bp.plan(path, bp.Eq(("st", "deep", "y"), "31")).skipped == {"bloom": 1}
    assert bp.plan(path, "st.x = 500").skipped == {"statistics": 1}
    for where, count in (
        ("st.x = 32", 1),
        ("st.deep.y = '32'", 1),
        ("st.x IS NULL", 10),
        ("st.x <=> NULL", 10),
        ("st IS NULL", 10),
        ("st.x = 30", 0),
    ):
        assert bp.read_table(path, where).num_rows == count, where


def test_lists_maps_and_groups_never_skip(tmp_path: Path) -> None:
    maps = pa.array([[(value, 1) for value in EVEN]], pa.map_(pa.int64(), pa.int64()))
    table = pa.table({"l": [EVEN], "m": maps, "st": [{"x": 1}], "ls": [[{"z": value} for value in EVEN]]})
    blooms = ["l.list.element", "m.key_value.key", "st.x", "ls.list.element.z"]
    path = write(tmp_path / "x.parquet", table, blooms)
    for column in ("l", "l.element", "l.list.element", "m", "m.key", "m.key_value.key", "st", "ls.z", "ls.element.z"):
        equal = [bp.Eq(column, 31), bp.Eq(column, 10_000), bp.In(column, [31])]
        for predicate in (*equal, bp.Gt(column, 10_000), bp.IsNull(column), bp.IsNotNull(column)):
            assert plan_with(path, predicate, strict=False).kept == 1, predicate


def test_list_of_empty_lists_is_not_all_null(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"l": pa.array([[], []], pa.list_(pa.int64()))})
    assert bp.plan(path, bp.IsNotNull("l")).kept == 1


def test_missing_column_is_null(tmp_path: Path) -> None:
    write(tmp_path / "new.parquet", {"id": [1], "x": [5]}, ["x"])
    write(tmp_path / "old.parquet", {"id": [2]})
    old, new = ("old.parquet", 0), ("new.parquet", 0)
    cases: list[tuple[str, set[tuple[str, int]]]] = [
        ("x = 5", {new}),
        ("x <=> 5", {new}),
        ("x IS NULL", {old}),
        ("x <=> NULL", {old}),
        ("x IS NOT NULL", {new}),
        ("x <> 7", {new}),
        ("NOT x <=> 5", {old}),
        ("x NOT IN (7)", {new}),
        ("x > 1", {new}),
        ("x = 5 OR id = 2", {old, new}),
        ("NOT (x = 5)", set()),
        ("x IN (5, NULL)", {new}),
    ]
    for where, expected in cases:
        assert expected <= kept(bp.plan(tmp_path, where)) <= expected | {new}, where
        assert bp.read_table(tmp_path, where).num_rows == len(expected), where


def test_ambiguous_case_never_skips(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"id": EVEN, "ID": [value + 1 for value in EVEN]}, ["id", "ID"])
    assert bp.plan(path, "id = 31").kept == 0
    assert bp.plan(path, "ID = 31").kept == 1
    for name in ("id", "ID", "Id"):
        assert bp.plan(path, bp.Eq(name, 31), case_sensitive=False).kept == 1
    assert plan_with(path, bp.Eq("Id", 31), strict=False).kept == 1


def test_unknown_column_error_names_the_nearest(tmp_path: Path) -> None:
    root = hive(tmp_path, {"day=1": {"user_id": EVEN, "st": pa.array([{"city": "a"}] * 50)}})
    for wrong, right in (("user_idd", "user_id"), ("dayy", "day"), ("st.citty", "st.city")):
        with pytest.raises(bp.PlanError, match=f"{wrong}.*did you mean '{right}'"):
            bp.plan(root, bp.Eq(wrong, 1))
    assert plan_with(root, bp.Eq("nothing", 1), strict=False).kept == 1
    assert plan_with(root, bp.IsNotNull("nothing"), strict=False).kept == 1


def test_column_only_in_files_excluded_by_partition_is_known(tmp_path: Path) -> None:
    root = hive(tmp_path, {"p=1": {"a": [1]}, "p=2": {"a": [1], "b": [5]}})
    assert bp.read_table(root, "p = 1 AND b = 5").num_rows == 0
    assert bp.read_table(root, "p = 9 AND b = 5").num_rows == 0


def test_names_equal_only_under_unicode_case_folding_never_skip(tmp_path: Path) -> None:
    """Spark lowers names; Unicode's case folding also makes one of `ß` and `ss`."""
    write(tmp_path / "1.parquet", {"strasse": [1]})
    write(tmp_path / "2.parquet", {"straße": [1]})
    row_groups = kept(bp.plan(tmp_path, "strasse IS NULL", case_sensitive=False))
    assert ("2.parquet", 0) in row_groups


@pytest.mark.parametrize(
    ("wrong", "in_python", "in_sql"),
    [
        ("first nam", "first name", "`first name`"),
        ("st.q", ("st", "x"), "st.`x`"),
        ("st.a.bb", ("st", "a.b"), "st.`a.b`"),
        ("`dotted.n`", "dotted.name", "`dotted.name`"),
    ],
)
def test_suggestions_can_be_pasted_in_python_and_in_sql(
    wrong: str, in_python: str | tuple[str, ...], in_sql: str, tmp_path: Path
) -> None:
    data = {"first name": [1], "dotted.name": [1], "st": [{"x": 1, "a.b": 1}]}
    path = write(tmp_path / "x.parquet", data)
    in_file = ".".join(in_python) if in_python == ("st", "x") else in_python
    for where in (bp.Eq(wrong, 1), [(wrong, "=", 1)]):
        with pytest.raises(bp.PlanError) as raised:
            bp.plan(path, where)
        assert f"did you mean {in_file!r} (in SQL {in_sql})?" in str(raised.value)
    for where in (bp.Eq(in_file, 1), [(in_file, "=", 1)], f"{in_sql} = 1"):
        assert bp.read_table(path, where).num_rows == 1


def test_files_without_columns_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", pa.table({}))
    with pytest.raises(bp.PlanError, match="'id' is in none of the files; no file that can be read has a column"):
        bp.plan(path, "id = 1")


def test_an_interval_is_compared_with_nothing(tmp_path: Path) -> None:
    def annotate(tree: dict[int, Field]) -> None:
        element = tree[2].value.values[1]
        tree[2].value.values[1] = dict(sorted({**element, 6: Field(5, 21)}.items()))  # converted_type INTERVAL

    path = edit_footer(write(tmp_path / "x.parquet", {"i": pa.array([bytes(12)], pa.binary(12))}), annotate)
    for where in ("i = '1 day'", "i > '1 day'", "i IN ('a')", "i LIKE 'a%'", "NOT i = 'a'"):
        for call in (bp.plan, bp.read_table):
            with pytest.raises(bp.PlanError, match="column 'i' is an INTERVAL; only IS NULL and IS NOT NULL"):
                call(path, where)
    assert bp.read_table(path, "i IS NOT NULL").num_rows == 1


def random_node(choose: random.Random, depth: int) -> SchemaNode:
    """A node with few names, so that many differ in case alone."""
    name, repetition = choose.choice("aAbBß"), choose.choice(["OPTIONAL", "OPTIONAL", "REPEATED"])
    kind = choose.choice([None, None, None, "LIST", "INTERVAL"])
    annotation = None if kind is None else Annotation(kind)
    if depth and choose.random() < 0.5:
        children = tuple(random_node(choose, depth - 1) for _ in range(choose.randrange(4)))
        return SchemaNode(name, repetition, annotation=annotation, children=children)
    return SchemaNode(name, repetition, "INT32", annotation=annotation)


def test_a_comparable_column_is_found_as_by_walking() -> None:
    choose, kinds = random.Random(0), Counter[bool]()
    for _ in range(400):
        root = SchemaNode("root", "REQUIRED", children=tuple(random_node(choose, 2) for _ in range(4)))
        schema, walked = FileSchema(root), FileSchema(root)
        object.__setattr__(walked, "comparable", {})
        kinds.update(leaf.path in schema.comparable for leaf in schema.leaves)
        for path in {path for leaf in schema.leaves for path in (leaf.path, (*map(str.swapcase, leaf.path),))}:
            for case_sensitive in (True, False):
                leaves = [find_leaf(each, path, case_sensitive=case_sensitive) for each in (schema, walked)]
                assert leaves[0] is leaves[1] or leaves[0] == leaves[1]
                names = [resolve_names([path], [each], (), case_sensitive=case_sensitive) for each in (schema, walked)]
                assert names[0] == names[1]
                if path in schema.comparable:
                    require_comparable(bp.Eq(path, 1), [walked], (), case_sensitive=case_sensitive)
    assert min(kinds[True], kinds[False]) > 100
