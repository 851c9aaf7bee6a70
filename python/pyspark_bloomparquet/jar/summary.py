"""The plan of one scan, as ``last_plan`` returns it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark_bloomparquet.jar.protocol import COUNT_PREFIX

if TYPE_CHECKING:
    from bloomparquet.planning.decisions import RowGroupCounts
    from bloomparquet.planning.evidence.formats import Unit
    from bloomparquet.planning.explanation import Explanation

_MOST_PATHS = 5


@dataclass(frozen=True)
class ScanSummary:
    """The plan for one scan of a query.

    If not `planned`, `reason` says why, and Spark reads everything. Otherwise ``total = kept + skipped.total()``, in
    row groups (for ORC in stripes; see `unit`) of the files that Spark's partition filters keep. The keys of `skipped`
    are ``"statistics"`` and ``"bloom"``. `row_group_counts` counts the row groups in the stripes; None for Parquet.
    `whole_files` counts files that the planner could not read, because they are encrypted, damaged, or changed since
    they were listed. Their row groups are not in `total`; Spark reads these files whole, or raises an error.
    `indexed_files` counts those of the `files` that were planned from the index of the data. `without_filters`: by
    column that is compared with values, how many row groups that statistics keep have no Bloom filter on it.
    """

    paths: tuple[str, ...]
    where: str | None
    planned: bool
    reason: str | None
    total: int
    kept: int
    skipped: Counter[str]
    bloom_bytes_read: int
    requests: int
    errors: int
    seconds: float
    whole_files: int = 0
    unit: Unit = "row group"
    row_group_counts: RowGroupCounts | None = None
    files: int = 0
    indexed_files: int = 0
    without_filters: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.planned:
            return f"not planned: {self.reason}"
        from bloomparquet.planning.decisions import describe_index, describe_units, describe_without_filters

        parts = [describe_units(self.kept, self.total, self.skipped, self.unit)]
        if self.indexed_files:
            parts.append(describe_index(self.indexed_files, self.files))
        if self.whole_files:
            parts.append(f"{self.whole_files} file{'s' * (self.whole_files > 1)} read whole, unplanned")
        parts += describe_without_filters(self.without_filters, self.total, self.unit)
        return "; ".join(parts)

    def _repr_html_(self) -> str:
        """The picture of the plan that notebooks show."""
        from bloomparquet.report import marks
        from bloomparquet.report.counts import Count, counts
        from bloomparquet.report.html import code, fragment, text

        what = f"{self.kept:,} of {self.total:,} {self.unit}s read" if self.planned else "not planned, so all is read"
        lines = [f"<b>{what}</b>", *(f"from {code(path)}" for path in self.paths[:_MOST_PATHS])]
        if len(self.paths) > _MOST_PATHS:
            lines.append(f"and {len(self.paths) - _MOST_PATHS:,} more paths")
        if self.where is not None:
            lines.append(f"where {code(self.where, 1_000)}")
        if not self.planned:
            lines.append(f"because {text(self.reason, 1_000)}")
        head = f'<p class="bp-head">{"<br>".join(lines)}</p>'
        if not self.planned:
            return fragment(head)
        parts = [
            Count(marks.STATISTICS, self.skipped["statistics"]),
            Count(marks.BLOOM, self.skipped["bloom"]),
            Count(marks.READ, self.kept, files=self.whole_files),
        ]
        return fragment(head, counts(parts, self.unit), f'<p class="bp-dim">{text(self._cost())}.</p>')

    def _cost(self) -> str:
        from bloomparquet.planning.decisions import describe_index
        from bloomparquet.report.texts import human_bytes, plural

        parts = [
            f"Planned in {1000 * self.seconds:,.0f} ms",
            plural(self.requests, "request"),
            f"{human_bytes(self.bloom_bytes_read)} of filters read",
        ]
        if self.indexed_files:
            parts.append(describe_index(self.indexed_files, self.files))
        if (within := self.row_group_counts) is not None:
            parts.append(f"{within.kept:,} of {within.total:,} row groups in the stripes might match")
        if self.errors:
            parts.append(f"{plural(self.errors, 'filter')} could not be used")
        return "; ".join(parts)


@dataclass(frozen=True, repr=False)
class ScanExplanation:
    """Why one scan of a query skips what it skips, and not more.

    It is the planner's explanation, as ``ScanPlan.explain`` gives it. A scan that was not planned has only the reason.
    ``str()`` is a text for people.
    """

    paths: tuple[str, ...]
    explanation: Explanation

    @property
    def planned(self) -> bool:
        """Whether the planner answered. If not, Spark reads everything."""
        return bool(self.explanation.parts)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"scan of {', '.join(self.paths)}\n{self.explanation}"

    def _repr_html_(self) -> str:
        """The table that notebooks show."""
        return self.explanation._repr_html_()


_Scan = TypeVar("_Scan", ScanSummary, ScanExplanation)


class Pictures(list[_Scan]):
    """A list that notebooks show as the pictures of its items, one below the other."""

    def _repr_html_(self) -> str:
        return "\n".join(scan._repr_html_() for scan in self) or "<p>The query scans no Parquet or ORC files.</p>"


def explain(plan: dict[str, Any]) -> ScanExplanation:
    """The explanation of a scan, from the jar's JSON."""
    from bloomparquet.planning.explanation import Explanation
    from bloomparquet.planning.leaf_reasons import Why
    from bloomparquet.planning.remedies import not_used
    from bloomparquet.query.why_not import WhyNot

    paths = tuple(plan["paths"])
    if "explanation" in plan:
        return ScanExplanation(paths, Explanation.from_dict(plan["explanation"]))
    if plan["planned"]:
        why = Why(WhyNot.NOT_PLANNED, "the scan has no files")
    else:
        why = Why(WhyNot.PLANNER_FAILED if plan.get("failed") else WhyNot.NOT_PLANNED, plan["reason"])
    reason = not_used(why, None, 0, f"{plan['unit']}s")
    return ScanExplanation(paths, Explanation(plan["where"] or "", plan["unit"], 0, 0, {}, (), (reason,)))


def summarize(plan: dict[str, Any]) -> ScanSummary:
    """The summary of a scan from its counts, which have the names of the metrics in Spark's UI."""
    unit: Unit = plan["unit"]
    prefix = COUNT_PREFIX[unit]
    return ScanSummary(
        paths=tuple(plan["paths"]),
        where=plan["where"],
        planned=plan["planned"],
        reason=plan.get("reason"),
        total=plan.get(f"{prefix}Total", 0),
        kept=plan.get(f"{prefix}Read", 0),
        skipped=Counter(
            statistics=plan.get(f"{prefix}SkippedByStatistics", 0),
            bloom=plan.get(f"{prefix}SkippedByBloomFilter", 0),
        ),
        bloom_bytes_read=plan.get("bloomFilterBytes", 0),
        requests=plan.get("requests", 0),
        errors=plan.get("numFilterErrors", 0),
        seconds=plan.get("planningTimeMs", 0) / 1000,
        whole_files=plan.get("numFilesReadWhole", 0),
        unit=unit,
        row_group_counts=_row_group_counts(plan) if unit == "stripe" and plan["planned"] else None,
        files=plan.get("numFilesTotal", 0),
        indexed_files=plan.get("numFilesIndexed", 0),
        without_filters=plan.get("withoutFilters", {}),
    )


def _row_group_counts(plan: dict[str, Any]) -> RowGroupCounts:
    from bloomparquet.planning.decisions import RowGroupCounts

    total, by_statistics, by_bloom = (
        plan.get(f"numRowGroups{what}", 0) for what in ("Total", "ExcludedByStatistics", "ExcludedByBloomFilter")
    )
    return RowGroupCounts(total, total - by_statistics - by_bloom, by_statistics, by_bloom)
