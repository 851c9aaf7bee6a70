"""`jvm-shim/link.py`: what a jar needs and a library no longer has is named."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LINK = runpy.run_path(str(Path(__file__).resolve().parents[2] / "jvm-shim" / "link.py"))
missing: Callable[[Path, list[Path]], list[str]] = LINK["missing"]

USER = """
    class User extends lib.Base implements lib.Task {
      public void run() { lib.Api.call(lib.Api.FIELD); new lib.Old().toString(); keep(); }
    }
"""
LIBRARY = {
    "Api": "public class Api implements java.io.Serializable { public static int FIELD; public static void call(int i) {} }",  # noqa: E501
    "Old": "public class Old {}",
    "Base": "public class Base { protected void keep() {} }",
    "Task": "public interface Task extends Runnable { default void more() {} }",
}  # fmt: skip


def jar_of(folder: Path, sources: dict[str, str], *libraries: Path) -> Path:
    folder.mkdir()
    for name, source in sources.items():
        (folder / f"{name}.java").write_text(source)
    path = ":".join(map(str, libraries)) or "."
    javac = shutil.which("javac") or "javac"
    files = sorted(map(str, folder.glob("*.java")))
    subprocess.run([javac, "--release", "17", "-cp", path, "-d", str(folder / "classes"), *files], check=True)
    with zipfile.ZipFile(folder / "made.jar", "w") as jar:
        for file in (folder / "classes").rglob("*.class"):
            jar.write(file, file.relative_to(folder / "classes").as_posix())
    return folder / "made.jar"


def library(folder: Path, **changes: str) -> Path:
    sources = {**LIBRARY, **changes}
    return jar_of(folder, {name: f"package lib; {source}" for name, source in sources.items() if source})


def test_what_a_library_no_longer_has(tmp_path: Path) -> None:
    whole = library(tmp_path / "library")
    user = jar_of(tmp_path / "user", {"User": USER}, whole)
    assert missing(user, [whole]) == []
    changed = library(
        tmp_path / "changed",
        Old="",
        Api=LIBRARY["Api"].replace("void call(int i)", "void call(long i)").replace("int FIELD", "long FIELD"),
        Base="public class Base extends Up {}",
        Up="class Up { protected void keep() {} }",
        Task=LIBRARY["Task"].replace("default void more() {}", "void more();"),
    )
    assert sorted(missing(user, [changed])) == [
        "User lacks lib/Task.more()V",
        "User needs lib/Api.FIELDI",
        "User needs lib/Api.call(I)V",
        "User needs the class lib/Old",
    ]
    other = {"Api": "public class Api extends Other {}", "Other": "class Other { public static int FIELD; }"}
    assert missing(user, [library(tmp_path / "other", **other)]) == ["User needs lib/Api.call(I)V"]


def test_the_jar_links_against_the_installed_spark() -> None:
    jars = sorted(LINK["spark_jars"]().glob("*.jar"))
    assert missing(LINK["JAR"], jars) == []
    core = [jar for jar in jars if jar.name.startswith("spark-core_")]
    assert any("needs the class org/apache/spark/sql/" in line for line in missing(LINK["JAR"], core))
