"""The live files of a table on a remote storage: few requests, and errors that name the file."""

from __future__ import annotations

from typing import Any

import pytest

import bloomparquet as bp
from bloomparquet.storage.files import FileInfo, open_storage
from bloomparquet.tables.live_files import list_live_files


@pytest.mark.parametrize("count", [3, 100])
def test_many_files_are_listed_and_few_are_asked_for(count: int, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [f"/t/data/{i}.parquet" for i in range(count)] + ["/t/_hidden/a.parquet", "/elsewhere/b.parquet"]
    for i, path in enumerate(paths):
        memory.pipe(path, b"x" * (i + 1))
    storage, _ = open_storage("memory://t")
    asked: list[str] = []

    def list_files(path: str, **options: Any) -> list[FileInfo]:
        asked.append(path)
        return original(path, **options)

    original = storage.list_files
    monkeypatch.setattr(storage, "list_files", list_files)
    sizes = [i + 1 for i in range(len(paths))]
    files = list_live_files(storage, paths, sizes, "/t/")
    assert [(file.path, file.size) for file in files] == list(zip(paths, sizes, strict=True))
    assert sorted(asked) == sorted(["/t/", *paths[-2:]] if count == 100 else paths)
    with pytest.raises(FileNotFoundError, match=r"gone.parquet: this file is gone"):
        list_live_files(storage, [*paths, "/t/data/gone.parquet"], [*sizes, 1], "/t/")
    with pytest.raises(bp.FileChangedError, match=r"/1.parquet: this file has 2 bytes; .* says 5"):
        list_live_files(storage, paths, [1, 5, *sizes[2:]], "/t/")
