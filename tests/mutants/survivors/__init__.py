"""Surviving mutants of Python files that no test can kill, and why: a file for each package."""

from __future__ import annotations

from tests.mutants.survivors import orc, parquet, planning, query

EXPLAINED = (*query.EXPLAINED, *planning.EXPLAINED, *parquet.EXPLAINED, *orc.EXPLAINED)
