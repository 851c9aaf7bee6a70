"""With the jar, the planner opens a bucket as Spark does: by Hadoop's settings, or by `storageOptions`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import ScanSummary, explain_pruning, last_plan
from tests.support import buckets, files
from tests.support.s3 import S3Server, s3_server
from tests.support.scenarios import PRUNED, texts
from tests.support.spark import application_conf, conf
from tests.support.spark_log import explained, recorded, text_below

pytestmark = pytest.mark.slow

KEY, OTHER, WRONG = "AKIAIOSFODNN7EXAMPLE", "AKIAI44QH8DHBEXAMPLE", "AKIAWRONGWRONGEXAMPLE"
FOUND = 7_919 * 17 % 1_000_003
OPTION = "spark.datasource.bloomparquet.storageOptions"


class Lake:
    """Buckets in a directory, which Spark reads, and on a server, which the planner reads."""

    def __init__(self, spark: SparkSession, server: S3Server, home: Path) -> None:
        self.spark, self.server, self.home = spark, server, home

    def add(self, bucket: str, scheme: str = "s3a") -> str:
        """The URL of a table of two files with five row groups each, which only filters can tell apart."""
        for part in range(2):
            path = self.home / bucket / "t" / f"{part}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            ids = [i * 7_919 % 1_000_003 for i in range(part, 1_000, 2)]
            files.write(path, {"id": ids}, ["id"], fpp=1e-6, rows_per_group=100)
        if scheme == "s3a":
            self.server.allowed = None
            buckets.publish(self.server, self.home, bucket)
            self.server.allowed = {KEY, OTHER}
        return f"{scheme}://{bucket}/t"

    def settings(self, key: str = KEY, **more: str) -> dict[str, str]:
        """Hadoop's settings. The names of `more` follow ``fs.s3a.``."""
        given = {f"fs.s3a.{name.replace('_', '.')}": value for name, value in more.items()}
        return {**buckets.settings(self.server, self.home, key), **given}

    def options(self, key: str) -> str:
        return json.dumps(
            {
                "endpoint_override": self.server.address, "scheme": "http", "region": "us-east-1",
                "access_key": key, "secret_key": secret(key),
            }
        )  # fmt: skip

    def ask(self, frame: DataFrame) -> ScanSummary:
        """The plan of a query that finds one row."""
        self.server.credentials.clear()
        frame = frame.where(f"id = {FOUND}")
        assert texts(frame.collect()) == [f"({FOUND},)"]
        (plan,) = last_plan(frame)
        return plan

    @property
    def keys(self) -> set[str]:
        """The access keys of the planner's requests since the last query began."""
        return {key for key, _ in self.server.credentials}


def secret(key: str) -> str:
    return f"secret-of-{key}"


def assert_pruned(plan: ScanSummary) -> None:
    assert (plan.planned, plan.total, plan.kept, plan.skipped["bloom"]) == (True, 10, 1, 9), plan.reason


@pytest.fixture(scope="module")
def lake(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    home = tmp_path_factory.mktemp("buckets")
    buckets.install(jar_spark, home / "java")
    with s3_server() as server, conf(jar_spark, PRUNED):
        yield Lake(jar_spark, server, home / "data")


@pytest.mark.parametrize("source", ["parquet", "bloomparquet"])
def test_the_planner_reads_as_hadoop_is_set(lake: Lake, source: str) -> None:
    url = lake.add(f"set-{source}")
    with conf(lake.spark, lake.settings()):
        assert_pruned(lake.ask(lake.spark.read.format(source).load(url)))
        assert lake.keys == {KEY}
    # Hadoop keeps the connector that it made, whatever is set later, so Spark still reads there.
    with conf(lake.spark, lake.settings(WRONG, endpoint="http://127.0.0.1:9")):
        plan = lake.ask(lake.spark.read.format(source).load(url))
    assert_pruned(plan)
    assert WRONG not in lake.keys


def test_settings_of_a_bucket_and_of_a_load_come_first(lake: Lake) -> None:
    url = lake.add("own")
    own = {"bucket.own.access.key": KEY, "bucket.own.session.token": "token-of-the-bucket"}
    with conf(lake.spark, lake.settings(WRONG, **own)):
        assert_pruned(lake.ask(lake.spark.read.parquet(url)))
    assert set(lake.server.credentials) == {(KEY, "token-of-the-bucket")}
    url = lake.add("loaded")
    with conf(lake.spark, lake.settings(WRONG)):
        assert_pruned(lake.ask(lake.spark.read.option("fs.s3a.access.key", KEY).parquet(url)))
    assert lake.keys == {KEY}


def test_secrets_may_be_in_the_credential_store_of_a_bucket(lake: Lake, tmp_path: Path) -> None:
    url = lake.add("stored")
    jvm: Any = lake.spark._jvm
    store = f"localjceks://file{tmp_path}/keys.jceks"
    for name, value in {"fs.s3a.access.key": OTHER, "fs.s3a.bucket.stored.secret.key": secret(OTHER)}.items():
        given = ["create", name, "-value", value, "-provider", store]
        arguments = lake.spark.sparkContext._gateway.new_array(jvm.java.lang.String, len(given))  # type: ignore[union-attr]
        for i, each in enumerate(given):
            arguments[i] = each
        shell = jvm.org.apache.hadoop.security.alias.CredentialShell()
        shell.setConf(jvm.org.apache.hadoop.conf.Configuration())
        assert shell.run(arguments) == 0
    own = {"fs.s3a.bucket.stored.security.credential.provider.path": store}
    with conf(lake.spark, lake.settings(WRONG) | own):
        assert_pruned(lake.ask(lake.spark.read.parquet(url)))
    assert lake.keys == {OTHER}


@pytest.mark.parametrize(
    ("scheme", "authority", "setting"),
    [
        ("abfss", "box@acc.dfs.core.windows.net", "fs.azure.encryption.context.provider.type{}"),
        ("abfss", "own@acc.dfs.core.windows.net", "fs.azure.encryption.encoded.client-provided-key{}"),
        ("gs", "box", "fs.gs.encryption.algorithm"),
    ],
)
def test_settings_of_azure_and_google_reach_the_planner(lake: Lake, scheme: str, authority: str, setting: str) -> None:
    """Shown by settings with which it does not ask the storage at all, which is out of reach here."""
    url = lake.add(authority, scheme)
    given = {f"fs.{scheme}.impl": "io.bloomparquet.test.LocalBuckets", "fs.test.buckets": str(lake.home)}
    with conf(lake.spark, given | {setting.format(".acc.dfs.core.windows.net"): "any"}):
        plan = lake.ask(lake.spark.read.parquet(url))
    assert not plan.planned
    assert f"({setting.format('')} in Hadoop's configuration)" in str(plan.reason)


def test_storage_options_are_used_instead_of_hadoops_settings(lake: Lake) -> None:
    url = lake.add("options")
    with conf(lake.spark, lake.settings(WRONG)):
        load = lake.spark.read.format("bloomparquet")
        assert_pruned(lake.ask(load.option("storageOptions", lake.options(KEY)).load(url)))
        assert lake.keys == {KEY}
        plan = lake.ask(load.option("storageOptions", '{"acess_key": "SECRET"}').load(url))
        assert "did you mean 'access_key'?" in str(plan.reason)
        with conf(lake.spark, {OPTION: lake.options(OTHER)}):
            assert_pruned(lake.ask(lake.spark.read.parquet(url)))
            assert lake.keys == {OTHER}
        with pytest.raises(IllegalArgumentException, match="expected a JSON object of texts") as raised:
            load.option("storageOptions", '{"secret_key": SECRET}').load(url)
    assert "SECRET" not in f"{raised.value} {plan}"


def test_sessions_share_no_file_system(lake: Lake) -> None:
    """Each session has credentials of its own, and reads with them, although the files and their names are equal."""
    url = lake.add("shared")
    for key in (KEY, OTHER, WRONG, KEY):
        session = lake.spark.newSession()
        with conf(session, {**lake.settings(key, impl_disable_cache="true"), **PRUNED}):
            frame = session.read.option("spark.bloomparquet.x", key).format("bloomparquet").option("cache", "false")
            plan = lake.ask(frame.load(url))
        if key == WRONG:
            assert "ACCESS_DENIED" in str(plan.reason) or "INVALID_ACCESS_KEY_ID" in str(plan.reason), plan.reason
        else:
            assert_pruned(plan)
        assert lake.keys <= {key}


UNUSED = {
    "aws.credentials.provider": "com.example.OurProvider",
    "delegation.token.binding": "com.example.OurTokens",
}
OTHER_BYTES = {
    "encryption.algorithm": "SSE-C",
    "accesspoint.arn": "arn:aws:s3:eu-west-1:123456789012:accesspoint/ours",
}


@pytest.mark.parametrize("name", [*UNUSED, *OTHER_BYTES])
def test_what_has_no_counterpart_is_named(lake: Lake, name: str) -> None:
    """Everything is read, as without bloomparquet."""
    url = lake.add(name.replace(".", "-"))
    value = (UNUSED | OTHER_BYTES)[name]
    with conf(lake.spark, lake.settings(**{name: value})):
        frame = lake.spark.read.parquet(url)
        plan = lake.ask(frame)
        (why,) = explain_pruning(frame.where(f"id = {FOUND}"))
    assert not plan.planned
    assert f"fs.s3a.{name}" in str(plan.reason)
    assert f"fs.s3a.{name}" in str(why)
    assert KEY not in lake.keys
    if name in OTHER_BYTES:
        assert lake.server.credentials == []


@pytest.mark.parametrize("name", ["proxy.host", "secret.key"])
def test_settings_that_hadoop_cannot_read_fail_no_query(lake: Lake, name: str) -> None:
    """Hadoop replaces variables in a value only so often, and throws then, with the value."""
    bucket = f"variables-of-{name.replace('.', '-')}"
    url = lake.add(bucket)
    variables = {f"fs.test.v{i}": f"${{fs.test.v{i + 1}}}" for i in range(40)}
    with conf(lake.spark, {**lake.settings(**{name: "hidden${fs.test.v0}"}), **variables}):
        plan = lake.ask(lake.spark.read.parquet(url))
    assert not plan.planned
    assert f"cannot read Hadoop's settings for s3a://{bucket}: " in str(plan.reason)
    assert "hidden" not in str(plan.reason)


def test_secrets_are_shown_nowhere(lake: Lake, tmp_path: Path) -> None:
    url = lake.add("secret")
    home = tmp_path / "spark-log"
    home.mkdir()
    plans = []
    given = lake.settings(KEY, session_token="the-session-token")
    wrong = {OPTION: lake.options(WRONG)}
    # Spark's event log hides settings of the application only.
    with recorded(lake.spark, home), application_conf(lake.spark, given | wrong), conf(lake.spark, given):
        with conf(lake.spark, wrong):
            plain = lake.spark.read.parquet(url)
            plans.append(lake.ask(plain))
        loaded = lake.spark.read.format("bloomparquet").option("storageOptions", lake.options(WRONG)).load(url)
        plans.append(lake.ask(loaded))
        for frame in (plain.where("id = 1"), loaded.where("id = 1")):
            plans += [explain_pruning(frame), explained(frame), frame._jdf.queryExecution().toString()]
        assert_pruned(lake.ask(lake.spark.read.parquet(url)))
    assert not plans[0].planned
    assert not plans[1].planned
    settings = lake.spark.sparkContext._jsc.sc().conf()  # type: ignore[union-attr]
    processes = [each for each in Path("/proc").glob("[0-9]*") if "planner_worker" in text_of(each / "cmdline")]
    assert processes
    log = text_below(home)
    assert "SparkListenerJobStart" in log  # no warning: each appears once for each process
    shown = [
        repr(plans),
        log,
        text_below(Path(settings.get("spark.bloomparquet.cacheDirectory"))),
        *(text_of(each / name) for each in processes for name in ("cmdline", "environ")),
    ]
    for text in shown:
        for hidden in (secret(KEY), secret(WRONG), "the-session-token"):
            assert hidden not in text


def text_of(file: Path) -> str:
    """The text of a file of a process; empty if the process has ended."""
    try:
        return file.read_bytes().decode("latin-1")
    except OSError:
        return ""
