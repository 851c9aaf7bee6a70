"""File systems of fsspec whose copies may end later, or never: the new object is lost in no case.

adlfs only starts a copy. Azure shows an empty object until it is done, and for ever if its source is deleted meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from io import BytesIO
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import bloomparquet as bp
from bloomparquet.storage import atomic
from bloomparquet.storage.atomic import replacing, temporary_name
from bloomparquet.storage.open import open_storage

PATH = "/box/a.parquet"
TEMPORARY = temporary_name(PATH)
TABLE = pa.table({"id": range(1000)})


class Azure(MemoryFileSystem):  # type: ignore[misc]
    """Has a file without filters. `seconds`: when a copy ends; None: never. `fault` is done by a copy that has begun.
    `looks`: calls of info."""

    protocol = ("abfs", "az", "abfss")
    cachable = False

    def __init__(self, seconds: float | None = 0.0, fault: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]
        self.seconds, self.fault = seconds, fault
        self.looks: list[str] = []
        self.copies: list[threading.Timer] = []
        out = BytesIO()
        pq.write_table(TABLE, out)
        self.pipe_file(PATH, out.getvalue())

    def info(self, path: str, **options: Any) -> Any:
        self.looks.append(path)
        return super().info(path, **options)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        def finish() -> None:
            if self.exists(path1):
                self.pipe_file(path2, self.cat_file(path1))

        self.pipe_file(path2, b"")
        if self.seconds == 0:
            finish()
        elif self.seconds is not None:
            self.copies.append(threading.Timer(self.seconds, finish))
            self.copies[-1].start()
        self.fault()

    def names(self) -> list[str]:
        return sorted(self.find("/box"))


def add(azure: Azure) -> bp.FileOutcome:
    (outcome,) = bp.add_filters(PATH, bloom="id", filesystem=azure, on_error="report")
    return outcome


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_copy_that_ends_later_is_awaited(seconds: float) -> None:
    azure = Azure(seconds)
    outcome = add(azure)
    for copy in azure.copies:
        copy.join()
    assert (outcome.action, outcome.bytes_after) == ("added", azure.size(PATH))
    assert azure.names() == [PATH]
    assert bp.read_table(PATH, "id = 7", filesystem=azure).num_rows == 1


def test_a_copy_that_never_ends_costs_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "COPY_SECONDS", 0.2)
    azure = Azure(None)
    outcome = add(azure)
    size = azure.size(TEMPORARY)
    assert outcome.action == "failed"
    assert outcome.error is not None
    for text in (PATH, TEMPORARY, "it has 0 bytes", f"expected {size}", "which is kept"):
        assert text in outcome.error
    assert azure.names() == [TEMPORARY, PATH]

    again = add(azure)
    assert again.action == "failed", "the file is empty"
    assert azure.names() == [TEMPORARY, PATH], "the only complete copy stays"
    azure.pipe_file(PATH, azure.cat_file(TEMPORARY))
    assert add(azure).action == "unchanged"
    assert azure.names() == [PATH]
    assert bp.read_table(PATH, filesystem=azure).equals(TABLE)


def test_a_copy_whose_answer_is_lost_is_done() -> None:
    azure = Azure(0.0, fail)
    assert add(azure).action == "added"
    assert azure.names() == [PATH]
    assert bp.read_table(PATH, filesystem=azure).equals(TABLE)


def test_a_copy_that_fails_when_it_has_begun_costs_no_bytes() -> None:
    azure = Azure(None, fail)
    outcome = add(azure)
    assert outcome.action == "failed"
    assert "it has 0 bytes" in str(outcome.error)
    assert "LibraryError: no network" in str(outcome.error)
    assert azure.names() == [TEMPORARY, PATH]


def test_an_interrupted_wait_for_a_copy_keeps_the_new_object() -> None:
    azure = Azure(None)
    storage, path = open_storage(PATH, azure)
    with replacing(storage, path) as output:
        output.write(b"new")
        with patch("time.sleep", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            output.commit()
    assert azure.cat_file(TEMPORARY) == b"new"


class LibraryError(Exception):
    """An error of a library below fsspec."""


def fail(*_: Any, **__: Any) -> None:
    raise LibraryError("no network")
