"""The planner reads S3 as Spark does, with every kind of credentials: the jar reads for it by Hadoop's S3A."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.credentials import CASES, KEY
from tests.support.s3a import Lake, ask, ids_of
from tests.support.scenarios import UNPRUNED, texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

FOUND = ids_of(1)[33]


@pytest.fixture
def lake(s3a_lake: Lake) -> Iterator[Lake]:
    yield s3a_lake
    s3a_lake.server.allowed = None


@pytest.mark.parametrize(("source", "case"), [*(("parquet", case) for case in CASES), ("bloomparquet", "keys")])
def test_every_kind_of_credentials_opens_the_storage(lake: Lake, source: str, case: str, tmp_path: Path) -> None:
    bucket, kind = lake.bucket(), CASES[case]
    url = lake.table(bucket, "a b%20c#+")
    names = {"bucket": bucket, "home": str(tmp_path), "endpoint": f"http://{lake.server.address}"}
    settings = {name.format(**names): value.format(**names) for name, value in kind.settings.items()}
    lake.forget()
    lake.server.allowed = {KEY}
    with kind.given(lake.spark, tmp_path), conf(lake.spark, settings):
        frame = lake.spark.read.format(source).load(url)
        rows, plan = ask(frame, f"id = {FOUND}")
        assert (rows, plan.planned, plan.total, plan.kept) == ([f"({FOUND},)"], True, 10, 1), plan.reason
        with conf(lake.spark, UNPRUNED):
            assert texts(lake.spark.read.parquet(url).where(f"id = {FOUND}").collect()) == rows
    assert set(lake.server.credentials) == {(KEY, kind.token)}
