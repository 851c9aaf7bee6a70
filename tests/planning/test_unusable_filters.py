"""Filters that cannot be used keep their row groups; the others of the column are still used."""

from __future__ import annotations

from typing import Any

import pytest

from bloomparquet.errors import BloomParquetError, EncryptionError
from tests.support.filters_in_memory import LARGE, SMALL, Chunk, Column


def test_one_warning_for_each_file(caplog: pytest.LogCaptureFixture) -> None:
    column = Column([[Chunk(SMALL, slice(0, 1))] * 2] * 3)
    column.length[[0, 1, 4]] = 20
    assert column.ask_all(20) == [True, True, False, False, True, False]
    where = "column x: its Bloom filter cannot be used: its header and bitset are"
    size = column.header[0] + 32 * SMALL
    assert [str(error) for error in column.filters.errors.values()] == [
        f"{file}.parquet: row group {group}, {where} {size} bytes, but the footer says 20"
        for file, group in ((0, 0), (0, 1), (2, 0))
    ]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["0.parquet", "2.parquet"]
    known = column.filters.facts
    column.store(known)  # another process
    assert [record.getMessage() for record in caplog.records[2:]] == [
        f"{known.errors[chunk]}; row groups without a usable filter are read" for chunk in (0, 4)
    ]


@pytest.mark.parametrize("n_blocks", [SMALL, LARGE])
def test_a_bitset_that_cannot_be_decrypted_keeps_its_row_group(n_blocks: int) -> None:
    column = Column([[Chunk(n_blocks, slice(0, 9), encrypted=True)] * 3])
    data = bytearray(column.storage.files["0.parquet"])
    data[column.offset[1] + column.length[1] - 1] ^= 1
    column.storage.files["0.parquet"] = bytes(data)
    for value in (20, 21):
        assert column.ask_all(value) == [False, True, False]
    assert column.ask_all(0) == [True] * 3
    (error,) = column.filters.errors.values()
    assert isinstance(error, EncryptionError)
    assert str(error).startswith("0.parquet: row group 1, column x: its Bloom filter cannot be used: ")
    with pytest.raises(EncryptionError, match="row group 1"):
        column.filters.read(column.storage, 1, column.count)


def test_a_bitset_ends_before_the_footer() -> None:
    column = Column([[Chunk(SMALL, slice(0, 9), has_length=False)]])
    assert column.ask_all(20) == [False]
    column.limit[0] -= 1
    column.filters = column.store()
    assert column.ask_all(20) == [True]
    (error,) = column.filters.errors.values()
    assert "its header claims 128 bytes, which would end in or after the footer" in str(error)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda column: column.offset.__setitem__(0, 3), "gives it the offset 3 and the length 144, outside"),
        (
            lambda column: (column.offset.__setitem__(0, 3), column.length.__setitem__(0, 0)),
            "3 and the length 0, outside",
        ),
        (lambda column: (column.offset.__setitem__(0, 3), column.length.__setitem__(0, -1)), "the offset 3, outside"),
        (lambda column: column.offset.__setitem__(0, 4), None),
        (lambda column: column.limit.__setitem__(0, 9 + 143), "offset 9 and the length 144, outside the file's data"),
        (lambda column: column.limit.__setitem__(0, 9 + 144), None),
    ],
)
def test_filters_lie_within_the_data(change: Any, why: str | None) -> None:
    column = Column([[Chunk(SMALL, slice(0, 9)), Chunk(SMALL, slice(0, 9))]])
    assert len(column.chunks[0].data) == 144, "as the cases say"
    change(column)
    if column.offset[0] == 4:
        data = column.storage.files["0.parquet"]
        column.storage.files["0.parquet"] = data[:4] + data[9:153] + b"\xff" * 5 + data[153:]
    column.filters = column.store()
    assert column.ask_all(20) == [why is not None, False]
    assert column.ask_all(0) == [True, True]
    errors: list[BloomParquetError] = [*column.filters.errors.values()]
    assert [why in str(error) for error in errors] == [True] * (why is not None)
