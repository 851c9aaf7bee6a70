"""Ways to give S3A its access key."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support import hadoop

KEY, WRONG = "AKIAIOSFODNN7EXAMPLE", "AKIAWRONGWRONGEXAMPLE"
SECRET, TOKEN = f"secret-of-{KEY}", "token-of-the-session"
HADOOP, SDK = "org.apache.hadoop.fs.s3a.", "software.amazon.awssdk.auth.credentials."
PROVIDER = "fs.s3a.aws.credentials.provider"
KEYS = {"fs.s3a.access.key": KEY, "fs.s3a.secret.key": SECRET}
NOT_THESE = {"fs.s3a.access.key": WRONG, "fs.s3a.secret.key": f"secret-of-{WRONG}"}

JAVA = f"""
package io.bloomparquet.test;

import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;

public final class OurProvider implements AwsCredentialsProvider {{
  @Override
  public AwsCredentials resolveCredentials() {{
    return AwsBasicCredentials.create("{KEY}", "{SECRET}");
  }}
}}
"""


@dataclass(frozen=True)
class Case:
    """How the storage gets its key: by Hadoop's settings, and by what `given` gives outside of them."""

    settings: dict[str, str]
    given: Callable[[SparkSession, Path], AbstractContextManager[None]] = lambda spark, home: nullcontext()
    token: str = ""


def store(spark: SparkSession, home: Path) -> AbstractContextManager[None]:
    hadoop.store_secrets(spark, f"localjceks://file{home}/keys.jceks", KEYS)
    return nullcontext()


def profile(spark: SparkSession, home: Path) -> AbstractContextManager[None]:
    (home / "credentials").write_text(f"[ours]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    return nullcontext()


def environment(spark: SparkSession, home: Path) -> AbstractContextManager[None]:
    return hadoop.environment_of_the_sdk(spark, {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET})


def properties(spark: SparkSession, home: Path) -> AbstractContextManager[None]:
    return hadoop.system_properties(spark, {"aws.accessKeyId": KEY, "aws.secretAccessKey": SECRET})


# In settings, {bucket} is the bucket of the case, and {home} a directory.
CASES = {
    "keys": Case(KEYS),
    "token": Case(
        {**KEYS, "fs.s3a.session.token": TOKEN, PROVIDER: f"{HADOOP}TemporaryAWSCredentialsProvider"}, token=TOKEN
    ),
    "bucket": Case(
        {
            **NOT_THESE, "fs.s3a.endpoint": "http://127.0.0.1:9", "fs.s3a.bucket.{bucket}.endpoint": "{endpoint}",
            "fs.s3a.bucket.{bucket}.access.key": KEY, "fs.s3a.bucket.{bucket}.secret.key": SECRET,
        }
    ),
    "jceks": Case(
        {"fs.s3a.bucket.{bucket}.security.credential.provider.path": "localjceks://file{home}/keys.jceks"}, store
    ),
    "profile": Case(
        {
            **NOT_THESE, PROVIDER: f"{HADOOP}auth.ProfileAWSCredentialsProvider",
            "fs.s3a.auth.profile.file": "{home}/credentials", "fs.s3a.auth.profile.name": "ours",
        },
        profile,
    ),
    "environment": Case({PROVIDER: f"{SDK}EnvironmentVariableCredentialsProvider"}, environment),
    "system properties": Case({PROVIDER: f"{SDK}SystemPropertyCredentialsProvider"}, properties),
    "our provider": Case({**NOT_THESE, PROVIDER: "io.bloomparquet.test.OurProvider"}),
}  # fmt: skip
