"""The arrays of a plan of Parquet files."""

from __future__ import annotations

import bloomparquet as bp
from bloomparquet.planning.parquet.row_groups import RowGroups


def parquet_table(plan: bp.ScanPlan) -> RowGroups:
    assert isinstance(plan.table, RowGroups)
    return plan.table
