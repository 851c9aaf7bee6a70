"""Files that Arrow C++ wrote."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.support import files, interop
from tests.support.interop import Kind

COLUMNS = {name: kind for name, kind in interop.TYPES.items() if name not in ("decimal_20_2", "uuid_bytes")}

DECIMALS = {
    "decimal_5_2": "INT32", "decimal_9_0": "INT32", "decimal_18_4": "INT64",
    "decimal_38_10": "FIXED_LEN_BYTE_ARRAY(16)", "dictionary_decimal": "INT32",
}  # fmt: skip

VERSION_1 = {
    "uint32": interop.UINT32,
    "timestamp_ns": interop.timestamp("ns", grain=1_000),
    "utc_ns": interop.timestamp("ns", "UTC", grain=1_000),
}


def write(path: Path, columns: dict[str, Kind], **options: object) -> str:
    return files.write(path, interop.table(columns), list(columns), rows_per_group=interop.ROWS, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arrow")


@pytest.fixture(scope="module")
def written(folder: Path) -> str:
    return write(folder / "types.parquet", COLUMNS)


@pytest.fixture(scope="module")
def integer_decimals(folder: Path) -> str:
    return write(folder / "decimals.parquet", {name: COLUMNS[name] for name in DECIMALS}, store_decimal_as_integer=True)


@pytest.fixture(scope="module")
def version_1(folder: Path) -> str:
    return write(folder / "version1.parquet", VERSION_1, version="1.0")


def test_a_filter_is_written_for_every_type(written: str) -> None:
    assert interop.filtered_columns(written) == set(COLUMNS)


@pytest.mark.parametrize("column", COLUMNS)
def test_filters_of_every_type_are_used(written: str, column: str) -> None:
    interop.assert_filters_are_used(written, column, COLUMNS[column])


@pytest.mark.parametrize("column", DECIMALS)
def test_decimals_stored_as_integers(integer_decimals: str, column: str) -> None:
    assert interop.filtered_columns(integer_decimals) == set(DECIMALS)
    assert interop.physical(integer_decimals, column) == DECIMALS[column]
    interop.assert_filters_are_used(integer_decimals, column, COLUMNS[column])


@pytest.mark.parametrize("column", VERSION_1)
def test_format_version_1_widens_types(version_1: str, column: str) -> None:
    assert interop.physical(version_1, column) == "INT64"
    interop.assert_filters_are_used(version_1, column, VERSION_1[column])


def test_filter_skips_without_statistics(folder: Path) -> None:
    columns = {"int64": interop.INT64, "string": interop.STRING}
    path = write(folder / "no_statistics.parquet", columns, write_statistics=False, data_page_version="2.0")
    for column, kind in columns.items():
        interop.assert_never_skipped(path, column, kind)
        assert interop.skip_rate(path, column, kind) >= 0.95
        beyond = bp.plan(path, bp.Eq(column, 2**63 - 1 if column == "int64" else "zzz"))
        assert set(beyond.skipped) <= {"bloom"}


@pytest.mark.parametrize("metadata", [None, {"org.apache.spark.version": "4.3.0"}], ids=["", "rewritten from Spark's"])
def test_int96_of_arrow_proves_nothing(folder: Path, metadata: dict[str, str] | None) -> None:
    """Only Spark writes one encoding per instant. Arrow copies key-value metadata, so a file may look like Spark's."""
    kind = interop.timestamp("us", "UTC")
    path, table = str(folder / "int96.parquet"), interop.table({"at": kind}).replace_schema_metadata(metadata)
    files.write(path, table, ["at"], rows_per_group=interop.ROWS, use_deprecated_int96_timestamps=True)
    assert interop.filtered_columns(path) == {"at"}
    assert interop.physical(path, "at") == "INT96"
    for literals in (*kind.literals, kind.absent):
        interop.assert_keeps_all(path, "at", literals[::64])


def test_elements_of_lists_and_maps_prove_nothing(folder: Path) -> None:
    maps = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))
    data = pa.table({"list": pa.array([[1, 2], [3]]), "map": maps})
    leaves = ["list.list.element", "map.key_value.key", "map.key_value.value"]
    path = files.write(folder / "repeated.parquet", data, leaves)
    assert interop.filtered_columns(path) == set(leaves)
    interop.assert_keeps_all(path, "list.list.element", [1, 2, 3, 4])
    interop.assert_keeps_all(path, "map.key_value.key", ["a", "z"])


def test_column_of_nulls_has_an_empty_filter(folder: Path) -> None:
    path = files.write(folder / "nulls.parquet", {"n": pa.nulls(5, pa.int64()), "id": range(5)}, ["n", "id"])
    for where, kept in ((bp.Eq("n", 1), 0), (bp.IsNull("n"), 1), (bp.EqNullSafe("n", None), 1)):
        assert bp.plan(path, where).kept == kept


@pytest.mark.parametrize("with_statistics", [True, False])
def test_zero_is_found_under_either_sign(folder: Path, with_statistics: bool) -> None:
    path = folder / f"zeros_{with_statistics}.parquet"
    files.write(path, interop.ZEROS, list(interop.ZEROS), write_statistics=with_statistics)
    interop.assert_finds_zeros(str(path))
    files.write(path, {"x": pa.array([-0.0, -1.0, 1.0], pa.float16())}, ["x"], write_statistics=with_statistics)
    interop.assert_keeps_all(str(path), "x", [0.0, -0.0, 0, float("nan")])
    assert interop.reasons(str(path), bp.Eq("x", 0.5)) == ["bloom"]


def test_values_longer_than_truncated_bounds_are_found(folder: Path) -> None:
    interop.assert_finds_long_values(files.write(folder / "long.parquet", interop.LONG, list(interop.LONG)))


def test_values_outside_the_type_match_nothing(written: str) -> None:
    for column, literal in [
        ("int8", 1_000_000_000_000),
        ("uint32", -1),
        ("int32", 2**40),
        ("int64", 1.5),
        ("decimal_5_2", 1.005),
        ("timestamp_ms", dt.datetime(1970, 1, 1, microsecond=1)),
        ("float32", 0.1),
        ("fixed_5", b"four"),
    ]:
        plan = bp.plan(written, bp.Eq(column, literal))
        assert plan.kept == 0, f"{column} = {literal!r}: {plan}"
