"""`jvm-shim/build.py`: the contents of the jar, and the errors if it cannot be built."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pyspark_bloomparquet import jar_path

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "jvm-shim" / "build.py"
NO_JAVAC = "there is no javac of a JDK 17 or newer"


def build(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        check=False, capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip


def without_javac(folder: Path) -> dict[str, str]:
    """The environment of a machine with a Java runtime in JAVA_HOME, and no JDK."""
    (folder / "jre" / "bin").mkdir(parents=True)
    return {"JAVA_HOME": str(folder / "jre"), "PATH": str(folder / "jre" / "bin")}


def test_the_jar_is_reproducible_with_a_jdk_on_the_path(tmp_path: Path) -> None:
    """`make jar`, which made the installed jar of the same sources, has another environment."""
    again, home = tmp_path / "new" / "again.jar", without_javac(tmp_path)["JAVA_HOME"]
    done = build("--output", again, TZ="Asia/Kathmandu", LC_ALL="C", SOURCE_DATE_EPOCH="1", JAVA_HOME=home)
    assert done.returncode == 0, done.stderr
    assert "against PySpark" in done.stdout
    assert os.listdir(again.parent) == [again.name]
    assert again.read_bytes() == jar_path().read_bytes()


def test_the_jar_has_a_manifest_and_its_services() -> None:
    command = [sys.executable, "-m", "hatchling", "version"]
    version = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    with zipfile.ZipFile(jar_path()) as content:
        names = content.namelist()
        assert names[0] == "META-INF/MANIFEST.MF"
        assert content.read(names[0]).decode().splitlines() == [
            "Manifest-Version: 1.0",
            "Implementation-Title: bloomparquet",
            f"Implementation-Version: {version}",
            "",
        ]
        assert content.read("META-INF/LICENSE") == (ROOT / "LICENSE").read_bytes()
        services = [name for name in names if name.startswith("META-INF/services/")]
        providers = {service.rpartition(".")[2]: content.read(service).decode().split() for service in services}
    assert providers.keys() == {"DataSourceRegister", "SparkSessionExtensionsProvider"}
    assert all(providers.values())
    assert {f"{each.replace('.', '/')}.class" for names in providers.values() for each in names} <= set(names)
    # Only our own packages: a class of another package would replace the one of Spark.
    assert all(name.startswith("io/bloomparquet/spark/") for name in names if name.endswith(".class"))


def test_without_a_new_jdk_the_error_says_what_to_install(tmp_path: Path) -> None:
    environment = without_javac(tmp_path)
    done = build("--output", tmp_path / "bloomparquet.jar", **environment)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: ")
    assert NO_JAVAC in done.stderr
    assert "openjdk-17-jdk-headless" in done.stderr
    javac = Path(environment["PATH"]) / "javac"
    javac.write_text("#!/bin/sh\necho javac 1.8.0_402 >&2\n")
    javac.chmod(0o755)
    done = build("--output", tmp_path / "bloomparquet.jar", **environment)
    assert done.returncode == 1
    assert f"{NO_JAVAC}, only one of Java 8" in done.stderr


def test_optional_without_a_jdk_removes_a_stale_jar(tmp_path: Path) -> None:
    stale = tmp_path / "bloomparquet.jar"
    stale.write_bytes(b"of last week")
    done = build("--optional", "--output", stale, **without_javac(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("note: ")
    assert done.stdout.count("\n") == 1
    assert "the jar is left out" in done.stdout
    assert not stale.exists()
