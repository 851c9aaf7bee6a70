"""Evidence that was read of a file which had changed serves no other plan: not one that runs, and no later one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import bloomparquet as bp
from bloomparquet.errors import BloomParquetError
from tests.support.files import write

ROWS = 40_000
IDS = np.random.default_rng(1).integers(1, 1 << 40, ROWS)
WHERE = f"id = {IDS[1000]}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file whose filter is so large that single blocks of it are read."""
    path = tmp_path / "x.parquet"
    write(path, {"id": IDS, "n": np.arange(ROWS)}, ["id"], compression="none", use_dictionary=False)
    return path


def replace(path: Path) -> None:
    """Put the same rows there, in a file that has data where the filter was."""
    new = path.with_name(".new")
    data = {"pad": ["0" * 32] * ROWS, "id": IDS, "n": np.arange(ROWS)}
    write(new, data, ["id"], compression="none", use_dictionary=False)
    os.replace(new, path)


def count(dataset: bp.Dataset) -> int | str:
    """The rows that match, or an error that has a name."""
    try:
        return bp.read_table(dataset, WHERE).num_rows
    except BloomParquetError as error:
        return type(error).__name__


def test_evidence_is_kept_only_if_it_is_of_the_listed_file(path: Path) -> None:
    """Also if the listed file is there again afterwards: a link may lead to another file and back."""
    listed, other = path.with_name(".listed"), path.with_name(".other")
    shutil.copy(path, other)
    replace(other)
    path.rename(listed)
    path.symlink_to(listed)
    dataset = bp.Dataset.open(path)
    for target, expected in ((other, "FileChangedError"), (listed, 1), (other, "FileChangedError"), (listed, 1)):
        path.unlink()
        path.symlink_to(target)
        assert count(dataset) == expected


def test_an_empty_file_that_has_grown_is_a_changed_file(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(b"")
    dataset = bp.Dataset.open(path)
    path.write_bytes(whole)
    with pytest.raises(bp.FileChangedError, match=r"x\.parquet"):
        bp.plan(dataset)


READERS: dict[str, Callable[[bp.Dataset, bp.ScanPlan], object]] = {
    "explain": lambda dataset, plan: plan.explain(),
    "probe": lambda dataset, plan: bp.probe(dataset, column="id", value=int(IDS[1000])),
}


@pytest.mark.parametrize("reader", READERS)
def test_later_plans_do_not_use_what_was_read_of_a_changed_file(path: Path, reader: str) -> None:
    dataset = bp.Dataset.open(path)
    assert bp.plan(dataset, f"id = {IDS[1000] + 1}").kept == 0
    plan = bp.plan(dataset, f"n < 0 AND {WHERE}")
    assert (plan.kept, plan.requests) == (0, 0), "no filter was asked"
    replace(path)
    with suppress(bp.FileChangedError):
        READERS[reader](dataset, plan)
    assert isinstance(count(dataset), str), "an error"
    assert count(bp.Dataset.open(path)) == 1
