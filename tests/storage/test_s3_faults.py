"""A faulty S3 server costs time, or is a named error. It never costs rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.storage.files import FileEnds
from bloomparquet.storage.open import open_storage
from tests.support.commands import Run
from tests.support.files import write
from tests.support.s3 import FAULTS, S3Server, s3_server

pytestmark = pytest.mark.slow

WHERE = "id IN (1200, 2002)"
ROWS = [1200, 2002]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("s3")
    with s3_server() as server:
        for part in range(3):
            ids = [part * 1_000 + i for i in range(0, 1_000, 2)]
            data = {"id": ids, "text": [f"{i:0200}" for i in ids]}
            write(folder / f"{part}.parquet", data, ["id"], rows_per_group=100)
        server.upload(folder, "t")
        yield server


@pytest.fixture(autouse=True)
def cold() -> None:
    process_cache.clear()


def read(s3: S3Server, **more: Any) -> list[int]:
    ids: list[int] = bp.read_table("s3://bucket/t", WHERE, storage_options={**s3.options, **more})["id"].to_pylist()
    return ids


def read_data_set(s3: S3Server, **more: Any) -> list[int]:
    plan = bp.plan("s3://bucket/t", WHERE, storage_options={**s3.options, **more})
    rows = plan.to_dataset().to_table(columns=["id"])["id"].to_pylist()
    plan.require_unchanged()
    assert len(rows) == 200
    return [row for row in rows if row in ROWS]


class Faults:
    """Answers requests for one object by a fault: all of them, or each `first` ones of a method. Counts them."""

    def __init__(self, s3: S3Server, fault: str, first: int | None = None, at: int | None = None) -> None:
        self._s3, self._fault, self._first, self._at = s3, fault, first, at
        self._lock = threading.Lock()
        self.requests = Counter[str]()

    def __enter__(self) -> Faults:
        self._s3.fault = self._choose
        return self

    def __exit__(self, *_: object) -> None:
        self._s3.fault = lambda method, path: None

    def _choose(self, method: str, path: str) -> str | None:
        if not path.endswith("/1.parquet") or (method == "HEAD" and self._fault in ("torn", "short")):
            return None
        with self._lock:
            self.requests[method] += 1
            number = self.requests[method]
        is_chosen = number == self._at if self._at is not None else self._first is None or number <= self._first
        return self._fault if is_chosen else None


@pytest.mark.parametrize(
    ("fault", "reader"),
    [*((fault, read) for fault in FAULTS if fault != "short"), ("failed", read_data_set), ("torn", read_data_set)],
)
def test_a_passing_fault_costs_no_rows(fault: str, reader: Callable[..., list[int]], s3: S3Server) -> None:
    with Faults(s3, fault, first=1) as faults:
        assert reader(s3) == ROWS
    assert faults.requests["GET"] >= 2


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("short", "slow")])
def test_a_lasting_fault_is_a_named_error_after_bounded_attempts(fault: str, s3: S3Server) -> None:
    attempts = []
    for most in (1, 2):
        with Faults(s3, fault) as faults, pytest.raises(OSError, match=r"AWS Error .* during \w+Object operation"):
            read(s3, max_attempts=most)
        attempts.append(faults.requests["GET" if fault == "torn" else "HEAD"])
    assert attempts == [1, 2]


@pytest.mark.parametrize("fault", ["throttled", "torn", "short"])
def test_a_lasting_fault_is_not_taken_for_a_corrupt_file(fault: str, s3: S3Server) -> None:
    given = {**s3.options, "max_attempts": 1}
    with Faults(s3, fault), pytest.raises(OSError, match=r"AWS Error|storage sent fewer"):
        bp.read_table("s3://bucket/t", WHERE, storage_options=given, skip_corrupt=True)


def test_an_answer_after_the_timeout_is_a_named_error(s3: S3Server) -> None:
    with Faults(s3, "slow"), pytest.raises(OSError, match=r"AWS Error NETWORK_CONNECTION .* Timeout was reached"):
        read(s3, max_attempts=1, request_timeout=0.2)


def test_an_answer_that_is_too_short_costs_no_rows(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it has footers or filters: they are asked for again. pyarrow does not notice it."""
    monkeypatch.setattr(FileEnds, "fill", lambda *_: False)  # else the filters come with the footers
    with Faults(s3, "short", at=0) as faults:
        plan = bp.plan("s3://bucket/t", WHERE, storage_options=s3.options)
    asked = faults.requests["GET"]
    assert (asked, plan.kept) == (2, 2)
    for at in range(1, asked + 1):
        process_cache.clear()
        with Faults(s3, "short", at=at) as faults:
            assert bp.plan("s3://bucket/t", WHERE, storage_options=s3.options) == plan
        assert faults.requests["GET"] == asked + 1
    process_cache.clear()
    with Faults(s3, "short"), pytest.raises(OSError, match=r"1\.parquet: the storage sent fewer than the \d+ bytes"):
        read(s3)


@pytest.mark.parametrize(
    ("url", "given", "message"),
    [
        (
            "s3://bucket/t",
            {"acess_key": "SECRET"},
            "s3:// has no storage option 'acess_key'; did you mean 'access_key'?",
        ),
        (
            "s3a://bucket/t",
            {"anonymous": "SECRET"},
            "the storage option anonymous of s3:// has a wrong value; expected",
        ),
        ("gs://bucket/t", {"credential_token_expiration": "SECRET"}, "expected a time with an offset"),
        ("abfss://c@a.dfs.core.windows.net/t", {"region": "SECRET"}, "abfss:// has no storage option 'region'"),
    ],
)
def test_a_wrong_storage_option_is_named_without_its_value(
    url: str, given: dict[str, str], message: str, run: Run
) -> None:
    with pytest.raises(bp.OptionError) as raised:
        bp.plan(url, storage_options=given)
    assert message in str(raised.value)
    assert "SECRET" not in str(raised.value)
    done = run("plan", url, *(f"--storage-option={name}={value}" for name, value in given.items()))
    assert done.code == 1
    assert message in " ".join(done.err.split())
    assert "SECRET" not in done.err


def test_credentials_do_not_tell_storages_apart_and_places_do() -> None:
    keys = []
    for place, secret in (("a:1", "SECRET"), ("a:1", "other"), ("b:1", "SECRET")):
        given = {"endpoint_override": place, "access_key": "SECRET", "secret_key": secret}
        keys.append(open_storage("s3://bucket/t", given)[0].key)
    assert keys[0] == keys[1] != keys[2]
    assert "SECRET" not in str(keys)


def test_paths_of_every_scheme_are_those_of_its_file_system() -> None:
    for url, given, path in (
        ("gs://bucket/a b/c?", {"anonymous": True}, "bucket/a b/c?"),
        ("gs://bucket/a%20b/*.parquet", {"anonymous": "true"}, "bucket/a b/*.parquet"),
        ("abfss://box@name.dfs.core.windows.net/a/b", {"account_key": "c2VjcmV0"}, "box/a/b"),
        ("s3://key:secret@bucket/a", {"region": "eu-west-1"}, "bucket/a"),
    ):
        assert open_storage(url, given)[1] == path
