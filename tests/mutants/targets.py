"""The files whose mutants are run, and for each the fast tests that judge it.

They run in this order. Not in the list: files that only read or show.
"""

from __future__ import annotations

CORE = "python/bloomparquet/"

# The others measure probabilities, which takes long.
_QUICK_SIZES = (
    "test_the_default_fpp_is_one_percent",
    "test_an_oversized_filter_folds_to_the_size_it_needs",
    "test_estimates_of_empty_and_full_filters",
    "test_the_fpp_is_the_mean_over_unequal_blocks",
    "test_filters_of_uneven_blocks_are_fitted_too",
    "test_fitted_equals_folding_step_by_step",
)

SURVIVORS: dict[str, int] = {
    CORE + path: number
    for path, number in {
        "query/normal_form.py": 1,
        "query/domains.py": 24,
        "query/arrow_values.py": 3,
        "query/casts.py": 5,
        "query/families.py": 6,
        "query/ordering.py": 20,
        "parquet/values/encoding.py": 39,
        "parquet/bloom_filter/xxh64.py": 4,
        "parquet/bloom_filter/split_block.py": 22,
        "orc/encoding.py": 16,
        "orc/bloom_filter.py": 19,
        "planning/evidence/statistics.py": 2,
        "planning/evidence/tiles.py": 16,
        "planning/evidence/bit_slices.py": 30,
        "planning/index/lookup.py": 29,
        "planning/judge.py": 34,
        "planning/partition_evidence.py": 6,
        "planning/parquet/folded_filters.py": 9,
        "planning/parquet/filters.py": 59,
    }.items()
}
"""How many mutants of a file survive. They change a shortcut, a size of batches, a name, or a type that numpy computes
anyway, and none makes a plan skip a row that matches. All mutants of the other files are killed."""

TARGETS: dict[str, tuple[str, ...]] = {
    # Statistics and verdicts
    CORE + "planning/evidence/statistics.py": ("tests/planning/test_statistics_exact.py",),
    CORE + "query/verdict.py": ("tests/query/test_normal_form.py",),
    CORE + "planning/judge.py": (
        "tests/planning/test_judge_exact.py",
        "tests/planning/test_judge.py",
        "tests/planning/test_decisions.py",
        "tests/planning/test_many_values.py",
        "tests/planning/test_partitions.py",
        "tests/planning/test_filters.py",
        "tests/planning/test_case_mapping.py",
        "tests/planning/test_orc_cases.py",
        "tests/planning/test_variants.py",
        "tests/planning/test_elements.py",
        "tests/planning/test_explain.py",
        "tests/planning/test_why_not.py",
        "tests/indexing/test_same_plans.py",
    ),
    CORE + "planning/partition_evidence.py": (
        "tests/planning/test_judge_exact.py",
        "tests/planning/test_judge.py",
        "tests/planning/test_partitions.py",
    ),
    # Predicates
    CORE + "query/normal_form.py": ("tests/query/test_normal_form.py", "tests/query/test_predicate.py"),
    CORE + "query/predicate.py": ("tests/query/test_predicate.py", "tests/query/test_normal_form.py"),
    CORE + "query/domains.py": (
        "tests/query/test_domains.py",
        "tests/query/test_evaluate.py",
        "tests/query/test_many_keys.py",
        "tests/query/test_resolve.py",
        "tests/planning/test_schema_evolution.py",
    ),
    CORE + "query/arrow_values.py": ("tests/query/test_arrow_values.py",),
    CORE + "query/nulls.py": ("tests/query/test_nulls.py",),
    CORE + "query/casts.py": ("tests/query/test_sql_literals.py", "tests/query/test_sql.py"),
    # Values and hashes
    CORE + "query/ordering.py": ("tests/query/test_ordering.py",),
    CORE + "query/families.py": (
        "tests/query/test_families.py",
        "tests/query/test_clock_changes.py",
        "tests/query/test_ordering.py",
        "tests/parquet/test_held_types.py",
    ),
    CORE + "parquet/values/encoding.py": (
        "tests/parquet/test_encoding_exact.py",
        "tests/parquet/test_page_search.py",
        "tests/parquet/test_held_types.py",
    ),
    CORE + "parquet/bloom_filter/xxh64.py": ("tests/parquet/test_xxh64.py",),
    CORE + "orc/encoding.py": ("tests/orc/test_encoding_exact.py",),
    # Filters
    CORE + "parquet/bloom_filter/split_block.py": (
        "tests/parquet/test_split_block.py",
        *(f"tests/parquet/test_filter_sizes.py::{name}" for name in _QUICK_SIZES),
        "tests/indexing/test_bit_slices.py",
    ),
    CORE + "orc/bloom_filter.py": ("tests/orc/test_bloom_filter.py",),
    CORE + "planning/parquet/folded_filters.py": ("tests/planning/test_folded_filters.py",),
    CORE + "planning/parquet/filters.py": (
        "tests/planning/test_filter_reads.py",
        "tests/planning/test_whole_filters.py",
        "tests/planning/test_unusable_filters.py",
        "tests/planning/test_filters.py",
        "tests/planning/test_folded_filters.py",
        "tests/corrupt/test_filters.py",
        "tests/planning/test_encrypted.py",
    ),
    # Indexes
    CORE + "planning/evidence/tiles.py": ("tests/indexing/test_tiles.py",),
    CORE + "planning/evidence/bit_slices.py": ("tests/indexing/test_bit_slices.py",),
    CORE + "planning/index/lookup.py": ("tests/indexing/test_lookup.py",),
}
