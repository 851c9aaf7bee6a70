"""The commit of a write: all of its files appear, and what they replace goes, or nothing of both.

What is to be done is written down first, in the job's staging directory. From then on the write *is* committed: if the
driver is killed while files are moved, the next write to the table does the rest. Without a journal nothing was moved,
and the next write removes what was staged. New files are put in their places before the old ones go, so no row is ever
missing; in between, readers may see rows of both, and after a kill they do until the next write.

Locally, old files are moved aside and deleted last of all, and a commit that fails puts everything back. Commits to one
directory wait for each other. On object stores there is neither a lock nor a way back: a commit that fails there has
not deleted anything old unless all that is new is in its place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from bloomparquet.errors import BloomParquetError
from pyspark_bloomparquet.places import LocalPlaces, Places, open_places
from pyspark_bloomparquet.staging import PREFIX, Job, discard, is_done, make_job, others

SUCCESS = "_SUCCESS"
_OF_OTHER_JOBS = (PREFIX, "_temporary", ".spark-staging")

Overwrite = Literal["nothing", "everything", "partitions"]


@dataclass(frozen=True)
class Journal:
    """What a commit does. Paths are relative: of `moves`, the first to the staging directory and the second to the
    table's, like those of `old`, which go as long as they have the identity that they had. `back` says that it is being
    undone."""

    moves: tuple[tuple[str, str], ...]
    old: tuple[tuple[str, str], ...]
    back: bool = False

    @classmethod
    def read(cls, places: Places, staging: str) -> Journal | None:
        """The journal in a staging directory; None where its job was not committed."""
        text = places.read(f"{staging}/journal.json")
        if text is None:
            return None
        found = json.loads(text)
        moves, old = ([(a, b) for a, b in found[name]] for name in ("moves", "old"))
        return cls(tuple(moves), tuple(old), found["back"])

    def write(self, places: Places, staging: str) -> None:
        places.write(f"{staging}/journal.json", json.dumps(asdict(self)).encode())


def begin(url: str) -> Job:
    """A new write to the table at `url`, after what killed ones have left there is completed or removed.

    BloomParquetError where there is a file at `url`.
    """
    places, root = open_places(url)
    if places.is_file(root):
        raise BloomParquetError(f"{url}: there is a file; expected a directory, or nothing. Write to another path")
    made = places.make_directories(root)
    with places.locked(root):
        recover(places, root)
        return make_job(places, url, root, made)


def recover(places: Places, root: str) -> None:
    """Complete and remove what killed jobs have left in the table at `root`, whose lock is held."""
    for staging, is_over in others(places, root):
        # With the lock, nobody else is at a journal here; without one, its driver may be.
        if not is_over and not isinstance(places, LocalPlaces):
            continue
        journal = None if is_done(staging) else Journal.read(places, staging)
        if journal is not None:
            _perform(places, root, staging, journal)
        if journal is not None or is_over:
            discard(places, staging)


def is_written(places: Places, root: str) -> bool:
    """Whether there is anything in the table's directory but what is in the making."""
    return any(not name.startswith(PREFIX) for name in places.names(root))


def commit(job: Job, moves: Sequence[tuple[str, str]], overwrite: Overwrite, *, only_new: bool = False) -> bool:
    """Put the staged files of `moves` in their places, and remove what they replace.

    With `only_new`, nothing is done and the answer is false where another job was faster. Raises OSError when the
    commit fails; everything is then as it was. Only on object stores, when old files could not be deleted, it is not:
    then the next write to the table completes what was begun.
    """
    places, root = open_places(job.url)
    with places.locked(root):
        if only_new and is_written(places, root):
            discard(places, job.staging)
            return False
        journal = Journal(tuple(moves), _replaced(places, root, moves, overwrite))
        places.flush(_directories(job.staging, [source for source, _ in moves]))
        journal.write(places, job.staging)
        try:
            _perform(places, root, job.staging, journal)
        except OSError:
            _undo(places, root, job.staging, journal)
            raise
        discard(places, job.staging)
        return True


def abandon(job: Job) -> None:
    """Remove what a job that failed has staged, and the directories that it made. What is committed stays."""
    places, root = open_places(job.url)
    if Journal.read(places, job.staging) is None:
        discard(places, job.staging)
        places.remove_empty(root, job.made)


def _replaced(
    places: Places, root: str, moves: Sequence[tuple[str, str]], overwrite: Overwrite
) -> tuple[tuple[str, str], ...]:
    if overwrite == "nothing":
        return ()
    found = [name for name in places.files(root, _OF_OTHER_JOBS) if name != SUCCESS]
    if overwrite == "partitions":
        written = {os.path.dirname(target) for _, target in moves}
        found = [name for name in found if os.path.dirname(name) in written]
    identified = ((name, places.identity(f"{root}/{name}")) for name in found)
    return tuple((name, identity) for name, identity in identified if identity is not None)


def _directories(root: str, names: Iterable[str]) -> set[str]:
    """The directories that `names` lie in below `root`, with all above them up to it."""
    found = {root}
    for name in {os.path.dirname(name) for name in names}:
        while name:
            found.add(f"{root}/{name}")
            name = os.path.dirname(name)
    return found


def _perform(places: Places, root: str, staging: str, journal: Journal) -> None:
    """Do what the journal says, or what is left of it."""
    if journal.back:
        _perform_back(places, root, staging, journal)
        return
    for source, target in journal.moves:
        places.move(f"{staging}/{source}", f"{root}/{target}")
    new = _directories(root, (target for _, target in journal.moves))
    places.flush(new)
    for number, (name, identity) in enumerate(journal.old):
        # Whatever has taken a name meanwhile, after a kill, was not to be replaced.
        if places.identity(f"{root}/{name}") != identity:
            continue
        if places.keeps_old:
            places.move(f"{root}/{name}", f"{staging}/old/{number}")
        else:
            places.remove(f"{root}/{name}")
    if not places.is_file(f"{root}/{SUCCESS}"):
        places.write(f"{root}/{SUCCESS}", b"")
    places.prune(root, _directories(root, (name for name, _ in journal.old)) - new)
    places.flush({root})


def _undo(places: Places, root: str, staging: str, journal: Journal) -> None:
    """Put everything back; where old files are gone, leave it to the next write to complete what was begun."""
    if not places.keeps_old and not all(places.is_file(f"{root}/{name}") for name, _ in journal.old):
        return
    back = Journal(journal.moves, journal.old, back=True)
    back.write(places, staging)
    _perform_back(places, root, staging, back)
    discard(places, staging)


def _perform_back(places: Places, root: str, staging: str, journal: Journal) -> None:
    for number, (name, _) in enumerate(journal.old):
        places.move(f"{staging}/old/{number}", f"{root}/{name}")
    for _, target in journal.moves:
        places.remove(f"{root}/{target}")
    places.prune(root, _directories(root, (target for _, target in journal.moves)) - {root})
    places.flush({root})
