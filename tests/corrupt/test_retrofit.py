"""Adding, replacing and shrinking filters in files with random damage.

The result is an error of bloomparquet and an unchanged file, or filters that hold every value that a reader finds. The
process never crashes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.errors import EncryptionError
from bloomparquet.parquet.thrift.definitions import FileMetaData
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.fuzz.mutate import change_thrift
from tests.support import kill
from tests.support.core import Field, decode, encode, read_footer, replace_footer
from tests.support.files import patch, write
from tests.support.layout import insert_filters, without_filters
from tests.support.stored import bitsets, hashes_by_chunk, lacking

pytestmark = pytest.mark.slow

TABLE = pa.table({
    "x": list(range(0, 90, 2)),
    "s": [f"value {i % 11}" for i in range(45)],
    "f": [i / 2 for i in range(45)],
    "d": pa.array(range(45), pa.int64()).cast(pa.decimal128(20, 0)),
    "l": [[i, i] for i in range(45)],
    "b": [True, None, False] * 15,
    "u": pa.array([{"v": i} if i % 3 else None for i in range(45)]),
})  # fmt: skip
COLUMNS = ["x", "s", "f", "d", ("l", "list", "element"), "u.v"]
MANY = max(1, settings.default.max_examples // 60) if settings.default else 1
"""More examples in the long profile."""
_number = itertools.count()


def change(path: str, how: str) -> str:
    """The action of the outcome, or the text of the error."""
    try:
        if how.startswith("shrink"):
            return shrink_filters(path)[0].action
        return add_filters(path, bloom=COLUMNS, replace=how == "replace")[0].action
    except (bp.BloomParquetError, OSError) as error:
        return f"error: {type(error).__name__}: {error}"


class Worker:
    """A process for calls that may crash."""

    def __init__(self) -> None:
        self.pool = ProcessPoolExecutor(1, kill.context)

    def ask(self, function: Any, *arguments: Any) -> Any:
        """The result of the function, or the text of what it raised. None if the process crashed."""
        try:
            return self.pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            self.__init__()  # type: ignore[misc]
            return None
        except Exception as error:  # noqa: BLE001 (whatever it is)
            return f"unexpected: {type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.pool.shutdown()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A file without filters, and files with oversized filters."""
    folder = tmp_path_factory.mktemp("sources")
    options: dict[str, Any] = {"rows_per_group": 15, "write_page_index": True, "write_page_checksum": True}
    contents = {"none": Path(write(folder / "none", TABLE, **options)).read_bytes()}
    for where in ("between", "behind"):
        path = write(folder / where, TABLE, **options)
        contents[where] = Path(insert_filters(path, 1 << 12, where=where, columns={0: True, 1: False})).read_bytes()
    return contents


CHANGES = {"add": "none", "replace": "between", "shrink": "between", "shrink behind": "behind"}


def check(folder: Path, worker: Worker, content: bytes, how: str) -> None:
    path = folder / f"mutated-{next(_number)}" / "a.parquet"
    path.parent.mkdir()
    path.write_bytes(content)
    try:
        result = worker.ask(change, str(path), how)
        assert result is not None, "the process has ended"
        assert not result.startswith("unexpected"), result
        assert os.listdir(path.parent) == ["a.parquet"]
        if result.startswith("error") or result == "unchanged":
            assert path.read_bytes() == content, "left as it is"
            return
        old, new = path.with_name("old"), path
        old.write_bytes(content)
        _assert_same_data(content, new.read_bytes(), how)
        values = worker.ask(hashes_by_chunk, str(old))
        if isinstance(values, dict):  # there is a reader who reads it
            was = worker.ask(bitsets, str(old))  # a text if the damage is in the fields of filters
            now = bitsets(str(new)) if isinstance(was, dict) else {}
            for chunk_id, bitset in now.items():
                if was.get(chunk_id) != bitset and not lacking(
                    was.get(chunk_id, b"\xff" * 32), values.get(chunk_id, set())
                ):
                    assert not lacking(bitset, values.get(chunk_id, set())), f"{chunk_id} lacks values that are read"
            assert worker.ask(hashes_by_chunk, str(new)) == values, "other values are read"
    finally:
        for each in path.parent.iterdir():
            each.unlink()
        path.parent.rmdir()


def _assert_same_data(old: bytes, new: bytes, how: str) -> None:
    """Assert that adding filters keeps the data before the footer, and all fields except those of filters."""
    sizes = [int.from_bytes(content[-8:-4], "little") for content in (old, new)]
    if how != "add":
        return
    assert new[: len(old) - 8 - sizes[0]] == old[: len(old) - 8 - sizes[0]]
    trees = [
        read_struct(content[-8 - size : -8], FileMetaData)[0] for content, size in zip((old, new), sizes, strict=True)
    ]
    assert without_filters(trees[1]) == without_filters(trees[0])


@pytest.mark.parametrize("of_footer", [True, False])
@pytest.mark.parametrize("how", CHANGES)
@settings(max_examples=40 * MANY)
@given(data=st.data())
def test_changed_bytes_are_errors_or_lose_no_row(
    how: str,
    of_footer: bool,
    data: st.DataObject,
    worker: Worker,
    sources: dict[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Bytes change in the footer, or in pages, filters and page indexes. Checksums show changes of pages."""
    content = bytearray(sources[CHANGES[how]])
    footer_at = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    first, last = (footer_at, len(content) - 1) if of_footer else (4, footer_at - 1)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(first, last))] = data.draw(st.integers(0, 255) | st.sampled_from([0, 0x7F, 0x80]))
    check(tmp_path_factory.getbasetemp(), worker, bytes(content), how)


@pytest.mark.parametrize("how", CHANGES)
@settings(max_examples=50 * MANY)
@given(seed=st.integers(0, 2**32))
def test_changed_footer_fields_are_errors_or_lose_no_row(
    how: str, seed: int, worker: Worker, sources: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Wrong numbers, wrong types and missing fields in a well-formed footer."""
    folder = tmp_path_factory.getbasetemp()
    path = folder / f"fields-{next(_number)}.parquet"
    path.write_bytes(sources[CHANGES[how]])
    footer, random = read_footer(str(path)), Random(seed)
    for _ in range(random.randint(1, 2)):
        footer = change_thrift(footer, random)
    replace_footer(str(path), footer)
    content = path.read_bytes()
    path.unlink()
    check(folder, worker, content, how)


def test_encrypted_chunk_in_a_plain_file_is_an_error(sources: dict[str, bytes], tmp_path: Path) -> None:
    """The footer says nothing else about encryption."""
    path = tmp_path / "a.parquet"
    path.write_bytes(sources["none"])
    metadata = decode(read_footer(str(path)))
    metadata[4].value.values[1][1].value.values[0][8] = Field(12, {1: Field(12, {})})
    replace_footer(str(path), encode(metadata))
    before = path.read_bytes()
    with pytest.raises(EncryptionError, match="encrypted"):
        add_filters(path, bloom="x")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "broken", ["header", "size of nothing", "larger than the file", "another algorithm", "odd size", "offset beyond"]
)
def test_damaged_filters_are_errors_unless_replaced(sources: dict[str, bytes], tmp_path: Path, broken: str) -> None:
    path = str(tmp_path / "a.parquet")
    Path(path).write_bytes(sources["behind"])
    metadata = decode(read_footer(path))
    chunk = metadata[4].value.values[1][1].value.values[0][3].value
    union = Field(12, {1: Field(12, {})})
    headers = {
        "header": b"\xff" * 8,
        "size of nothing": encode({1: Field(5, 0), 2: union, 3: union, 4: union}),
        "larger than the file": encode({1: Field(5, 1 << 20), 2: union, 3: union, 4: union}),
        "another algorithm": encode({1: Field(5, 32), 2: Field(12, {2: Field(12, {})}), 3: union, 4: union}),
        "odd size": encode({1: Field(5, 33), 2: union, 3: union, 4: union}),
    }
    if broken in headers:
        patch(path, chunk[14].value, headers[broken])
    else:
        chunk[14] = Field(6, 1 << 40)
        replace_footer(path, encode(metadata))
    before = Path(path).read_bytes()
    with pytest.raises(bp.BloomParquetError, match=r"row group 1, column x"):
        shrink_filters(path)
    assert Path(path).read_bytes() == before
    assert add_filters(path, bloom="x")[0].action == "unchanged", "they are kept"
    assert Path(path).read_bytes() == before
    (outcome,) = add_filters(path, bloom="x", replace=True)
    assert (outcome.action, outcome.filters) == ("added", 3)
    values = hashes_by_chunk(path)
    for chunk_id, bitset in bitsets(path).items():
        assert not lacking(bitset, values[chunk_id])
