"""A damaged, mixed up or hostile index never loses a row or fails a plan, and is logged once."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

import bloomparquet as bp
from bloomparquet.planning.evidence.section_file import SectionFile, serialise
from bloomparquet.planning.evidence.section_source import DamagedFileError, OpenSource
from bloomparquet.planning.index.lookup import forget_indexes
from tests.support.files import write
from tests.support.index import index_files, outcome, plan_by, segments

WHERES = ("x IN (4, 7, 51) OR y = 'v12'", "x = 1")
HEAD = 24
Tree = Any
Change = Callable[[list[Any], int], None]


def make_data(root: Path, first: int = 0) -> Path:
    for i in range(2):
        numbers = list(range(first + 30 * i, first + 30 * i + 30, 2))
        table = {"x": np.random.default_rng(i).permutation(numbers), "y": [f"v{number:02}" for number in numbers]}
        write(root / f"{i}.parquet", table, ["x", "y"], rows_per_group=4, compression="none", use_dictionary=False)
    return root


class Data:
    """A data set with an index; what plans over it say without the index."""

    def __init__(self, root: Path) -> None:
        self.root = root
        bp.build_index(root)
        self.expected = [outcome("off", root, where) for where in WHERES]
        (self.segment,) = segments(root)
        self.manifest = self.segment.with_name("_manifest.json")
        self._sound = {path: path.read_bytes() for path in index_files(root).values()}

    def restore(self) -> None:
        shutil.rmtree(self.segment.parent)
        self.segment.parent.mkdir()
        for path, content in self._sound.items():
            path.write_bytes(content)
        forget_indexes()

    def replace(self, path: Path, content: bytes) -> None:
        """In one step: plans may have mapped the old file."""
        path.with_suffix(".new").write_bytes(content)
        path.with_suffix(".new").replace(path)
        forget_indexes()

    def assert_right(self, what: object) -> None:
        assert [outcome("auto", self.root, where) for where in WHERES] == self.expected, what


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return Data(make_data(tmp_path_factory.mktemp("data")))


@pytest.fixture
def data(shared: Data) -> Iterator[Data]:
    yield shared
    shared.restore()


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def index_of(segment: bytes) -> Tree:
    """The table of contents of a segment: its sections and tiles."""
    return json.loads(segment[HEAD : HEAD + int.from_bytes(segment[12:16], "little")])


@pytest.mark.parametrize(("name", "number", "least"), [("manifest", 50, 50), ("segment", 140, 20)])
def test_no_flipped_bit_loses_a_row(
    name: str, number: int, least: int, data: Data, caplog: pytest.LogCaptureFixture
) -> None:
    """Most of a segment is not read by these plans."""
    path: Path = getattr(data, name)
    content, random = path.read_bytes(), np.random.default_rng(1)
    noticed = 0
    for at in random.permutation(len(content))[:number].tolist():
        caplog.clear()
        changed = content[at] ^ 1 << random.integers(0, 8)
        data.replace(path, content[:at] + bytes([changed]) + content[at + 1 :])
        data.assert_right(at)
        assert len(set(messages(caplog))) == len(messages(caplog)), "logged twice"
        noticed += bool(caplog.records)
    assert noticed >= least


def test_a_damaged_tile_is_logged_once(data: Data, caplog: pytest.LogCaptureFixture) -> None:
    """Also by plans of other files of the data set, and other plans go on to use the rest of the index."""
    content = data.segment.read_bytes()
    start = min(offset for offset, _, _ in index_of(content)["tiles"].values())
    data.replace(data.segment, content[:start] + bytes(byte ^ 1 for byte in content[start:]))
    plan = plan_by("auto", data.root, "x = 7")
    assert (plan.indexed, plan.footer_reads.requests, plan.kept) == (2, 1, 0)  # the manifest is read
    assert plan.filter_reads.requests > 0
    for path in (data.root, data.root / "0.parquet", data.root / "1.parquet", data.root):
        assert outcome("auto", path, "x = 7") == outcome("off", path, "x = 7")
    (message,) = messages(caplog)
    assert str(data.segment) in message


@pytest.mark.parametrize("gone", [False, True], ids=["all files", "one is gone"])
def test_a_damaged_column_costs_the_footers_of_its_files(gone: bool, tmp_path: Path) -> None:
    """Not those of other segments, nor a file that the segment has and the data set has no longer."""
    make_data(tmp_path)
    bp.build_index(tmp_path)
    for name in ("2", "3"):
        write(tmp_path / f"{name}.parquet", {"x": [7, 70], "y": ["v07", "v70"]}, ["x", "y"])
    bp.refresh_index(tmp_path)
    _, second = sorted(segments(tmp_path), key=lambda path: path.stat().st_mtime_ns)
    content = second.read_bytes()
    at = index_of(content)["sections"]["0/0"][0]
    second.with_suffix(".new").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    second.with_suffix(".new").replace(second)
    if gone:
        (tmp_path / "3.parquet").unlink()
    plan = plan_by("auto", tmp_path, "x = 7")
    files = 3 if gone else 4
    assert (plan.indexed, plan.footer_reads.requests) == (files, 1 + files - 2)  # the manifest is read too
    assert outcome("auto", tmp_path, "x = 7") == outcome("off", tmp_path, "x = 7")
    assert bp.read_table(tmp_path, "x = 7").num_rows == files - 2
    whole = plan_by("auto", tmp_path, "y = 'v07'")
    assert (whole.footer_reads.requests, whole.filter_reads.requests) == (0, 0)


def fifo(data: Data, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(data: Data, path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").write_bytes(b"x" * 100)


def link(data: Data, path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("/dev/zero")


FILES: dict[str, Callable[[Data, Path], object]] = {
    "missing": lambda data, path: path.unlink(),
    "empty": lambda data, path: data.replace(path, b""),
    "truncated by a byte": lambda data, path: data.replace(path, path.read_bytes()[:-1]),
    "truncated to its head": lambda data, path: data.replace(path, path.read_bytes()[:HEAD]),
    "truncated in the middle": lambda data, path: data.replace(path, path.read_bytes()[: path.stat().st_size // 2]),
    "extended": lambda data, path: data.replace(path, path.read_bytes() + b" " * 8 + b"x"),
    "nested brackets": lambda data, path: data.replace(path, b"[" * 100_000),
    "a pipe": fifo,
    "a directory": directory,
    "a link to a device": link,
}


@pytest.mark.parametrize("name", ["manifest", "segment"])
@pytest.mark.parametrize("how", FILES)
def test_unusable_files_are_logged_once(how: str, name: str, data: Data, caplog: pytest.LogCaptureFixture) -> None:
    path: Path = getattr(data, name)
    bp.plan(data.root, "x = 3", index="auto")
    FILES[how](data, path)
    forget_indexes()
    data.assert_right(how)
    data.assert_right(how)
    assert len(messages(caplog)) == (0 if (how, name) == ("missing", "manifest") else 1), messages(caplog)
    assert plan_by("auto", data.root, "x = 3").indexed == 0
    data.restore()
    assert plan_by("auto", data.root, "x = 3").indexed == 2


def test_files_of_other_indexes_are_not_used(data: Data, tmp_path: Path) -> None:
    """Segments of another data set, whose files have equal names and sizes, and of an older build of this one."""
    other = Data(make_data(tmp_path / "other", first=1))
    sizes = [(path.name, path.stat().st_size) for path in sorted(data.root.glob("*.parquet"))]
    assert sizes == [(path.name, path.stat().st_size) for path in sorted(other.root.glob("*.parquet"))]
    for i in range(2):  # and with equal times
        status = (data.root / f"{i}.parquet").stat()
        os.utime(other.root / f"{i}.parquet", ns=(status.st_atime_ns, status.st_mtime_ns))
    bp.build_index(other.root)
    (segment,) = segments(other.root)
    assert segment.stat().st_size == data.segment.stat().st_size
    data.replace(data.segment, segment.read_bytes())
    data.assert_right("the segment of another data set")
    data.replace(data.segment, b"")
    data.replace(data.segment.with_name(segment.name), segment.read_bytes())
    data.replace(data.manifest, segment.with_name("_manifest.json").read_bytes())
    data.assert_right("the index of another data set")
    assert plan_by("auto", data.root, "x = 3").indexed == 0
    data.restore()
    older = data.segment.read_bytes()
    write(data.root / "1.parquet", {"x": list(range(31, 61, 2)), "y": ["v12"] * 15}, ["x", "y"], rows_per_group=4)
    bp.build_index(data.root)
    (segment,) = segments(data.root)
    data.replace(segment, older.ljust(segment.stat().st_size))
    for where in WHERES:
        assert outcome("auto", data.root, where) == outcome("off", data.root, where)
    make_data(data.root)


@pytest.mark.parametrize("read_bytes", [0, 1 << 20], ids=["mapped", "open"])
def test_a_truncated_segment_does_not_kill_the_process(read_bytes: int, data: Data) -> None:
    """Between two plans of one process, which has the segment mapped into memory, or open."""
    code = (
        "import os, bloomparquet as bp; from bloomparquet.planning.index import lookup;"
        f"lookup._READ_BYTES = {read_bytes}; root = {str(data.root)!r}; bp.plan(root, 'x = 7');"
        f"os.truncate({str(data.segment)!r}, 1024); print(bp.plan(root, \"y = 'v12'\"))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(plan_by("off", data.root, "y = 'v12'"))
    assert done.stderr.count(str(data.segment)) == 1


def written(path: Path, change: Change) -> SectionFile:
    """A file with one section, whose entry (offset, size, checksum, arrays) was changed, with a right checksum."""
    whole = bytearray(b"".join(serialise({"s": {"a": np.arange(8)}}, "test").pieces))
    size = int.from_bytes(whole[12:16], "little")
    contents = json.loads(whole[HEAD : HEAD + size])
    change(contents["sections"]["s"], len(whole))
    raw = json.dumps(contents).encode()
    assert len(raw) <= size
    whole[HEAD : HEAD + size] = raw.ljust(size)
    whole[16:HEAD] = xxhash.xxh3_64_intdigest(whole[:16] + whole[HEAD : HEAD + size]).to_bytes(8, "little")
    path.write_bytes(whole)
    return SectionFile(OpenSource(str(path)), "test")


@pytest.mark.parametrize("offset", [-8, 0.0, "8", None])
def test_an_entry_lies_within_the_file(offset: object, tmp_path: Path) -> None:
    """A map that is read behind its end would kill the process."""

    def move(entry: list[Any], end: int) -> None:
        entry[0] = offset

    def pass_the_end(entry: list[Any], end: int) -> None:
        entry[0] = end - entry[1] + 8

    for change in (move, pass_the_end):
        with pytest.raises(DamagedFileError, match="do not lie within its"):
            written(tmp_path / "x", change)
    assert written(tmp_path / "x", lambda entry, end: None).section("s")["a"].tolist() == list(range(8))
