"""What was done to a file, or would be: the record that every tool here reports with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bloomparquet.errors import shorten
from bloomparquet.parquet.bloom_filter.split_block import TOLERANCE, SplitBlockBloomFilter
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.writing.advice.worth import cannot_serve
from bloomparquet.writing.filters.spec import Bloom
from bloomparquet.writing.rewrite import Filters

FIELDS = (
    "path", "action", "bytes_before", "bytes_after", "filters", "filter_bytes", "dropped", "fpp", "limited", "error",
)  # fmt: skip
"""What tables of outcomes tell of a file, one value each."""

Action = Literal["written", "added", "shrunk", "copied", "unchanged", "failed"]

_MANY_BLOCKS = 64  # with fewer, values that fall together by chance make a filter worse, not the size allowed


@dataclass(frozen=True, slots=True)
class ColumnOutcome:
    """The new filters of one column of a file: their number, their bytes, and the worst fpp among them, measured by
    their bits. `limited` says that the largest size that was allowed made it worse than asked, `unused` why no lookup
    of this package ever asks these filters; None where lookups do."""

    column: str
    filters: int
    bytes: int
    fpp: float
    limited: bool
    unused: str | None = None


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """One file: what became of it, its bytes before and after, its new filters by column, the filters that are gone.

    `action` is ``written`` for a new file, ``added`` or ``shrunk`` where one was replaced, ``copied`` where another
    place was given and there was nothing to do, ``unchanged`` where the file needed nothing, and ``failed``, with
    `error`, where it is as it was.
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
        """How many filters were written."""
        return sum(column.filters for column in self.columns)

    @property
    def filter_bytes(self) -> int:
        """What they take, without their headers."""
        return sum(column.bytes for column in self.columns)

    @property
    def fpp(self) -> float | None:
        """The worst false positive probability among them; None where there are none."""
        return max((column.fpp for column in self.columns), default=None)

    @property
    def limited(self) -> tuple[str, ...]:
        """The columns of which filters are worse than asked, because of the largest size allowed."""
        return tuple(column.column for column in self.columns if column.limited)


def describe(footer: Footer, filters: Filters, wanted: Mapping[int, Bloom]) -> tuple[ColumnOutcome, ...]:
    """What is to be said of new filters; `wanted` is what was asked for, by leaf."""
    found: dict[int, list[SplitBlockBloomFilter]] = {}
    for (_, leaf), bloom in filters.items():
        if bloom is not None:
            found.setdefault(leaf, []).append(bloom)
    outcomes = []
    for leaf, blooms in sorted(found.items()):
        worst = max(blooms, key=lambda bloom: bloom.estimated_fpp)
        ratio = worst.estimated_fpp / wanted[leaf].fpp
        at_most = 2 * worst.num_bytes > wanted[leaf].max_bytes
        too_small = ratio > TOLERANCE if at_most else ratio > 2 and worst.n_blocks >= _MANY_BLOCKS
        limited = wanted[leaf].ndv is None and too_small
        name = ".".join(footer.profile.schema.leaves[leaf].path)
        size = sum(bloom.num_bytes for bloom in blooms)
        unused = cannot_serve(footer.profile.schema.leaves[leaf], footer.profile.traits)
        outcomes.append(ColumnOutcome(name, len(blooms), size, worst.estimated_fpp, limited, unused))
    return tuple(outcomes)


def warn_of_filters(outcome: FileOutcome) -> None:
    """Warn of new filters that are never asked, and of those that the largest size allowed has made worse than
    asked."""
    for column in outcome.columns if outcome.action in ("added", "written") else ():
        if column.unused is not None:  # without the path: once for all files
            warnings.warn(
                f"the Bloom filters of column {shorten(column.column)} are never used by bloomparquet: the column "
                f"{column.unused}; leave it out, or keep them for other readers",
                stacklevel=3,
            )
    if outcome.limited:
        warnings.warn(
            f"{outcome.path}: max_bytes makes the filters of {', '.join(outcome.limited)} worse than asked for, "
            f"up to fpp {outcome.fpp:.1%}; allow more bytes, or make row groups smaller",
            stacklevel=3,
        )
