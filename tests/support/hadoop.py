"""Gives a running Spark more of Hadoop's connectors and credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


class Connectors:
    """Connectors in `jars`, which Hadoop finds in a block. They need one class loader for the whole life of the JVM,
    because S3A has objects that all its file systems share."""

    def __init__(self, spark: SparkSession, jars: Sequence[Path]) -> None:
        jvm: Any = spark._jvm
        self._hadoop = configuration(spark)
        self._without = self._hadoop.getClassLoader()
        urls = array(spark, jvm.java.net.URL, [jvm.java.io.File(str(jar)).toURI().toURL() for jar in jars])
        self._loader = jvm.java.net.URLClassLoader(urls, self._without)

    def __enter__(self) -> None:
        self._hadoop.setClassLoader(self._loader)

    def __exit__(self, *error: object) -> None:
        self._hadoop.setClassLoader(self._without)


@contextmanager
def system_properties(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set properties of the JVM, which had none of these names, in a block."""
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    for name, value in values.items():
        assert system.setProperty(name, value) is None
    try:
        yield
    finally:
        for name in values:
            system.clearProperty(name)


@contextmanager
def environment_of_the_sdk(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Let the AWS SDK find these variables in a block. The real environment is the one that the JVM started with."""
    jvm: Any = spark._jvm
    name = "software.amazon.awssdk.utils.internal.SystemSettingUtilsTestBackdoor"
    backdoor = jvm.java.lang.Class.forName(name, True, configuration(spark).getClassLoader())
    methods = {method.getName(): method for method in backdoor.getMethods()}
    for given in values.items():
        methods["addEnvironmentVariableOverride"].invoke(None, array(spark, jvm.java.lang.Object, given))
    try:
        yield
    finally:
        methods["clearEnvironmentVariableOverrides"].invoke(None, array(spark, jvm.java.lang.Object, ()))


def store_secrets(spark: SparkSession, store: str, values: Mapping[str, str]) -> None:
    """Write secrets into a credential store of Hadoop, whose URL begins with ``localjceks:``."""
    jvm: Any = spark._jvm
    for name, value in values.items():
        shell = jvm.org.apache.hadoop.security.alias.CredentialShell()
        shell.setConf(jvm.org.apache.hadoop.conf.Configuration())
        given = ["create", name, "-value", value, "-provider", store]
        assert shell.run(array(spark, jvm.java.lang.String, given)) == 0


def configuration(spark: SparkSession) -> Any:
    """Hadoop's configuration of the application."""
    return spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]


def array(spark: SparkSession, kind: Any, values: Sequence[Any]) -> Any:
    """An array of the JVM."""
    made = spark.sparkContext._gateway.new_array(kind, len(values))  # type: ignore[union-attr]
    for i, value in enumerate(values):
        made[i] = value
    return made
