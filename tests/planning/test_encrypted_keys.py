"""Keys that are late, wrong, denied or invalid; and that no text reveals what they decrypt."""

from __future__ import annotations

import traceback
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from tests.support.encrypted_table import FOOTER, GROUPS, OTHER, OWN, ROWS, write
from tests.support.parquet_table import parquet_table


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    process_cache.clear()


class Retriever:
    """Gives the keys that it holds, and notes its requests."""

    def __init__(self, held: dict[bytes, bytes]) -> None:
        self.held, self.requests = held, list[bytes]()

    def __call__(self, metadata: bytes) -> bytes:
        self.requests.append(metadata)
        return self.held[metadata]


def test_a_failed_key_is_requested_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", footer_key_metadata=b"kf", column_key_metadata={"id": b"ka", "text": b"kb"})
    held = {b"kf": FOOTER, b"kb": OTHER}
    keys = bp.Keys(retriever=held.__getitem__)
    plan = bp.plan(path, "id = 7", keys=keys)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS)
    assert "the retriever raised KeyError" in str(plan.errors[0])
    held[b"ka"] = OWN
    assert bp.plan(path, "id = 7", keys=keys).kept == 0
    del held[b"kf"]
    assert bp.plan(path, "id = 7", keys=keys).kept == 0, "the cache holds what was decrypted"
    process_cache.clear()
    assert len(bp.plan(path, "id = 7", keys=keys).unreadable) == 1
    held[b"kf"] = FOOTER
    assert bp.plan(path, "id = 7", keys=keys).kept == 0


def test_each_key_of_a_file_is_requested_once(tmp_path: Path) -> None:
    for i in range(3):
        write(tmp_path / f"{i}.parquet", footer_key_metadata=b"kf", column_key_metadata={"id": b"ka", "text": b"kb"})
    retriever = Retriever({b"kf": FOOTER, b"ka": OWN, b"kb": OTHER})
    keys = bp.Keys(retriever=retriever)
    bp.plan(tmp_path, "id = 7", keys=keys)
    assert sorted(retriever.requests) == [b"ka"] * 3 + [b"kf"] * 3, "no key of a column that the query does not use"
    bp.plan(tmp_path, "id = 9", keys=keys)
    assert len(retriever.requests) == 6


@pytest.mark.parametrize("where", [None, "id = 8"])
def test_a_key_that_comes_late_loses_no_rows(where: str | None, tmp_path: Path) -> None:
    """The plan could not decrypt the footer. The reader can, and must not take the file for one without rows."""
    write(tmp_path / "a.parquet", None)
    write(tmp_path / "b.parquet", bp.Keys(FOOTER), first=GROUPS * ROWS, footer_key_metadata=b"kf")
    errors = [TimeoutError()]

    def retrieve(metadata: bytes) -> bytes:
        while errors:
            raise errors.pop()
        return FOOTER

    keys = bp.Keys(retriever=retrieve)
    with pytest.raises(bp.EncryptionError, match=r"b\.parquet: the footer key could not be retrieved: .* TimeoutError"):
        bp.read_table(tmp_path, where, keys=keys)
    table = bp.read_table(tmp_path, where, keys=keys)
    assert table.num_rows == (2 * GROUPS * ROWS if where is None else 1)


def test_a_wrong_key_is_requested_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", footer_key_metadata=b"kf", column_key_metadata={"id": b"ka", "text": b"kb"})
    held = {b"kf": FOOTER, b"ka": OTHER, b"kb": b"short"}
    keys = bp.Keys(retriever=held.__getitem__)
    for where in ("id = 7", "text = 't7'"):
        assert bp.plan(path, where, keys=keys).kept == GROUPS
    with pytest.raises(bp.EncryptionError, match="the key is wrong"):
        bp.read_table(path, "id = 8", keys=keys)
    held |= {b"ka": OWN, b"kb": OTHER}
    for where in ("id = 7", "text = 't7'"):
        assert bp.plan(path, where, keys=keys).kept == 0
    assert bp.read_table(path, "id = 8", keys=keys).num_rows == 1


def test_keys_are_requested_for_selected_files_only(tmp_path: Path) -> None:
    """Also if the footers of other files, which were read together with them, are in memory."""
    for i in range(3):
        names = {"id": b"k%d" % i, "text": b"k%d" % i}
        write(tmp_path / f"{i}.parquet", first=i * GROUPS * ROWS, footer_key_metadata=b"kf", column_key_metadata=names)
    retriever = Retriever({b"kf": FOOTER, b"k0": OWN, b"k1": OWN, b"k2": OWN})
    keys = bp.Keys(retriever=retriever)
    bp.plan(tmp_path, "at = 7", keys=keys)
    retriever.requests.clear()
    assert bp.plan([tmp_path / "2.parquet"], "id = 7", keys=keys).kept == 0
    assert set(retriever.requests) <= {b"kf", b"k2"}


def test_a_denied_key_is_requested_once_for_each_file(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", GROUPS * ROWS)):
        write(tmp_path / f"{name}.parquet", first=first, footer_key_metadata=b"kf", column_key_metadata={"id": b"ka"})
    retriever = Retriever({b"kf": FOOTER, b"ka": OWN})
    held, requests, keys = retriever.held, retriever.requests, bp.Keys(retriever=retriever)
    where = "(id = 7 OR id > 100000) AND (id < 5 OR id = 9)"
    assert bp.plan(tmp_path / "a.parquet", where, keys=keys).kept == 0
    requests.clear()
    del held[b"ka"]
    plan = bp.plan(tmp_path, where, keys=keys)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), "the cache holds what was decrypted before"
    assert sorted(requests) == [b"ka", b"kf"], "those of the new file"
    requests.clear()
    assert bp.plan(tmp_path, where, keys=keys).kept == GROUPS
    assert requests == [b"ka"]
    held[b"ka"] = OWN
    assert bp.plan(tmp_path, where, keys=keys).kept == 0


def test_strict_keys_require_the_columns_own_key(tmp_path: Path) -> None:
    """A plaintext column is an error, and one under the footer key, which others may have."""
    path = write(tmp_path / "x.parquet", bp.Keys(FOOTER))
    strict = bp.Keys(FOOTER, {"id": OWN}, allow_plaintext_files=False)
    plan = bp.plan(path, "id = 7", keys=strict)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS)
    assert bp.plan(path, "text = 't7'", keys=strict).kept == 0
    with pytest.raises(bp.EncryptionError, match="the column is not encrypted with the key given for it"):
        bp.read_table(path, "id = 8", keys=strict)
    assert bp.read_table(path, "id = 8", keys=bp.Keys(FOOTER, {"id": OWN})).num_rows == 1
    with pytest.raises(AttributeError):
        strict.allow_plaintext_files = True  # type: ignore[misc]


@pytest.mark.parametrize("keys", [{"footer": FOOTER}, FOOTER, "company.keys:all", object()])
def test_invalid_keys_are_rejected_and_not_shown(keys: object, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet")
    for look in (bp.plan, bp.read_table, bp.inspect, bp.advise, bp.add_filters, bp.shrink_filters):
        with pytest.raises(bp.OptionError, match=f"^keys is a {type(keys).__name__}; expected bloomparquet.Keys$"):
            look(path, keys=keys)


def test_no_repr_reveals_encrypted_values(tmp_path: Path) -> None:
    low, high = 71_234_567, 79_876_543
    table = pa.table({"id": [low, high], "text": ["nobody may see", "this"]})
    bp.write_table(table, tmp_path / "x.parquet", bloom=["id"], encryption=bp.Keys(FOOTER))
    keys = bp.Keys(FOOTER)
    plan = bp.plan(tmp_path / "x.parquet", "id = 1 AND text = 'x'", keys=keys)
    footer = parquet_table(plan).footer(0)
    chunks = [footer.read_chunk_with_cipher(0, i) for i in (0, 1)]
    text = repr([keys, footer, chunks, plan, parquet_table(plan).cached_columns(), plan.dataset])
    assert "Footer(" in text
    for value in (low, high):
        assert str(value) not in text
        assert repr(value.to_bytes(8, "little"))[2:-1] not in text
    assert "nobody may see" not in text
    assert "ffff" not in text


KEYS_OF_N = bp.Keys(FOOTER, {"n": OWN})


def test_an_error_of_mismatched_types_quotes_no_value(tmp_path: Path) -> None:
    for name, kind in (("a", pa.int32()), ("b", pa.int64())):
        value = 987654321987 if kind == pa.int64() else 7
        bp.write_table(pa.table({"n": pa.array([value], kind)}), tmp_path / f"{name}.parquet", encryption=KEYS_OF_N)
    with pytest.raises(
        bp.PlanError, match=r"b\.parquet: column n has type int64, which cannot be converted to int32"
    ) as caught:
        bp.read_table(tmp_path, keys=KEYS_OF_N)
    assert "987654321987" not in "".join(traceback.format_exception(caught.value))
