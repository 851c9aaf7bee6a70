"""Chooses how to read the matching rows of a row group or stripe. All choices by cost are made here."""

from __future__ import annotations

from bloomparquet.storage.files import Storage

_GAPS = 4
_SIDE_BY_SIDE_BYTES = 1 << 20


def reads_condition_first(other_bytes: int, storage: Storage) -> bool:
    """Whether to read the columns of the condition alone, and the others, of `other_bytes` compressed bytes, only where
    rows match. A second read costs as much as some gaps between ranges that are merged."""
    return other_bytes > _GAPS * storage.merge_gap


def reads_side_by_side(total_bytes: int, storage: Storage) -> bool:
    """Whether threads read the kept row groups, of `total_bytes`. Less than that decodes faster than threads start."""
    return storage.threads > 1 or total_bytes > _SIDE_BY_SIDE_BYTES
