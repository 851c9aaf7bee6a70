"""Reads that a planner process asks the jar for: a test answers them in the jar's place, without Spark."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Lock, Thread
from typing import Any

import numpy as np
import pytest

from pyspark_bloomparquet.jar.protocol import VERSION, read_frame, write_frame
from tests.support import files
from tests.support.planner_process import Planner, equals, request_of, started

ROOT = "vault://safe"
STORAGES = {ROOT: {"number": 3, "key": ROOT, "isFirst": True}}
Error = dict[str, str]


class Jar:
    """Answers the planner's reads: each URL of the storage has the bytes of one file. `error` may refuse a URL."""

    def __init__(self, planner: Planner, data: bytes) -> None:
        self.planner, self.data = planner, data
        self.error: Callable[[str], Error | None] = lambda url: None
        self.asked: list[list[Any]] = []
        self.bytes_read = 0
        self._lock, self._random = Lock(), Random(7)
        self._answered: dict[int, tuple[dict[str, Any], bytes]] = {}
        self._threads = ThreadPoolExecutor(8)
        Thread(target=self._receive, daemon=True).start()

    def send(self, head: dict[str, Any], body: bytes) -> None:
        with self._lock:
            write_frame(self.planner.requests, head, body)

    def plan(self, identity: int, urls: list[str], predicate: Any, cache: Path, **more: Any) -> None:
        listing = struct.pack(f">{2 * len(urls)}q", *[len(self.data)] * len(urls), *[1_700_000_000_000] * len(urls))
        listing += "".join(f"{url}\0" for url in urls).encode()
        request = request_of([], predicate, cache) | {
            "id": identity, "files": len(urls), "listing": hashlib.sha256(listing).hexdigest(),
            "storages": STORAGES, **more,
        }  # fmt: skip
        self.send(request, listing)

    def answer(self, identity: int) -> dict[str, Any]:
        while identity not in self._answered:
            assert self.planner.process.poll() is None
        return self._answered[identity][0]

    def _receive(self) -> None:
        while (frame := read_frame(self.planner.answers)) is not None:
            head, body = frame
            if "read" in head:
                self.asked.append(head["files"])
                self._threads.submit(self._read, head, body)
            elif head["id"]:
                self._answered[head["id"]] = frame

    def _read(self, head: dict[str, Any], body: bytes) -> None:
        for _, url, _, _ in head["files"]:
            if (error := self.error(url)) is not None:
                self.send({"read": head["read"], **error}, b"")
                return
        ranges = np.frombuffer(body, ">i8").reshape(3, -1).T.tolist()
        data = b"".join(self.data[start : start + length] for _, start, length in ranges)
        self.bytes_read += len(data)
        self.send({"read": head["read"]}, data)


@pytest.fixture
def jar(tmp_path: Path) -> Iterator[Jar]:
    path = files.write(tmp_path / "x.parquet", {"id": range(0, 4_000, 2)}, ["id"], rows_per_group=1_000)
    data = Path(path).read_bytes()
    with started(tmp_path / "cache") as planner:
        made = Jar(planner, data)
        made.error = lambda url: {"error": url, "kind": "missing"} if "_bloomparquet" in url else None
        yield made


def urls(count: int, name: str = "t") -> list[str]:
    return [f"{ROOT}/{name}/{i:05}.parquet" for i in range(count)]


def test_plans_with_large_answers_do_not_block_each_other(jar: Jar, tmp_path: Path) -> None:
    count, plans = 1_000, 5
    for i in range(1, plans + 1):
        jar.plan(i, urls(count, f"t{i}"), equals(2 * i + 1), tmp_path / "cache")  # of an odd id there are no rows
    for i in range(1, plans + 1):
        plan = jar.answer(i)["plan"]
        assert (plan["numRowGroupsTotal"], plan["numRowGroupsRead"]) == (2 * count, 0)
        assert plan["requests"] == count + 1
    assert jar.bytes_read > plans * count * 8_000
    assert max(map(len, jar.asked)) > 200, "files that are read side by side"


KINDS = {
    "missing": "FileNotFoundError: gone", "end": "gone", "denied": "PermissionError: gone", "io": "OSError: gone",
    "of a later release": "OSError: gone",
}  # fmt: skip


def test_an_error_of_a_read_is_one_of_the_plan(jar: Jar, tmp_path: Path) -> None:
    names, before = urls(40), jar.error
    for number, (kind, expected) in enumerate(KINDS.items(), 1):
        jar.error = lambda url: {"error": "gone", "kind": kind} if url == names[33] else before(url)  # noqa: B023
        jar.plan(number, names, equals(4), tmp_path / "cache")
        answer = jar.answer(number)
        assert (answer["error"], answer.get("fatal", False)) == (expected, False)
    jar.error = before
    jar.plan(9, names, equals(4), tmp_path / "cache")
    assert jar.answer(9)["plan"]["numRowGroupsRead"] == 40


def test_a_planner_forgets_what_it_has_read(jar: Jar, tmp_path: Path) -> None:
    names = urls(5)

    def requests(identity: int) -> int:
        jar.plan(identity, names, equals(4), tmp_path / "cache")
        return int(jar.answer(identity)["plan"]["requests"])

    assert requests(1) > 5
    assert requests(2) == 0
    jar.send({"version": VERSION, "forget": [3]}, b"")
    assert any(requests(identity) >= 5 for identity in range(3, 1_000)), "it forgets beside other work"


def test_other_credentials_share_nothing(jar: Jar, tmp_path: Path) -> None:
    requests = []
    for number, is_first in ((3, True), (4, False), (3, True), (4, False)):
        storages = {ROOT: {"number": number, "key": ROOT, "isFirst": is_first}}
        jar.plan(len(requests) + 1, urls(5), equals(4), tmp_path / "cache", storages=storages)
        requests.append(jar.answer(len(requests) + 1)["plan"]["requests"])
    assert [each > 0 for each in requests] == [True, True, False, False]
