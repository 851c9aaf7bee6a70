"""Docstrings of public names: their examples run and print what they say."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp

EXAMPLES = {
    name: test for name in bp.__all__ for test in doctest.DocTestFinder(recurse=False).find(getattr(bp, name), name)
}
RECORDS = (bp.ColumnOutcome, bp.FileOutcome, bp.IndexInfo, bp.Probe, bp.RowGroup, bp.Verdict)


def needs_example(name: str) -> bool:
    """Functions and classes that users call. Errors, records and the subclasses of Predicate speak for themselves."""
    public = getattr(bp, name)
    if inspect.isfunction(public) or public is bp.Predicate:
        return True
    return inspect.isclass(public) and not issubclass(public, (Exception, bp.Predicate, *RECORDS))


def test_public_names_have_examples() -> None:
    assert [name for name in bp.__all__ if needs_example(name) and not EXAMPLES[name].examples] == []


@pytest.mark.parametrize("name", [name for name, test in EXAMPLES.items() if test.examples])
def test_examples_print_what_they_say(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ids = [(4711 + i * 7919) % 10007 for i in range(4000)]
    events = {"user_id": ids, "country": ["CH", "DE", "FR", "IT"] * 1000, "amount": [i % 100 / 4 for i in range(4000)]}
    bp.write_table(pa.table(events), "events.parquet", bloom="user_id", row_group_size=1000)
    printed: list[str] = []
    test = EXAMPLES[name]
    test.globs.update(bp=bp, np=np, pa=pa)
    doctest.DocTestRunner().run(test, out=printed.append, clear_globs=False)
    assert not printed, "".join(printed)
