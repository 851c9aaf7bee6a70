"""Writes that are killed, at every point and from outside: the table has the old rows or the new ones, and the next
write leaves nothing of the killed one."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support import jobs, kill

kill.context.set_forkserver_preload(["pyspark_bloomparquet.writer", "tests.support.jobs", "pytest"])

OLD, NEW = range(6), range(4, 12)
ROUNDS = int(os.environ.get("BLOOMPARQUET_KILLS", "2"))
THOROUGH = ROUNDS > 3
OF_THE_COMMIT = 60  # points, at most; all before them have one outcome


def job(path: str, overwrite: bool, options: dict[str, str]) -> None:
    writer = jobs.begin(path, overwrite=overwrite, **options)
    writer.commit([jobs.stage(writer, part) for part in (list(NEW)[:5],)])


def chosen(points: Iterable[kill.Point]) -> list[kill.Point]:
    """Every other point of the commit and a few of what comes before; all of them where many rounds are asked for."""
    found = list(points)
    return found if THOROUGH else found[:-OF_THE_COMMIT:15] + found[-OF_THE_COMMIT::2]


def old_table(path: Path, options: dict[str, str]) -> Counter[int]:
    jobs.write(path, OLD, **options)
    jobs.write(path, [100], **options)
    return jobs.ids(path)


CASES = {
    "overwrite": (True, {}),
    "overwrite, partitioned": (True, {"partitionBy": "day"}),
    "append, partitioned": (False, {"partitionBy": "day"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_job_killed_at_any_point_is_done_or_has_never_been(tmp_path: Path, case: str) -> None:
    overwrite, options = CASES[case]
    old = old_table(tmp_path / "counted", options)
    new = Counter(list(NEW)[:5]) + (Counter() if overwrite else old)
    outcomes = Counter[str]()
    for i, point in enumerate(chosen(kill.every_point(job, str(tmp_path / "counted"), overwrite, options))):
        path = tmp_path / str(i)
        old_table(path, options)
        kill.killed_at(point, job, str(path), overwrite, options)
        seen = jobs.ids(path)
        assert seen >= old or seen >= new, f"rows are missing right after a kill at {point}"
        writer = jobs.begin(path, **options)
        found = jobs.ids(path)
        assert found in (old, new), f"neither old nor new after a kill at {point}"
        assert len(jobs.staging(path)) == 1, f"the next write has left something after a kill at {point}"
        writer.abort([])
        assert jobs.ids(path) == found
        assert [name for name in jobs.tree(path) if "temporary" in name or name.endswith(".new")] == []
        outcomes["old" if found == old else "new"] += 1
    assert min(outcomes["old"], outcomes["new"]) > 5


def test_a_first_job_killed_at_any_point_leaves_nothing_or_all(tmp_path: Path) -> None:
    job(str(tmp_path / "counted"), False, {})
    for i, point in enumerate(chosen(kill.every_point(job, str(tmp_path / "again"), False, {}))[::3]):
        path = tmp_path / str(i)
        kill.killed_at(point, job, str(path), False, {})
        writer = jobs.begin(path)
        assert jobs.ids(path) in (Counter(), Counter(list(NEW)[:5]))
        writer.abort([])
        left = set(jobs.tree(path)) if path.exists() else set()
        assert {name for name in left if not name.endswith(".parquet")} <= {"_SUCCESS"}, point


def recover(path: str) -> None:
    jobs.begin(path).abort([])


def test_who_completes_a_killed_commit_may_be_killed_as_well(tmp_path: Path) -> None:
    """At every point of the next write, after a kill in the midst of the first one's moves."""
    options = {"partitionBy": "day"}
    old = old_table(tmp_path / "counted", options)
    points = list(kill.every_point(job, str(tmp_path / "counted"), True, options))[-OF_THE_COMMIT:]
    new = Counter(list(NEW)[:5])

    def half_done(path: Path, point: kill.Point) -> Path:
        old_table(path, options)
        kill.killed_at(point, job, str(path), True, options)
        return path

    tried = ((half_done(tmp_path / f"h{i}", point), point) for i, point in enumerate(points))
    half, middle = next((path, point) for path, point in tried if jobs.ids(path) not in (old, new))
    for i, point in enumerate(list(kill.every_point(recover, str(half)))[:: 2 if THOROUGH else 4]):
        path = half_done(tmp_path / f"r{i}", middle)
        kill.killed_at(point, recover, str(path))
        recover(str(path))
        assert jobs.ids(path) == new, point
        assert jobs.staging(path) == []


def test_what_took_a_name_after_the_kill_is_not_replaced(tmp_path: Path) -> None:
    """An overwritten file's name may be given again by hand, before the killed overwrite is completed."""
    for point in list(kill.every_point(job, str(tmp_path / "counted"), True, {}))[-40::3]:
        path = tmp_path / f"t{point[0]}-{point[1]}"
        path.mkdir()
        pq.write_table(jobs.pa.table({"id": [1]}), path / "mine.parquet")
        with contextlib.suppress(AssertionError):  # this table has fewer calls than the one that was counted
            kill.killed_at(point, job, str(path), True, {})
        pq.write_table(jobs.pa.table({"id": [2]}), path / "mine.parquet")
        recover(str(path))
        assert jobs.ids(path)[2] == 1, point


def test_the_staging_of_a_running_job_stays(tmp_path: Path) -> None:
    running = jobs.begin(tmp_path / "t")
    staged = jobs.stage(running, [1, 2])
    jobs.write(tmp_path / "t", [3], overwrite=True)
    assert jobs.ids(tmp_path / "t") == Counter([3])
    running.commit([staged])
    assert jobs.ids(tmp_path / "t") == Counter([1, 2, 3])
    assert jobs.staging(tmp_path / "t") == []


def test_a_job_of_another_machine_is_over_when_nothing_has_changed_for_a_day(tmp_path: Path) -> None:
    running = jobs.begin(tmp_path)
    (directory,) = (tmp_path / name for name in jobs.staging(tmp_path))
    (directory / "owner.json").write_text('{"machine": "elsewhere", "process": 1, "started": "1"}')
    jobs.write(tmp_path, [1])
    assert directory.exists()
    for each in [directory, *directory.rglob("*")]:
        os.utime(each, (time.time() - 90_000,) * 2)
    jobs.write(tmp_path, [2])
    assert not directory.exists()
    with pytest.raises(FileNotFoundError):
        jobs.stage(running, [3])
    assert jobs.ids(tmp_path) == Counter([1, 2])


DRIVER = """
    import sys
    from pathlib import Path
    from tests.support.spark import start
    spark = start(Path(sys.argv[2]))
    rows = spark.range(int(sys.argv[4]), int(sys.argv[5]), 1, 4).selectExpr("id", "concat('d', id % 3) AS day")
    print("ready", flush=True)
    while True:
        writer = rows.write.format("bloomparquet").mode(sys.argv[3]).option("bloomColumns", "id")
        writer.option("partitionBy", "day").save(sys.argv[1])
        print("written", flush=True)
"""


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_a_driver_killed_at_any_moment_leaves_whole_jobs(tmp_path: Path, mode: str) -> None:
    """The driver, its JVM and the Python workers are killed together, as a machine's end would."""
    count, path = 3_000, tmp_path / "t"
    write = f"{sys.executable} -c".split()
    jobs.write(path, range(count), partitionBy="day")
    times = random.Random(mode)
    for i in range(ROUNDS):
        start, before = (i + 1) * count, jobs.ids(path)
        arguments = [path, tmp_path / f"home{i}", mode, start, start + count]
        process = subprocess.Popen(
            [*write, textwrap.dedent(DRIVER), *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if i % 2:
            assert process.stdout.readline() == "written\n"
        time.sleep(times.uniform(0, 2 if i % 2 else 5))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _wait_for_the_end_of(process.pid)
        written = process.stdout.read().count("written") + i % 2
        jobs.begin(path, partitionBy="day").abort([])
        found = jobs.ids(path)
        new = Counter(range(start, start + count))
        if mode == "overwrite":
            assert found == new or (not written and found == before)
        else:
            added = found - before
            assert before <= found
            assert set(added) <= set(new)
            assert len({added[row] for row in new}) == 1, "a part of a job"
            assert added[start] in (written, written + 1)
        for _ in range(40):  # a worker that has not noticed yet may put something there once more
            if not jobs.staging(path):
                break
            time.sleep(0.5)
            jobs.begin(path, partitionBy="day").abort([])
        assert jobs.staging(path) == []


def _wait_for_the_end_of(group: int) -> None:
    """Until no process of the group runs any more; workers of Spark leave it, and end when they lose their JVM."""
    for _ in range(100):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.05)
            continue
        return
