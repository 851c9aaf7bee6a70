"""The files whose mutants are run, and for each the fast tests that judge it."""

from __future__ import annotations

CORE = "python/bloomparquet/"

TARGETS: dict[str, tuple[str, ...]] = {
    CORE + "planning/evidence/statistics.py": ("tests/planning/test_statistics_exact.py",),
    CORE + "parquet/bloom_filter/xxh64.py": ("tests/parquet/test_xxh64.py",),
    CORE + "query/ordering.py": ("tests/query/test_ordering.py",),
    CORE + "parquet/values/encoding.py": ("tests/parquet/test_encoding_exact.py",),
    CORE + "query/normal_form.py": ("tests/query/test_normal_form.py", "tests/query/test_predicate.py"),
    CORE + "query/verdict.py": ("tests/query/test_normal_form.py",),
    CORE + "parquet/bloom_filter/split_block.py": ("tests/parquet/test_split_block.py",),
    CORE + "planning/evidence/bit_slices.py": ("tests/indexing/test_bit_slices.py",),
    CORE + "planning/evidence/tiles.py": ("tests/indexing/test_tiles.py",),
    CORE + "query/domains.py": ("tests/query/test_predicate.py",),
    CORE + "query/predicate.py": ("tests/query/test_predicate.py",),
    CORE + "orc/encoding.py": ("tests/orc/test_encoding_exact.py",),
    CORE + "orc/bloom_filter.py": ("tests/orc/test_bloom_filter.py",),
}
