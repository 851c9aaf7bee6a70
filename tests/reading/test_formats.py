"""The format of files is found from their bytes; files of two formats, or of neither, are errors."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.support.core import watch_reads
from tests.support.files import write as write_parquet
from tests.support.orc_probes import might_match, write


@pytest.mark.parametrize("parquet", ["a.orc", "z.orc"])
def test_files_of_two_formats_are_an_error_naming_both(tmp_path: Path, parquet: str) -> None:
    inner = write(tmp_path / "m.parquet", pa.table({"a": [1]}))
    outer = write_parquet(tmp_path / parquet, {"a": [1]}, ["a"])
    for look in (bp.inspect, lambda path: bp.probe(path, column="a", value=1)):
        with pytest.raises(bp.PlanError, match="one format") as raised:
            look(tmp_path)
        assert inner in str(raised.value)
        assert outer in str(raised.value)


def test_the_format_is_found_from_bytes_at_no_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "x.orc", {"a": list(range(90_000))}, ["a"])
    reads = watch_reads(monkeypatch)
    assert bp.inspect(path)["file"].to_pylist() == [path]
    assert might_match(path, 1, "a") == [0]
    footer, header, bitset, block, sample = reads.of(path)
    assert sum(footer) == Path(path).stat().st_size
    assert header[0] > 0
    assert bitset[1] > 2**16
    assert block[1] == 32
    assert sample[1] <= bitset[1] / 16  # whether the filter is too full to help
    assert might_match(write(tmp_path / "f.parquet", pa.table({"a": [1]})), 1, "a") == [0]


def test_a_file_of_neither_format_is_an_error(tmp_path: Path) -> None:
    for data in (b"x" * 100, b"ORC", b""):
        (tmp_path / "f").write_bytes(data)
        with pytest.raises(bp.FormatError, match=r"Parquet|empty"):
            bp.inspect(str(tmp_path / "f"))
    (tmp_path / "f").write_bytes(b"ORC" + b"x" * 100)
    with pytest.raises(bp.FormatError, match="not an ORC file"):
        bp.inspect(str(tmp_path / "f"))


def test_keys_that_forbid_plain_files_forbid_orc(tmp_path: Path) -> None:
    path = write(tmp_path / "f", pa.table({"a": [1]}))
    with pytest.raises(bp.EncryptionError, match="not encrypted"):
        bp.inspect(path, keys=bp.Keys(footer=bytes(16), allow_plaintext_files=False))
