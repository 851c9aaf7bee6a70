"""The outcome of writing or changing one file, as every tool reports it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bloomparquet.errors import shorten
from bloomparquet.parquet.bloom_filter.sizes import TOLERANCE
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.writing.advice.benefit import why_unused
from bloomparquet.writing.filters.spec import Bloom
from bloomparquet.writing.rewrite import Filters

FIELDS = (
    "path", "action", "bytes_before", "bytes_after", "filters", "filter_bytes", "dropped", "fpp", "limited", "error",
)  # fmt: skip
"""The fields of a :class:`FileOutcome` that have a single value, for tables."""

Action = Literal["written", "added", "shrunk", "copied", "unchanged", "failed"]

_MANY_BLOCKS = 64  # with fewer blocks, chance collisions raise the fpp, not `max_bytes`


@dataclass(frozen=True, slots=True)
class ColumnOutcome:
    """The new filters of one column of a file.

    `bytes` is the size of all `filters` together. `fpp` is the highest false positive probability among them, estimated
    from their bits. `limited` is whether ``max_bytes`` made the fpp worse than asked. `unused` is the reason why
    bloomparquet never uses these filters; None if it does.
    """

    column: str
    filters: int
    bytes: int
    fpp: float
    limited: bool
    unused: str | None = None


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The outcome for one file: its size before and after, its new filters by column, the number of `dropped` filters.

    `action` is ``written`` for a new file; ``added`` or ``shrunk`` for a file with changed filters; ``copied`` for a
    file that was written to ``dst`` without changes; ``unchanged`` for a file that needed no change; ``failed``, with
    `error`, for a file that is unchanged because of an error. If a failed file is not unchanged, its error says so.
    """

    path: str
    action: Action
    bytes_before: int
    bytes_after: int
    columns: tuple[ColumnOutcome, ...] = ()
    dropped: int = 0
    error: str | None = None

    @property
    def filters(self) -> int:
        """The number of new filters."""
        return sum(column.filters for column in self.columns)

    @property
    def filter_bytes(self) -> int:
        """The size of the new filters, without headers."""
        return sum(column.bytes for column in self.columns)

    @property
    def fpp(self) -> float | None:
        """The highest false positive probability among the new filters. None if there are none."""
        return max((column.fpp for column in self.columns), default=None)

    @property
    def limited(self) -> tuple[str, ...]:
        """The columns whose filters have a worse fpp than asked, because of ``max_bytes``."""
        return tuple(column.column for column in self.columns if column.limited)


def describe_columns(footer: Footer, filters: Filters, wanted: Mapping[int, Bloom]) -> tuple[ColumnOutcome, ...]:
    """The outcomes of new filters by column. `wanted` has the :class:`Bloom` that was asked for, by leaf."""
    by_leaf: dict[int, list[SplitBlockBloomFilter]] = {}
    for (_, leaf_index), bloom in filters.items():
        if bloom is not None:
            by_leaf.setdefault(leaf_index, []).append(bloom)
    outcomes = []
    for leaf_index, blooms in sorted(by_leaf.items()):
        worst = max(blooms, key=lambda bloom: bloom.estimated_fpp)
        ratio = worst.estimated_fpp / wanted[leaf_index].target_fpp
        at_most = 2 * worst.num_bytes > wanted[leaf_index].max_bytes
        too_small = ratio > TOLERANCE if at_most else ratio > 2 and worst.n_blocks >= _MANY_BLOCKS
        limited = wanted[leaf_index].ndv is None and too_small
        name = ".".join(footer.profile.schema.leaves[leaf_index].path)
        size = sum(bloom.num_bytes for bloom in blooms)
        unused = why_unused(footer.profile.schema.leaves[leaf_index], footer.profile.traits)
        outcomes.append(ColumnOutcome(name, len(blooms), size, worst.estimated_fpp, limited, unused))
    return tuple(outcomes)


def warn_of_filters(outcome: FileOutcome) -> None:
    """Warn of new filters that are never used, and of filters with a worse fpp than asked."""
    for column in outcome.columns if outcome.action in ("added", "written") else ():
        if column.unused is not None:  # without the path, so that Python shows it once for all files
            warnings.warn(
                f"the Bloom filters of column {shorten(column.column)} are never used by bloomparquet: the column "
                f"{column.unused}; leave it out, or keep them for other readers",
                stacklevel=3,
            )
    if outcome.limited:
        warnings.warn(
            f"{outcome.path}: the size limit max_bytes raises the false positive probability of the filters of "
            f"{', '.join(outcome.limited)} to up to {outcome.fpp:.1%}; raise max_bytes, or make row groups smaller",
            stacklevel=3,
        )
