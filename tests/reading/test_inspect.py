"""`inspect` and `probe` of Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support.core import empty_filters, set_filter_location
from tests.support.files import filter_offset, patch, write, write_groups


def test_inspect_has_one_row_for_each_filter(tmp_path: Path) -> None:
    table = pa.table(
        {"a": list(range(100)), "b": [str(i) for i in range(100)], "st": pa.array([{"x": i} for i in range(100)])}
    )
    for i in range(2):
        write(tmp_path / f"{i}.parquet", table, ["a", "st.x"], rows_per_group=50)
    filters = bp.inspect(tmp_path)
    assert filters.num_rows == 8
    assert set(filters.column("column").to_pylist()) == {"a", "st.x"}
    order = list(zip(filters.column("file").to_pylist(), filters.column("row_group").to_pylist(), strict=True))
    assert order == sorted(order)
    for row in filters.to_pylist():
        metadata = pq.read_metadata(row["file"]).row_group(row["row_group"])
        chunk = next(
            metadata.column(i)
            for i in range(metadata.num_columns)
            if metadata.column(i).path_in_schema == row["column"]
        )
        assert row["offset"] == chunk.bloom_filter_offset
        assert row["estimated_ndv"] == pytest.approx(50, rel=0.2)
    assert bp.inspect(write(tmp_path / "none" / "x.parquet", {"a": [1]})).num_rows == 0


def test_probe_answers_for_every_row_group_without_statistics(tmp_path: Path) -> None:
    path = write_groups(tmp_path / "x.parquet", [{"x": [1, 3]}, {"x": [5, 7]}, {"x": [1, 7]}], ["x"])
    answers = bp.probe(path, column="x", value=7)
    assert [(answer.path, answer.row_group) for answer in answers] == [(path, 0), (path, 1), (path, 2)]
    assert [answer.verdict is bp.Verdict.MIGHT_MATCH for answer in answers] == [False, True, True]
    assert all(answer.verdict is bp.Verdict.CANNOT_MATCH for answer in bp.probe(path, column="x", value=2**70))


def test_probe_takes_nested_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"st": pa.array([{"x": 1}])}, ["st.x"])
    for column in ("st.x", ("st", "x")):
        assert bp.probe(path, column=column, value=1)[0].verdict is bp.Verdict.MIGHT_MATCH
        assert bp.probe(path, column=column, value=2)[0].verdict is bp.Verdict.CANNOT_MATCH


def test_a_row_group_without_a_filter_might_match(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": [1], "y": [1]}, ["x"])
    assert bp.probe(path, column="y", value=9) == [bp.Probe(path, 0, bp.Verdict.MIGHT_MATCH, has_filter=False)]
    assert bp.probe(path, column="x", value=1) == [bp.Probe(path, 0, bp.Verdict.MIGHT_MATCH, has_filter=True)]


def test_probes_that_filters_cannot_answer_are_errors(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": [1.0], "b": [True]}, ["x"])
    with pytest.raises(bp.PlanError, match="NULL"):
        bp.probe(path, column="x", value=None)
    with pytest.raises(bp.PlanError, match="x"):
        bp.probe(path, column="x", value="text")
    with pytest.raises(bp.PlanError, match="xx"):
        bp.probe(path, column="xx", value=1)
    with pytest.raises(bp.UnsupportedError, match="nan"):
        bp.probe(path, column="x", value=float("nan"))
    with pytest.raises(bp.UnsupportedError, match="b"):
        bp.probe(path, column="b", value=True)


@pytest.mark.parametrize(
    "look", [bp.inspect, lambda path: bp.probe(path, column="x", value=1)], ids=["inspect", "probe"]
)
def test_an_unusable_filter_is_an_error(look: object, tmp_path: Path) -> None:
    assert callable(look)
    path = write(tmp_path / "x.parquet", {"x": [1, 2]}, ["x"])
    offset, _ = filter_offset(path)
    patch(path, offset, b"\xff" * 8)
    with pytest.raises(bp.FormatError, match=r"x\.parquet: row group 0, column x"):
        look(path)
    path = set_filter_location(write(tmp_path / "y.parquet", {"x": [1, 2]}, ["x"]), offset=10**9)
    with pytest.raises(bp.FormatError, match="offset 1000000000"):
        look(path)


def test_an_empty_filter_is_shown_as_empty(tmp_path: Path) -> None:
    path = empty_filters(write(tmp_path / "x.parquet", {"x": [1, 2]}, ["x"]))
    (row,) = bp.inspect(path).to_pylist()
    assert row["bits_set"] == 0
    assert row["estimated_ndv"] == 0
