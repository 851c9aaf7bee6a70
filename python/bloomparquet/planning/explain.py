"""Explains a plan: judges each part of its predicate again, alone, and says why the rest was not skipped.

Evidence that planning has read is in memory. Asking one part alone may read filters that the whole predicate did not
need; these reads are counted apart from those of the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError, FileChangedError, join_names
from bloomparquet.planning.decisions import KEPT, count_decisions
from bloomparquet.planning.explanation import EVIDENCE_NAMES, Explanation, NotUsed, Part, Used
from bloomparquet.planning.judge import RowCondition, judge
from bloomparquet.planning.leaf_reasons import Why, explain_kept
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.planning.remedies import Remedies, not_used, path_argument, remedies_of, remedies_of_table
from bloomparquet.planning.table_columns import units_of
from bloomparquet.query.normal_form import merge_values, to_provable
from bloomparquet.query.predicate import (
    Always,
    And,
    Eq,
    In,
    Junction,
    Leaf,
    Not,
    NotEq,
    NotIn,
    Opaque,
    Or,
    Predicate,
    columns,
    to_sql,
)
from bloomparquet.query.resolve import rename
from bloomparquet.query.verdict import Codes, Decision, cheapest, greatest
from bloomparquet.query.why_not import WhyNot

_MAX_VALUES = 20
_OPERATORS: dict[type[Predicate], Literal["and", "or"]] = {And: "and", Or: "or"}


def explain_plan(plan: ScanPlan) -> Explanation:
    """Why `plan` skips what it skips, and not more."""
    return _Explainer(plan).explain()


class _JudgedPart(NamedTuple):
    """A part of the predicate, and the evidence that would decide if the part were the whole predicate.

    `decided`: per row group of the table. `excluded`: per file of the data set, whether it is skipped unopened.
    """

    part: Part
    decided: Codes
    excluded: NDArray[np.bool_]


class _Explainer:
    def __init__(self, plan: ScanPlan) -> None:
        self._plan, self._table = plan, units_of(plan.table, plan.dataset.columns)
        self._request = plan.request.uncounted_copy()
        self._total = len(plan.table)
        self._unopened = np.ones(len(plan.dataset.files), np.bool_)
        self._unopened[plan.file_positions] = False
        self._units = f"{plan.unit}s"

    def explain(self) -> Explanation:
        plan, request = self._plan, self._request
        parts = [self._judge(_merge_equalities(rename(each, request.paths))).part for each in request.predicates]
        reads = (request.footer_reads, request.filter_reads)
        where = "" if plan.where is None else to_sql(plan.where, max_values=_MAX_VALUES)
        return Explanation(
            where or (parts[0].predicate if parts else "no predicate"), plan.unit, self._total,
            plan.kept - len(plan.unreadable), count_decisions(plan.codes), tuple(parts),
            tuple(self._about_the_scan()), sum(read.requests for read in reads), sum(read.bytes for read in reads),
            len(plan.excluded), len(plan.unreadable), len(plan.table.files), tuple(plan.not_understood()),
        )  # fmt: skip

    def _about_the_scan(self) -> Iterator[NotUsed]:
        """The reasons that no part of the predicate has."""
        plan = self._plan
        if not self._request.predicates:
            yield self._not_used(Why(WhyNot.NO_PREDICATE), None)
        by_reason: dict[WhyNot, list[BloomParquetError]] = {}
        for error in plan.unreadable.values():
            is_key = isinstance(error, EncryptionError)
            by_reason.setdefault(WhyNot.KEY_MISSING if is_key else WhyNot.UNREADABLE_FOOTER, []).append(error)
        for reason, errors in by_reason.items():
            units = "files" if reason is WhyNot.KEY_MISSING else self._units
            total = len(plan.dataset.files)
            yield self._not_used(Why(reason, str(errors[0])), len(errors), total=total, units=units)

    def _judge(self, predicate: Predicate) -> _JudgedPart:
        if isinstance(predicate, Junction):
            return self._judge_junction(predicate)
        why: list[tuple[Why, int]] = []
        decided, excluded = np.full(self._total, KEPT, np.uint8), np.zeros_like(self._unopened)
        if isinstance(predicate, Always):
            if not predicate.value:
                decided[:], excluded = Decision.CONSTANT.code, self._unopened
            why = [(Why(WhyNot.ALWAYS_TRUE), self._total)] if predicate.value else []
        elif isinstance(opaque := predicate.child if isinstance(predicate, Not) else predicate, Opaque):
            why = [(Why(opaque.reason), self._total)]
        else:
            try:
                decided, excluded, why = self._judge_leaf(predicate)
            except (FileChangedError, FileNotFoundError) as error:  # of a column that the plan did not need
                why = [(Why(WhyNot.FILE_CHANGED, str(error)), self._total)]
        not_used = [self._not_used(each, count) for each, count in why]
        return self._describe(predicate, decided, excluded, not_used)

    def _judge_junction(self, predicate: Junction) -> _JudgedPart:
        children = [self._judge(child) for child in predicate.children]
        decided = np.stack([child.decided for child in children])
        excluded = np.stack([child.excluded for child in children])
        skipped = decided != KEPT
        is_or = isinstance(predicate, Or)
        combined = reduce(greatest if is_or else cheapest, decided)
        parts = tuple(child.part for child in children)
        not_used = list(self._keeping_halves(parts, skipped)) if is_or else []
        unopened = (np.logical_and if is_or else np.logical_or).reduce(excluded, axis=0)
        return self._describe(predicate, combined, unopened, not_used, parts)

    def _keeping_halves(self, parts: Sequence[Part], skipped: NDArray[np.bool_]) -> Iterator[NotUsed]:
        """The parts of an OR that keep row groups which others of its parts skip. ``skipped[i]``: which row groups
        ``parts[i]`` skips."""
        skipping = np.count_nonzero(skipped, axis=0)
        all_but_one_skip = skipping == len(parts) - 1
        for part, part_skips in zip(parts, skipped, strict=True):
            if count := int(np.count_nonzero(all_but_one_skip & ~part_skips)):
                yield self._not_used(Why(WhyNot.OR_HALF, part.predicate), count)
        if (several_keep := (skipping > 0) & (skipping < len(parts) - 1)).any():
            keeping = np.flatnonzero((~skipped[:, several_keep]).any(axis=1)).tolist()
            halves = join_names(parts[i].predicate for i in keeping)
            yield self._not_used(Why(WhyNot.OR_HALVES, halves), int(np.count_nonzero(several_keep)))

    def _describe(
        self,
        predicate: Predicate,
        decided: Codes,
        excluded: NDArray[np.bool_],
        not_used: Sequence[NotUsed],
        parts: tuple[Part, ...] = (),
    ) -> _JudgedPart:
        text, operator = to_sql(predicate, max_values=_MAX_VALUES), _OPERATORS.get(type(predicate))
        skipped, files = int(np.count_nonzero(decided != KEPT)), int(np.count_nonzero(excluded))
        counts = count_decisions(decided)
        by = [(each, counts.get(each, 0), files if each is Decision.PARTITION else 0) for each in EVIDENCE_NAMES]
        used = tuple(Used(*each) for each in by if any(each[1:]))
        return _JudgedPart(
            Part(text, operator, skipped, self._total, used, tuple(not_used), parts, files), decided, excluded
        )

    def _judge_leaf(self, leaf: Predicate) -> tuple[Codes, NDArray[np.bool_], list[tuple[Why, int]]]:
        """The evidence that would decide if `leaf` were the whole predicate; the unopened files that partition values
        exclude; and why the other row groups are kept, with their number."""
        request, excluded = self._request, np.zeros_like(self._unopened)
        asked = to_provable(leaf)
        if isinstance(asked, Always):
            return np.full(self._total, KEPT, np.uint8), excluded, [(Why(WhyNot.NEGATION), self._total)]
        by_file = None if not isinstance(asked, Leaf | Not) else request.partitions.verdicts(asked, False)
        if by_file is not None:
            excluded = ~by_file & self._unopened
        judged = judge(self._table, [RowCondition(asked, strict=False)], request)
        alive = judged.codes == KEPT
        if by_file is not None:
            reason = WhyNot.PARTITIONS if request.partitions.can_compare(leaf) else WhyNot.PARTITION_TYPE
            why, count = Why(reason, column=columns(leaf).pop()), int(np.count_nonzero(alive))
            return judged.codes, excluded, [(why, count)] if count else []
        kept = (judged.codes_of_ranges == KEPT) & alive[judged.owner]
        reasons = explain_kept(judged.ranges, asked, kept, judged.evidence[0].asked, request)
        return judged.codes, excluded, _count_reasons(reasons, judged.owner, self._total)

    def _not_used(self, why: Why, count: int | None, *, total: int | None = None, units: str = "") -> NotUsed:
        total = self._total if total is None else total
        return not_used(why, count, total, units or self._units, self._remedies(why))

    def _remedies(self, why: Why) -> Remedies:
        """The remedies for files of this format, or for a table."""
        dataset = self._plan.dataset
        if dataset.columns is not None or dataset.location is not None:
            return remedies_of_table(why)
        return remedies_of(why, path_argument(dataset), self._table.format)


def _merge_equalities(predicate: Predicate) -> Predicate:
    """`predicate` with several equalities of one column as one part, and the other parts as they are."""
    if isinstance(predicate, In | NotIn) and len(predicate.values) == 1:
        return (Eq if isinstance(predicate, In) else NotEq)(predicate.column, predicate.values[0])
    if not isinstance(predicate, Junction):
        return predicate
    merged = merge_values(predicate)
    if not isinstance(merged, Junction):
        return merged
    # A merge that joins nothing would only change the order.
    whole = merged if len(merged.children) < len(predicate.children) else predicate
    return type(whole)(*map(_merge_equalities, whole.children))


def _count_reasons(
    reasons: Iterable[tuple[NDArray[np.int64], Why]], owner: NDArray[np.int64], total: int
) -> list[tuple[Why, int]]:
    """Each reason, with the number of row groups (or stripes) whose first reason it is."""
    counts: Counter[Why] = Counter()
    is_explained = np.zeros(total, np.bool_)
    for units, why in reasons:
        owners = np.unique(owner[units])
        counts[why] += int(np.count_nonzero(~is_explained[owners]))
        is_explained[owners] = True
    return [(why, count) for why, count in counts.items() if count]
