"""A storage that fails, is slow, answers in part, or lies about sizes costs time, or is a named error.

It never costs rows, nor a file, and leaves no temporary file that the next run does not remove.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.injector import IS_REPEATED, Injector, keyword, repeat, seeds
from tests.faults.object_store import ObjectStore
from tests.faults.work import WORKS, LocalPlace, Place, RemotePlace, Work, forget, random_of, try_with_faults

pytestmark = pytest.mark.slow

CASES = [
    (where, name) for where in ("local", "remote") for name in WORKS if where == "local" or not WORKS[name].local_only
]


@pytest.mark.parametrize(("where", "name"), CASES, ids=keyword)
def test_faults_of_storage_cost_no_row_and_no_file(where: str, name: str, tmp_path: Path) -> None:
    work, place = WORKS[name], LocalPlace(tmp_path / "t") if where == "local" else RemotePlace(ObjectStore())
    (tmp_path / "t").mkdir()
    calls = count_calls(work, place)
    ends, made = Counter[str](), Counter[tuple[str, str]]()
    chosen = seeds(0.6 / len(CASES), few=12)
    for seed in chosen:
        injector = Injector(random_of(f"{where} {name}", seed), calls)
        try:
            ends[try_with_faults(work, place, injector)] += 1
        except BaseException:
            print(repeat(seed, f"{where}-{name}"))
            raise
        made += injector.made
    print(f"\n{where} {name}: {calls} calls; {made.total()} faults; {dict(ends)}\n{dict(made)}")
    assert IS_REPEATED or (made.total() >= len(chosen) / 2 and ends["done"] and len(ends) > 1)


def count_calls(work: Work, place: Place) -> int:
    """The number of calls that can have a fault."""
    work.prepare(place)
    forget()
    injector = Injector()
    with place.faulty(injector, work.lies):
        work.run(place)
    assert injector.calls >= 3
    return injector.calls
