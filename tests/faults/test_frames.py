"""Faulty frames never make the planner answer wrongly: an answer is right for its request, or says what is wrong."""

from __future__ import annotations

import hashlib
import io
import time
from collections import Counter
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

import bloomparquet as bp
from pyspark_bloomparquet.jar import planner_worker
from pyspark_bloomparquet.jar.planner_worker import Worker
from pyspark_bloomparquet.jar.protocol import read_frame, write_frame
from tests.faults.frames import HARMLESS, disturbed, frame, stream
from tests.faults.injector import IS_REPEATED, repeat, seeds
from tests.faults.work import random_of
from tests.support import files
from tests.support.planner_process import equals, listing_of, request_of

pytestmark = pytest.mark.slow

VALUES = 10


def wait_without_need(futures: Any, timeout: float) -> None:
    """Assert that no request is waited for that will not be answered."""
    assert not wait(futures, 60).not_done


class _NoThread:
    """A thread that does nothing, in place of the one that sends heartbeats."""

    def __init__(self, **_: Any) -> None:
        pass

    def start(self) -> None:
        pass


@pytest.fixture
def lakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[Path]]:
    """Two data sets of five files, of which only filters tell which one holds a value; another one in each data set."""
    monkeypatch.setattr(planner_worker, "Thread", _NoThread)
    monkeypatch.setattr(planner_worker, "wait", wait_without_need)
    lakes = []
    for shift in range(2):
        paths = []
        for i in range(5):
            ids = [(i + shift) % 5 + 5 * (row * 7 % 20) for row in range(20)]
            path = tmp_path / f"{shift}" / f"{i}.parquet"
            paths.append(Path(files.write(path, {"id": ids}, ["id"], rows_per_group=10, fpp=1e-4)))
        lakes.append(paths)
    return lakes


class _Open:
    """A stream that stays open until all that was asked is answered, as the jar's does."""

    def __init__(self, stream: Any, worker: Worker) -> None:
        self._stream, self._worker = stream, worker

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        deadline = time.monotonic() + 60
        while len(data) < size and self._worker._unanswered and time.monotonic() < deadline:
            time.sleep(0.001)
        return data


def serve(requests: Any) -> tuple[list[tuple[dict[str, Any], bytes]], str]:
    """The answers of a planner, and how it ended."""
    out, end = io.BytesIO(), "end"
    worker = Worker(out)
    try:
        with requests:
            worker.serve(_Open(requests, worker))  # type: ignore[arg-type]
    except bp.BloomParquetError as error:  # the process ends, and says why
        end = type(error).__name__
        _Open(io.BytesIO(), worker).read(1)
    answers, stream_of_answers = [], io.BytesIO(out.getvalue())
    while (answer := read_frame(stream_of_answers)) is not None:
        answers.append(answer)
    return answers, end


def test_answers_to_faulty_frames_are_right(lakes: list[list[Path]], tmp_path: Path) -> None:
    requests, right = {}, {}
    for number in range(2 * VALUES):
        paths, value = lakes[number % 2], number // 2
        request = {**request_of(paths, equals(value), tmp_path / "cache"), "id": number}
        requests[number] = frame(request, listing_of(paths))
        ((answer, ranges),), _ = serve(io.BytesIO(requests[number]))
        assert answer["plan"]["numRowGroupsRead"] == 1
        right[number] = answer["ranges"], ranges[: 24 * answer["ranges"]]
    assert len(set(right.values())) > 4
    ends, kinds, n_right = Counter[str](), Counter[str](), 0
    for seed in seeds(0.05, few=60):
        random = random_of("frames", seed)
        numbers = random.sample(sorted(requests), 4)
        pieces, kind = disturbed([requests[number] for number in numbers], random)
        try:
            answers, end = serve(stream(pieces, kind, random))
            for answer, data in answers:
                if "plan" in answer:
                    assert (answer["ranges"], data[: 24 * answer["ranges"]]) == right[answer["id"]], answer["id"]
                    n_right += 1
                else:
                    assert answer.get("error") or answer.get("unknown") or answer.get("unplanned"), answer
            if kind in HARMLESS:
                assert sorted(answer["id"] for answer, _ in answers if "plan" in answer) == sorted(
                    numbers + ([each for each in numbers if pieces.count(requests[each]) > 1])
                )
        except BaseException:
            print(f"{kind}; {repeat(seed, 'frames')}")
            raise
        ends[end] += 1
        kinds[kind] += 1
    print(f"\n{dict(kinds)}; {dict(ends)}; {n_right} right answers")
    assert IS_REPEATED or min(ends["end"], ends["FormatError"], n_right) > 0


def test_requests_without_a_thread_do_not_delay_the_end(lakes: list[list[Path]], tmp_path: Path) -> None:
    """Requests are dropped when the input has ended."""
    request = frame(request_of(lakes[0], equals(3), tmp_path), listing_of(lakes[0]))
    out = io.BytesIO()
    Worker(out).serve(io.BytesIO(request * 500))
    assert out.getvalue().count(b'"ranges": 1') < 500


def test_a_listing_of_other_files_is_refused(lakes: list[list[Path]], tmp_path: Path) -> None:
    """So a planner cannot remember the files of one data set for another one."""
    mine, others = lakes
    request = request_of(mine, equals(3), tmp_path)
    out = io.BytesIO()
    worker = Worker(out)
    assert "digest" in worker._plan(request, listing_of(others))[0]["error"]
    assert worker._plan(request, b"")[0] == {"unknown": "listing"}
    answer = worker._plan(request, listing_of(mine))[0]
    assert answer["plan"]["numRowGroupsRead"] == 1
    assert request["listing"] == hashlib.sha256(listing_of(mine)).hexdigest()
    write_frame(out, answer, b"")
