"""The faults of `make random-sql FAULTS=1` still are changes of the product."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.differential.faults import FAULTS, ROOT, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_changes_the_product(fault: Fault, tmp_path: Path) -> None:
    copy = tmp_path / fault.file
    copy.parent.mkdir(parents=True)
    shutil.copy(ROOT / fault.file, copy)
    fault.apply(tmp_path)
    assert copy.read_text() != (ROOT / fault.file).read_text()
