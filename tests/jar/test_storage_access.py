"""Hadoop's settings as storage options of pyarrow; secrets in messages; file systems that are not shared."""

from __future__ import annotations

from typing import Any

import pyarrow.fs
import pytest

import bloomparquet as bp
from bloomparquet.planning.index.cache import process_cache
from bloomparquet.storage.options import make_filesystem
from pyspark_bloomparquet.jar.hadoop_storage import translate
from pyspark_bloomparquet.jar.listing import MAX_ERROR_LENGTH, first_line
from pyspark_bloomparquet.jar.storage_access import StorageAccess
from tests.support.files import write
from tests.support.s3 import s3_server

HADOOP, SDK = "org.apache.hadoop.fs.s3a.", "software.amazon.awssdk.auth.credentials."
DEFAULT = (  # of Hadoop 3.4 and later
    f"{HADOOP}TemporaryAWSCredentialsProvider, {HADOOP}SimpleAWSCredentialsProvider,\n"
    f" {SDK}EnvironmentVariableCredentialsProvider, {HADOOP}auth.IAMInstanceCredentialsProvider"
)
KEYS = {"access.key": "AK", "secret.key": "SK"}
AS_KEYS = {"access_key": "AK", "secret_key": "SK"}
MINIO = {"endpoint_override": "minio:9000", "region": "us-east-2"}

# bucket, settings after "fs.s3a.", storage options, the beginnings of what is not used
S3 = [
    ("b", {}, {}, []),
    ("b", KEYS, AS_KEYS, []),
    ("b", {**KEYS, "session.token": "ST"}, {**AS_KEYS, "session_token": "ST"}, []),
    ("b", {"access.key": "AK"}, {}, []),
    ("b", {**KEYS, "session.token": "ST", "aws.credentials.provider": f"{HADOOP}SimpleAWSCredentialsProvider"},
     AS_KEYS, []),
    ("b", {**KEYS, "aws.credentials.provider": f"{HADOOP}AnonymousAWSCredentialsProvider"}, {"anonymous": "true"}, []),
    ("b", {**KEYS, "aws.credentials.provider": f"{HADOOP}auth.IAMInstanceCredentialsProvider"}, {}, []),
    ("b", {**KEYS, "aws.credentials.provider": f"com.ours.Provider,{HADOOP}SimpleAWSCredentialsProvider"}, {},
     ["fs.s3a.aws.credentials.provider = com.ours.Provider"]),
    ("b", {"aws.credentials.provider": f"{HADOOP}auth.AssumedRoleCredentialProvider"}, {},
     [f"fs.s3a.aws.credentials.provider = {HADOOP}auth.AssumedRoleCredentialProvider"]),
    ("b", {**KEYS, "delegation.token.binding": "x"}, {}, ["fs.s3a.delegation.token.binding"]),
    ("b", {"endpoint": "s3.amazonaws.com"}, {}, []),
    ("b", {"endpoint.region": "eu-west-1"}, {"region": "eu-west-1"}, []),
    ("b", {"endpoint.region": "sdk"}, {}, []),
    ("b", {"endpoint": "http://minio:9000", "path.style.access": "true"}, {**MINIO, "scheme": "http"}, []),
    ("b", {"endpoint": "minio:9000", "path.style.access": "true", "endpoint.region": "r"},
     {**MINIO, "scheme": "https", "region": "r"}, []),
    ("bkt", {"endpoint": "minio:9000", "connection.ssl.enabled": "false"},
     {**MINIO, "scheme": "http", "force_virtual_addressing": "true"}, []),
    ("bkt", {"endpoint": "http://10.0.0.1:9000/"},
     {"endpoint_override": "10.0.0.1:9000", "region": "us-east-2", "scheme": "http"}, []),
    ("a.bkt", {"endpoint": "https://minio:9000"}, {**MINIO, "scheme": "https"}, []),
    ("My_b", {"endpoint": "http://minio:9000"}, {**MINIO, "scheme": "http"}, []),
    ("bkt", {"endpoint": "s3.eu-west-1.amazonaws.com"},
     {"endpoint_override": "s3.eu-west-1.amazonaws.com", "region": "eu-west-1", "scheme": "https",
      "force_virtual_addressing": "true"}, []),
    ("b", {"endpoint": "https://bucket.vpce-1a-2b.s3.us-west-2.vpce.amazonaws.com", "path.style.access": "true"},
     {"endpoint_override": "bucket.vpce-1a-2b.s3.us-west-2.vpce.amazonaws.com", "region": "us-west-2",
      "scheme": "https"}, []),
    ("b", {"proxy.host": "p", "proxy.port": "8080", "proxy.username": "me", "proxy.password": "p@ss"},
     {"proxy_options": "http://me:p%40ss@p:8080"}, []),
    ("b", {"requester.pays.enabled": "true", "signing-algorithm": "x", "s3.client.factory.impl": "com.ours.F"}, {},
     ["fs.s3a.requester.pays.enabled", "fs.s3a.signing-algorithm", "fs.s3a.s3.client.factory.impl = com.ours.F"]),
]  # fmt: skip
ACCOUNT = "c@acc.dfs.core.windows.net"
LOGIN = "https://login.microsoftonline.com/TENANT/oauth2/token"
OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2."
# root, settings, storage options, what is not used
OTHERS: list[tuple[str, dict[str, str], dict[str, str], list[str]]] = [
    ("gs://b", {"fs.gs.auth.type": "COMPUTE_ENGINE"}, {}, []),
    ("gs://b", {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.storage.root.url": "http://localhost:4443/"},
     {"anonymous": "true", "endpoint_override": "localhost:4443", "scheme": "http"}, []),
    ("gs://b", {"fs.gs.auth.impersonation.service.account": "a@b"}, {"target_service_account": "a@b"}, []),
    ("gs://b", {"fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER"}, {}, ["fs.gs.auth.type = ACCESS_TOKEN_PROVIDER"]),
    ("gs://b", {"google.cloud.auth.service.account.json.keyfile": "/k.json"}, {},
     ["google.cloud.auth.service.account.json.keyfile"]),
    (f"abfss://{ACCOUNT}", {"fs.azure.account.key": "K=="}, {"account_name": "acc", "account_key": "K=="}, []),
    (f"abfss://{ACCOUNT}", {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": "?sv=1&sig=S"},
     {"account_name": "acc", "sas_token": "?sv=1&sig=S"}, []),
    (f"abfss://{ACCOUNT}",
     {"fs.azure.account.auth.type": "OAuth", "fs.azure.account.oauth.provider.type": f"{OAUTH}ClientCredsTokenProvider",
      "fs.azure.account.oauth2.client.id": "ID", "fs.azure.account.oauth2.client.secret": "CS",
      "fs.azure.account.oauth2.client.endpoint": LOGIN},
     {"account_name": "acc", "tenant_id": "TENANT", "client_id": "ID", "client_secret": "CS"}, []),
    (f"abfss://{ACCOUNT}",
     {"fs.azure.account.auth.type": "OAuth", "fs.azure.account.oauth.provider.type": f"{OAUTH}MsiTokenProvider",
      "fs.azure.account.oauth2.client.id": "ID"}, {"account_name": "acc", "client_id": "ID"}, []),
    (f"abfss://{ACCOUNT}",
     {"fs.azure.account.auth.type": "Custom", "fs.azure.account.oauth.provider.type": "com.ours.P"}, {},
     ["fs.azure.account.auth.type = Custom com.ours.P"]),
    ("abfss://c@acc.dfs.core.chinacloudapi.cn", {"fs.azure.account.key": "K=="},
     {"account_name": "acc", "account_key": "K==", "blob_storage_authority": ".blob.core.chinacloudapi.cn",
      "dfs_storage_authority": ".dfs.core.chinacloudapi.cn"}, []),
    ("hdfs://name:8020", {"anything": "x"}, {}, []),
]  # fmt: skip


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)


def s3a(settings: dict[str, str]) -> dict[str, str]:
    given = {"aws.credentials.provider": DEFAULT, "connection.ssl.enabled": "true", **settings}
    return {f"fs.s3a.{name}": value for name, value in given.items()}


@pytest.mark.parametrize(
    ("root", "settings", "options", "unused"),
    [*((f"s3a://{bucket}", s3a(given), options, unused) for bucket, given, options, unused in S3), *OTHERS],
)
def test_settings_mean_these_options(
    root: str, settings: dict[str, str], options: dict[str, str], unused: list[str]
) -> None:
    translation = translate(root, settings)
    assert (translation.options, list(translation.unused)) == (options, unused)
    scheme, _, authority = root.partition("://")
    if options and scheme != "hdfs":  # pyarrow takes them; a region keeps it from asking S3 for one
        region = {} if scheme != "s3a" or "region" in options else {"region": "r"}
        make_filesystem("s3" if scheme == "s3a" else scheme, authority, {**options, **region})
    for value in ("SK", "ST", "K==", "CS", "sig=S", "p%40ss"):
        assert value not in repr(translation)


def test_the_environment_goes_where_hadoop_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the keys of the settings by default, before them if the list of providers says so."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the environment")
    assert translate("s3a://b", s3a(KEYS)).options == AS_KEYS
    first = f"{SDK}EnvironmentVariableCredentialsProvider,{HADOOP}SimpleAWSCredentialsProvider"
    assert translate("s3a://b", s3a({**KEYS, "aws.credentials.provider": first})).options == {}
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert translate("s3a://b", s3a({**KEYS, "aws.credentials.provider": first})).options == AS_KEYS


@pytest.mark.parametrize(
    ("root", "settings"),
    [
        ("s3a://b", {"fs.s3a.encryption.algorithm": "SSE-C"}),
        ("s3a://b", {"fs.s3a.server-side-encryption-algorithm": "CSE-KMS"}),
        ("s3a://b", {"fs.s3a.accesspoint.arn": "arn:aws:s3:::x"}),
        ("s3a://b", {"fs.s3a.endpoint": "https://proxy/s3"}),
        ("gs://b", {"fs.gs.encryption.algorithm": "AES256"}),
        (f"abfss://{ACCOUNT}", {"fs.azure.encryption.encoded.client-provided-key": "SECRET"}),
    ],
)
def test_other_bytes_than_those_of_spark_are_not_read(root: str, settings: dict[str, str]) -> None:
    (name,) = settings
    with pytest.raises(bp.PlanError, match=name) as raised:
        translate(root, settings)
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (StorageAccess({"secret_key": "a/secret+key"}), "GET ?x=a%2Fsecret%2Bkey a/secret+key"),
        (StorageAccess(None, {"fs.s3a.session.token": "a/secret+key"}), "token a/secret%2Bkey"),
        (StorageAccess({"sas_token": "?sv=1&sig=a%2Fsecret%2Bkey&se=2"}), "403 https://h/?se=2&sig=a/secret+key"),
        (StorageAccess({"sas_token": "?sig=a%2fsecret%2bkey&sv=1"}), "403 https://h/?sv=1&sig=a%2fsecret%2bkey"),
        (StorageAccess({"sas_token": "?sig=a%2fsecret%2bkey&sv=1"}), "403 https://h/?sv=1&sig=a%2Fsecret%2Bkey"),
        (StorageAccess(None, {"fs.s3a.proxy.password": "a/secret+key"}), "http://me:a%2Fsecret%2Bkey@proxy"),
        (StorageAccess({"proxy_options": "http://me:a%2Fsecret%2Bkey@p"}), "proxy a/secret+key"),
        (StorageAccess(None, {"fs.azure.account.oauth2.client.secret": "a/secret+key"}), "login a/secret+key"),
    ],
)
def test_messages_show_no_secrets(access: StorageAccess, message: str) -> None:
    shown = access.explain(message)
    assert "secret" not in shown
    assert "***" in shown
    assert "secret" not in repr(access)
    assert access.explain("not found", ["fs.s3a.x = y"]).startswith("not found; the planner cannot use fs.s3a.x = y: ")


def test_other_credentials_have_other_file_systems(tmp_path: Any) -> None:
    """File systems are not shared; the evidence of files is shared by their identity, through the disk."""
    write(tmp_path / "t" / "a.parquet", {"id": list(range(100))}, ["id"], rows_per_group=10)
    with s3_server() as server:
        server.upload(tmp_path / "t", "t")
        place = {"endpoint_override": server.address, "scheme": "http", "region": "us-east-1", "secret_key": "s"}
        process_cache.clear()
        datasets = {
            key: bp.Dataset.open("s3://bucket/t", storage_options={**place, "access_key": key})
            for key in ("one", "two")
        }
        assert datasets["one"].storage.key == datasets["two"].storage.key
        for where in ("id = 5", "id = 6"):
            for key, dataset in datasets.items():
                server.credentials.clear()
                assert dataset.plan(where).kept == 1
                assert {used for used, _ in server.credentials} <= {key}
        process_cache.clear()
        server.allowed = {"two"}
        with pytest.raises(OSError, match=r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID"):
            datasets["one"].plan("id = 5")
        assert datasets["two"].plan("id = 5").kept == 1
        with pytest.raises(OSError, match=r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID"):
            datasets["one"].plan("id = 5")


def test_a_sas_token_may_begin_with_a_question_mark() -> None:
    made = [make_filesystem("abfss", ACCOUNT, {"sas_token": token})[0] for token in ("sv=1&sig=S", "?sv=1&sig=S")]
    assert made[0] == made[1]
    assert isinstance(made[0], pyarrow.fs.AzureFileSystem)


def test_half_of_a_secret_is_not_shown() -> None:
    access = StorageAccess({"secret_key": "S" * 40})
    message = first_line(OSError("." * (MAX_ERROR_LENGTH - 10) + "S" * 40), access)
    assert "S" not in message
    assert len(message) <= MAX_ERROR_LENGTH
    assert first_line(OSError("of S\nT\u2028" * 9), StorageAccess({"secret_key": "S\nT\u2028" * 9})) == "of S"
