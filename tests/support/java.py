"""Compiles Java classes of tests against Spark's jars."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyspark


def compile_jar(home: Path, name: str, classes: Mapping[str, str]) -> Path:
    """The jar `name` in the new directory `home`, with `classes`: their sources by simple name."""
    home.mkdir(parents=True, exist_ok=True)
    for each, source in classes.items():
        (home / f"{each}.java").write_text(source)
    javac = shutil.which("javac")
    assert javac, "this test needs a JDK"
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = [javac, "--release", "17", "-proc:none", "-classpath", str(jars), "-d", "."]
    subprocess.run([*command, *(f"{each}.java" for each in classes)], cwd=home, check=True, stdout=sys.stderr)
    jar = home / name
    with zipfile.ZipFile(jar, "w") as packed:
        for compiled in home.rglob("*.class"):
            packed.write(compiled, compiled.relative_to(home))
    return jar
