"""A planner process that a test drives by frames, as the jar does, without Spark."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from pyspark_bloomparquet.jar.protocol import VERSION, read_frame, write_frame

MAIN = "from pyspark_bloomparquet.jar.planner_worker import main; main()"


class Planner:
    """A running planner process, for single and concurrent requests."""

    def __init__(self, process: subprocess.Popen[bytes], cache: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.requests, self.answers = process, process.stdin, process.stdout
        self.cache = cache

    def send(self, identity: int, paths: list[Path], predicate: Any, *, sends_files: bool = True, **more: Any) -> None:
        request = {**request_of(paths, predicate, self.cache), "id": identity, **more}
        write_frame(self.requests, request, listing_of(paths) if sends_files else b"")

    def receive(self) -> tuple[dict[str, Any], list[list[int]]]:
        head, ranges, _ = self.receive_all()
        return head, ranges

    def receive_all(self) -> tuple[dict[str, Any], list[list[int]], list[int]]:
        """The JSON of an answer, its ranges, and the numbers that follow them."""
        frame = read_frame(self.answers)
        assert frame is not None, "the planner has ended"
        head, body = frame
        numbers, end = np.frombuffer(body, ">i8"), 3 * head.get("ranges", 0)
        return head, numbers[:end].reshape(3, -1).T.tolist(), numbers[end:].tolist()

    def ask(self, paths: list[Path], predicate: Any, **more: Any) -> dict[str, Any]:
        self.send(1, paths, predicate, **more)
        head, _ = self.receive()
        assert head["id"] == 1
        return head


def request_of(paths: list[Path], predicate: Any, cache: Path) -> dict[str, Any]:
    return {
        "id": 1,
        "version": VERSION,
        "format": "parquet",
        "files": len(paths),
        "listing": hashlib.sha256(listing_of(paths)).hexdigest(),
        "revision": 0,
        "predicate": predicate,
        "readerTypes": [[["id"], "bigint"]],
        "table": None,
        "caseSensitive": False,
        "timeZone": None,
        "offsets": [],
        "options": {"cacheDirectory": str(cache)},
        "storages": {},
        "execution": None,
    }


def listing_of(paths: list[Path]) -> bytes:
    stats = [path.stat() for path in paths]
    numbers = [each.st_size for each in stats] + [each.st_mtime_ns // 1_000_000 for each in stats]
    return struct.pack(f">{len(numbers)}q", *numbers) + "".join(f"file:{path}\0" for path in paths).encode()


@contextmanager
def started(cache: Path, code: str = MAIN, stderr: int | IO[bytes] = subprocess.DEVNULL) -> Iterator[Planner]:
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr) as process:
        try:
            yield Planner(process, cache)
        finally:
            process.kill()


def equals(value: int) -> dict[str, Any]:
    return {"op": "=", "column": ["id"], "type": "int64", "value": value}
