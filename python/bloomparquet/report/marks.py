"""The marks of row groups: of those that are read, and of those that one kind of evidence skips."""

from __future__ import annotations

from bloomparquet.report.cells import Mark

READ = Mark("R", "bp-r", "read")
CONSTANT = Mark("c", "bp-c", "skipped: the predicate is never TRUE")
PARTITION = Mark("p", "bp-p", "skipped by partition values")
NULLS = Mark("n", "bp-n", "skipped by null and row counts")
BOUNDS = Mark("m", "bp-m", "skipped by min/max")
STATISTICS = Mark("m", "bp-m", "skipped by min/max and null counts")
INDEX = Mark("i", "bp-i", "skipped by Bloom filters in the index")
BLOOM = Mark("b", "bp-b", "skipped by Bloom filters")
