"""The frames between the jar and its planner process, and the grammar of predicates in them.

A frame is a length (4 bytes, big-endian) and that many bytes of JSON, then a length and that many bytes of data.
Requests arrive on standard input. Answers go to standard output, in any order, with the `id` of the request. All
numbers in data are big-endian, 8 bytes each.

A request to plan has these fields, and no data:

- ``"id": 7, "version": 12``: the number of the request; :data:`VERSION`
- ``"format": "parquet"``: or ``orc``
- ``"files": 1000, "listing": "1f0c…"``: the number of files, and the SHA-256 of their listing: all sizes, all
  modification times in milliseconds (-1 for files of tables, which never change), then all paths in UTF-8, each
  followed by a zero byte
- ``"revision": 4``: the planner's name for the versions of these files that the jar knows; 0 if it knows none
- ``"execution": "12"``: the running query; null if there is none
- ``"predicate": …``: see below
- ``"readerTypes": [[["address", "city"], "string"], …]``: the types that Spark reads the columns of the predicate as,
  by Spark's names, such as ``bigint`` and ``decimal(10,2)``; for ``contains``, the path ends with the `part`. The types
  in the files may differ. VARIANT columns are left out.
- ``"table": {…}``: the table whose log says which columns of the files are its columns; null if their names do. It has
  a `location`, a URL, and a `kind`: ``iceberg``, with the columns `fields` and the `nameMapping` in Iceberg's JSON; or
  ``delta``, with the `mapping`, and the columns `fields` in the JSON of the log; null if the mapping is ``none``. A
  column that is not among them is in no predicate.
- ``"caseSensitive": false``
- ``"timeZone": "Europe/Berlin"``: the zone of the reader; null if it is unknown or not needed
- ``"offsets": [[…, …], …]``: pairs of an instant in microseconds and the milliseconds by which the reader's clock is
  then ahead of UTC. They show whether Java's and Python's data for `timeZone` agree.
- ``"options": {…}``: those of :class:`pyspark_bloomparquet.options.load.PlannerOptions`, as texts
- ``"storages": {"s3a://bucket": {"number": 3, "key": "s3a://bucket", "isFirst": true}}``: the storages of the files and
  of the index that are not local, by scheme and authority; see :class:`bloomparquet.storage.host_files.HostRoot`. The
  jar reads them.
- ``"explain": false``: whether `plan` in the answer gets an `explanation`, the result of ``ScanPlan.explain``

The answer is one of these:

- ``{"id": 7, "unknown": "listing"}``: the planner does not know the listing. It remembers the latest ones. The jar
  sends the request again, with the listing as its data.
- ``{"id": 7, "plan": {"numRowGroupsTotal": 4000, …}, "ranges": 3, "revision": 5}``, a plan
- ``{"id": 7, "unplanned": "…"}``, a reason to read everything: only filters of ``lower(column)`` or ``upper(column)``
  could skip something, and no index has them
- ``{"id": 7, "error": "…"}``, with ``"fatal": true`` if the query must fail

A plan has the metrics of Spark's UI by name (for ORC files ``numStripesTotal`` and so on), and `requests`, the reads of
the storage; `warnings`, the texts to log; `withoutFilters`, by column of an equality the number of row groups that have
no filter on it; and `filtersDecided`, whether a filter was asked about each row group to read. Its data are the byte
ranges to read, sorted by file: the index of each range's file in the listing, all starts, all lengths.

`revision` names the versions of the files that were planned: local files may have changed since Spark listed them. If
it is not the revision of the request, the data continue with these versions: all sizes, all modification times in
milliseconds, all inodes, all change times in nanoseconds. For files that are not local it is 0, and there are no
versions.

While requests are being planned, the answer ``{"id": 0}`` says every few seconds that the process is alive.

Files that are not local are read by the jar. The planner sends ``{"read": 12, "files": [[3, "s3a://bucket/a.parquet",
86100, 1764300000000], …]}``: a number of its own, and of each file the number of its storage, its URL, and its size in
bytes and its modification time in milliseconds, as they were listed. The data are the ranges: the positions of their
files here, all starts, all lengths, together at most 16 MiB. The jar answers ``{"read": 12}``, with the bytes of all
ranges as data, or ``{"read": 12, "error": "…", "kind": "missing"}``; a `kind` is ``missing``, ``end`` (of the file),
``denied`` or ``io``. A file of the size -1 is alone, without ranges, and is read whole. A file of the time -1 is of no
listing, and never changes. Neither side waits for the other in the thread that receives frames.

The request ``{"version": 12, "forget": [3]}`` has no answer. It says that files of the storages with these numbers have
changed, so that other versions may have been read. The planner forgets what it has read of these storages.

The request ``{"version": 12, "look": "1f0c…", "execution": "12"}`` has no answer. It says that a plan of this listing
will be asked for in this query. The planner looks at the present versions of the files at once, so that the next plan
of that query need not.

A predicate is ``{"and": […]}``, ``{"or": […]}``, ``{"not": …}``, or a leaf such as ``{"op": "=", "column": ["address",
"city"], "type": "string", "value": "Basel"}``. The `op` is

- one of ``= <=> < <= > >=``, or ``starts with``
- ``in``, with `values`
- ``is null`` or ``is not null``, without type and value
- ``contains``, with `values` and `part` (``element``, ``key`` or ``value``): the elements of a list, or the keys or
  values of a map, have one of the values; `column` may lead through a list to a field of its structs
- ``opaque``, only in requests to explain: ``{"op": "opaque", "sql": "…", "reason": "FUNCTION"}``, a condition that only
  Spark understands; `reason` is a name of :class:`bloomparquet.query.why_not.WhyNot`

With ``"case": "lower"`` or ``"upper"``, a leaf ``= <=> in`` compares ``lower(column)`` or ``upper(column)``. With
``"variant": {"path": "$.a", "type": "bigint"}``, a leaf compares that field of a VARIANT column, cast to Spark's type.

A value is null, or by `type`:

- ``boolean``, ``int8``, ``int16``, ``int32``, ``int64``, ``string``: itself; a string that is not UTF-8 is ``{"base64":
  "…"}``
- ``float``: the text of the double; ``decimal``: its text
- ``binary``: base64
- ``date``: days since 1970-01-01
- ``timestamp``, ``timestamp_ntz``: microseconds since 1970-01-01T00:00, in UTC or of the wall clock
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import IO, Any

from bloomparquet.errors import FormatError, LimitError, PlanError, shorten
from bloomparquet.query import predicate as p
from bloomparquet.query.case_mapping import CaseIn, case_equal_null_safe
from bloomparquet.query.elements import ContainsAny
from bloomparquet.query.literals import EPOCH, EPOCH_ORDINAL, EPOCH_UTC, find_zone
from bloomparquet.query.predicate import Column
from bloomparquet.query.variants import VariantField
from bloomparquet.query.why_not import WhyNot

VERSION = 12
"""The version of this protocol, which each request names. Raise it, and ``PlannerProcess.VERSION``, with every change
of the request, the answer or the predicate grammar: a jar and a Python package of different releases must not plan.
A new option needs no new version: ``PlannerOptions.parse`` refuses names that it does not know."""

COUNT_PREFIX = {"row group": "numRowGroups", "stripe": "numStripes"}
"""The prefix of a plan's counts, by its unit: ``numStripesTotal``."""

_MAX_FRAME_BYTES = 1 << 30


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The JSON object and the data of the next frame; None at the end of the stream.

    Raises FormatError for a truncated or damaged frame, because the start of the next frame is then unknown.
    """
    head = _read_part(stream, at_end=True)
    if head is None:
        return None
    body = _read_part(stream, at_end=False)
    assert body is not None
    try:
        request = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"a frame whose JSON cannot be read: {error}") from error
    if not isinstance(request, dict):
        raise FormatError(f"a frame with {shorten(repr(request))}; expected a JSON object")
    return request, body


def write_frame(stream: IO[bytes], head: dict[str, Any], body: bytes) -> None:
    text = json.dumps(head).encode()
    stream.write(b"".join((len(text).to_bytes(4, "big"), text, len(body).to_bytes(4, "big"), body)))
    stream.flush()


def to_predicate(node: dict[str, Any]) -> p.Predicate:
    """The predicate of the JSON `node`. PlanError for a predicate that the grammar does not have."""
    if "and" in node:
        return p.And(*map(to_predicate, node["and"]))
    if "or" in node:
        return p.Or(*map(to_predicate, node["or"]))
    if "not" in node:
        return p.Not(to_predicate(node["not"]))
    op, column = node.get("op"), tuple(node.get("column", ()))
    if "variant" in node:
        test = to_predicate({key: value for key, value in node.items() if key != "variant"})
        if not isinstance(test, p.Leaf) or isinstance(test, p.FunctionPredicate):
            raise _unknown(node)
        return VariantField(column, node["variant"]["path"], node["variant"]["type"], test)
    if op == "opaque" and node.get("reason") in WhyNot.__members__:
        return p.Opaque(node["sql"], WhyNot[node["reason"]], "")
    if op == "is null":
        return p.IsNull(column)
    if op == "is not null":
        return p.IsNotNull(column)
    read = _TYPES.get(node.get("type", ""))
    build = _OPERATORS.get(op or "")
    if read is None or (build is None and op not in ("in", "contains")) or ("case" in node and op not in _EQUALITIES):
        raise _unknown(node)
    values = [
        None if value is None else read(value) for value in (node["values"] if build is None else [node["value"]])
    ]
    if "case" in node:
        case = node["case"]
        return case_equal_null_safe(column, case, values[0]) if op == "<=>" else CaseIn(column, case, values)
    if build is None:
        return p.In(column, values) if op == "in" else ContainsAny(column, values, node["part"])
    return build(column, values[0])


def _unknown(node: dict[str, Any]) -> PlanError:
    return PlanError(f"the planner does not know the predicate {json.dumps(node)[:200]}")


def to_reader_types(pairs: list[tuple[list[str], str]]) -> dict[Column, str]:
    """The types that Spark reads the columns of a predicate as, by column path."""
    return {tuple(column): kind for column, kind in pairs}


def agreed_zone(zone: str | None, offsets: list[tuple[int, int]]) -> str | None:
    """`zone`, if Python's data for it agrees with the reader's; else None.

    `offsets` are pairs: an instant in microseconds, and the milliseconds by which the reader's clock is then ahead of
    UTC. The time zone data of Java and of Python may be of different years.
    """
    if zone is None:
        return None
    try:
        known = find_zone(zone)
        pairs = ((_instant(micros).astimezone(known).utcoffset(), offset) for micros, offset in offsets)
        return zone if all(ours == dt.timedelta(milliseconds=theirs) for ours, theirs in pairs) else None
    except (PlanError, OverflowError):
        return None


def _read_part(stream: IO[bytes], *, at_end: bool) -> bytes | None:
    size = stream.read(4)
    if not size and at_end:
        return None
    length = int.from_bytes(size, "big")
    if length > _MAX_FRAME_BYTES:
        raise LimitError(f"a frame of {length} bytes; expected at most {_MAX_FRAME_BYTES}")
    data = stream.read(length)
    if len(size) < 4 or len(data) < length:
        raise FormatError("the stream ends within a frame")
    return data


def _string(value: Any) -> str | bytes:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value


def _days(value: int) -> dt.date:
    return dt.date.fromordinal(EPOCH_ORDINAL + value)


def _instant(value: int) -> dt.datetime:
    return EPOCH_UTC + dt.timedelta(microseconds=value)


def _wall_clock(value: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=value)


def _same(value: Any) -> Any:
    return value


_TYPES: dict[str, Callable[[Any], Any]] = {
    "boolean": _same,
    **{f"int{bits}": _same for bits in (8, 16, 32, 64)},
    "float": float,
    "decimal": Decimal,
    "string": _string,
    "binary": base64.b64decode,
    "date": _days,
    "timestamp": _instant,
    "timestamp_ntz": _wall_clock,
}
_OPERATORS: dict[str, Callable[..., p.Predicate]] = {
    "=": p.Eq,
    "<=>": p.EqNullSafe,
    "<": p.Lt,
    "<=": p.LtEq,
    ">": p.Gt,
    ">=": p.GtEq,
    "starts with": p.StartsWith,
}
_EQUALITIES = ("=", "<=>", "in")
