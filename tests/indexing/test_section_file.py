"""Files of sections: what a table of contents claims must lie within its file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from bloomparquet.planning.evidence.section_file import SectionFile, serialise
from bloomparquet.planning.evidence.section_source import DamagedFileError, OpenSource

HEAD = 24
Change = Callable[[list[Any], int], None]


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


def test_an_unchanged_entry_is_read(tmp_path: Path) -> None:
    assert written(tmp_path / "x", lambda entry, end: None).section("s")["a"].tolist() == list(range(8))
