"""Whether files still are what was listed: what is known of a file is known of one path, size and modification time."""

from __future__ import annotations

import os
from collections.abc import Iterable

from bloomparquet.storage import FileInfo, Storage


def are_unchanged(storage: Storage, files: Iterable[FileInfo]) -> list[bool]:
    """Which of `files` still are what was listed, so that what was read in the meantime was of them: those with a
    modification time, and, where to ask costs next to nothing, with the same one now."""
    local = storage.key == "file"
    return [file.mtime_ns > 0 and (not local or is_unchanged(file)) for file in files]


def is_unchanged(file: FileInfo) -> bool:
    """Whether a local file still is what was listed."""
    try:
        now = os.stat(file.path)
    except OSError:
        return False
    unit = 1 if file.mtime_ns % 1_000_000 else 1_000_000  # Hadoop lists milliseconds
    return now.st_size == file.size and now.st_mtime_ns // unit == file.mtime_ns // unit
