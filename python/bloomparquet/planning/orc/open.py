"""Opens ORC files as a table of stripes: from the index, from the cache, or by reading their tails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, LimitError, NotOrcError, PlanError
from bloomparquet.orc.file_tail import Tail, are_orc, begin_with, read_tails
from bloomparquet.orc.protobuf import MAX_ELEMENTS
from bloomparquet.orc.schema import build_schema
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.index.cache import PlanCache, TableKind
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.planning.index.segments import IndexedTables, OpenRest
from bloomparquet.planning.orc.file_profile import find_profiles
from bloomparquet.planning.orc.serialized import read_segment, to_sections
from bloomparquet.planning.orc.stripe_arrays import LazyTails, StripeArrays
from bloomparquet.planning.orc.stripes import Stripes
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_MAX_ROWS = 1 << 48


@dataclass(frozen=True, slots=True)
class OrcFiles:
    """The `table` of the readable files, and the errors of the others. `parquet` is the first Parquet file, if any."""

    table: Stripes
    errors: Mapping[FileInfo, BloomParquetError]
    parquet: FileInfo | None

    @property
    def is_orc(self) -> bool:
        """Whether any file is an ORC file, even a damaged one."""
        return bool(self.table.files) or any(not isinstance(error, NotOrcError) for error in self.errors.values())

    def require(
        self,
        left_out: dict[FileInfo, BloomParquetError] | None,
        unreadable: dict[FileInfo, BloomParquetError] | None,
        is_declared: bool,
        beside: Sequence[FileInfo] = (),
    ) -> Stripes:
        """The table. Raises the first error of a file that may not be left out.

        `left_out` collects files that are damaged or of an unknown compression, `unreadable` files with encrypted
        columns and files beyond the limits of reading. Unless the user declared the format (`is_declared`), a Parquet
        file beside ORC files is a PlanError. `beside` are more ORC files.
        """
        if self.parquet is not None and (self.is_orc or beside) and not is_declared:
            first = next(iter((*self.table.files, *beside)), self.parquet)
            raise PlanError(
                f"{self.parquet.path} is a Parquet file, but {first.path} is an ORC file; "
                "expected files of one format: read each format separately"
            )
        for file, error in self.errors.items():
            if isinstance(error, EncryptionError | LimitError) and unreadable is not None:
                unreadable[file] = error
            elif isinstance(error, LimitError) or left_out is None:
                raise error
            else:
                left_out[file] = error
        return self.table


def open_stripes(
    storage: Storage, files: Sequence[FileInfo], reads: ReadCount, *, cache: PlanCache, keys: Keys | None
) -> OrcFiles:
    """The stripes of `files`. Reads the tails that `cache` does not have.

    EncryptionError if `keys` allow no plaintext files: encrypted ORC files are not supported.
    """
    opened: list[OrcFiles] = []

    def read(some: Sequence[FileInfo]) -> Stripes:
        opened.append(read_stripes(storage, some, reads))
        return opened[0].table

    table = cache.open(_KIND, storage, files, None, read)
    if table.files and keys is not None and not keys.allow_plaintext_files:
        raise EncryptionError(
            f"{table.files[0].path}: the file is not encrypted, but the keys have allow_plaintext_files=False"
        )
    return OrcFiles(table, opened[0].errors, opened[0].parquet) if opened else OrcFiles(table, {}, None)


def open_indexed(
    index: OpenIndex, storage: Storage, files: Sequence[FileInfo], reads: ReadCount, rest: OpenRest[Stripes]
) -> Stripes | None:
    """The stripes of `files`: those in `index` from there, the others from `rest`, in the order of `files`. None if
    `index` has none of them."""
    return _indexed.open(index, storage, files, reads, None, rest)


def read_stripes(storage: Storage, files: Sequence[FileInfo], reads: ReadCount) -> OrcFiles:
    """Read the tails of `files`."""
    tails = dict(zip(files, map(_within_limits, read_tails(storage, files, reads)), strict=True))
    errors = {file: error for file, error in tails.items() if isinstance(error, BloomParquetError)}
    not_orc = [file for file, error in errors.items() if isinstance(error, NotOrcError)]
    for file, is_truncated in zip(not_orc, are_orc(storage, not_orc, reads), strict=True):
        if is_truncated:
            errors[file] = FormatError(str(errors[file]))
    starts = [begin_with(storage, not_orc, magic, reads) for magic in (b"PAR1", b"PARE")]
    parquet = [file for file, plain, encrypted in zip(not_orc, *starts, strict=True) if plain or encrypted]
    readable = [(file, tail) for file in files if isinstance(tail := tails[file], Tail)]
    table = Stripes.of_tails(storage, tuple(file for file, _ in readable), [tail for _, tail in readable])
    return OrcFiles(table, errors, next(iter(parquet), None))


def merge(
    files: Sequence[FileInfo], parts: Sequence[Stripes], part: NDArray[np.int64], source: NDArray[np.int64]
) -> Stripes:
    """The stripes of `files`, with what `parts` know of them. File i is file ``source[i]`` of ``parts[part[i]]``."""
    if len(parts) == 1 and parts[0].stored is None and np.array_equal(source, np.arange(len(parts[0].files))):
        return parts[0]
    profiles, numbers = find_profiles([profile.tail for table in parts for profile in table.profiles])
    of_part = np.split(np.array(numbers, np.int64), np.cumsum([len(table.profiles) for table in parts])[:-1])
    arrays = StripeArrays.merged([table.arrays for table in parts], part, source, of_part)
    used, profile = np.unique(arrays.profile, return_inverse=True)
    profiles, arrays = [profiles[number] for number in used.tolist()], replace(arrays, profile=profile)
    tails = LazyTails.merged([table.tails for table in parts], part, source)
    table = Stripes(parts[0].storage, files, tails, arrays, profiles)
    for number, each in enumerate(parts):
        table.share(each, np.flatnonzero(part == number), source[part == number])
    return table


_KIND = TableKind(FileFormat.ORC, merge, read_segment, to_sections)
_indexed = IndexedTables[Stripes](read_segment, merge)


def _within_limits(tail: Tail | BloomParquetError) -> Tail | BloomParquetError:
    """`tail`, or an error if its arrays would be too large or its types nest too deep."""
    if isinstance(tail, BloomParquetError):
        return tail
    rows = sum(stripe.rows for stripe in tail.stripes)
    if rows > _MAX_ROWS:
        return FormatError(f"{tail.path}: its stripes claim {rows} rows; it is damaged")
    groups = sum(max(tail.row_groups(stripe), 1) for stripe in range(len(tail.stripes)))
    if groups > MAX_ELEMENTS:
        return LimitError(f"{tail.path}: the file claims {groups} row groups; at most {MAX_ELEMENTS} are read")
    try:
        build_schema(tail.types)
    except BloomParquetError as error:
        return type(error)(f"{tail.path}: {error}")
    return tail
