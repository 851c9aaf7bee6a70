"""Random ORC files of pyarrow against the row-by-row oracle, as test_core does for Parquet."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import bloomparquet as bp
from tests.differential import writers
from tests.differential.cases import Case, Data, File, cases, data_sets
from tests.differential.kinds import KINDS, NAN, ORC_NAMES
from tests.differential.test_core import check_cases, examples
from tests.support.switches import is_on, require_used

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "filters only"])
def test_read_table_gives_exactly_the_rows_that_match(statistics: bool) -> None:
    tally: Counter[str] = Counter()

    @examples(0.4)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        data = draws.draw(data_sets(spark=False, only=ORC_NAMES), label="data")
        if not statistics:
            data = dataclasses.replace(data, files=tuple(dataclasses.replace(f, statistics=False) for f in data.files))
        check_cases(data, draws.draw(cases(data, spark=False), label="cases"), tally, note, writers.write_orc)

    check()
    print(f"\n{dict(tally)}")
    assert tally["cases"] >= 12 * examples(0.4).max_examples
    # The oracle agreed because it was asked something, and the evidence was used.
    assert tally["matching"] > tally["cases"] / 4
    require_used(tally, "statistics", 0)
    require_used(tally, "bloom", tally["row groups"] / (400 if statistics else 60))
    if statistics and is_on("statistics", "bloom", "partitions"):
        assert tally["kept in vain"] < tally["row groups"] / 2


@pytest.mark.parametrize("kind", ORC_NAMES)
def test_every_type_is_judged_by_its_own_rules(kind: str) -> None:
    """One column of one type, and small stripes."""
    tally: Counter[str] = Counter()

    @examples(0.01)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        data = draws.draw(data_sets(spark=False, only=[kind], plain=True, max_files=2), label="data")
        check_cases(
            data, draws.draw(cases(data, spark=False, number=30), label="cases"), tally, note, writers.write_orc
        )

    check()
    assert tally["cases"]


def _single(kind: str, *values: Any, **how: Any) -> Data:
    """One column `a` of `kind` in a file of one stripe."""
    some = File({("a",): KINDS[kind]}, {("a",): list(values)}, rows=len(values), group_size=len(values), **how)
    return Data({("a",): KINDS[kind]}, (some,))


_RARE = {
    "-0.0 matches 0.0": (_single("float64", -0.0, statistics=False), bp.Eq("a", 0.0)),
    "0.0 matches -0.0": (_single("float64", 0.0, statistics=False), bp.In("a", (-0.0, 1.0))),
    "NaN equals a NaN of other bits": (_single("float64", NAN, statistics=False), bp.Eq("a", math.nan)),
    "NaN before a number does not hide it": (_single("float64", 1.0, math.nan, 5.0), bp.GtEq("a", 5.0)),
    "text after a NUL may exceed the bounds": (_single("string", "a\0b", "a\0z"), bp.Gt("a", "a\0c")),
    "a decimal has one text": (_single("decimal(38,10)", Decimal("1.5000000000")), bp.Eq("a", 1.5)),
    "a literal may have more digits than the column": (
        _single("decimal(9,2)", Decimal("1.50")),
        bp.Lt("a", Decimal("1.501")),
    ),
}


@pytest.mark.parametrize("name", list(_RARE))
def test_rare_cases_are_right(name: str) -> None:
    data, predicate = _RARE[name]
    check_cases(data, [Case(predicate, style) for style in range(3)], Counter(), write=writers.write_orc)
