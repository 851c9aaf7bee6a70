"""One warm lookup enters few functions, so that a reader can follow it."""

from __future__ import annotations

from pathlib import Path

from tests.walk import walk

FUNCTIONS = 190
"""What ``make walk`` says. Lower it where the way gets shorter."""


def test_a_warm_lookup_enters_few_functions(tmp_path: Path) -> None:
    assert len(walk(tmp_path)) <= 1.1 * FUNCTIONS


def test_a_lookup_asks_for_no_kind_of_predicate_that_it_has_not(tmp_path: Path) -> None:
    files = {Path(code.co_filename).stem for code in walk(tmp_path)}
    assert not files & {"convert", "functions", "elements", "variants", "shredded", "like", "case_mapping", "implied"}
