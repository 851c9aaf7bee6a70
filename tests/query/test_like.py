"""LIKE with wildcards anywhere: its values, what its prefix skips, and SQL text of which only a part is understood."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.query.like import Like
from bloomparquet.query.predicate import And, Eq, Not, Opaque
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.query.why_not import WhyNot
from tests.support.files import write_groups

TEXTS = ["", "a", "ab", "a%b", "a_b", "a\\b", "a\nb", "äb", "\U0001f600b", "(b", "a.b", "%", "AB", "aab", "b%", None]


def matches(pattern: str, text: str | None) -> bool | None:
    """LIKE, by Python's regular expressions."""
    if text is None:
        return None
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return bool(re.fullmatch("".join(wild.get(token) or re.escape(token[-1]) for token in tokens), text, re.DOTALL))


def test_patterns_match_as_in_sql(tmp_path: Path) -> None:
    groups = [{"c": pa.array([text], pa.string()), "i": [i]} for i, text in enumerate(TEXTS)]
    path = write_groups(tmp_path / "x.parquet", groups)
    rng, tokens = random.Random(5), ["%", "_", "a", "b", "ä", "\\%", "\\_", "\\\\", ".", "(", "\n"]
    for pattern in {"".join(rng.choices(tokens, k=rng.randint(0, 4))) for _ in range(120)}:
        for where, wanted in ((Like("c", pattern), True), (Not(Like("c", pattern)), False)):
            expected = [i for i, text in enumerate(TEXTS) if matches(pattern, text) is wanted]
            assert bp.read_table(path, where)["i"].to_pylist() == expected, (pattern, wanted)
            assert bp.read_table(path, str(where))["i"].to_pylist() == expected, (pattern, wanted)


def test_contains_and_endswith_take_text_as_it_is(tmp_path: Path) -> None:
    path = write_groups(tmp_path / "x.parquet", [{"c": TEXTS, "i": range(len(TEXTS))}])
    for text in ("", "b", "%", "_", "\\", "a%", "ä", "\n", "a\\", "\\b", "\\\\"):
        quoted = text.replace("\\", "\\\\")
        for where, test in ((f"contains(c, '{quoted}')", str.__contains__), (f"endswith(c, '{quoted}')", str.endswith)):
            expected = [i for i, each in enumerate(TEXTS) if each is not None and test(each, text)]
            assert bp.read_table(path, where)["i"].to_pylist() == expected, where


def test_text_before_the_first_wildcard_skips_by_min_and_max(tmp_path: Path) -> None:
    path = write_groups(tmp_path / "x.parquet", [{"c": ["aa", "ab"]}, {"c": ["ba", "bb"]}, {"c": ["b%", "b%c"]}])
    kept = {
        "c LIKE 'b%a'": [1, 2], "c LIKE 'a_'": [0], r"c LIKE 'b\%_'": [2], "c LIKE '%a'": [0, 1, 2],
        "c NOT LIKE 'a_'": [0, 1, 2],
    }  # fmt: skip
    for where, expected in kept.items():
        assert [group.index for group in bp.plan(path, where).kept_row_groups()] == expected, where


def test_like_of_other_types_is_an_error(tmp_path: Path) -> None:
    path = write_groups(tmp_path / "x.parquet", [{"c": [1, 2]}])
    with pytest.raises(bp.PlanError, match="LIKE needs a column of text, but column 'c' is of type int64"):
        bp.read_table(path, "c LIKE '_1'")
    with pytest.raises(bp.PlanError, match=r"expected text, \\ only before"):
        parse_where(r"c LIKE 'a\\b_'")


REASONS = {  # of conditions that are refused if their rows are asked for
    "reverse(a) = 3": WhyNot.FUNCTION,
    "a + 1 = 2": WhyNot.FUNCTION,
    "CAST(a AS STRING) IN ('1')": WhyNot.FUNCTION,
    "contains(a, b)": WhyNot.FUNCTION,
    "a IN (SELECT b FROM c)": WhyNot.NOT_A_COMPARISON,
    "a = current_date()": WhyNot.NOT_A_COMPARISON,
    "a RLIKE 'x'": WhyNot.NOT_A_COMPARISON,
    "rand() < 0.5": WhyNot.NOT_A_COMPARISON,
    "length(a) = 3": WhyNot.FUNCTION,
    "isnan(a)": WhyNot.FUNCTION,
    "a = b": WhyNot.TWO_COLUMNS,
    "a < b.c": WhyNot.TWO_COLUMNS,
}


@pytest.mark.parametrize("text", REASONS)
def test_what_is_not_understood_is_opaque_if_asked(text: str) -> None:
    predicate = parse_where(f"c = 1 AND {text}", partly=True)
    with pytest.raises(bp.PlanError, match="cannot use") as refused:
        parse_where(f"c = 1 AND {text}")
    assert isinstance(predicate, And)
    first, opaque = predicate.children
    assert first == Eq("c", 1)
    assert isinstance(opaque, Opaque)
    assert (opaque.reason, opaque.refusal) == (REASONS[text], str(refused.value))


@pytest.mark.parametrize("text", ["a = :name", "a = 1; b = 2", "a = 1 AND", "SELECT a = 1"])
def test_what_no_engine_understands_stays_an_error(text: str) -> None:
    with pytest.raises(bp.PlanError):
        parse_where(text, partly=True)
