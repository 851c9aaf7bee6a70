"""Filters that are in the index only: made of the values, or of the values in lower or upper case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter import xxh64
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.storage.files import ReadCount
from tests.interop.test_arrow import COLUMNS as ARROW_COLUMNS
from tests.support import interop
from tests.support.files import filter_offset, patch, write, write_groups
from tests.support.index import assert_same_plans, outcome, plan_by, segments


def rows_of(group: Any) -> tuple[Any, ...]:
    return (group.index, group.rows, group.kept, group.reason)


def refused(build: Any) -> str | None:
    try:
        build()
    except bp.BloomParquetError as error:
        return type(error).__name__
    return None


def test_every_type_is_pruned_as_by_filters_in_the_files(tmp_path: Path) -> None:
    """And a column that cannot have a useful filter is refused as :func:`add_filters` refuses it."""
    data = interop.table({**ARROW_COLUMNS, "int96": interop.timestamp("us")}, rows_per_group=400)
    more = {"flag": pa.array([True, False] * 400), "list": pa.array([[1], [2, 3]] * 400)}
    for name, array in more.items():
        data = data.append_column(name, array)
    source, copy = tmp_path / "data" / "x.parquet", tmp_path / "copy" / "x.parquet"
    write(source, data, rows_per_group=400)
    copy.parent.mkdir()
    for name in ("float64", "int96", *more, "list.list.element", "struct", "missing"):
        bloom = {name: bp.Bloom(fpp=0.001)}
        reason = refused(lambda bloom=bloom: bp.add_filters(source, copy, bloom=bloom))
        assert refused(lambda bloom=bloom: bp.build_index(source, columns=bloom)) == reason, name
    wanted = dict.fromkeys(ARROW_COLUMNS, bp.Bloom(fpp=0.001))
    bp.add_filters(source, copy, bloom=wanted)
    bp.build_index(source, columns=wanted)
    for column, kind in ARROW_COLUMNS.items():
        present, absent = kind.literals[0], kind.absent
        for where in (bp.Eq(column, present[0]), bp.Eq(column, absent[1]), bp.In(column, (*absent[:9], present[7]))):
            expected, plan = plan_by("off", copy, where), plan_by("auto", source, where)
            assert [*map(rows_of, plan.row_groups)] == [*map(rows_of, expected.row_groups)], where
            assert (plan.indexed, plan.filter_reads.requests) == (1, 0)
    assert plan_by("auto", source, bp.Eq("string", ARROW_COLUMNS["string"].absent[0])).skipped["bloom"] > 0


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.float16()])
def test_made_filters_find_both_zeros_and_nan(kind: pa.DataType, tmp_path: Path) -> None:
    groups = [[-0.0, 5.0], [0.0, 7.0], [float("nan"), 8.0], [None, None], [1.5, None]]
    write_groups(tmp_path / "x.parquet", [{"x": pa.array(group, kind)} for group in groups])
    bp.build_index(tmp_path, columns={"x": bp.Bloom(fpp=0.0001)})
    for value, matching in ((0.0, {0, 1}), (-0.0, {0, 1}), (float("nan"), {2}), (1.5, {4}), (7, {1})):
        plan = plan_by("auto", tmp_path, bp.Eq("x", value))
        assert matching <= {group.index for group in plan.kept_row_groups()}, value
        assert len(matching) == bp.read_table(tmp_path, bp.Eq("x", value)).num_rows
    plan = plan_by("auto", tmp_path, "x = 0.5")
    assert (plan.kept, plan.skipped["bloom"] >= 2) == (0, True)


def test_filters_of_files_are_not_made_again(tmp_path: Path) -> None:
    """A filter that cannot be used stays so, and is reported; and files without the column are not a mistake."""
    values = list(range(0, 40, 2))
    write(tmp_path / "0.parquet", {"x": values}, ["x"], rows_per_group=10)
    write(tmp_path / "1.parquet", {"x": values}, rows_per_group=10)
    write(tmp_path / "2.parquet", {"y": values}, rows_per_group=10)
    broken = write(tmp_path / "3.parquet", {"x": values}, ["x"], rows_per_group=10)
    patch(broken, filter_offset(broken)[0], b"\xff" * 8)
    for refreshed in (False, True):
        if refreshed:
            write(tmp_path / "4.parquet", {"x": values}, rows_per_group=10)
            bp.refresh_index(tmp_path)
        else:
            bp.build_index(tmp_path, columns={"x": bp.Bloom(fpp=0.0001), "y": None})
        plan = plan_by("auto", tmp_path, "x = 7")
        assert {Path(group.path).name for group in plan.kept_row_groups()} == {"3.parquet"}
        assert plan.skipped["bloom"] == (3 if refreshed else 2)
        assert "its Bloom filter cannot be used" in str(plan.errors[0])
        auto, off = (outcome(index, broken, "x = 7", on_filter_error="fail") for index in ("auto", "off"))
        assert auto == off
        assert plan_by("auto", tmp_path, "x = 8").kept == (4 if refreshed else 3)


def test_a_file_with_damaged_pages_is_left_out(tmp_path: Path) -> None:
    for name in ("0", "1"):
        write(tmp_path / f"{name}.parquet", {"x": list(range(0, 400, 2))}, compression="none", use_dictionary=False)
    damaged = tmp_path / "1.parquet"
    start = pq.ParquetFile(damaged).metadata.row_group(0).column(0).data_page_offset
    patch(damaged, start, b"\xff" * 16)
    info = bp.build_index(tmp_path, columns={"x": bp.Bloom()})
    assert list(info.left_out) == [str(damaged)]
    assert_same_plans(damaged, "x = 7", "x = 8")
    assert plan_by("auto", tmp_path, "x = 7").kept == 1


TEXTS: list[list[str | None]] = [
    ["Anna", "BERT", None, "x"],
    ["", "KELVIN", "a b"],
    ["straße", "ANNA"],
    [None, None],
    ["\N{KELVIN SIGN}elvin", "I"],
    ["ı", "b"],
    ["MiXeD" * 20, "Z"],
    [],
]


@pytest.mark.parametrize("case", ["lower", "upper"])
@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}], ids=str)
def test_filters_of_changed_case(case: str, how: dict[str, Any], tmp_path: Path) -> None:
    """A row group with a character outside ASCII has none; the others have one with every value in that case."""
    schema = pa.schema([("s", pa.string())])
    with pq.ParquetWriter(tmp_path / "x.parquet", schema, **how) as writer:
        for texts in TEXTS:
            writer.write_table(pa.table({"s": pa.array(texts, pa.string())}))
    bp.build_index(tmp_path, columns=[f" {case.upper()}( s )"])
    plan = plan_by("auto", tmp_path, None)
    (leaf,) = plan.table.schemas[0].leaves
    filters = plan.table.chunks(0, leaf, ReadCount()).expression_filters(case)
    assert filters is not None
    of_values = [[text for text in texts if text is not None] for texts in TEXTS]
    assert filters.present.tolist() == [bool(texts) and all(map(str.isascii, texts)) for texts in of_values]
    chunks = np.flatnonzero(filters.present)
    asked = [*("anna", "ANNA", "Anna", "", "kelvin", "KELVIN", "strasse", "mixed" * 20, "MIXED" * 20, "i", "absent")]
    for text in asked:
        hashes = xxh64.xxh64_bytes([text.encode()])
        zeros = np.zeros(len(chunks), np.int64)
        question = Question(plan.dataset.storage, chunks, zeros, zeros + 1, hashes, ReadCount())
        answers = filters.check(question)
        expected = [any(getattr(value, case)() == text for value in of_values[chunk]) for chunk in chunks.tolist()]
        assert answers.tolist() == expected, text
    assert_same_plans(tmp_path, "s = 'Anna'", "s = 'anna'", "s IS NULL", indexed=1)


def test_changed_case_is_for_text_only(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", {"n": [1], "b": [b"x"], "s": ["x"]})
    for name in ("lower(n)", "upper(b)"):
        with pytest.raises(bp.UnsupportedError, match="expected text"):
            bp.build_index(tmp_path, columns=[name])
    other = write(tmp_path / "y.parquet", {"n": ["text"], "b": ["text"], "s": ["x"]})
    with pytest.raises(bp.UnsupportedError, match=r"x\.parquet.*expected text"):
        bp.build_index([other, tmp_path / "x.parquet"], columns=["lower(n)"])
    assert not list(tmp_path.glob("_bloomparquet_index/*.segment"))
    bp.build_index(tmp_path, columns=["lower(s)"])
    assert len(segments(tmp_path)) == 1
