"""The fuzz targets without `atheris`: what was found before, the seeds, and a few hundred repeatable mutations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from random import Random
from unittest.mock import patch

import numpy as np
import pytest

from bloomparquet.parquet.thrift.template import Template
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.parquet import filters
from tests.fuzz.target import CORPUS, Target, examine, minimise
from tests.fuzz.targets import TARGETS

MUTATIONS = {"file": 40, "orc": 50, "index": 20, "cache": 20, "where": 60, "footer": 60}


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Damaged input is logged; and what plans remember of it is forgotten."""
    with caplog.at_level(logging.CRITICAL, "bloomparquet"):
        yield
    process_cache.clear()
    forget_indexes()


@pytest.mark.parametrize("name", TARGETS)
def test_stored_inputs_and_mutations_are_handled(name: str) -> None:
    target, random = TARGETS[name], Random(17)
    seeds = target.seeds()
    stored = target.stored()
    for label, data in stored.items():
        find = examine(target, data)
        assert find is None, f"{CORPUS / name / label}: {find.report}"
    pool = [*seeds[:4], *stored.values()]
    for seed in seeds[:4]:
        assert examine(target, seed) is None
    for _ in range(MUTATIONS.get(name, 200)):
        data = random.choice(pool)
        for _ in range(random.choice((1, 1, 2, 4))):
            data = target.mutate(data, random)[: target.max_bytes]
        find = examine(target, data)
        assert find is None, f"{data!r}: {find.report}"


def test_the_stored_inputs_are_small_and_have_a_target() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} <= set(TARGETS)
    assert sum(path.stat().st_size for path in files) < 300_000
    assert max(path.stat().st_size for path in files) <= 8192


def _absent(blocks: np.ndarray, masks: np.ndarray) -> np.ndarray:
    return np.zeros(len(blocks), np.bool_)


PLANTED: dict[str, tuple[str, object, str, Callable[..., object]]] = {
    "a filter that says absent": ("file", filters, "check_blocks", _absent),
    "a template that skips too little": ("footer", Template, "match", lambda self, names, buffer, at, _: at + 1),
}


def _finds(target: Target) -> list[bytes]:
    return [seed for seed in target.seeds() if examine(target, seed) is not None]


@pytest.mark.parametrize("fault", PLANTED)
def test_targets_notice_a_planted_fault(fault: str) -> None:
    name, owner, attribute, wrong = PLANTED[fault]
    assert not _finds(TARGETS[name])
    with patch.object(owner, attribute, wrong):
        process_cache.clear()
        assert _finds(TARGETS[name])


def test_a_find_is_minimised() -> None:
    def run(data: bytes) -> None:
        if b"\x07" in data and b"x" in data:
            raise ZeroDivisionError

    target = Target("made up", list, run)
    find = examine(target, bytes(range(200)))
    assert find is not None
    assert sorted(minimise(target, bytes(range(200)), find.signature)) == [7, ord("x")]
    assert examine(target, b"x") is None


def test_an_endless_loop_is_found() -> None:
    def loop(data: bytes) -> None:
        while True:
            pass

    find = examine(Target("loop", list, loop, seconds=0.1), b"")
    assert find is not None
    assert find.signature.startswith("InputTimeoutError")
