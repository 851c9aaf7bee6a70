"""Tables of stripes whose files are in an index; the other files come from the cache of stripes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bloomparquet.orc.file_tail import Tail
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.planning.index.segments import IndexedTables, Rest
from bloomparquet.planning.orc.file_profile import find_profiles
from bloomparquet.planning.orc.serialized import read_segment
from bloomparquet.planning.orc.stripe_arrays import LazyTails, StripeArrays
from bloomparquet.planning.orc.stripes import Stripes
from bloomparquet.storage.files import FileInfo, ReadCount, Storage


def indexed_stripes(
    index: OpenIndex, storage: Storage, files: Sequence[FileInfo], reads: ReadCount, rest: Rest[Stripes]
) -> Stripes | None:
    """The stripes of `files`: those in `index` from there, the others from `rest`, in the order of `files`. None if
    `index` has none of them."""
    return _tables.open(index, storage, files, reads, None, rest)


def merge_stripes(
    files: Sequence[FileInfo], parts: Sequence[Stripes], part: NDArray[np.int64], source: NDArray[np.int64]
) -> Stripes:
    """The stripes of `files`, with what `parts` know of them. File i is file ``source[i]`` of ``parts[part[i]]``."""
    profiles, numbers = find_profiles([profile.tail for table in parts for profile in table.profiles])
    of_part = np.split(np.array(numbers, np.int64), np.cumsum([len(table.profiles) for table in parts])[:-1])
    arrays = StripeArrays.merged([table.arrays for table in parts], part, source, of_part)
    origin = list(zip(part.tolist(), source.tolist(), strict=True))

    def read_tail(i: int) -> Tail:
        number, at = origin[i]
        tail: Tail = parts[number].tails[at]
        return tail

    table = Stripes(parts[0].storage, files, LazyTails(read_tail, len(files)), arrays, profiles)
    table.parts = parts
    for number, each in enumerate(parts):
        table.share(each, np.flatnonzero(part == number), source[part == number])
    return table


_tables = IndexedTables[Stripes](read_segment, merge_stripes)
