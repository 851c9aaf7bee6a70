"""The parts that plans judge row groups with, each by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bloomparquet as bp
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.partition_evidence import PartitionEvidence
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.predicate import Predicate
from bloomparquet.query.variants import VariantField
from bloomparquet.query.verdict import Decision
from tests.support.files import hive

FOLDERS = [
    f"n={n}/At=2026-07-0{day} 00%3A00%3A00" for n, day in (("1", 1), ("2", 2), ("__HIVE_DEFAULT_PARTITION__", 3))
]


@pytest.fixture
def dataset(tmp_path: Path) -> bp.Dataset:
    """Three files, with the partition columns `n`, integers and a null, and `At`, timestamps."""
    return bp.Dataset.open(hive(tmp_path, {folder: {"id": [1]} for folder in FOLDERS}))


def verdicts(dataset: bp.Dataset, leaf: Predicate, strict: bool = True, **options: object) -> list[bool] | None:
    evidence = PartitionEvidence(dataset, PlanOptions(**options))  # type: ignore[arg-type]
    by_file, alive = evidence.verdicts(leaf, strict), np.array([True, False, True])
    codes = evidence.codes(leaf, alive, strict)
    assert codes.tolist() == [
        0 if keep else Decision.PARTITION.code for keep in ([True] * 3 if by_file is None else by_file)
    ]
    return None if by_file is None else by_file.tolist()


NOON = "2026-07-02T00:00:00+00:00"
FIELD = VariantField(("n",), "$.a", "bigint", bp.Eq("n", 1))


def test_partition_values_decide(dataset: bp.Dataset) -> None:
    assert verdicts(dataset, bp.Eq("n", 2)) == [False, True, False]
    assert verdicts(dataset, bp.NotEq("n", 2)) == [True, False, False]  # NULL is not TRUE
    assert verdicts(dataset, bp.IsNull("n")) == [False, False, True]
    assert verdicts(dataset, bp.Eq("id", 1)) is None


def test_names_of_partitions_have_a_case(dataset: bp.Dataset) -> None:
    assert verdicts(dataset, bp.Eq("N", 2)) is None
    assert verdicts(dataset, bp.Eq("N", 2), case_sensitive=False) == [False, True, False]


def test_a_timestamp_in_a_name_has_the_time_zone_of_the_reader(dataset: bp.Dataset) -> None:
    for zone, expected in (("UTC", [False, False, True]), ("America/New_York", [False, True, True])):
        assert verdicts(dataset, bp.Gt("At", NOON), timezone=zone) == expected
    for zone in ("UTC", "America/New_York"):  # the literal has no zone either
        assert verdicts(dataset, bp.Eq("At", "2026-07-02 00:00:00"), timezone=zone) == [False, True, False]
    every = [True, True, True]
    assert verdicts(dataset, bp.Gt("At", NOON), timezone=None) == every
    assert verdicts(dataset, bp.Eq("n", 2), timezone=None) == [False, True, False]


def test_a_wrong_literal_type_excludes_no_file_or_is_an_error(dataset: bp.Dataset) -> None:
    assert verdicts(dataset, bp.Eq("n", "x"), strict=False) == [True, True, True]
    with pytest.raises(bp.PlanError, match="column 'n'"):
        verdicts(dataset, bp.Eq("n", "x"))


def test_a_name_of_a_directory_is_neither_list_nor_variant(dataset: bp.Dataset) -> None:
    assert verdicts(dataset, ElementIn(("n",), "element", (7,))) == [True, True, True]
    assert verdicts(dataset, FIELD) == [True, True, True]


@pytest.mark.parametrize(
    ("leaf", "zone", "expected"),
    [
        (bp.Eq("n", 1), "UTC", True),
        (bp.Eq("N", 1), None, True),
        (bp.Eq("n", "x"), "UTC", False),
        (bp.Gt("at", NOON), "UTC", True),
        (bp.Gt("At", NOON), None, False),  # the zone of the names is unknown
        (ElementIn(("n",), "element", (7,)), "UTC", False),
        (bp.ContainsAny("n", [7]), "UTC", False),
    ],
)
def test_what_partition_values_cannot_decide(
    leaf: Predicate, zone: str | None, expected: bool, dataset: bp.Dataset
) -> None:
    evidence = PartitionEvidence(dataset, PlanOptions(timezone=zone, case_sensitive=False))
    evidence.verdicts(bp.IsNull("n"), strict=True)
    assert evidence.can_compare(leaf) is expected


def test_partitions_whose_names_differ_by_case(tmp_path: Path) -> None:
    opened = bp.Dataset.open(hive(tmp_path, {"At=2026-07-01 00%3A00%3A00/at=1": {"id": [1]}}))
    evidence = PartitionEvidence(opened, PlanOptions(timezone=None))
    assert evidence.verdicts(bp.Eq("at", 2), strict=True) == [False]
    assert evidence.can_compare(bp.Eq("at", 2))
    assert not evidence.can_compare(bp.Gt("At", NOON))
