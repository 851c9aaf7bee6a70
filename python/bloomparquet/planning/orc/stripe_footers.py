"""The footers of a table's stripes: read when they are first needed, and kept.

Source: ORC specification, "Stripe Footer".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.stripe_indexes import StripeId, StripeIndexes, read_stripe_footers
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.forks import new_lock


class StripeFooters:
    """The footers of n stripes. Stripe i is stripe ``index[i]`` of the file whose tail is ``tails[file[i]]``.

    Safe to use from several threads. Its lock is taken last: nothing here waits for another lock.
    """

    def __init__(
        self, storage: Storage, tails: Sequence[Tail], file: NDArray[np.int64], index: NDArray[np.int64]
    ) -> None:
        self._storage, self._tails, self._file, self._index = storage, tails, file, index
        self._known: dict[int, StripeIndexes | BloomParquetError] = {}
        self._lock = new_lock()

    def read(self, stripes: NDArray[np.int64], reads: ReadCount) -> list[StripeIndexes | BloomParquetError]:
        """The footers of `stripes`, or the error of each that cannot be read."""
        with self._lock:
            missing = [i for i in stripes.tolist() if i not in self._known]
            files, file_at = np.unique(self._file[missing], return_inverse=True)
            tails = [self._tails[i] for i in files.tolist()]
            ids = [StripeId(at, int(self._index[i])) for at, i in zip(file_at.tolist(), missing, strict=True)]
            self._known.update(zip(missing, read_stripe_footers(self._storage, tails, ids, reads), strict=True))
            return [self._known[i] for i in stripes.tolist()]

    def known_zones(self, stripes: NDArray[np.int64]) -> dict[int, str | None]:
        """The time zones of the writers, by stripe, for those of `stripes` whose footers were read."""
        footers = ((i, self._known.get(i)) for i in stripes.tolist())
        return {i: footer.writer_timezone for i, footer in footers if isinstance(footer, StripeIndexes)}
