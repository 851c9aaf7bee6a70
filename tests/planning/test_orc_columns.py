"""Which column of an ORC file a predicate means, and which reader types are lossless."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc

import bloomparquet as bp
from tests.support.core import kept, plan_with
from tests.support.orc_rewriting import write


def test_dotted_names_and_struct_fields_stay_distinct(tmp_path: Path) -> None:
    table = pa.table({"a.b": [1] * 300, "a": [{"b": 2, "c": {"d": None if i % 2 else 7}} for i in range(300)]})
    path = write(tmp_path / "x.orc", table, bloom_filter_fpp=1e-6)
    assert bp.plan(path, bp.Eq(("a.b",), 1)).kept == bp.plan(path, bp.Eq(("a", "b"), 2)).kept == 1
    assert bp.plan(path, bp.Eq(("a.b",), 2)).kept == bp.plan(path, bp.Eq(("a", "b"), 1)).kept == 0
    assert [bp.plan(path, where).kept for where in ("`a.b` = 1", "a.c.d = 7", "a.c.d IS NULL")] == [1, 1, 1]
    assert bp.plan(path, "a.c.d = 8").kept == 0
    assert bp.plan(path, bp.IsNull(("a",))).kept == 1  # nothing is known about a struct


def test_leaves_of_null_structs_are_null(tmp_path: Path) -> None:
    kind = pa.struct([("x", pa.int64())])
    nothing = write(tmp_path / "a.orc", pa.table({"s": pa.array([None] * 300, kind)}))
    full = write(tmp_path / "b.orc", pa.table({"s": pa.array([{"x": 5}] * 300, kind)}))
    mixed = write(tmp_path / "c.orc", pa.table({"s": pa.array([{"x": 5}, None] * 150, kind)}))
    for where, expected in (
        ("s.x IS NULL", (1, 0, 1)), ("s.x IS NOT NULL", (0, 1, 1)), ("s.x = 5", (0, 1, 1)), ("s.x <> 5", (0, 0, 0)),
        ("NOT s.x <=> 5", (1, 0, 1)), ("s.x = 6", (0, 0, 0)), ("s IS NULL", (1, 1, 1)),
    ):  # fmt: skip
        assert tuple(bp.plan(path, where).kept for path in (nothing, full, mixed)) == expected, where


def test_values_that_pyarrow_misplaces_are_found(tmp_path: Path) -> None:
    """pyarrow writes what lies under a null struct within a struct. Readers show these values in later rows, which may
    lie in other row groups than their statistics and filters say."""
    rows = 4000
    inner = pa.StructArray.from_arrays(
        [pa.array(range(rows), pa.int64())], names=["u"], mask=pa.array([i % 2 == 1 for i in range(rows)])
    )
    outer = pa.StructArray.from_arrays([inner], names=["t"])
    table = pa.table({"c": outer, "i": range(rows)})
    path = tmp_path / "x.orc"
    orc.write_table(table, path, row_index_stride=1000, bloom_filter_columns=[3, 4], bloom_filter_fpp=1e-6)
    shown = orc.ORCFile(path).read().to_pylist()
    assert shown[2] == {"i": 2, "c": {"t": {"u": 1}}}, "pyarrow misplaces no more: believe its later releases"
    for row in shown[::70]:
        where = f"c.t.u = {row['c']['t']['u']} AND i = {row['i']}"
        assert bp.read_table(path, where, columns=["i"])["i"].to_pylist() == [row["i"]]
    assert bp.read_table(path, "c.t.u IS NULL", columns=["i"])["i"].to_pylist() == list(range(1, rows, 2))
    assert bp.plan(path, f"c.t.u > {rows}").kept == 0
    assert bp.plan(path, "c.t.u IS NOT NULL AND c.t.u = 5").kept == 1


def test_files_without_column_names_prove_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.orc", pa.table({"_col0": [1] * 300, "_col1": [2] * 300}))
    write(tmp_path / "b.orc", pa.table({"x": [1] * 300, "_col1": [2] * 300}))
    for where in ("_col1 = 7", "_col0 = 7", "x = 7", "_col1 IS NULL", "_col1 < 0"):
        assert ("a.orc", 0) in kept(bp.plan(tmp_path, where)), where
    assert kept(bp.plan(tmp_path, "_col1 = 7")) == {("a.orc", 0)}


def test_lists_and_maps_are_never_probed(tmp_path: Path) -> None:
    lists, maps = pa.array([[1]] * 300), pa.array([[("k", 1)]] * 300, pa.map_(pa.string(), pa.int64()))
    path = write(tmp_path / "x.orc", pa.table({"l": lists, "m": maps, "s": [{"l": [1]}] * 300}))
    for column in (("l",), ("m",), ("s",), ("s", "l")):
        for predicate in (bp.IsNull(column), bp.IsNotNull(column), bp.Not(bp.EqNullSafe(column, None))):
            assert plan_with(path, predicate, strict=False).kept == 1
    for column in (("l", "_elem"), ("m", "_key"), ("s", "l", "_elem")):
        assert plan_with(path, bp.Eq(column, 77), strict=False).kept == 1


def test_a_column_read_as_another_type_excludes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "x.orc", pa.table({"x": [5] * 300, "s": ["7"] * 300}), bloom_filter_fpp=1e-6)
    for where in ("x = 6", "x IS NULL", "x > 9", "x <> 5"):
        assert bp.plan(path, where).kept == 0
        assert plan_with(path, where, reader_types={("x",): "bigint"}).kept == 0
        assert plan_with(path, where, reader_types={("x",): "int"}).kept == 1
        assert plan_with(path, where, reader_types={("x",): "string"}, strict=False).kept == 1
    assert plan_with(path, "s = 7", reader_types={("s",): "int"}, strict=False).kept == 1
    assert plan_with(path, "s IS NULL", reader_types={("s",): "int"}).kept == 1
