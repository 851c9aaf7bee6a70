"""Opens ORC files as a table of stripes: from the index, from the cache, or by reading their tails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, LimitError, NotOrcError, PlanError
from bloomparquet.orc.file_tail import Tail, are_orc, begin_with, read_tails
from bloomparquet.orc.protobuf import MAX_ELEMENTS
from bloomparquet.orc.schema import build_schema
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.cache.parts import PartKind
from bloomparquet.planning.cache.plan_cache import PlanCache
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.selection import Selection
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.planning.orc.serialized import read_segment, to_sections
from bloomparquet.planning.orc.stripes import Stripes
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_MAX_ROWS = 1 << 48

StripeTable: TypeAlias = Stripes | Selection


@dataclass(frozen=True, slots=True)
class OrcFiles:
    """The `table` of the readable files, and the errors of the others. `parquet` is the first Parquet file, if any."""

    table: StripeTable
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
    ) -> StripeTable:
        """The table. Raises the first error of a file that may not be left out.

        `left_out` collects files that are damaged or of an unknown compression, `unreadable` files with encrypted
        columns and files beyond the limits of reading. Unless the user declared the format (`is_declared`), a Parquet
        file beside ORC files is a PlanError.
        """
        if self.parquet is not None and self.is_orc and not is_declared:
            first = next(iter(self.table.files), self.parquet)
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
    storage: Storage,
    files: Sequence[FileInfo],
    reads: ReadCount,
    *,
    cache: PlanCache,
    keys: Keys | None,
    index: OpenIndex | None = None,
) -> OrcFiles:
    """The stripes of `files`, in the order of `files`. Reads the tails that neither `index` nor `cache` has.

    EncryptionError if `keys` allow no plaintext files: encrypted ORC files are not supported.
    """
    errors: dict[FileInfo, BloomParquetError] = {}

    def read(some: Sequence[FileInfo]) -> Stripes:
        table, of_files = read_stripes(storage, some, reads)
        errors.update(of_files)
        return table

    table = cache.select(_KIND, storage, files, None, reads, read, index)
    if table.files and keys is not None and not keys.allow_plaintext_files:
        raise EncryptionError(
            f"{table.files[0].path}: the file is not encrypted, but the keys have allow_plaintext_files=False"
        )
    not_orc = [file for file, error in errors.items() if isinstance(error, NotOrcError)]
    starts = [begin_with(storage, not_orc, magic, reads) for magic in (b"PAR1", b"PARE")]
    parquet = [file for file, plain, encrypted in zip(not_orc, *starts, strict=True) if plain or encrypted]
    return OrcFiles(table, errors, next(iter(parquet), None))


def read_stripes(
    storage: Storage, files: Sequence[FileInfo], reads: ReadCount
) -> tuple[Stripes, dict[FileInfo, BloomParquetError]]:
    """The stripes of the readable files, by reading their tails, and the errors of the others."""
    tails = dict(zip(files, map(_within_limits, read_tails(storage, files, reads)), strict=True))
    errors = {file: error for file, error in tails.items() if isinstance(error, BloomParquetError)}
    not_orc = [file for file, error in errors.items() if isinstance(error, NotOrcError)]
    for file, is_truncated in zip(not_orc, are_orc(storage, not_orc, reads), strict=True):
        if is_truncated:
            errors[file] = FormatError(str(errors[file]))
    readable = [(file, tail) for file in files if isinstance(tail := tails[file], Tail)]
    return Stripes.of_tails(storage, tuple(file for file, _ in readable), [tail for _, tail in readable]), errors


_KIND = PartKind(FileFormat.ORC, read_segment, to_sections)


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
