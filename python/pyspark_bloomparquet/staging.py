"""Where the files of one write are until it is committed: a hidden directory in the table's own, one for each job::

    <table>/_temporary-bloomparquet-<job>/owner.json    who is writing
                                         /journal.json  what is to be done, from the moment it is decided on
                                         /data/<task>/… the new files, below one directory for each attempt of a task
                                         /old/<number>  files that were replaced, until all is done

Readers pass such names over. A job that was killed leaves its directory behind; the next write to the table completes
it where there is a journal, and removes it otherwise, once it knows that nobody is writing there any more: the driver
is gone, or cannot be asked and nothing has changed for a day.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark_bloomparquet.places import LocalPlaces, Places, open_places

PREFIX = "_temporary-bloomparquet-"
_GONE = ".gone"
_UNHEARD_OF_SECONDS = 24 * 3600
_MOST_ANCESTORS = 8


@dataclass(frozen=True)
class Job:
    """One write: where it goes, its id, which is in the names of its files, and how many directories it made."""

    url: str
    root: str
    id: str
    made: int = 0

    @property
    def staging(self) -> str:
        return f"{self.root}/{PREFIX}{self.id}"

    def task_directory(self, task: str) -> str:
        """Where one attempt of a task puts its files."""
        return f"{self.staging}/data/{task}"


def make_job(places: Places, url: str, root: str, made: int) -> Job:
    """Make the staging directory of a new job in the table's at `root`, whose lock is held. Raises OSError where that
    cannot be done."""
    job = Job(url, root, str(uuid.uuid4()), made)
    places.make_directories(f"{job.staging}/data")
    places.write(f"{job.staging}/owner.json", json.dumps(_driver()).encode())
    return job


def make_task_directory(job: Job, task: str, below: str = "") -> str:
    """Where a task may put files for the directory `below` the table's. FileNotFoundError when the job is over."""
    places, _ = open_places(job.url)
    found = job.task_directory(task)
    if not isinstance(places, LocalPlaces):
        return f"{found}/{below}" if below else found
    # Never with the directories above: a task that outlives its job would bring that one's back.
    for name in ["", *below.split("/")] if below else [""]:
        found = f"{found}/{name}" if name else found
        if not os.path.isdir(found):
            os.mkdir(found)
    return found


def discard(places: Places, staging: str) -> None:
    """Remove a job's directory. Tasks of it that still run cannot put anything there any more."""
    if isinstance(places, LocalPlaces) and not staging.endswith(_GONE):
        try:
            os.rename(staging, staging + _GONE)
        except FileNotFoundError:
            return
        staging += _GONE
    places.remove_tree(staging)


def is_done(staging: str) -> bool:
    """Whether the directory was about to be removed, and nothing in it matters any more."""
    return staging.endswith(_GONE)


def others(places: Places, root: str) -> Iterator[tuple[str, bool]]:
    """The staging directories in a table's, and whether their jobs are known to be over."""
    for name in sorted(places.names(root)):
        if name.startswith(PREFIX):
            staging = f"{root}/{name}"
            yield staging, is_done(staging) or _is_over(places, staging)


def _is_over(places: Places, staging: str) -> bool:
    text = places.read(f"{staging}/owner.json")
    if text is None and isinstance(places, LocalPlaces):
        return True  # it is made under the lock under which this is asked
    owner = json.loads(text) if text else {}
    here = _driver()
    if owner.get("machine") == here["machine"] is not None:
        return bool(_started(int(owner["process"])) != owner["started"])
    try:
        return time.time() - places.newest(staging) > _UNHEARD_OF_SECONDS
    except FileNotFoundError:  # somebody else has just removed it
        return False


def _driver() -> dict[str, Any]:
    """The process that a job lives and dies with: the JVM above this one, or else this one; and the machine, as far as
    that can be told from others. None where nothing can be told of processes."""
    process = os.getpid()
    for _ in range(_MOST_ANCESTORS):
        found = _status(process)
        if found is None:
            return {"machine": None, "process": 0, "started": ""}
        name, parent, started = found
        if name == "java":
            return {"machine": _machine(), "process": process, "started": started}
        process = parent
        if process <= 1:
            break
    return {"machine": _machine(), "process": os.getpid(), "started": _started(os.getpid())}


def _machine() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _started(process: int) -> str:
    found = _status(process)
    return "" if found is None else found[2]


def _status(process: int) -> tuple[str, int, str] | None:
    """Name, parent and start of a running process; None where there is none (or where the system does not say)."""
    try:
        with open(f"/proc/{process}/stat") as file:
            text = file.read()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return (name, int(fields[1]), fields[19]) if fields[0] not in ("Z", "X") else None
