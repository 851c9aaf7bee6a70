"""Footers: one request each, shared schemas, and what they say of their writer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.errors import EncryptionError, FormatError
from bloomparquet.format.footer import read_footers
from bloomparquet.storage import LocalStorage, ReadCount
from tests.support.core import read_footer
from tests.support.files import write


def footers(paths: list[str], count: ReadCount | None = None, **options: bool) -> list[object]:
    storage = LocalStorage()
    files = [storage.list_files(path, recursive=False)[0] for path in paths]
    return list(read_footers(storage, files, ReadCount() if count is None else count, **options))


def test_one_request_reads_a_footer_that_fits_in_the_first_guess(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i}.parquet", {"id": list(range(5000))}) for i in range(5)]
    count = ReadCount()
    found = footers(paths, count)
    assert count.requests == 5
    assert [footer.metadata.num_rows for footer in found] == [5000] * 5  # type: ignore[attr-defined]


def test_a_long_footer_takes_a_second_request(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {f"column_{i}": [i] for i in range(600)}, rows_per_group=1)
    size = len(read_footer(path))
    assert size > 16 * 1024
    count = ReadCount()
    (footer,) = footers([path], count)
    assert count.requests == 2
    assert count.bytes < size + 16 * 1024 + 64
    assert footer.metadata.serialized_size == size  # type: ignore[attr-defined]


def test_files_of_one_schema_share_it_and_others_do_not(tmp_path: Path) -> None:
    same = [write(tmp_path / f"{i}.parquet", {"id": [i]}) for i in range(3)]
    other = write(tmp_path / "other.parquet", {"id": pa.array([1], pa.int32())})
    a, b, c, d = footers([*same, other])
    assert a.layout is b.layout is c.layout  # type: ignore[attr-defined]
    assert d.layout is not a.layout  # type: ignore[attr-defined]
    assert d.layout.schema.leaves[0].node.physical_type == "INT32"  # type: ignore[attr-defined]


def test_a_schema_that_begins_like_another_is_its_own(tmp_path: Path) -> None:
    """Schemas are recognised by their leading bytes."""
    short = write(tmp_path / "a.parquet", {"id": [1]})
    long = write(tmp_path / "b.parquet", {"id": [1], "name": ["x"]})
    for order in ([short, long], [long, short]):
        assert [len(footer.layout.schema.leaves) for footer in footers(order)] == [1 + (path == long) for path in order]  # type: ignore[attr-defined]


def test_many_schemas_are_told_apart(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i}.parquet", {f"column_{i}": [1]}) for i in range(150)]
    for _ in range(2):
        assert [footer.layout.schema.leaves[0].path for footer in footers(paths)] == [(f"column_{i}",) for i in range(150)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("size", "told"), [(0, "empty"), (3, "too few"), (11, "too few")])
def test_a_file_too_short_to_be_parquet_is_told_so(size: int, told: str, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1PAR1PAR1"[:size])
    with pytest.raises(FormatError, match=rf"x\.parquet: .*{told}.*expected"):
        footers([str(tmp_path / "x.parquet")])


def test_a_damaged_file_is_passed_over_only_when_asked(tmp_path: Path) -> None:
    good = write(tmp_path / "good.parquet", {"id": [1]})
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"nothing of the kind" * 10)
    assert [footer is None for footer in footers([str(bad), good], skip_corrupt=True)] == [True, False]
    with pytest.raises(FormatError, match=r"bad\.parquet: not a Parquet file.*expected b'PAR1'"):
        footers([str(bad), good])
    plan = bp.plan(tmp_path, "id = 1", skip_corrupt=True)
    assert (plan.total, plan.kept) == (1, 1)
    assert Path(plan.kept_row_groups()[0].path).name == "good.parquet"
    assert bp.read_table(tmp_path, "id = 1", skip_corrupt=True).num_rows == 1


@pytest.mark.parametrize("name", ["uniform_encryption", "encrypt_columns_and_footer_bloom_filter", "encrypt_columns_plaintext_footer"])
def test_encrypted_files_are_recognised_before_pyarrow_touches_them(name: str, parquet_testing_dir: Path) -> None:
    with pytest.raises(EncryptionError, match=f"{name}.*encrypted"):
        footers([str(parquet_testing_dir / f"{name}.parquet.encrypted")])


def test_what_spark_says_of_its_text_is_seen(tmp_path: Path) -> None:
    row = '{"type":"struct","fields":[{"name":"c","type":"string","metadata":{"__CHAR_VARCHAR_TYPE_STRING":"char(5)"}}]}'
    key = {"org.apache.spark.version": "4.3.0", "org.apache.spark.sql.parquet.row.metadata": row}
    altered = write(tmp_path / "a.parquet", pa.table({"c": ["x"]}).replace_schema_metadata(key))
    plain = write(tmp_path / "b.parquet", pa.table({"c": ["x"]}))
    first, second = footers([altered, plain])
    assert first.layout.traits.altered_text  # type: ignore[attr-defined]
    assert not second.layout.traits.altered_text  # type: ignore[attr-defined]
    assert first.layout is not second.layout  # type: ignore[attr-defined]


def test_footers_are_what_pyarrow_reads(parquet_testing_dir: Path) -> None:
    for path in sorted(parquet_testing_dir.glob("*.parquet")):
        (footer,) = footers([str(path)])
        assert footer.metadata.equals(pq.read_metadata(path)), path  # type: ignore[attr-defined]
