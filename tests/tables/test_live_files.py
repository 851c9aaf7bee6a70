"""The live files of a table: few requests, errors that name the file, and positions of deleted rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.storage.open import open_storage
from bloomparquet.tables.delta import DeletionVector
from bloomparquet.tables.live_files import list_live_files


@pytest.mark.parametrize("count", [3, 100])
def test_many_files_are_listed_and_few_are_asked_for(count: int, memory: Any) -> None:
    paths = [f"/t/data/{i}.parquet" for i in range(count)] + ["/t/_hidden/a.parquet", "/elsewhere/b.parquet"]
    for i, path in enumerate(paths):
        memory.pipe(path, b"x" * (i + 1))
    storage, _ = open_storage("memory://t")
    sizes = [i + 1 for i in range(len(paths))]
    with patch.object(storage, "list_files", side_effect=storage.list_files) as listed:
        files = list_live_files(storage, paths, sizes, "/t/")
    assert [(file.path, file.size) for file in files] == list(zip(paths, sizes, strict=True))
    asked = [call.args[0] for call in listed.call_args_list]
    assert sorted(asked) == sorted(["/t/", *paths[-2:]] if count == 100 else paths)
    with pytest.raises(FileNotFoundError, match=r"gone.parquet: this file is gone"):
        list_live_files(storage, [*paths, "/t/data/gone.parquet"], [*sizes, 1], "/t/")
    with pytest.raises(FileNotFoundError, match=r"/t/data: this file is gone"):  # a directory
        list_live_files(storage, [*paths, "/t/data"], [*sizes, 1], "/t/")
    with pytest.raises(bp.FileChangedError, match=r"/1.parquet: this file has 2 bytes; .* says 5"):
        list_live_files(storage, paths, [1, 5, *sizes[2:]], "/t/")


def test_empty_row_groups_have_no_positions(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    schema = pa.schema([("id", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for ids in ([0, 1], [], [2, 3]):
            writer.write_table(pa.table({"id": ids}, schema))
    deleted = DeletionVector(np.array([0, 3], "<i8").tobytes())
    dataset = replace(bp.Dataset.open(path), deletes=(deleted,))
    assert dataset.read_table()["id"].to_pylist() == [1, 2]
    assert dataset.read_table("id > 0")["id"].to_pylist() == [1, 2]
