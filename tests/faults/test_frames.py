"""The listing of a request is the one that its digest names, or the planner refuses it."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

from pyspark_bloomparquet.jar.planner_worker import Worker
from tests.support import files
from tests.support.planner_process import equals, listing_of, request_of


def test_a_listing_of_other_files_is_refused(tmp_path: Path) -> None:
    """So a planner cannot remember the files of one data set for another one."""
    mine, others = (
        [Path(files.write(tmp_path / name / "a.parquet", {"id": [1, 3, 5]}, ["id"]))] for name in ("mine", "others")
    )
    request, worker = request_of(mine, equals(3), tmp_path), Worker(io.BytesIO())
    assert "digest" in worker._plan(request, listing_of(others))[0]["error"]
    assert worker._plan(request, b"")[0] == {"unknown": "listing"}
    assert worker._plan(request, listing_of(mine))[0]["plan"]["numRowGroupsRead"] == 1
    assert request["listing"] == hashlib.sha256(listing_of(mine)).hexdigest()
