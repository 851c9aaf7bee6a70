"""The planner reads S3 as Spark does, with every kind of credentials: the jar reads for it by Hadoop's S3A."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.credentials import CASES, KEY
from tests.support.planners import PYTHON, Interpreter
from tests.support.s3a import Lake, ask, ids_of
from tests.support.scenarios import UNPRUNED, texts
from tests.support.spark import application_conf, conf

pytestmark = pytest.mark.slow

FOUND = ids_of(1)[33]


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


RECORDING = """
exec "{python}" -c "
import json
from pyspark_bloomparquet.jar import planner_worker
class Recorded(planner_worker.Storages):
    def __init__(self, roots, read):
        with open('{record}', 'a') as record:
            print(json.dumps(roots), file=record)
        super().__init__(roots, read)
planner_worker.Storages = Recorded
planner_worker.main()
"
"""


def test_caches_know_a_bucket_by_its_endpoint(lake: Lake, tmp_path: Path) -> None:
    """That of the bucket's settings. Two servers may have buckets of the same name."""
    bucket, record = lake.bucket(), tmp_path / "record"
    program = RECORDING.format(python=os.environ["PYSPARK_PYTHON"], record=record)
    endpoint = f"http://{lake.server.address}".replace("127.0.0.1", "localhost")
    settings = {f"fs.s3a.bucket.{bucket}.endpoint": endpoint}
    interpreter = Interpreter(tmp_path, program).program
    with application_conf(lake.spark, {PYTHON: interpreter}), conf(lake.spark, settings):
        assert ask(lake.spark.read.parquet(lake.table(bucket)), f"id = {FOUND}")[1].kept == 1
    roots = json.loads(record.read_text().splitlines()[-1])
    assert [*roots] == [f"s3a://{bucket}"]
    assert (roots[f"s3a://{bucket}"]["key"], roots[f"s3a://{bucket}"]["isFirst"]) == (
        f"s3a://{bucket}?endpoint={endpoint}", True,
    )  # fmt: skip
