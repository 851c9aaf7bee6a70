"""Rows do not depend on any one kind of evidence, and no evidence skips more than its own proofs allow.

These are a few cases for each switch. ``make switches`` runs all comparisons with each.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.predicate import Eq, In, Or, Predicate
from bloomparquet.query.verdict import Decision
from tests.differential import oracle, writers
from tests.differential.cases import Data, cases, data_sets
from tests.differential.kinds import ORC_NAMES
from tests.differential.test_core import check_law, examples, spelled
from tests.support import files
from tests.support.switches import EVIDENCE, SWITCHES, require_off, without

pytestmark = pytest.mark.slow

WHERE = "p = 1 AND x >= 200 AND x IN (250, 350)"
USED = {"partitions": Decision.PARTITION, "statistics": Decision.BOUNDS, "bloom": Decision.INDEX}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Two partitions, whose even and odd values only filters tell apart."""
    for p in range(2):
        values = [v for v in range(600) if (v // 100) % 2 == 0 or v % 2]
        files.write(tmp_path / f"p={p}" / "x.parquet", {"x": values}, ["x"], rows_per_group=75, fpp=1e-6)
    bp.build_index(tmp_path)
    process_cache.clear()
    yield tmp_path
    process_cache.clear()


def rows(root: Path) -> list[int]:
    ids: list[int] = bp.read_table(root, WHERE)["x"].to_pylist()
    return ids


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_stops_its_evidence_alone(root: Path, switch: str) -> None:
    expected, plan = rows(root), bp.plan(root, WHERE)
    decided = plan.decisions().counts()
    assert expected == [250]
    assert plan.indexed == 1
    assert min(decided[each] for each in USED.values()) > 0
    assert bp.plan(root, WHERE).requests == 0
    with without(switch):
        assert rows(root) == expected
        plan = bp.plan(root, WHERE)
        require_off(plan)
        now = plan.decisions().counts()
        assert (plan.indexed > 0) == (switch != "index")
        assert (plan.requests > 0) == (switch == "caches")
        if switch == "index":  # the filters of the file are asked
            assert now == {Decision.BLOOM if key is Decision.INDEX else key: n for key, n in decided.items()}
        else:
            assert (now == decided) == (switch == "caches")
            others = [used for name, used in USED.items() if name != switch and switch in USED]
            assert all(now[used] for used in others)
    assert bp.plan(root, WHERE).decisions().counts() == decided


@pytest.mark.parametrize(("file_format", "write"), [("parquet", writers.write), ("orc", writers.write_orc)])
def test_each_evidence_alone_keeps_the_rows_and_no_less(
    file_format: str, write: Callable[[Data, Path], list[Path]]
) -> None:
    """Each kind of evidence alone keeps all row groups that all kinds together keep.

    These are the intersection where one proof about one condition suffices to skip: for a conjunction of comparisons
    with single values, over units that are judged whole.
    """
    tally: Counter[str] = Counter()

    @examples(0.1)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        only = ORC_NAMES if file_format == "orc" else None
        data = draws.draw(data_sets(spark=False, only=only), label="data")
        chosen = draws.draw(cases(data, spark=False, number=10), label="cases")
        root = Path(tempfile.mkdtemp(prefix="bloomparquet-alone-"))
        try:
            paths = [str(path) for path in write(data, root)]
            groups, kinds = oracle.rows_of(data), data.schema_kinds()
            for case in chosen:
                where = spelled(case, kinds)
                note(f"where = {where!r}, which is {case.predicate!r}")
                wanted = {i for i, row in enumerate(groups) if oracle.truth(case.predicate, row, kinds, data.timezone)}
                kept = {}
                for alone in EVIDENCE:
                    with without(*(each for each in EVIDENCE if each != alone)):
                        plan = bp.plan(root, where, timezone=data.timezone)
                        check_law(plan, data, paths, wanted)
                        require_off(plan)
                        kept[alone] = kept_units(plan)
                        tally[alone] += plan.skipped.total()
                plan = bp.plan(root, where, timezone=data.timezone)
                common = set.intersection(*kept.values())
                assert kept_units(plan) <= common
                if file_format == "parquet" and is_conjunction(case.predicate):
                    assert kept_units(plan) == common
                    tally["intersections"] += plan.kept < plan.total
                tally["cases"] += 1
        finally:
            shutil.rmtree(root)

    check()
    print(f"\n{dict(tally)}")
    assert min(tally[each] for each in EVIDENCE) > 0
    assert tally["intersections"] > tally["cases"] / 20 or file_format == "orc"


def kept_units(plan: bp.ScanPlan) -> set[tuple[str, int]]:
    return {(group.path, group.index) for group in plan.row_groups if group.kept and group.index is not None}


def is_conjunction(predicate: Predicate) -> bool:
    """Whether each leaf of the normal form has to be TRUE, and asks for one stored value: of 0.0 and -0.0, bounds may
    exclude one, and a filter the other."""

    def is_single(node: Predicate) -> bool:
        if isinstance(node, Or) or (isinstance(node, In) and len(node.values) > 1):
            return False
        if isinstance(node, Eq | In) and 0 in (node.values if isinstance(node, In) else (node.value,)):
            return False
        return all(map(is_single, getattr(node, "children", ())))

    return is_single(normalize(predicate))
