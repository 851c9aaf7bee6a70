"""The manifest of an index: the one small file that says which segments belong to it.

An index is a directory: ``_manifest.json``, and segments (:mod:`bloomparquet.planning.evidence.section_file`). Segments
never change. A build or a refresh writes new ones, then replaces the manifest in one step. So readers see the old index
or the new one, and files that no manifest names are leftovers.

All names begin with ``_``. Readers that skip such names in a directory list the directory itself if a glob such as
``events/*`` matches it.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import xxhash

from bloomparquet.errors import LimitError
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage

DIRECTORY = "_bloomparquet_index"
"""The directory of an index beside its data. Spark and pyarrow ignore names that begin with ``_``."""
MANIFEST = "_manifest.json"
SEGMENT_SUFFIX = ".segment"
VERSION = 1
"""Raise it with every change of what segments hold or mean: an index of another version counts as absent."""
WRITER = f"index {VERSION}"
_MOST_BYTES = 1 << 30

_SEGMENT_NAME = re.compile(rf"_[0-9a-f]{{16}}-[0-9a-f]{{8}}\{SEGMENT_SUFFIX}")


def new_segment_name(build: str) -> str:
    """The name of a new segment. `build` are 16 hexadecimal digits that all segments of one build share."""
    return f"_{build}-{secrets.token_hex(4)}{SEGMENT_SUFFIX}"


def is_segment_name(name: str) -> bool:
    """Whether a build gives this name to a segment: other files in the directory are not deleted."""
    return _SEGMENT_NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment: its file name, its size, and the number of files and row groups in it. Its first `start_bytes` bytes
    name these files."""

    name: str
    bytes: int
    files: int
    row_groups: int
    start_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The segments of an index, and the data that they cover.

    `root` is the directory of the data, with a slash at its end; None if it is the parent of the index's directory.
    `columns` are those that the user asked for, for a refresh. `digest` tells one state of an index from another.
    """

    format: FileFormat
    root: str | None
    columns: Mapping[str, Any]
    segments: tuple[SegmentEntry, ...]
    digest: str = ""

    @property
    def has_expressions(self) -> bool:
        """Whether there may be filters of ``lower(column)`` or ``upper(column)``."""
        return bool(self.columns.get("expressions"))

    def to_bytes(self) -> bytes:
        content = {
            "version": VERSION, "format": self.format.value, "root": self.root, "columns": dict(self.columns),
            "segments": [asdict(each) for each in self.segments],
        }  # fmt: skip
        return json.dumps({"checksum": _digest(content), **content}, indent=1).encode()

    def _require_types(self) -> None:
        """TypeError for a field of a wrong type."""
        for each in self.segments:
            if not isinstance(each.name, str) or "/" in each.name:
                raise TypeError(f"a segment is called {each.name!r}")
            sizes = (each.bytes, each.files, each.row_groups, each.start_bytes)
            if not all(isinstance(number, int) and number >= 0 for number in sizes):
                raise TypeError(f"the segment {each.name} has the sizes {sizes}; expected integers from 0")
        if not isinstance(self.root, str | None) or not isinstance(self.columns, Mapping):
            raise TypeError("root or columns have an unexpected type")

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Manifest:
        """The manifest in the file at `path`, whose bytes are `raw`. Raises :class:`DamagedFileError`."""
        try:
            content = json.loads(raw)
            checksum = content.pop("checksum")
            if content["version"] != VERSION:
                raise DamagedFileError(
                    f"{path}: the index has version {content['version']}; this release reads version {VERSION}: build "
                    "the index again"
                )
            if checksum != _digest(content):
                raise DamagedFileError(f"{path}: the manifest's checksum does not match; build the index again")
            segments = tuple(SegmentEntry(**each) for each in content["segments"])
            manifest = cls(FileFormat(content["format"]), content["root"], content["columns"], segments, checksum)
            manifest._require_types()
            return manifest
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise DamagedFileError(f"{path}: no manifest of an index ({error}); build the index again") from error


def read_manifest(storage: Storage, directory: str, reads: ReadCount) -> Manifest | None:
    """The manifest in `directory`; None if there is none. Raises :class:`DamagedFileError` or ``OSError``.

    On a remote storage, this takes two requests, or one if there is no manifest.
    """
    path = f"{directory}/{MANIFEST}"
    reads.requests += 1
    try:
        content = storage.read_whole(path, _MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError as error:
        raise DamagedFileError(f"{path}: the manifest is no file; delete the index, and build it again") from error
    except LimitError as error:
        raise DamagedFileError(str(error)) from error
    reads.requests += not isinstance(storage, LocalStorage)
    reads.bytes += len(content)
    return Manifest.from_bytes(path, content)


def stat_manifest(storage: LocalStorage, directory: str) -> FileInfo | None:
    """The manifest in `directory` as it is now; None if there is none."""
    try:
        (file,) = storage.list_files(f"{directory}/{MANIFEST}", recursive=False)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return file


def _digest(content: Mapping[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(content, sort_keys=True).encode())
