"""Any storage that Hadoop opens is planned: several in one scan, Google's, one that only Hadoop opens; indexes; ORC.

The planner reads as Spark does, with every kind of credentials: the jar reads for it by Hadoop.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import urlencode

import pyarrow.fs
import pytest
from pyspark.sql import DataFrame

import bloomparquet as bp
from bloomparquet.storage.open import open_storage
from tests.support import files, s3a, vault
from tests.support.credentials import CASES, KEY
from tests.support.emulators import fake_gcs
from tests.support.orc_spark import write_stripes
from tests.support.planners import PYTHON, Interpreter
from tests.support.s3a import Lake, ask, ids_of, outcome, plain_outcome
from tests.support.spark import application_conf, conf

pytestmark = pytest.mark.slow

FOUND = ids_of(1)[33]
WHERE, ROW = f"id = {FOUND}", f"({FOUND},)"
INDEX = "spark.datasource.bloomparquet.index"


def local_table(home: Path) -> Path:
    for number in range(2):
        files.write(home / f"{number}.parquet", {"id": ids_of(number)}, ["id"], rows_per_group=s3a.ROWS, fpp=1e-6)
    return home


def assert_pruned(frame: DataFrame, total: int = 10) -> None:
    rows, plan = ask(frame, WHERE)
    assert (rows, plan.planned, plan.total, plan.kept) == ([ROW], True, total, 1), plan.reason
    assert plain_outcome(frame.where(WHERE)) == rows


@pytest.mark.parametrize(("source", "place"), [("parquet", "beside the data"), ("bloomparquet", "in another bucket")])
def test_an_index_on_s3_is_used(lake: Lake, source: str, place: str) -> None:
    url = lake.table(lake.bucket(), "a b")
    options = {"endpoint_override": lake.server.address, "scheme": "http", "region": "us-east-1"}
    given = {}
    if place == "beside the data":
        bp.build_index(url, ["id"], filesystem=options)
    else:
        given = {INDEX: f"s3a://{lake.bucket()}/x"}
        bp.build_index(url, ["id"], f"{given[INDEX]}?{urlencode(options)}", filesystem=options)
    with conf(lake.spark, given):
        lake.forget()
        frame = lake.spark.read.format(source).load(url)
        rows, plan = ask(frame, WHERE)
        assert (rows, plan.indexed_files, plan.total, plan.kept) == ([ROW], 2, 10, 1), plan.reason
        assert not any(name.endswith("parquet") for name in lake.requests())


def test_two_buckets_are_planned_together(lake: Lake) -> None:
    one, other = lake.bucket(), lake.bucket()
    lake.write(one, "t/0.parquet", ids_of(0))
    lake.write(other, "t/0.parquet", ids_of(1))  # the same path in another bucket
    assert_pruned(lake.spark.read.parquet(f"s3a://{one}/t", f"s3a://{other}/t"))


def test_local_and_remote_files_are_not_planned_together(lake: Lake, tmp_path: Path) -> None:
    frame = lake.spark.read.parquet(lake.table(lake.bucket()), str(local_table(tmp_path)))
    rows, plan = ask(frame, WHERE)
    assert (rows, plan.planned) == ([ROW, ROW], False)
    assert "some files of the scan are local, and others are not" in str(plan.reason)


def test_orc_on_s3_is_pruned(lake: Lake, tmp_path: Path) -> None:
    ids = ", ".join(f"({value})" for number in range(2) for value in ids_of(number)[:80])
    frame = lake.spark.sql(f"SELECT CAST(id AS BIGINT) AS id FROM VALUES {ids} AS t(id)").coalesce(1)
    write_stripes(frame, tmp_path / "t", "id", rows=20)
    (written,) = (tmp_path / "t").glob("*.orc")
    bucket = lake.bucket()
    lake.put(bucket, "t/0.orc", written.read_bytes())
    rows, plan = ask(lake.spark.read.orc(f"s3a://{bucket}/t"), WHERE)
    assert (rows, plan.planned, plan.unit, plan.total, plan.kept) == ([ROW], True, "stripe", 8, 1), plan.reason


def test_google_cloud_storage_is_pruned(lake: Lake, tmp_path: Path) -> None:
    with fake_gcs() as options:
        storage, _ = open_storage("gs://box/t", options | {"anonymous": "true"})
        storage.filesystem.create_dir("box")
        pyarrow.fs.copy_files(str(local_table(tmp_path)), "box/t", destination_filesystem=storage.filesystem)
        settings = {
            "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", "fs.gs.project.id": "p",
            # Hadoop 3.5 has a connector of its own; these are defaults that the older one cannot read.
            "fs.gs.block.size": "67108864", "fs.gs.outputstream.buffer.size": "8388608",
            "fs.gs.inputstream.inplace.seek.limit": "8388608", "fs.gs.inputstream.min.range.request.size": "2097152",
            "fs.gs.rewrite.max.chunk.size": "536870912", "fs.gs.storage.root.url": f"http://{options['endpoint_override']}/",
            "fs.gs.auth.service.account.enable": "false", "fs.gs.auth.null.enable": "true",
        }  # fmt: skip
        with conf(lake.spark, settings):
            assert_pruned(lake.spark.read.parquet("gs://box/t"))


def test_a_storage_that_only_hadoop_opens_is_pruned(lake: Lake, tmp_path: Path) -> None:
    home = local_table(tmp_path / "a b%20c")
    for file in home.iterdir():
        vault.encrypt(file)
    right, wrong = (f"vault://{safe}{home}" for safe in ("right", "wrong"))
    with conf(lake.spark, vault.SETTINGS):
        assert_pruned(lake.spark.read.parquet(right))
        rows, plan = ask(lake.spark.read.parquet(right, lake.table(lake.bucket())), WHERE)
        assert (rows, plan.planned, plan.total, plan.kept) == ([ROW, ROW], True, 20, 2), plan.reason
    with conf(lake.spark, vault.SETTINGS | {vault.PIN: "4321"}):
        assert_pruned(lake.spark.read.parquet(right))  # Hadoop keeps the client
        load = [lambda: lake.spark.read.parquet(wrong), lambda: lake.spark.read.format("bloomparquet").load(wrong)]
        for each in load:
            with pytest.raises(Exception, match=r"wrong fs\.vault\.pin"):
                outcome(each())


# -- credentials -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "case"), [*(("parquet", case) for case in CASES), ("bloomparquet", "keys")])
def test_every_kind_of_credentials_opens_the_storage(lake: Lake, source: str, case: str, tmp_path: Path) -> None:
    bucket, kind = lake.bucket(), CASES[case]
    url = lake.table(bucket, "a b%20c#+")
    names = {"bucket": bucket, "home": str(tmp_path), "endpoint": f"http://{lake.server.address}"}
    settings = {name.format(**names): value.format(**names) for name, value in kind.settings.items()}
    lake.forget()
    lake.server.allowed = {KEY}
    with kind.given(lake.spark, tmp_path), conf(lake.spark, settings):
        assert_pruned(lake.spark.read.format(source).load(url))
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
    """The server in the bucket's settings is asked: two servers may have buckets of the same name."""
    bucket, record = lake.bucket(), tmp_path / "record"
    program = RECORDING.format(python=os.environ["PYSPARK_PYTHON"], record=record)
    endpoint = f"http://{lake.server.address}".replace("127.0.0.1", "localhost")
    settings = {f"fs.s3a.bucket.{bucket}.endpoint": endpoint}
    interpreter = Interpreter(tmp_path, program).program
    with application_conf(lake.spark, {PYTHON: interpreter}), conf(lake.spark, settings):
        assert ask(lake.spark.read.parquet(lake.table(bucket)), WHERE)[1].kept == 1
    roots = json.loads(record.read_text().splitlines()[-1])
    assert [*roots] == [f"s3a://{bucket}"]
    assert (roots[f"s3a://{bucket}"]["key"], roots[f"s3a://{bucket}"]["isFirst"]) == (
        f"s3a://{bucket}?endpoint={endpoint}", True,
    )  # fmt: skip
