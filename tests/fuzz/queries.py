"""Target: the text of `where`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import bloomparquet as bp
from bloomparquet.errors import BloomParquetError, PlanError
from bloomparquet.query.evaluate.mask import bind_mask
from bloomparquet.query.predicate import Predicate, to_sql
from bloomparquet.query.sql.parse import parse_where
from tests.fuzz.files import TABLE
from tests.fuzz.folder import folder
from tests.fuzz.mutate import change_some
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


TARGETS = [
    Target(
        "where",
        lambda: [text.encode() for text in _TEXTS],
        _run_where,
        change_some(_change_text),
        max_bytes=512,
        seconds=4.0,
    )
]
