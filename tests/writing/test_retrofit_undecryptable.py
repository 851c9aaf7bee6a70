"""Adding and shrinking filters with missing, wrong or failing keys, and in tampered files: no file is damaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloomparquet as bp
from bloomparquet.writing.encryption import Encryption
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.support.encrypted_modules import (
    BLOOM_LENGTH,
    BLOOM_OFFSET,
    assert_page_indexes_open,
    bitsets,
    chunks,
    metadata,
)
from tests.support.kms import full_text, reveals
from tests.support.retrofit_encrypted import (
    ALL,
    BLOOM,
    CITY,
    FIRST,
    FOOTER,
    FOOTERS,
    GROUPS,
    ID,
    LARGE,
    NAME,
    SECOND,
    TABLE,
    WITHOUT_FOOTER,
    WITHOUT_NAME,
    X,
    assert_filters_hold_all,
    data_end,
    others,
    write,
)


@FOOTERS
def test_columns_without_a_key_are_unchanged(tmp_path: Path, plaintext_footer: bool) -> None:
    path = write(tmp_path / "a.parquet", ["name"], plaintext_footer=plaintext_footer)
    before, end = Path(path).read_bytes(), data_end(path, ALL)
    rest, old = others(path, ALL, {ID, X}), bitsets(path, ALL)
    (outcome,) = add_filters(path, bloom=["id", "st.x"], keys=WITHOUT_NAME)
    assert outcome.filters == 6
    assert Path(path).read_bytes()[:end] == before[:end]
    assert others(path, WITHOUT_NAME, {ID, X}) == rest
    filters = assert_filters_hold_all(path, ALL, {ID, NAME, X})
    assert {chunk_id: filters[chunk_id] for chunk_id in old} == old
    assert bp.read_table(path, keys=ALL).equals(TABLE)


def test_old_filters_stay_where_data_cannot_move(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", dict.fromkeys(BLOOM, LARGE))
    before, end, rest = Path(path).read_bytes(), data_end(path, ALL), others(path, ALL, {ID})
    add_filters(path, bloom="id", replace=True, keys=WITHOUT_NAME)
    assert Path(path).read_bytes()[:end] == before[:end]
    assert others(path, ALL, {ID}) == rest
    filters = assert_filters_hold_all(path, ALL, {ID, NAME, CITY, X})
    assert len(filters[0, ID]) < len(filters[0, NAME])
    assert_page_indexes_open(path, ALL)
    shrink_filters(path, keys=ALL)
    assert Path(path).stat().st_size > GROUPS * (1 << 15), "nobody knows any more what lies there"
    assert_filters_hold_all(path, ALL, {ID, NAME, CITY, X})


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (shrink_filters, {}, "shrinking would make it larger.*give the keys of all columns"),
        (shrink_filters, {"dry_run": True}, "shrinking would make it larger"),
        (add_filters, {"bloom": "name"}, "row group 0, column name: .*the key of column"),
        (add_filters, {"bloom": ["id", "name"], "replace": True}, "column name: .*the key of"),
    ],
)
def test_missing_column_key_is_an_error(tmp_path: Path, change: Any, options: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "a.parquet", dict.fromkeys(["id", "city"], LARGE))
    before = Path(path).read_bytes()
    with pytest.raises(bp.EncryptionError, match=message) as caught:
        change(path, keys=WITHOUT_NAME, **options)
    assert "a.parquet" in str(caught.value)
    assert reveals(full_text(caught.value), FOOTER, FIRST) == []
    assert Path(path).read_bytes() == before
    assert os.listdir(tmp_path) == ["a.parquet"]


@pytest.mark.parametrize("keys", [WITHOUT_FOOTER, None, bp.Keys(retriever=lambda _: FOOTER)])
@FOOTERS
def test_missing_footer_key_is_an_error(tmp_path: Path, keys: bp.Keys | None, plaintext_footer: bool) -> None:
    path = write(tmp_path / "a.parquet", {"city": LARGE}, plaintext_footer=plaintext_footer)
    before = Path(path).read_bytes()
    for change in (
        lambda: add_filters(path, bloom="id", keys=keys),
        lambda: add_filters(path, tmp_path / "copy", bloom="id", keys=keys),
        lambda: shrink_filters(path, keys=keys),
    ):
        with pytest.raises(bp.EncryptionError, match=r"a.parquet: the file is unchanged.*footer"):
            change()
    (outcome,) = add_filters(path, bloom="id", keys=keys, on_error="report")
    assert outcome.action == "failed"
    assert Path(path).read_bytes() == before
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_every_column_means_decryptable_columns(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for name, keys in (("a", ALL), ("b", bp.Keys(FOOTER, {"name": SECOND}))):
        write(tmp_path / "t" / f"{name}.parquet", keys=keys)
    outcomes = add_filters(tmp_path / "t", bloom="*", keys=WITHOUT_NAME)
    assert [outcome.action for outcome in outcomes] == ["added", "added"]
    for outcome, keys in zip(outcomes, (ALL, bp.Keys(FOOTER, {"name": SECOND})), strict=True):
        columns = [column.column for column in outcome.columns]
        assert "id" in columns
        assert "name" not in columns
        assert bp.read_table(outcome.path, keys=keys).equals(TABLE)


def test_failed_key_is_requested_once_for_all_row_groups(tmp_path: Path) -> None:
    how = Encryption(ALL, footer_key_metadata=b"f", column_key_metadata={"id": b"one", "name": b"two"})
    asked: dict[int, list[bytes]] = {}
    for rows in (90, 9):
        path, calls = tmp_path / f"{rows}.parquet", asked.setdefault(rows, [])
        bp.write_table(TABLE.slice(0, 90), path, bloom=["id", "name"], row_group_size=rows, encryption=how)

        def retrieve(metadata: bytes, calls: list[bytes] = calls) -> bytes:
            calls.append(metadata)
            if metadata == b"two":
                raise PermissionError
            return {b"f": FOOTER, b"one": FIRST}[metadata]

        add_filters(path, bloom={"id": LARGE}, replace=True, keys=bp.Keys(retriever=retrieve))
    assert asked[9] == asked[90]
    assert b"two" in asked[9]


def test_wrong_column_key_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", dict.fromkeys(BLOOM, LARGE))
    before, wrong = Path(path).read_bytes(), bp.Keys(FOOTER, {"id": FIRST, "name": b"another's-a-key!"})
    for change in (
        lambda: shrink_filters(path, keys=wrong),
        lambda: add_filters(path, bloom="name", keys=wrong),
        lambda: add_filters(path, bloom="id", replace=True, keys=wrong),
    ):
        with pytest.raises(bp.EncryptionError, match=r"row group 0, column name: .* the key is wrong"):
            change()
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("what", ["header", "bitset", "row groups", "columns", "longer header"])
def test_tampered_filters_are_errors_unless_replaced(tmp_path: Path, what: str) -> None:
    path = write(tmp_path / "a.parquet", BLOOM, keys=bp.Keys(FOOTER))
    keys, stored = bp.Keys(FOOTER), metadata(path, bp.Keys(FOOTER))
    data = bytearray(Path(path).read_bytes())
    good = bitsets(path, keys)
    (start, length), (other, _), (third, _) = (
        (stored[chunk_id][BLOOM_OFFSET], stored[chunk_id][BLOOM_LENGTH]) for chunk_id in ((0, ID), (1, ID), (0, X))
    )
    swapped = {"row groups": other, "columns": third}.get(what)
    if swapped is not None:
        one, two = data[start : start + length], data[swapped : swapped + length]
        data[start : start + length], data[swapped : swapped + length] = two, one
    elif what == "longer header":
        data[start : start + 2] = b"\xff\xff"
    else:
        data[start + (20 if what == "header" else length - 20)] ^= 1
    Path(path).write_bytes(data)
    with pytest.raises(bp.EncryptionError, match="row group 0, column id"):
        shrink_filters(path, keys=keys)
    assert Path(path).read_bytes() == data
    add_filters(path, bloom=BLOOM, replace=True, keys=keys)
    assert bitsets(path, keys) == good
    assert bp.read_table(path, keys=keys).equals(TABLE)


@FOOTERS
def test_tampered_files_are_never_damaged_further(tmp_path: Path, plaintext_footer: bool) -> None:
    """Each run fails without a change, or keeps every column as readable or unreadable as before."""
    path = write(tmp_path / "a.parquet", {"id": LARGE, "city": bp.Bloom()}, plaintext_footer=plaintext_footer)
    data, random = Path(path).read_bytes(), np.random.default_rng(11)
    filters = [stored[BLOOM_OFFSET] for stored in metadata(path, ALL).values() if BLOOM_OFFSET in stored]
    indexes = min(chunk[6] for chunk in chunks(path, ALL).values())
    bounds = [
        (4, indexes), (indexes, min(filters)), (min(filters), min(filters) + 60), (data_end(path, ALL), len(data))
    ]  # fmt: skip
    ends = set()
    for i in range(16):
        altered = bytearray(data)
        altered[random.integers(*bounds[i % len(bounds)])] ^= 1 << int(random.integers(8))
        Path(path).write_bytes(altered)
        try:
            if i % 8 < 4:
                shrink_filters(path, keys=ALL)
            else:
                add_filters(path, bloom=["name", "id"], replace=True, keys=ALL)
        except bp.BloomParquetError:
            assert Path(path).read_bytes() == altered
            ends.add("failed")
        else:
            now = _readable(path)
            Path(path).write_bytes(altered)
            assert now == _readable(path)
            ends.add("done")
    assert ends == {"failed", "done"}


def _readable(path: str) -> list[Any]:
    """The values of each column, or the type of the error of reading it."""
    columns: list[Any] = []
    for name in TABLE.column_names:
        try:
            columns.append(bp.read_table(path, columns=[name], keys=ALL))
        except bp.BloomParquetError as error:  # noqa: PERF203
            columns.append(type(error))
    return columns
