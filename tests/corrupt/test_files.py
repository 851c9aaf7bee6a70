"""Files that are not Parquet files: every function raises one error that names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bloomparquet as bp
from tests.support.files import write

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "plan": lambda path: bp.plan(path, "x = 1"),
    "plan all": bp.plan,
    "read_table": lambda path: bp.read_table(path, "x = 1"),
    "scan_batches": lambda path: list(bp.scan_batches(path)),
    "inspect": bp.inspect,
    "probe": lambda path: bp.probe(path, column="x", value=1),
}


@pytest.fixture(params=FUNCTIONS, ids=FUNCTIONS)
def function(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return FUNCTIONS[request.param]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"PAR1", "4 bytes are too few"),
        (b"a,b\n1,2\n3,4\n5,6\n", "not a Parquet file.*expected b'PAR1'"),
        (b"PAR1" + bytes(50), "not a Parquet file"),
        (b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1", "claims a footer of 2147483647 bytes"),
        (b"PAR1" + bytes(4) + b"PAR1", "footer .0 bytes. is damaged"),
        (b"PAR1" + b"\x15\x02\x19\x00" + b"\x04\0\0\0PAR1", "damaged"),
        (b"PAR1" + b"\xff" * 30 + b"\x1e\0\0\0PAR1", "damaged"),
    ],
    ids=["empty", "magic only", "text", "no end", "huge footer", "no footer", "no schema", "noise"],
)
def test_a_file_that_is_not_parquet_is_an_error(
    content: bytes, message: str, function: Callable[[Any], Any], tmp_path: Path
) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    with pytest.raises(bp.FormatError, match=rf"bad\.parquet: .*{message}"):
        function(path)


def test_a_truncated_file_is_an_error(function: Callable[[Any], Any], tmp_path: Path) -> None:
    whole = Path(write(tmp_path / "x.parquet", {"x": list(range(1000))}, ["x"])).read_bytes()
    for kept in (len(whole) - 1, len(whole) - 20, len(whole) // 2, 100):
        (tmp_path / "cut.parquet").write_bytes(whole[:kept])
        with pytest.raises(bp.FormatError, match=r"cut\.parquet: .*truncated"):
            function(tmp_path / "cut.parquet")


def test_one_bad_file_among_good_ones_is_named(function: Callable[[Any], Any], tmp_path: Path) -> None:
    for i in range(3):
        write(tmp_path / f"{i}.parquet", {"x": [1]}, ["x"])
    (tmp_path / "1.parquet").write_bytes(b"nothing like a Parquet file")
    with pytest.raises(bp.FormatError, match=r"1\.parquet"):
        function(tmp_path)


def test_a_missing_path_and_an_empty_directory_are_errors(function: Callable[[Any], Any], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone"):
        function(tmp_path / "gone.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(bp.PlanError, match="no data files"):
        function(tmp_path / "empty")


def test_errors_have_our_base_class() -> None:
    for kind in (bp.FormatError, bp.UnsupportedError, bp.LimitError, bp.EncryptionError, bp.PlanError, bp.OptionError):
        assert issubclass(kind, bp.BloomParquetError)
    assert issubclass(bp.OptionError, ValueError)
