"""Every kind of file and filter gives the same plan with an index as without: kept row groups, reasons and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.indexing import build, filters
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence import bit_slices
from tests.corrupt.test_limits import HOSTILE
from tests.support import encrypted_table, interop
from tests.support.core import (
    Field,
    Items,
    column_metadata,
    edit_footer,
    empty_filters,
    graft_filters,
    read_footer,
    replace_footer,
    set_filter_location,
)
from tests.support.files import write, write_groups
from tests.support.index import assert_same_plans, index_files, outcome, plan_by, segments

EVENS = {"x": list(range(0, 400, 2)), "y": [f"v{i}" for i in range(200)]}


def without_some_filters(path: Path) -> str:
    write(path, EVENS, ["x", "y"], rows_per_group=50)

    def edit(metadata: dict[int, Field]) -> None:
        for row_group in (0, 2):
            chunk = column_metadata(metadata, row_group)
            del chunk[14], chunk[15]

    return edit_footer(str(path), edit)


def only_nulls(path: Path) -> str:
    nulls = {"x": pa.nulls(5, pa.int64())}
    return write_groups(path, [{"x": pa.array([2, 4, 6])}, nulls, {"x": pa.array([7, 9])}], ["x"])


def row_groups_without_rows(path: Path) -> str:
    empty = pa.table({"x": pa.array([], pa.int64())})
    return write_groups(path, [empty, {"x": pa.array([2, 4])}, empty, {"x": pa.array([6])}, empty], ["x"])


def undecryptable_chunk(path: Path) -> str:
    """A chunk that is encrypted although the file says nothing of encryption."""

    def edit(metadata: dict[int, Field]) -> None:
        chunk = metadata[4].value.values[1][1].value.values[0]
        chunk[8] = Field(12, {1: Field(12, {})})
        del chunk[3]

    return edit_footer(write(path, EVENS, ["x"], rows_per_group=50), edit)


def of_blocks(path: Path, blocks: int) -> str:
    return graft_filters(write(path, {"x": list(range(0, 400, 2))}, rows_per_group=50), 32 * blocks)


FILES = {
    "wrong length of a filter in the footer": lambda path: set_filter_location(
        write(path, EVENS, ["x"], rows_per_group=50), length=7, row_group=1
    ),
    "some filters missing": without_some_filters,
    "only nulls": only_nulls,
    "empty filters over values": lambda path: empty_filters(write(path, EVENS, ["x"], rows_per_group=50)),
    "row groups without rows": row_groups_without_rows,
    "no row groups": lambda path: write(path, {"x": pa.array([], pa.int64())}, ["x"]),
    "undecryptable chunk": undecryptable_chunk,
    **{f"{n} blocks": (lambda path, n=n: of_blocks(path, n)) for n in (1, 3, 6, 64, 100, 1000)},
}
WHERES = [
    "x = 4", "x = 5", "x = 301", "x = 100000", "x IN (5, 7, 399)", "x IN (1, 2, 3)", "x IS NULL", "x IS NOT NULL",
    "x <=> NULL", "NOT x = 4", "x > 300 AND x = 351", "x = 5 OR x = 351", "NOT (x = 5 AND x = 7)", "x NOT IN (2, 4)",
]  # fmt: skip


def test_unusual_files_and_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone and all together, in segments of one and of many files, with errors that are kept and that are raised."""
    monkeypatch.setattr(filters, "FOLDED_FPP", 1e-300)  # a folded filter may have more false positives
    for i, (name, make) in enumerate(FILES.items()):
        path = make(tmp_path / name / f"{i}.parquet")
        bp.build_index(path)
        for on_error in ("keep", "fail"):
            assert_same_plans(path, *WHERES, on_filter_error=on_error)
    for most in (1, 8192):
        monkeypatch.setattr(build, "MOST_ROW_GROUPS", most)
        info = bp.build_index(tmp_path)
        assert info.files == len(FILES) - 1
        assert list(info.left_out) == [str(tmp_path / "undecryptable chunk" / "6.parquet")]
        for on_error in ("keep", "fail"):
            assert_same_plans(tmp_path, *WHERES, on_filter_error=on_error)
        assert plan_by("auto", tmp_path, "x = 5").indexed == info.files


@pytest.mark.parametrize("blocks", [2**15, 3 * 2**12, 1000, 1001])
def test_folded_filters_keep_little_more(blocks: int, tmp_path: Path) -> None:
    """A large filter takes a few hundred bytes of the index if it can be halved, with hardly more false positives."""
    path = of_blocks(tmp_path / "x.parquet", blocks)
    bp.build_index(path)
    assert segments(tmp_path)[0].stat().st_size < 2**18 or blocks % 2
    for value in range(0, 400, 7):
        off, auto = plan_by("off", path, f"x = {value}"), plan_by("auto", path, f"x = {value}")
        assert auto.skipped == off.skipped
        assert (auto.kept, auto.bloom_bytes_read) == ((value + 1) % 2, 0)
    assert_same_plans(path, bp.In("x", tuple(range(1, 400, 2))), bp.In("x", tuple(range(1, 402))))


def test_an_index_of_many_columns(tmp_path: Path) -> None:
    """The table of contents of its segment is longer than the first read."""
    columns = {f"c{i}": list(range(i, i + 20, 2)) for i in range(120)}
    write(tmp_path / "x.parquet", columns, list(columns), rows_per_group=5)
    bp.build_index(tmp_path)
    for name in ("c0", "c63", "c119"):
        assert_same_plans(tmp_path, f"{name} = 63", f"{name} = 64", f"{name} IN (120, 121, 0)", indexed=1)


@pytest.mark.parametrize("count", [1, 8, 9, 1001])
def test_any_number_of_row_groups(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also more than a segment may have; and so many that a slice is a unit of its own."""
    monkeypatch.setattr(build, "MOST_ROW_GROUPS", 1000)
    monkeypatch.setattr(bit_slices, "_LEAST_UNIT_BYTES", 64)
    values = np.random.default_rng(count).permutation(count * 3)[: count * 2]
    write(tmp_path / "x.parquet", {"x": values}, ["x"], rows_per_group=2, write_statistics=False)
    bp.build_index(tmp_path)
    some = [*values[:2].tolist(), *values[-3:].tolist(), count * 3 + 1]
    assert_same_plans(tmp_path, *(f"x = {value}" for value in some), f"x IN ({some[0]}, {some[-2]})", indexed=1)


def test_an_index_of_some_columns(tmp_path: Path) -> None:
    """Other columns are planned from the footers and the filters of the files."""
    for i in range(3):
        write(tmp_path / f"{i}.parquet", {"x": range(i, 90, 3), "y": range(i, 90, 3)}, ["x", "y"], rows_per_group=10)
    bp.build_index(tmp_path, columns=["x"])
    assert_same_plans(tmp_path, "x = 4", "y = 4", "x = 4 AND y = 7", "x = 4 OR y = 7", "y IN (1, 2)", indexed=3)
    by_x, by_y = plan_by("auto", tmp_path, "x = 40"), plan_by("auto", tmp_path, "y = 40")
    assert (by_x.requests, by_x.kept, by_y.kept) == (0, 1, 1)
    assert by_y.requests > 0
    with pytest.raises(bp.PlanError, match="missing"):
        bp.build_index(tmp_path, columns=["x", "missing"])
    assert_same_plans(tmp_path, "x = 4", indexed=3)  # a build that fails leaves the index


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_encrypted_files_are_never_in_an_index(plaintext_footer: bool, tmp_path: Path) -> None:
    """Neither their filters, nor their statistics, nor their names; and plans need their keys as before."""
    write(tmp_path / "plain.parquet", {"id": [3, 5], "at": [1, 2]}, ["id"])
    secret = encrypted_table.write(tmp_path / "secret.parquet", plaintext_footer=plaintext_footer)
    named = write(tmp_path / "twin.parquet", encrypted_table.rows(), ["id"], rows_per_group=encrypted_table.ROWS)
    filter_bytes = interop.filters_of(named, "id")[0].to_bytes()
    Path(named).unlink()
    info = bp.build_index(tmp_path)
    assert list(info.left_out) == [str(secret)]
    content = b"".join(path.read_bytes() for path in index_files(tmp_path).values())
    assert b"plain.parquet" in content
    for found in (b"secret", b"text", filter_bytes, (3998).to_bytes(8, "little"), b"t3998"):
        assert found not in content
    for keys in (None, encrypted_table.KEYS, Keys(encrypted_table.FOOTER)):
        for on_error in ("keep", "fail"):
            wheres = ("id = 8", "id = 5", "text = 't8'", "at < 900", "v = 4.0")
            assert_same_plans(tmp_path, *wheres, keys=keys, on_filter_error=on_error)
    strict = Keys(encrypted_table.FOOTER, encrypted_table.COLUMNS, allow_plaintext_files=False)
    assert_same_plans(tmp_path, "id = 8", keys=strict)
    with pytest.raises(bp.BloomParquetError, match=r"plain\.parquet"):
        bp.plan(tmp_path, "id = 5", keys=strict, on_filter_error="fail")
    rows = bp.read_table(tmp_path, "id IN (8, 5)", columns=["id"], keys=encrypted_table.KEYS)
    assert sorted(rows["id"].to_pylist()) == [5, 8]


def damaged(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b"PAR1")


def beyond_limits(path: Path) -> None:
    replace_footer(str(path), HOSTILE["texts"](read_footer(str(path))))


def orc(path: Path) -> None:
    from pyarrow import orc as writer

    writer.write_table(pa.table({"x": [1]}), str(path))


@pytest.mark.parametrize("spoil", [damaged, beyond_limits, orc], ids=lambda spoil: spoil.__name__)
@pytest.mark.parametrize("first", [True, False])
def test_files_that_cannot_be_read(first: bool, spoil: object, tmp_path: Path) -> None:
    """Such files are left out of the index, and plans report them as without an index."""
    for i in range(3):
        write(tmp_path / f"{i}.parquet", {"x": [i, 10, 20]}, ["x"], rows_per_group=1)
    other = tmp_path / ("0.parquet" if first else "2.parquet")
    spoil(other)  # type: ignore[operator]
    info = bp.build_index(tmp_path)
    assert list(info.left_out) == [str(other)]
    for skip_corrupt in (False, True):
        for on_error in ("keep", "fail"):
            options = {"skip_corrupt": skip_corrupt, "on_filter_error": on_error}
            assert_same_plans(tmp_path, "x = 1", "x = 2", "missing = 1", None, **options)
    assert outcome("auto", tmp_path, "x = 1", skip_corrupt=True) == outcome("off", tmp_path, "x = 1", skip_corrupt=True)


def test_damaged_metadata_of_a_column_is_an_error(tmp_path: Path) -> None:
    """With an index too, and only for the plans that ask for the column."""
    for i in range(2):
        write(tmp_path / f"{i}.parquet", {"x": [i, 10], "y": [1, 2]}, ["x", "y"])

    def edit(metadata: dict[int, Field]) -> None:
        chunk = column_metadata(metadata, 0, 1)
        chunk[5] = Field(9, Items(5, []))  # the number of values is a list

    edit_footer(str(tmp_path / "1.parquet"), edit)
    for columns in (None, ["x"], ["y"]):
        bp.build_index(tmp_path, columns=columns)
        assert_same_plans(tmp_path, "x = 1", "y = 2", "y = 7")


def test_the_current_directory_has_its_own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without a directory in its path, and the ways to name it, lead to the index beside it."""
    monkeypatch.chdir(tmp_path)
    write("x.parquet", EVENS, ["x"])
    info = bp.build_index("x.parquet")
    assert Path(info.directory).resolve() == tmp_path / "_bloomparquet_index"
    for path in ("x.parquet", "./x.parquet", ".", str(tmp_path), f"file://{tmp_path}", f"{tmp_path}/*.parquet"):
        assert_same_plans(path, "x = 5", "x = 4", indexed=1)
    elsewhere = tmp_path.with_name("elsewhere")
    bp.drop_index("x.parquet")
    assert not Path("_bloomparquet_index").exists()
    bp.build_index("x.parquet", to=elsewhere)
    for path in ("x.parquet", str(tmp_path / "x.parquet"), "."):
        for directory in (elsewhere, "../elsewhere"):
            assert bp.plan(path, "x = 5", index=directory).indexed == 1
