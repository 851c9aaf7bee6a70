"""``fpp="auto"``: a lookup of one value reads about one false row group, however many row groups the table has."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.cli.advice import advice_commands, advice_report
from bloomparquet.parquet.bloom_filter.sizes import TOLERANCE, expected_fpp
from bloomparquet.writing.advice.advise import advise, false_row_groups_of
from bloomparquet.writing.filters.spec import MAX_AUTO_FPP, MIN_AUTO_FPP, auto_fpp
from tests.support.advice import only, printed
from tests.support.files import write

FILES, LOOKUPS = 4, 300
AUTO = {"x": bp.Bloom(fpp="auto")}

SMALLEST_SHARE = 0.02
"""Twice the bytes divide the fpp of a filter by 20 to 40 (see split_block). So the smallest filter that is good enough
is at most 1 / 50 of the target better than needed."""


def random_files(seed: int) -> tuple[list[tuple[pa.Table, int]], int]:
    """The rows of each file, all different even numbers, with the size of its row groups; the number of row groups."""
    rng = np.random.default_rng(seed)
    files, total = [], 0
    for row_groups, rows in np.exp(rng.uniform(np.log([10, 16]), np.log([250, 300]), (FILES, 2))).astype(int).tolist():
        files.append((pa.table({"x": 2 * rng.integers(-(2**61), 2**61, row_groups * rows)}), rows))
        total += row_groups
    return files, total


def write_all(folder: Path, files: list[tuple[pa.Table, int]], bloom: bp.Bloom | None, **options: Any) -> str:
    folder.mkdir()
    for i, (table, rows) in enumerate(files):
        asked = None if bloom is None else {"x": bloom}
        bp.write_table(table, folder / f"{i}.parquet", bloom=asked, row_group_size=rows, **options)
    return str(folder)


def filters_of(path: str) -> list[dict[str, Any]]:
    names = ["row_group", "column", "bytes", "bits_set", "estimated_fpp"]
    return bp.inspect(path).select(names).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(2))
def test_a_lookup_reads_about_one_false_row_group(seed: int, tmp_path: Path) -> None:
    files, total = random_files(seed)
    # Without statistics, filters are the only evidence.
    path = write_all(tmp_path / "t", files, bp.Bloom(fpp="auto", row_groups=total), write_statistics=False)
    dataset = bp.Dataset.open(path)
    absent = 2 * np.random.default_rng(100 + seed).integers(-(2**61), 2**61, LOOKUPS) + 1
    plans = [bp.plan(dataset, bp.Eq("x", value)) for value in absent.tolist()]
    assert {plan.total for plan in plans} == {total}
    false = sum(plan.kept for plan in plans)
    expected = sum(row["estimated_fpp"] for row in filters_of(path))
    assert SMALLEST_SHARE <= expected <= TOLERANCE
    assert abs(false - LOOKUPS * expected) <= 5 * math.sqrt(LOOKUPS * expected)  # five standard deviations
    for table, _ in files:  # and no row is lost
        assert bp.read_table(dataset, bp.Eq("x", table["x"][len(table) // 2].as_py())).num_rows == 1


def test_adding_and_shrinking_count_the_row_groups(tmp_path: Path) -> None:
    files, total = random_files(7)
    written = write_all(tmp_path / "written", files, bp.Bloom(fpp="auto", row_groups=total))
    added = write_all(tmp_path / "added", files, None)
    shrunk = write_all(tmp_path / "shrunk", files, bp.Bloom(ndv=10_000))
    assert {outcome.action for outcome in bp.add_filters(added, bloom="x")} == {"added"}
    assert {outcome.action for outcome in bp.shrink_filters(shrunk)} == {"shrunk"}
    assert filters_of(added) == filters_of(written)
    # Folding goes by the bits that are set; making a filter, by those that are expected.
    assert max(row["estimated_fpp"] for row in filters_of(shrunk)) <= TOLERANCE * auto_fpp(total)
    same = [one == other for one, other in zip(filters_of(shrunk), filters_of(written), strict=True)]
    assert np.mean(same) > 0.9
    assert {outcome.action for outcome in bp.shrink_filters(written)} == {"unchanged"}


def test_a_table_is_written_for_its_own_row_groups(tmp_path: Path) -> None:
    table = pa.table({"x": np.random.default_rng(5).integers(0, 2**60, 300 * 50)})

    def false_row_groups(name: str, bloom: Any, write: Any = bp.write_table) -> float:
        path = str(tmp_path / name)
        write(table, path, bloom=bloom, row_group_size=50)
        fpps: list[float] = bp.inspect(path)["estimated_fpp"].to_pylist()
        return sum(fpps)

    def stream(table: pa.Table, path: str, **options: Any) -> None:
        with bp.ParquetWriter(path, table.schema, **options) as writer:
            writer.write_table(table)

    for bloom in ("x", "*", {"x": bp.Bloom(max_bytes=1 << 20)}):
        assert SMALLEST_SHARE <= false_row_groups("one", bloom) <= TOLERANCE
    for given in (false_row_groups("given", {"x": bp.Bloom(0.01)}), false_row_groups("stream", "x", stream)):
        assert TOLERANCE < given <= TOLERANCE * 0.01 * 300


def test_a_given_number_of_row_groups_is_not_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": range(1000), "y": range(1000)}, rows_per_group=500)
    bp.add_filters(path, bloom={"x": bp.Bloom(fpp="auto", row_groups=100_000), "y": bp.Bloom(fpp="auto")})
    fpps = {row["column"]: row["estimated_fpp"] for row in bp.inspect(path).to_pylist()}
    assert 0 < fpps["x"] <= TOLERANCE / 100_000
    assert TOLERANCE / 100_000 < fpps["y"] <= TOLERANCE * MAX_AUTO_FPP  # counted: two


def test_the_fpp_stays_within_its_bounds() -> None:
    assert [auto_fpp(n) for n in (0, 1, 100)] == [MAX_AUTO_FPP] * 3
    assert [auto_fpp(n) for n in (101, 40_000)] == [1 / 101, 1 / 40_000]
    assert [auto_fpp(n) for n in (10**6, 10**9)] == [MIN_AUTO_FPP] * 2
    # The reason for the least fpp: its filters take as many bytes as an INT64.
    assert expected_fpp(4096 * 32 // 8, 4096) == pytest.approx(MIN_AUTO_FPP, rel=0.1)


@pytest.mark.parametrize(
    ("bloom", "message"),
    [
        (lambda: bp.Bloom("Auto"), r"fpp is 'Auto'; expected 'auto', or a number above 0 and below 1"),
        (lambda: bp.Bloom("auto", row_groups=0), "row_groups is 0; expected the number of row groups of the table"),
        (lambda: bp.Bloom(0.01, row_groups=7), "row_groups is 7 and fpp is 0.01; leave out row_groups"),
    ],
)
def test_a_file_needs_a_valid_number_of_row_groups(bloom: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(bp.OptionError, match=message):
        bp.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet", bloom={"x": bloom()})
    assert not (tmp_path / "x.parquet").exists()
    often: Any = "often"
    for change in (bp.shrink_filters, bp.advise):
        with pytest.raises(bp.OptionError, match="fpp is 'often'"):
            change(write(tmp_path / "y.parquet", {"x": [1]}), fpp=often)


def test_advice_for_a_large_table_is_its_auto_fpp(tmp_path: Path) -> None:
    values, path = np.random.default_rng(0).integers(0, 2**60, 600 * 40), str(tmp_path / "x.parquet")
    bp.write_table(pa.table({"x": values}), path, bloom={"x": bp.Bloom(fpp=0.06)}, row_group_size=40)
    fpps = bp.inspect(path)["estimated_fpp"].to_pylist()
    row = only(path)
    assert (row["fpp"], row["advice"]) == (1 / 600, "replace")
    assert row["false_row_groups_now"] == pytest.approx(sum(fpps), rel=0.3)  # 16 of 600 filters are in the sample
    assert SMALLEST_SHARE <= row["false_row_groups"] <= TOLERANCE

    answer = advise(path)
    shown = printed(advice_report(answer), 80).splitlines()
    lines = [" ".join(line.split()) for line in shown]
    assert "column now with FPP 0.0017" in lines
    assert row["false_row_groups"] < 0.1
    assert f"x {row['false_row_groups_now']:.0f} under 0.1" in lines
    assert "--fpp auto is 0.0017 here: about 1 of 600 row groups." in lines
    assert max(map(len, shown)) <= 80
    assert advice_commands(answer, "t") == ["bloomparquet add t --columns x --replace"]

    fixed = only(path, fpp=0.01)
    assert (fixed["fpp"], fixed["advice"]) == (0.01, "keep")
    assert TOLERANCE < fixed["false_row_groups"] <= TOLERANCE * 0.01 * 600
    bp.add_filters(path, bloom=AUTO, replace=True)
    again = only(path)
    assert (again["advice"], again["false_row_groups_now"] <= TOLERANCE) == ("keep", True)


def test_many_filters_are_rated_as_one_by_one() -> None:
    ndv, blocks = np.array([1.0, 500, 20_000, 9]), np.array([1, 64, 1024, 1])
    expected = sum(expected_fpp(int(n), int(b)) for n, b in zip(ndv, blocks, strict=True))
    assert false_row_groups_of(ndv, blocks * 32) == pytest.approx(expected)
