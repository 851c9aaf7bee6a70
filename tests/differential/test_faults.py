"""The faults of `make random-sql FAULTS=1` still are changes of the product, and what it records is compared."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.differential import batches, faults
from tests.differential.column_types import TYPES
from tests.differential.faults import FAULTS, ROOT, Fault
from tests.differential.loads import Load
from tests.differential.pairs import IN_PYTHON, PYTHON_WHERE, READ_TABLE
from tests.differential.random_files import Column, DataSet
from tests.differential.random_sql import ROWS, Predicate, Statement


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_changes_the_product(fault: Fault, tmp_path: Path) -> None:
    copy = tmp_path / fault.file
    copy.parent.mkdir(parents=True)
    shutil.copy(ROOT / fault.file, copy)
    fault.apply(tmp_path)
    assert copy.read_text() != (ROOT / fault.file).read_text()


@pytest.mark.parametrize(("right", "status"), [(("{1}", "{2}"), 0), (("{1}",), 1), (("{1}", "{2}", "{3}"), 1)])
def test_what_was_recorded_is_compared_again(right: tuple[str, ...], status: int, tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    bp.write_table(pa.table({"rid": [0, 1, 2], "a": [5, 7, 7]}), root / "part-0.parquet")
    data = DataSet(root, "parquet", (Column("a", TYPES["int64"], (5, 7)),), (), "")
    statement = Statement(ROWS, Predicate("", leaf="a = 7"))
    asked = batches.Asked(Load(data), READ_TABLE, (statement,), (right,))
    (tmp_path / faults.RECORD).write_bytes(pickle.dumps([asked]))
    assert faults.replay(tmp_path, IN_PYTHON, most=10) == status
    assert faults.replay(tmp_path, (PYTHON_WHERE,), most=10) == 0
