"""Compiles Java classes of tests against Spark's jars."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark


def compile_jar(home: Path, name: str, classes: Mapping[str, str], needed: Iterable[Path] = ()) -> Path:
    """The jar `name` in the new directory `home`, with `classes`: their sources by simple name. They use Spark's jars
    and the `needed` ones."""
    home.mkdir(parents=True, exist_ok=True)
    for each, source in classes.items():
        (home / f"{each}.java").write_text(source)
    javac = shutil.which("javac")
    assert javac, "this test needs a JDK"
    jars = os.pathsep.join(map(str, [Path(pyspark.__file__).parent / "jars" / "*", *needed]))
    command = [javac, "--release", "17", "-proc:none", "-classpath", jars, "-d", "."]
    subprocess.run([*command, *(f"{each}.java" for each in classes)], cwd=home, check=True, stdout=sys.stderr)
    jar = home / name
    with zipfile.ZipFile(jar, "w") as packed:
        for compiled in home.rglob("*.class"):
            packed.write(compiled, compiled.relative_to(home))
    return jar
