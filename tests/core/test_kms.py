"""Keys from a key management service: what pyarrow writes opens with the same configuration, at few requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet.encryption as pe
import pytest

import bloomparquet as bp
from bloomparquet import expiring, key_material, kms_wrapping
from bloomparquet.errors import EncryptionError, OptionError, UnsupportedError
from bloomparquet.keys import Keys
from bloomparquet.kms_wrapping import Wrapping
from bloomparquet.storage import LocalStorage, open_storage
from tests.support.kms import SECRET, Kms, Writer, configuration, reveals, whole_text

TABLE = pa.table({"id": list(range(100)), "name": [f"n{i}" for i in range(100)], "open": [i / 7 for i in range(100)]})
COLUMNS = {"of_ids": ["id"], "of_names": ["name"]}


def keys(kms: Kms, **options: Any) -> Keys:
    return Keys.from_kms(None, kms.client, **options)


def beside(path: str | Path) -> Path:
    return Path(path).parent / f"_KEY_MATERIAL_FOR_{Path(path).name}.json"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(expiring, "monotonic", clock)
    return clock


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
@pytest.mark.parametrize("columns", [COLUMNS, None], ids=["columns", "uniform"])
@pytest.mark.parametrize("options", [{}, {"plaintext_footer": True}, {"internal_key_material": False}], ids=str)
def test_what_pyarrow_wrote_opens_with_the_same_configuration(
    tmp_path: Path, bits: int, double: bool, columns: Any, options: dict[str, Any]
) -> None:
    kms = Kms()
    how = configuration(columns, data_key_length_bits=bits, double_wrapping=double, **options)
    path = Writer(kms).write(TABLE, tmp_path / "a.parquet", how)
    assert beside(path).exists() == ("internal_key_material" in options)
    assert bp.read_table(path, keys=keys(kms)).equals(TABLE)
    assert bp.read_table(path, "id = 3 OR name = 'n70'", keys=keys(kms)).num_rows == 2
    # Every key that it needed, once: three of this file, whichever way they are wrapped.
    assert kms.unwrapped() == (3 if columns else 1)


def test_a_data_set_costs_one_request_for_each_key_encryption_key(tmp_path: Path) -> None:
    kms = Kms()
    writer = Writer(kms)
    for i in range(40):
        writer.write(TABLE, tmp_path / f"{i}.parquet", configuration(COLUMNS))
    assert kms.wrapped() == 3
    # Two of equal configuration share what the service gave: a provider may make one for each query.
    assert bp.plan(str(tmp_path), "id = 5 AND name = 'n5'", keys=keys(kms)).kept == 40
    assert bp.read_table(str(tmp_path), "id = 5", keys=keys(kms)).num_rows == 40
    assert kms.unwrapped() == 3
    assert len(kms.connections) == 2  # pyarrow's client, and one of ours


def test_key_encryption_keys_of_many_writers_are_asked_for_one_by_one(tmp_path: Path) -> None:
    kms = Kms()
    for i in range(3):
        Writer(kms).write(TABLE, tmp_path / f"{i}.parquet", configuration())
    assert bp.read_table(str(tmp_path), keys=keys(kms)).num_rows == 300
    assert kms.unwrapped() == 3


def test_one_of_many_threads_asks(tmp_path: Path) -> None:
    kms = Kms()
    writer = Writer(kms)
    paths = [writer.write(TABLE, tmp_path / f"{i}.parquet", configuration()) for i in range(8)]
    waiting = threading.Barrier(8)
    original, asked = kms.cipher, threading.Event()

    def slow(verb: str, name: str) -> Any:
        asked.wait(0.2)  # others come meanwhile
        return original(verb, name)

    kms.cipher = slow  # type: ignore[method-assign]

    def read(path: str) -> int:
        waiting.wait()
        return bp.read_table(path, keys=keys(kms)).num_rows

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, paths)) == [100] * 8
    assert kms.calls["unwrap", "footer"] == 1


def test_what_the_service_gave_is_kept_for_its_time(tmp_path: Path, clock: Clock) -> None:
    kms = Kms()
    writer = Writer(kms)
    paths = iter([writer.write(TABLE, tmp_path / f"{i}.parquet", configuration()) for i in range(5)])

    def unwrapped_by(lifetime: timedelta) -> int:
        bp.inspect(next(paths), keys=keys(kms, cache_lifetime=lifetime))
        return kms.unwrapped()

    assert unwrapped_by(timedelta(minutes=10)) == 1
    clock.now += 599
    assert unwrapped_by(timedelta(minutes=10)) == 1
    clock.now += 1
    assert unwrapped_by(timedelta(minutes=10)) == 2
    clock.now += 60
    assert unwrapped_by(timedelta(minutes=1)) == 3
    assert unwrapped_by(timedelta(0)) == 4
    assert len(kms.connections) == 5  # clients likewise: pyarrow's, and one for each request


def test_a_key_that_is_refused_keeps_its_row_groups_and_is_not_asked_for_again_at_once(
    tmp_path: Path, clock: Clock
) -> None:
    kms = Kms(denied={"of_ids"})
    writer = Writer(kms)
    kms.denied.clear()
    for i in range(20):
        writer.write(TABLE, tmp_path / f"{i}.parquet", configuration(COLUMNS), row_group_size=50)
    kms.denied.add("of_ids")
    with pytest.warns() if False else _nothing():
        plan = bp.plan(str(tmp_path), "id = 1000", keys=keys(kms))
    assert (plan.kept, plan.total) == (40, 40)
    assert kms.calls["unwrap", "of_ids"] == 1
    with pytest.raises(EncryptionError, match="the key of column id could not be retrieved: the KMS did not unwrap"):
        bp.read_table(str(tmp_path), "id = 1000", keys=keys(kms))
    assert kms.calls["unwrap", "of_ids"] == 1
    # The other columns are there to be read, and with the right comes the column.
    assert bp.read_table(str(tmp_path), columns=["name", "open"], keys=keys(kms)).num_rows == 2000
    kms.denied.clear()
    clock.now += 2
    assert bp.plan(str(tmp_path), "id = 1000", keys=keys(kms)).kept == 0
    assert kms.calls["unwrap", "of_ids"] == 2
