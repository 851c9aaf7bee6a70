"""How many requests a lookup makes on a remote storage, how many bytes it reads, and how many requests run at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.reading.scan import read_plan
from bloomparquet.storage.files import ArrowStorage, ReadCount
from bloomparquet.storage.ranges import read_ranges
from tests.support.s3 import S3Server, s3_server

pytestmark = pytest.mark.slow

FILES, ROW_GROUPS, ROWS = 8, 5, 20_000
TOTAL = FILES * ROW_GROUPS * ROWS
WIDE_ROWS, PAGE_ROWS = 300_000, 20_000  # pyarrow begins a new page after so many rows
WIDE_IDS = np.random.default_rng(2).permutation(WIDE_ROWS)
ONE = "id = 234567"
IDS = sorted(np.random.default_rng(5).choice(TOTAL, 40, replace=False).tolist())
MANY = f"id IN ({', '.join(map(str, IDS))})"


def table(ids: np.ndarray, seed: int) -> pa.Table:
    rng, n = np.random.default_rng(seed), len(ids)
    text, few = (pa.array(rng.integers(0, bound, n)).cast(pa.string()) for bound in (1 << 63, 200))
    return pa.table({"id": ids, "text": text, "time": np.arange(n), "value": rng.random(n), "few": few})


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    home, rng = tmp_path_factory.mktemp("remote"), np.random.default_rng(1)
    for folder in ("t", "wide", "plain"):
        (home / folder).mkdir()
    for i in range(FILES):
        ids = rng.permutation(TOTAL // FILES) * FILES + i
        bp.write_table(table(ids, i), home / f"t/{i:02}.parquet", bloom=["id"], row_group_size=ROWS)
    wide = table(WIDE_IDS, 0)
    bp.write_table(wide, home / "wide/0.parquet", bloom=["id"], row_group_size=WIDE_ROWS)
    pq.write_table(wide, home / "plain/0.parquet", row_group_size=WIDE_ROWS)
    with s3_server() as server:
        server.upload(home, "remote")
        assert bp.build_index("bucket/remote/t", filesystem=server.filesystem).files == FILES
        server.delay = 0.02
        yield server


class Lookup(NamedTuple):
    rows: pa.Table
    heads: int
    gets: int
    bytes: int
    most_at_once: int


def look_up(s3: S3Server, path: str, where: str, index: str = "off") -> Lookup:
    """Read rows, and count the requests for data files."""
    del s3.requests[:]
    s3.bytes_read = s3.most_at_once = 0
    rows = bp.read_table(f"bucket/remote/{path}", where, filesystem=s3.filesystem, index=index)
    count = Counter(method for method, name in s3.requests if name.endswith(".parquet"))
    return Lookup(rows, count["HEAD"], count["GET"], s3.bytes_read, s3.most_at_once)


def forget() -> None:
    """As in a new process."""
    process_cache.clear()
    forget_indexes()


@pytest.mark.parametrize("where", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize("index", ["off", "auto"])
def test_requests_of_first_and_second_lookups(s3: S3Server, index: str, where: str) -> None:
    forget()
    first, second = (look_up(s3, "t", where, index) for _ in range(2))
    kept = bp.plan("bucket/remote/t", where, filesystem=s3.filesystem, index=index).kept_row_groups()
    files = {group.path for group in kept}
    assert sorted(first.rows["id"].to_pylist()) == (IDS if where == MANY else [234567])
    assert second.rows.equals(first.rows)
    assert (second.heads, second.gets) == (2 * len(files), len(kept)), "a file is opened once, and checked once"
    assert second.bytes <= sum(group.length for group in kept)
    if index == "off":  # footers, and filters
        assert (first.heads - second.heads, first.gets - second.gets) == (2 * FILES, 2 * FILES)
    else:  # the footers of the files that are read, and of the first file, which has the columns
        footers = len(files | {"bucket/remote/t/00.parquet"})
        assert (first.heads - second.heads, first.gets - second.gets) == (footers, footers)
    if where == MANY:
        assert min(first.most_at_once, second.most_at_once) > 3


@pytest.mark.parametrize("has_dictionary", [True, False])
def test_pages_of_all_columns_are_read_at_once(s3: S3Server, has_dictionary: bool) -> None:
    where = f"id = {WIDE_IDS[10 if has_dictionary else -10]}"
    forget()
    assert look_up(s3, "wide", where).rows.num_rows == 1
    lookup = look_up(s3, "wide", where)
    with s3.filesystem.open_input_file("bucket/remote/wide/0.parquet") as file:
        group = pq.read_metadata(file).row_group(0)
    condition, *others = (group.column(i) for i in range(group.num_columns))
    pages = [column.total_compressed_size * 2 * PAGE_ROWS // WIDE_ROWS for column in others]
    if has_dictionary:
        dictionaries = [column for column in others if column.has_dictionary_page]
        pages += [column.data_page_offset - column.dictionary_page_offset for column in dictionaries]
    assert lookup.heads == 1 + 2, "to ask the filter, to read, and to check"
    assert lookup.gets <= 1 + 1 + 1 + len(others) + has_dictionary, "a block, the condition, offset indexes, and pages"
    assert lookup.bytes <= condition.total_compressed_size + sum(pages) + ArrowStorage.merge_gap
    assert lookup.most_at_once > 2


def test_columns_without_an_offset_index_are_read_whole(s3: S3Server) -> None:
    forget()
    first, second = (look_up(s3, "plain", f"id = {WIDE_IDS[-10]}") for _ in range(2))
    assert (first.heads, first.gets) == (3, 3), "the footer is another request"
    assert (second.heads, second.gets) == (2, 2), "the column of the condition, and the others"


def test_ranges_of_one_file_are_read_side_by_side(s3: S3Server) -> None:
    content = np.random.default_rng(1).bytes(12 * 2 * ArrowStorage.merge_gap)
    with s3.filesystem.open_output_stream("bucket/remote/ranges") as file:
        file.write(content)
    offsets, sizes = np.arange(12) * 2 * ArrowStorage.merge_gap, np.full(12, 32)
    storage, count = ArrowStorage(s3.filesystem, "s3"), ReadCount()
    (info,) = storage.list_files("bucket/remote/ranges", recursive=False)
    del s3.requests[:]
    s3.most_at_once = 0
    rows = read_ranges(storage, [info], np.zeros_like(offsets), offsets, sizes, count).rows(32)
    assert [row.tobytes() for row in rows] == [content[offset : offset + 32] for offset in offsets]
    methods = Counter(method for method, _ in s3.requests)
    assert methods["HEAD"] == 1
    assert methods["GET"] >= count.requests == 12
    assert s3.most_at_once > 3


def test_many_small_filters_are_read_once(s3: S3Server) -> None:
    forget()
    look_up(s3, "t", ONE)
    absent = look_up(s3, "t", f"id = {TOTAL}")
    other = bp.plan("bucket/remote/t", MANY, filesystem=s3.filesystem, index="off")
    assert (absent.heads, absent.gets, other.requests) == (0, 0, 0)


@pytest.mark.parametrize("index", ["off", "auto"])
def test_a_file_replaced_at_any_request_gives_one_version(
    s3: S3Server, index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "delay", 0)
    path, key, ends = f"bucket/remote/{index}", 99_000, Counter[str]()
    versions = [table(np.arange(count), count) for count in (100_000, 101_000)]
    for i, version in enumerate(versions):
        bp.write_table(version, tmp_path / f"{i}.parquet", bloom=["id"], row_group_size=len(version) // 2)
    rows = [version.filter(pc.field("id") == key) for version in versions]
    assert rows[0] != rows[1]

    def put(version: int) -> None:
        with s3.filesystem.open_output_stream(f"{path}/0.parquet") as out:
            out.write((tmp_path / f"{version}.parquet").read_bytes())

    def replace(at: int) -> bool:
        """Read while the file is replaced before request number `at`. Returns whether there were so many requests."""
        requests = iter(range(at + 1))

        def choose(method: str, name: str) -> None:
            if name == f"/{path}/0.parquet" and next(requests, None) == at:
                put(1)

        put(0)
        forget()
        if index == "auto":
            bp.build_index(path, filesystem=s3.filesystem)
        dataset = bp.Dataset.open(path, filesystem=s3.filesystem)
        plan = plan_dataset(dataset, f"id = {key}", PlanOptions(index=index))
        with monkeypatch.context() as patch:
            patch.setattr(s3, "fault", choose)
            try:
                result = read_plan(plan, None).read_all()
            except (bp.FileChangedError, bp.FormatError, OSError) as error:
                ends[type(error).__name__] += 1
            else:
                assert result in rows
                ends["rows"] += 1
        return next(requests, None) is None

    at = 0
    while replace(at):
        at += 1
    assert at > 5
    assert ends["FileChangedError"] >= at - 1, ends
