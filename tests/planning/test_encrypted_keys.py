"""Keys that are late, wrong, refused, or no keys at all; and that nothing shows what they open."""

from __future__ import annotations

import threading
import time
import traceback
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.planning.parquet.cache import process_cache
from tests.support.encrypted_table import FOOTER, GROUPS, OTHER, OWN, ROWS, write


@pytest.fixture(autouse=True)
def _nothing_is_known() -> None:
    process_cache.clear()


def test_a_retriever_that_failed_is_asked_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", footer_key_metadata=b"kf", column_key_metadata={"id": b"ka", "text": b"kb"})
    held = {b"kf": FOOTER, b"kb": OTHER}
    keys = bp.Keys(retriever=held.__getitem__)
    plan = bp.plan(path, "id = 7", keys=keys)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS)
    assert "the retriever raised KeyError" in str(plan.errors[0])
    held[b"ka"] = OWN
    assert bp.plan(path, "id = 7", keys=keys).kept == 0
    del held[b"kf"]
    assert bp.plan(path, "id = 7", keys=keys).kept == 0, "of what was opened everything is known"
    process_cache.clear()
    assert len(bp.plan(path, "id = 7", keys=keys).unreadable) == 1
    held[b"kf"] = FOOTER
    assert bp.plan(path, "id = 7", keys=keys).kept == 0


def test_a_retriever_is_asked_once_for_each_key_of_a_file(tmp_path: Path) -> None:
    asked: list[bytes] = []
    for i in range(3):
        write(tmp_path / f"{i}.parquet", footer_key_metadata=b"kf", column_key_metadata={"id": b"ka", "text": b"kb"})

    def retrieve(metadata: bytes) -> bytes:
        asked.append(metadata)
        return {b"kf": FOOTER, b"ka": OWN, b"kb": OTHER}[metadata]

    keys = bp.Keys(retriever=retrieve)
    bp.plan(tmp_path, "id = 7", keys=keys)
    assert sorted(asked) == [b"ka"] * 3 + [b"kf"] * 3, "the key of a column that is not asked about is not asked for"
    bp.plan(tmp_path, "id = 9", keys=keys)
    assert len(asked) == 6


@pytest.mark.parametrize("where", [None, "id = 8"])
def test_a_key_that_comes_late_loses_no_rows(where: str | None, tmp_path: Path) -> None:
    """The footer did not open for the plan; that it would open now must not make its file one without rows."""
    write(tmp_path / "a.parquet", None)
    write(tmp_path / "b.parquet", bp.Keys(FOOTER), first=GROUPS * ROWS, footer_key_metadata=b"kf")
    refused = [TimeoutError()]

    def retrieve(metadata: bytes) -> bytes:
        while refused:
            raise refused.pop()
        return FOOTER

    keys = bp.Keys(retriever=retrieve)
    with pytest.raises(bp.EncryptionError, match=r"b\.parquet: the footer key could not be retrieved: .* TimeoutError"):
        bp.read_table(tmp_path, where, keys=keys)
    found = bp.read_table(tmp_path, where, keys=keys)
    assert found.num_rows == (2 * GROUPS * ROWS if where is None else 1)


def test_a_wrong_key_that_came_once_is_asked_for_again(tmp_path: Path) -> None:
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


def test_a_key_that_is_refused_is_not_asked_for_by_every_row_group_and_condition(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", GROUPS * ROWS)):
        write(tmp_path / f"{name}.parquet", first=first, footer_key_metadata=b"kf", column_key_metadata={"id": b"ka"})
    held, asked = {b"kf": FOOTER, b"ka": OWN}, list[bytes]()

    def retrieve(metadata: bytes) -> bytes:
        asked.append(metadata)
        return held[metadata]

    keys = bp.Keys(retriever=retrieve)
    where = "(id = 7 OR id > 100000) AND (id < 5 OR id = 9)"
    assert bp.plan(tmp_path / "a.parquet", where, keys=keys).kept == 0
    asked.clear()
    del held[b"ka"]
    plan = bp.plan(tmp_path, where, keys=keys)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), "what was opened before is known"
    assert sorted(asked) == [b"ka", b"ka", b"kf"], "of the new file, and of it as one of both"
    asked.clear()
    assert bp.plan(tmp_path, where, keys=keys).kept == GROUPS
    assert asked == [b"ka"]
    held[b"ka"] = OWN
    assert bp.plan(tmp_path, where, keys=keys).kept == 0


def test_a_slow_key_server_is_asked_for_several_keys_at_once(tmp_path: Path) -> None:
    for i in range(12):
        write(tmp_path / f"{i}.parquet", footer_key_metadata=b"kf", column_key_metadata={"id": b"ka", "text": b"kb"})
    held = {b"kf": FOOTER, b"ka": OWN, b"kb": OTHER}
    lock, asking, most = threading.Lock(), dict.fromkeys(held, 0), dict.fromkeys(held, 0)

    def retrieve(metadata: bytes) -> bytes:
        with lock:
            asking[metadata] += 1
            most[metadata] = max(most[metadata], asking[metadata])
        time.sleep(0.02)
        with lock:
            asking[metadata] -= 1
        return held[metadata]

    assert bp.plan(tmp_path, "id = 7", keys=bp.Keys(retriever=retrieve)).kept == 0
    assert min(most[b"kf"], most[b"ka"]) > 2
    assert most[b"kb"] == 0, "the key of a column that is not asked about"


def test_strict_keys_want_a_column_under_its_own_key(tmp_path: Path) -> None:
    """Not in plain text, and not under the key of the footer, whose holder may be somebody else."""
    path = write(tmp_path / "x.parquet", bp.Keys(FOOTER))
    strict = bp.Keys(FOOTER, {"id": OWN}, allow_plaintext_files=False)
    plan = bp.plan(path, "id = 7", keys=strict)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS)
    assert bp.plan(path, "text = 't7'", keys=strict).kept == 0
    with pytest.raises(bp.EncryptionError, match="the column is not under the key that is given for it"):
        bp.read_table(path, "id = 8", keys=strict)
    assert bp.read_table(path, "id = 8", keys=bp.Keys(FOOTER, {"id": OWN})).num_rows == 1
    with pytest.raises(AttributeError):
        strict.allow_plaintext_files = True  # type: ignore[misc]


@pytest.mark.parametrize("keys", [{"footer": FOOTER}, FOOTER, "company.keys:all", object()])
def test_what_is_no_keys_is_an_error_that_does_not_show_it(keys: object, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet")
    for look in (bp.plan, bp.read_table, bp.inspect, bp.advise, bp.add_filters, bp.shrink_filters):
        with pytest.raises(bp.OptionError, match=f"^keys is a {type(keys).__name__}; expected bloomparquet.Keys$"):
            look(path, keys=keys)


def test_no_representation_shows_what_is_encrypted(tmp_path: Path) -> None:
    low, high = 71_234_567, 79_876_543
    table = pa.table({"id": [low, high], "text": ["nobody may see", "this"]})
    bp.write_table(table, tmp_path / "x.parquet", bloom=["id"], encryption=bp.Keys(FOOTER))
    keys = bp.Keys(FOOTER)
    plan = bp.plan(tmp_path / "x.parquet", "id = 1 AND text = 'x'", keys=keys)
    footer = plan.table.footer(0)
    told = "".join(
        map(
            repr,
            (
                keys,
                footer,
                footer.read_chunk_with_cipher(0, 0),
                footer.read_chunk_with_cipher(0, 1),
                plan,
                plan.table.known(),
                plan.dataset,
            ),
        )
    )
    assert "Footer(" in told
    for value in (low, high):
        assert str(value) not in told
        assert repr(value.to_bytes(8, "little"))[2:-1] not in told
    assert "nobody may see" not in told
    assert "ffff" not in told


KEYS_OF_N = bp.Keys(FOOTER, {"n": OWN})


def test_an_error_of_types_that_do_not_fit_quotes_no_value(tmp_path: Path) -> None:
    for name, kind in (("a", pa.int32()), ("b", pa.int64())):
        value = 987654321987 if kind == pa.int64() else 7
        bp.write_table(pa.table({"n": pa.array([value], kind)}), tmp_path / f"{name}.parquet", encryption=KEYS_OF_N)
    with pytest.raises(
        bp.PlanError, match=r"b\.parquet: column n has type int64, which cannot be converted to int32"
    ) as caught:
        bp.read_table(tmp_path, keys=KEYS_OF_N)
    assert "987654321987" not in "".join(traceback.format_exception(caught.value))
