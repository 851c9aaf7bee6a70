"""After a power failure at any moment, each file is the old or the new one, whole, and rows are right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.crashes import Recorder
from tests.faults.injector import NUMBER, keyword, repeat, seeds
from tests.faults.work import WORKS, LocalPlace, forget, random_of, require_right

pytestmark = pytest.mark.slow

NAMES = [name for name in WORKS if not name.startswith("read")]


def crash(name: str, place: LocalPlace, seeds: range, *, flushes: bool = True) -> int:
    """Record the work, and look at states after crashes. Returns how many calls it makes that change files."""
    work = WORKS[name]
    work.prepare(place)
    before = {each: place.read(each) for each in place.names()}
    forget()
    recorder = Recorder(Path(place.root), flushes=flushes)
    with recorder.recording():
        work.run(place)
    calls = len(recorder.events)
    for seed in seeds:
        random = random_of(name, seed)
        end = random.choice((calls, random.randint(0, calls)))
        restore(Path(place.root), recorder.after_crash(end, random))
        forget()
        is_durable = end == calls and name != "drop"  # a drop is not flushed: the index may be back, whole
        try:
            require_right(work, place, before, is_done=is_durable, is_partial=False, note=f"after {end} of {calls}")
        except BaseException:
            print(repeat(seed, f"crash-{name}"))
            raise
    return calls


def restore(root: Path, state: dict[str, bytes]) -> None:
    """Make `state` the files below `root`. Files that are right stay as they are: they are in the index."""
    for path in root.rglob("*"):
        if path.is_file() and str(path) not in state:
            path.unlink()
    for name, data in state.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: keyword(f"crash-{name}"))
def test_a_crash_leaves_old_or_new_files(name: str, tmp_path: Path) -> None:
    chosen = seeds(0.2 / len(NAMES), few=10)
    calls = crash(name, LocalPlace(tmp_path), chosen)
    print(f"\n{name}: {calls} calls; {len(chosen)} crashes")
    assert calls >= 3


@pytest.mark.skipif(NUMBER > 0, reason="it needs a few seeds only")
@pytest.mark.parametrize("name", ["add", "write", "build"])
def test_the_model_of_crashes_needs_the_flushes(name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        crash(name, LocalPlace(tmp_path), range(100), flushes=False)
    assert os.listdir(tmp_path)
