"""Targets: the text of `where`, and the frames of the planner process."""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import bloomparquet as bp
from bloomparquet.errors import BloomParquetError, PlanError
from bloomparquet.query import literals
from bloomparquet.query.evaluate.mask import bind_mask
from bloomparquet.query.predicate import Predicate, to_sql
from bloomparquet.query.sql.parse import parse_where
from pyspark_bloomparquet.jar.planner_worker import Worker
from pyspark_bloomparquet.jar.protocol import VERSION, read_frame, write_frame
from tests.fuzz.files import TABLE
from tests.fuzz.folder import folder
from tests.fuzz.mutate import change_json, change_some
from tests.fuzz.target import Target

_TOKENS = (
    b"= <> != < <= > >= <=> ( ) , . AND OR NOT IN IS NULL LIKE ILIKE BETWEEN ESCAPE TRUE FALSE x s t i n.u `x` `n`.`u` "
    b"'v3' 'a''b' '%v_' 1 -1 14L 1.5D 1e400 0x1F 2.50BD 9223372036854775808 X'00ff' DATE'2001-09-09' "
    b"TIMESTAMP'2001-09-09 01:46:40' TIMESTAMP_NTZ'2001-09-09' INTERVAL CAST( AS BIGINT STRING lower(s) upper(s) "
    b"startswith(s,'v') array_contains(l,1) element_at( l[0] m['k'] size( - + * % || -- /* */ ' \" ` \\ ; ? :a @ "
    b"CASE WHEN THEN END SELECT EXISTS arrays_overlap(l,array(1,2)) isnull(x) coalesce( rlike REGEXP DISTINCT FROM"
).split()
_TEXTS = (
    "x = 14", "x IN (3, 10, NULL) AND s IS NOT NULL", "NOT (s LIKE 'v%' OR i BETWEEN -1 AND 2)",
    "t >= TIMESTAMP '2001-09-09 03:46:40Z'", "n.u <=> NULL OR `n`.`u` = 2", "s > 'v3' AND x <> 1.5D",
    "lower(s) = 'v1' OR startswith(s, 'v')", "CAST(x AS INT) = 4 OR x = CAST('14' AS BIGINT)", "i = -0.0 OR i < 2.5BD",
    "x IN (1, 2, 3, 4, 5) OR TRUE", "isnull(s) = false", "s BETWEEN 'a' AND 'w' AND NOT s IN ('v1', 'v2')",
    "array_contains(l, 1) OR l[0] = 2", "s LIKE '%\\_' ESCAPE '/'", "x IS DISTINCT FROM 5",
    "X'00ff' = s OR (((x)) = (1))", "x > i AND length(s) = 2", "CAST(x AS STRING) = '14'", "concat(s, 'a') = 'v1a'",
    "x + 1 = 15", "year(t) = 2001",
)  # fmt: skip


@cache
def _file() -> Path:
    path = folder() / "where.parquet"
    bp.write_table(TABLE, path, bloom=["x", "s", "i"], row_group_size=3)
    return path


def _run_where(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        predicate = parse_where(text)
    except PlanError as error:
        str(error)
        try:
            predicate = parse_where(text, partly=True)
        except PlanError:
            return
    else:
        _require_round_trip(predicate)
    try:
        plan = bp.plan(_file(), predicate)
        mask = bind_mask(predicate, TABLE.schema)
    except BloomParquetError:
        return
    for group in plan.row_groups:
        if not group.kept:
            assert group.index is not None
            rows = TABLE.slice(3 * group.index, 3)
            try:
                matching = rows.filter(mask(rows))
            except PlanError:  # a value is out of the range of a cast
                continue
            assert not matching.num_rows, (group.reason, matching.to_pylist())


def _require_round_trip(predicate: Predicate) -> None:
    """A predicate's own SQL gives the same rows."""
    spelled = to_sql(predicate)
    try:
        again = parse_where(spelled)
        first, second = (bind_mask(each, TABLE.schema)(TABLE) for each in (predicate, again))
    except PlanError:
        return  # some literals have no spelling, and some values are out of the range of a cast
    assert first.equals(second), spelled


def _change_text(data: bytes, random: Random) -> bytes:
    words = data.split(b" ")
    at = random.randrange(len(words))
    choice = random.randrange(5)
    if choice == 0:
        del words[at]
    elif choice == 1:
        words[at] = random.choice(_TOKENS)
    elif choice == 2:
        words.insert(at, random.choice(_TOKENS))
    elif choice == 3:
        words[at:at] = random.choice(_TEXTS).encode().split(b" ")
    else:
        words[at] = b"(" + words[at] + b")"
    return b" ".join(words)


@cache
def _listing() -> bytes:
    path = _file()
    status = path.stat()
    numbers = status.st_size.to_bytes(8, "big") + (status.st_mtime_ns // 1_000_000).to_bytes(8, "big")
    return numbers + str(path).encode() + b"\0"


def _leaf(op: str, column: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "column": column.split("."), **more}


def frame_seeds() -> list[bytes]:
    leaves = [
        _leaf("=", "x", type="int64", value=14), _leaf("starts with", "s", type="string", value="v"),
        _leaf("in", "s", type="string", values=["v3", None, {"base64": "djM="}]),
        _leaf("is null", "n.u"), _leaf("<=>", "x", type="decimal", value="14.0"),
        _leaf("<", "t", type="timestamp", value=10**15), _leaf("=", "s", type="string", value="v3", case="lower"),
        _leaf(">=", "i", type="float", value="NaN"), _leaf("contains", "l", type="int32", values=[1], part="element"),
        _leaf("=", "x", type="date", value=3, variant={"path": "$.a", "type": "date"}),
        {"op": "opaque", "sql": "f(x)", "reason": "FUNCTION"}, _leaf("=", "x", type="binary", value="djM="),
    ]  # fmt: skip
    base = {
        "id": 1, "version": VERSION, "format": "parquet", "files": 1, "listing": "", "revision": 0,
        "readerTypes": [[["x"], "bigint"], [["s"], "string"], [["n", "u"], "int"]], "caseSensitive": False,
        "timeZone": "Europe/Berlin", "offsets": [[0, 3600000]], "options": {}, "explain": False, "table": None,
    }  # fmt: skip
    iceberg = {
        "kind": "iceberg", "location": "", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}],
        "nameMapping": [{"field-id": 1, "names": ["x", "s"]}],
    }  # fmt: skip
    metadata = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "x"}
    renamed = {"name": "s", "type": "long", "nullable": True, "metadata": metadata}
    delta = {"kind": "delta", "location": "", "fields": [renamed], "mapping": "name"}
    tables = {0: iceberg, 6: delta}
    trees = [*leaves, {"and": leaves[:3]}, {"or": [leaves[3], {"not": leaves[1]}]}, {"and": []}]
    return [
        json.dumps({**base, "predicate": tree, "explain": i % 2 == 0, "table": tables.get(i)}).encode()
        for i, tree in enumerate(trees)
    ]


_ZONES = {"Europe/Berlin", "America/New_York"}
_worker = Worker(io.BytesIO())


def plan_of(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The planner's answer to a request about a sound file. An input chooses neither paths nor names of code nor
    storages: they would be opened and imported."""
    if not request.get("listing"):
        request["listing"] = hashlib.sha256(_listing()).hexdigest()
    if isinstance(request.get("version"), int):
        request["version"] = VERSION
    given = request.get("options")
    given = given if isinstance(given, dict) else {}
    request["options"] = {"cache": "false", **{key: given[key] for key in given if key == "onFilterError"}}
    request["storages"] = {}
    request["execution"] = None
    if isinstance(request.get("table"), dict):
        request["table"]["location"] = str(_file().parent)
    answer, result, _ = _worker._plan(request, _listing())
    return answer, result


def _run_frames(data: bytes) -> None:
    """A frame of these bytes, and the request of this JSON for a plan of a sound file."""
    with suppress(BloomParquetError):
        read_frame(io.BytesIO(data))
    frame = None
    with suppress(BloomParquetError):
        frame = read_frame(io.BytesIO(len(data).to_bytes(4, "big") + data + bytes(4)))
    if frame is None:
        return
    request, _ = frame
    # The hint for an unknown zone compares its name with all names, which takes as long as fifty plans.
    with patch.object(literals, "available_timezones", lambda: _ZONES):
        answer, result = plan_of(request)
    stream = io.BytesIO()
    write_frame(stream, {"id": request.get("id"), **answer}, result)
    stream.seek(0)
    assert read_frame(stream) is not None
    assert "error" in answer or "unknown" in answer or "unplanned" in answer or len(result) % 8 == 0
    error = answer.get("error", "")
    assert not error.startswith(("InputTimeoutError", "MemoryError", "AssertionError", "RecursionError")), error


TARGETS = [
    Target(
        "where",
        lambda: [text.encode() for text in _TEXTS],
        _run_where,
        change_some(_change_text),
        max_bytes=512,
        seconds=4.0,
    ),
    Target("frames", frame_seeds, _run_frames, change_json, max_bytes=2048),
]
