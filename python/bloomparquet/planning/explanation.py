"""The result of ``ScanPlan.explain()``: per part of the predicate, which evidence was used and which was not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bloomparquet.planning.evidence.formats import Unit
from bloomparquet.query.verdict import Decision
from bloomparquet.query.why_not import WhyNot
from bloomparquet.report.html import code, fragment, table, text
from bloomparquet.report.texts import plural

EVIDENCE_NAMES: Mapping[Decision, str] = {
    Decision.CONSTANT: "the predicate is never TRUE",
    Decision.PARTITION: "partition values",
    Decision.NULLS: "null counts",
    Decision.BOUNDS: "min/max",
    Decision.INDEX: "Bloom filters in the index",
    Decision.BLOOM: "Bloom filters",
}
"""The names of each kind of evidence in texts, in the order in which it is consulted."""

_INDENT = "  "
_MOST_ROWS = 200  # of a table in HTML


@dataclass(frozen=True, slots=True)
class Used:
    """Evidence that skips row groups for one part of the predicate alone. `skipped`: how many of them cheaper evidence
    does not skip. `files`: the files that partition values exclude unopened, whose row groups are not counted."""

    evidence: Decision
    skipped: int
    files: int = 0


@dataclass(frozen=True, slots=True)
class NotUsed:
    """Why row groups were not skipped, and what to do. `count`: how many this is the reason for; None if the reason is
    not about single row groups."""

    reason: WhyNot
    count: int | None
    text: str
    remedy: str

    def to_dict(self) -> dict[str, Any]:
        return {"reason": self.reason.name, "count": self.count, "text": self.text, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the predicate, judged as if it were the whole predicate.

    `operator` is ``"and"`` or ``"or"`` for a part that combines `parts`, and None for a leaf predicate. `skipped` of
    the `total` row groups of opened files are skipped, and beside them `files` whole files, which are not opened.
    """

    predicate: str
    operator: Literal["and", "or"] | None
    skipped: int
    total: int
    used: tuple[Used, ...]
    not_used: tuple[NotUsed, ...]
    parts: tuple[Part, ...] = ()
    files: int = 0

    def leaves(self) -> Iterator[Part]:
        """The leaf predicates."""
        if self.operator is None:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def to_dict(self) -> dict[str, Any]:
        """The part as values that ``json.dumps`` takes."""
        return {
            "predicate": self.predicate,
            "operator": self.operator,
            "skipped": self.skipped,
            "total": self.total,
            "unopened_files_skipped": self.files,
            "used": [
                {"evidence": used.evidence.value, "skipped": used.skipped, "unopened_files_skipped": used.files}
                for used in self.used
            ],
            "not_used": [each.to_dict() for each in self.not_used],
            "parts": [part.to_dict() for part in self.parts],
        }


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """Why a plan skips what it skips, and why not more. ``str()`` is a text for people.

    `total`, `kept` and `decided` count the row groups (for ORC: stripes) of the `opened_files` alone: all, those that
    are read, and all by what decided. The row groups of the other files are not known: `skipped_files` are skipped
    unopened by partition values, `whole_files` are read whole because their footer is unreadable. `not_understood`: the
    conditions, as SQL, that are not understood and so skip nothing. `parts`: the predicate, and for readers with a
    second one, that one. `not_used`: reasons about the whole scan. `requests` and `bytes_read`: what explaining read
    beyond what planning had read.

    >>> print(bp.plan("events.parquet", "user_id = 4711 AND amount > 3").explain())
    user_id = 4711 AND amount > 3
    1 of 4 row groups read; skipped: Bloom filters 3
    <BLANKLINE>
    user_id = 4711: skips 3 of 4
      used: Bloom filters 3
      not skipped: min/max and filter both say maybe in 1 of 4 row groups: the value is probably there, and is read
        remedy: nothing, if few are left; if many, add another condition, or sort the rows by user_id when writing
    amount > 3: skips 0 of 4
      not skipped: the max leaves out NaN, which is greater than every number, and there may be some
        remedy: use <, <= or =, or store the column as decimals
    """

    where: str
    unit: Unit
    total: int
    kept: int
    decided: Mapping[Decision, int]
    parts: tuple[Part, ...]
    not_used: tuple[NotUsed, ...]
    requests: int = 0
    bytes_read: int = 0
    skipped_files: int = 0
    whole_files: int = 0
    opened_files: int = 0
    not_understood: tuple[str, ...] = ()

    def leaves(self) -> tuple[Part, ...]:
        """The leaf predicates."""
        return tuple(leaf for part in self.parts for leaf in part.leaves())

    def reasons(self) -> tuple[NotUsed, ...]:
        """Every reason, those about the whole scan first."""

        def walk(part: Part) -> Iterator[NotUsed]:
            yield from part.not_used
            for child in part.parts:
                yield from walk(child)

        return (*self.not_used, *(each for part in self.parts for each in walk(part)))

    def to_dict(self) -> dict[str, Any]:
        """The explanation as values that ``json.dumps`` takes. ``docs/explain.md`` has its keys."""
        return {
            "where": self.where,
            "unit": self.unit,
            "opened_files": {
                "files": self.opened_files,
                "total": self.total,
                "kept": self.kept,
                "decided": {decision.value: count for decision, count in self.decided.items()},
            },
            "unopened_files": {"skipped": self.skipped_files, "read_whole": self.whole_files},
            "not_understood": list(self.not_understood),
            "parts": [part.to_dict() for part in self.parts],
            "not_used": [each.to_dict() for each in self.not_used],
            "requests": self.requests,
            "bytes_read": self.bytes_read,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Explanation:
        """The explanation that :meth:`to_dict` describes."""
        opened, unopened = values["opened_files"], values["unopened_files"]
        return cls(
            values["where"],
            values["unit"],
            opened["total"],
            opened["kept"],
            {Decision(name): count for name, count in opened["decided"].items()},
            tuple(map(_part_of, values["parts"])),
            tuple(map(_not_used_of, values["not_used"])),
            values["requests"],
            values["bytes_read"],
            unopened["skipped"],
            unopened["read_whole"],
            opened["files"],
            tuple(values["not_understood"]),
        )

    def to_html(self) -> str:
        """A line for each part of the predicate: which evidence skips how much, why not more, and what to do."""
        whole = self.parts[0] if len(self.parts) == 1 else None
        parts = whole.parts if whole is not None and whole.operator == "and" else self.parts
        rows = [["the scan", "", "", *_reasons(self.not_used)]] if self.not_used else []
        rows += [row for part in parts for row in _part_rows(part, 0)]
        head = ["predicate", "skips alone", "by", "skips no more, because", "what to do"]
        if len(rows) > _MOST_ROWS:
            rows[_MOST_ROWS:] = [[f"and {len(rows) - _MOST_ROWS:,} more parts", "", "", "", ""]]
        return table(head, rows, right=(1,), short=(2,), style="bp-why") if rows else ""

    def _repr_html_(self) -> str:
        """The table that notebooks show."""
        read = "; ".join([self._read(), *self._files()]) if self._is_planned() else "not planned"
        where = f"<br>where {code(self.where, 1_000)}" if self.where else ""
        return fragment(f'<p class="bp-head"><b>{text(read)}</b>{where}</p>', self.to_html())

    def _is_planned(self) -> bool:
        return bool(self.total or self.skipped_files or self.whole_files or self.opened_files)

    def _read(self) -> str:
        if self.opened_files and not self.total:
            return f"there is no {self.unit} in {plural(self.opened_files, 'opened file')}"
        return f"{self.kept:,} of {self.total:,} {self.unit}s read"

    def _files(self) -> Iterator[str]:
        """Texts about the files whose row groups are not counted."""
        if self.skipped_files:
            yield f"{plural(self.skipped_files, 'file')} skipped by partition values, unopened"
        if self.whole_files:
            yield f"{plural(self.whole_files, 'file')} read whole"

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        skipped = [
            f"{name} {self.decided[decision]:,}"
            for decision, name in EVIDENCE_NAMES.items()
            if self.decided.get(decision)
        ]
        files = list(self._files())
        by = [f"skipped: {', '.join(skipped) or 'none'}"] if skipped or (self.total and not files) else []
        lines = [self.where, "; ".join([self._read(), *by, *files]), ""]
        if not self._is_planned():  # there is no plan
            lines = [self.where, ""] if self.where else []
        lines += [*(line for each in self.not_used for line in _not_used_lines(each, ""))]
        for part in self.parts:
            # The first line has the whole predicate already.
            tops = part.parts if part.operator == "and" and len(self.parts) == 1 else (part,)
            lines += [line for top in tops for line in _part_lines(top, "")]
        return "\n".join(lines).rstrip()


def _part_lines(part: Part, indent: str) -> Iterator[str]:
    yield f"{indent}{part.predicate}: skips {_skips(part)}"
    inner = indent + _INDENT
    used = [f"{EVIDENCE_NAMES[each.evidence]} {_used(each)}" for each in part.used]
    if used and part.operator is None:
        yield f"{inner}used: {', '.join(used)}"
    for not_used in part.not_used:
        yield from _not_used_lines(not_used, inner)
    for child in part.parts:
        yield from _part_lines(child, inner)


def _not_used_lines(each: NotUsed, indent: str) -> Iterator[str]:
    yield f"{indent}not skipped: {each.text}"
    yield f"{indent}{_INDENT}remedy: {each.remedy}"


def _part_of(values: Mapping[str, Any]) -> Part:
    used = (
        Used(Decision(each["evidence"]), each["skipped"], each["unopened_files_skipped"]) for each in values["used"]
    )
    return Part(
        values["predicate"], values["operator"], values["skipped"], values["total"], tuple(used),
        tuple(map(_not_used_of, values["not_used"])), tuple(map(_part_of, values["parts"])),
        values["unopened_files_skipped"],
    )  # fmt: skip


def _not_used_of(values: Mapping[str, Any]) -> NotUsed:
    return NotUsed(WhyNot[values["reason"]], values["count"], values["text"], values["remedy"])


def _part_rows(part: Part, depth: int) -> list[list[str]]:
    used = "<br>".join(text(f"{EVIDENCE_NAMES[each.evidence]}: {_used(each)}") for each in part.used)
    predicate = code(part.predicate, 300) if part.operator is None else f"all of the {part.operator.upper()}"
    indented = f'<div style="margin-left:{1.2 * depth:.1f}em">{predicate}</div>' if depth else predicate
    own = [indented, _skips(part), used, *_reasons(part.not_used)]
    return [own, *(row for child in part.parts for row in _part_rows(child, depth + 1))]


def _skips(part: Part) -> str:
    files = f"{plural(part.files, 'file')} and " if part.files else ""
    return f"{files}{part.skipped:,} of {part.total:,}"


def _used(used: Used) -> str:
    files = [plural(used.files, "file")] if used.files else []
    return " + ".join([*files, *([f"{used.skipped:,}"] if used.skipped or not files else [])])


def _reasons(reasons: tuple[NotUsed, ...]) -> tuple[str, str]:
    return (
        "<br>".join(text(each.text, 1_000) for each in reasons),
        "<br>".join(text(each.remedy, 1_000) for each in reasons),
    )
