"""Adds or shrinks the filters of one file: the changes to its filters, and the new file.

No data page is written again. The new file replaces the old file in one step. If that fails, the old file is unchanged,
unless the error says otherwise.

Source: parquet-format ``BloomFilter.md``; folding: :mod:`bloomparquet.parquet.bloom_filter.split_block`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from bloomparquet.errors import (
    BloomParquetError,
    EncryptionError,
    NotParquetError,
    OptionError,
    UnsupportedError,
    located,
)
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.planning.open import orc_files
from bloomparquet.query.predicate import Column
from bloomparquet.storage.atomic import remove_leftover, replacing
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import read_extents
from bloomparquet.storage.staleness import is_unchanged
from bloomparquet.writing.filters.build import insert_equal_floats
from bloomparquet.writing.filters.from_chunk import filter_chunk
from bloomparquet.writing.filters.locate import (
    ChunkId,
    Extent,
    find_filters,
    read_filter,
    removed_extents,
)
from bloomparquet.writing.filters.spec import WRITE_ORC, Bloom, choose_leaves
from bloomparquet.writing.footer_edit import require_footer_key, require_keys_inside
from bloomparquet.writing.outcome import Action, FileOutcome, describe_columns
from bloomparquet.writing.rewrite import Filters, Rewrite, rewrite


@dataclass(frozen=True, slots=True)
class FileJob:
    """One file, and the path of its new version. If that is None, the file is replaced."""

    file: FileInfo
    target: str | None = None


class FilterChanges(NamedTuple):
    """The filters that change, the byte ranges of the filters to remove, and by leaf the :class:`Bloom` that was asked
    for."""

    filters: Filters
    removed: list[Extent]
    wanted: Mapping[int, Bloom]


@dataclass(frozen=True)
class AddFilters:
    """Adds filters on the columns of `bloom` to the chunks without a filter; with `replace`, to all chunks.

    `unasked` are columns of `bloom` that the user did not name. They are skipped if they are encrypted and their key is
    missing.
    """

    bloom: Mapping[str | Column, Bloom]
    replace: bool = False
    unasked: frozenset[str | Column] = frozenset()
    case_sensitive: bool = True

    action: Action = "added"

    def changes(self, storage: Storage, file: FileInfo, footer: Footer, count: ReadCount) -> FilterChanges:
        schema = footer.profile.schema
        asked = {column: bloom for column, bloom in self.bloom.items() if column not in self.unasked}
        chosen, named = (
            choose_leaves(bloom, schema, file.path, absent_ok=True, case_sensitive=self.case_sensitive)
            for bloom in (self.bloom, asked)
        )
        old = find_filters(storage, file, footer, count, skip_broken=True) if self.replace else {}
        filters: dict[ChunkId, SplitBlockBloomFilter | None] = {}
        for row_group in range(len(footer.rows)):
            for index, wanted in chosen.items():
                chunk_id = row_group, index
                if index not in named and not footer.is_decryptable(*chunk_id):
                    continue
                with located(f"{file.path}: {footer.chunk_name(*chunk_id)}"):
                    has_filter = footer.read_chunk(*chunk_id).bloom_offset
                if has_filter and not self.replace:
                    continue
                bloom = filter_chunk(storage, file, footer, row_group, schema.leaves[index], wanted, count)
                if bloom is None:
                    continue
                if chunk_id in old:
                    with suppress(EncryptionError):  # the old filter was tampered with
                        stored = read_filter(storage, file, footer, chunk_id, old[chunk_id], count)
                        if np.array_equal(bloom.blocks, stored.blocks):
                            continue
                filters[chunk_id] = bloom
        return FilterChanges(filters, removed_extents(file, footer, old, filters), chosen)


@dataclass(frozen=True)
class ShrinkFilters:
    """Folds every filter as far as the fpp of `bloom` allows.

    A filter is dropped if its false positive probability is `drop_above` or more, or if it is empty and its chunk has
    values.
    """

    bloom: Bloom = field(default_factory=Bloom)
    drop_above: float = 0.9

    action: Action = "shrunk"

    def __post_init__(self) -> None:
        if not 0.0 < self.drop_above <= 1.0:
            raise OptionError(f"drop_above is {self.drop_above}; expected a probability above 0 and at most 1")

    def changes(self, storage: Storage, file: FileInfo, footer: Footer, count: ReadCount) -> FilterChanges:
        old = find_filters(storage, file, footer, count)
        filters: dict[ChunkId, SplitBlockBloomFilter | None] = {}
        for chunk_id, existing in old.items():
            bloom = read_filter(storage, file, footer, chunk_id, existing, count)
            fields = footer.read_chunk(*chunk_id)
            share_set = bloom.bits_set / (8 * bloom.num_bytes)  # an upper bound of the fpp, and cheaper
            is_empty = not share_set and (fields.values or 0) > (fields.nulls or 0)
            if is_empty or (share_set >= self.drop_above and bloom.estimated_fpp >= self.drop_above):
                filters[chunk_id] = None
                continue
            fitted = bloom.fitted(self.bloom.target_fpp)
            if fitted is not bloom:
                insert_equal_floats(footer.profile.schema.leaves[chunk_id[1]], fitted)
                filters[chunk_id] = fitted
        wanted = dict.fromkeys((leaf_index for _, leaf_index in filters), self.bloom)
        return FilterChanges(filters, removed_extents(file, footer, old, filters), wanted)


Change = AddFilters | ShrinkFilters


def read_footer(storage: Storage, file: FileInfo, count: ReadCount, keys: Keys | None) -> Footer:
    """The footer of `file`, decrypted with `keys`.

    Raises UnsupportedError for an ORC file, and the errors of
    :func:`bloomparquet.parquet.metadata.footer.read_footers`.
    """
    try:
        (footer,) = read_footers(storage, [file], count, keys=keys)
    except NotParquetError:
        if not orc_files(storage, [file], count):
            raise
        raise UnsupportedError(
            f"{file.path} is an ORC file, whose filters can only be made when it is written; it is unchanged; "
            f"{WRITE_ORC}"
        ) from None
    except EncryptionError as error:
        why = str(error).removeprefix(f"{file.path}: ")
        raise type(error)(f"{file.path}: the file is unchanged: {why}") from error
    assert footer is not None
    return footer


def change_file(
    change: Change,
    storage: Storage,
    target_storage: Storage,
    job: FileJob,
    *,
    keys: Keys | None,
    dry_run: bool = False,
    footer: Footer | None = None,
) -> FileOutcome:
    """Apply `change` to one file. `footer` is read unless given. After an error the file is unchanged, unless the error
    says otherwise."""
    file, target = job.file, job.target
    count = ReadCount()
    footer = footer or read_footer(storage, file, count, keys)
    if not dry_run:  # not before: if a copy has failed, the leftover is the only complete file
        remove_leftover(target_storage, target or file.path)
    require_footer_key(file.path, footer)
    if target is not None:
        require_keys_inside(file.path, footer)
    filters, removed, wanted = change.changes(storage, file, footer, count)
    if filters:
        read = partial(read_extents, storage, file, reads=count)
        new = rewrite(file.path, file.size, footer, filters, removed, read)
        if footer.crypto is not None and change.action == "shrunk" and new.size > file.size:
            raise EncryptionError(
                f"{file.path}: the file is unchanged, because shrinking would make it larger: without the keys of all "
                "columns, old filters cannot be removed; give the keys of all columns"
            )
    elif target is None:
        return FileOutcome(file.path, "unchanged", file.size, file.size)
    else:
        new = Rewrite(((0, file.size),), ())
    if not dry_run:
        if target is not None:
            target_storage.make_parents(target)
        with replacing(target_storage, target or file.path, file if target is None else None) as output:
            for start, stop in new.copied:
                output.copy(storage, file.path, start, stop)
            for part in new.tail:
                output.write(part)
            if target is not None and not is_unchanged(storage, file):
                raise BloomParquetError(f"{file.path}: the file changed while it was copied; run again")
            output.commit()
    action: Action = change.action if filters else "copied"
    dropped = sum(bloom is None for bloom in filters.values())
    columns = describe_columns(footer, filters, wanted)
    return FileOutcome(target or file.path, action, file.size, new.size, columns, dropped)
