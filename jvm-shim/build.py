"""Compile the jar, as ``make jar`` does: ``.venv/bin/python jvm-shim/build.py``.

The sources need javac and the jars of the PySpark that this interpreter has: no build tool, no download. The same
sources and compiler make the same bytes: names are sorted, and all files have one date.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
JAR = ROOT / "python" / "pyspark_bloomparquet" / "jars" / "bloomparquet.jar"
JAVA = 17  # the oldest that Spark 4 runs on; what is compiled for it runs on every later one
HOW = f"Debian and Ubuntu: apt-get install openjdk-{JAVA}-jdk-headless; or set JAVA_HOME to a JDK you have"


class BuildError(Exception):
    """What stands in the way, in the words that the user is told."""


class NoCompilerError(BuildError):
    """There is no javac, or only one that is too old."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=JAR, help="the jar to write; by default the package's")
    parser.add_argument("--check", action="store_true", help="compile only, write nothing")
    parser.add_argument("--optional", action="store_true", help="without a javac, do without the jar")
    given = parser.parse_args()
    try:
        compiler = find_compiler()
        with tempfile.TemporaryDirectory() as folder:
            classes = Path(folder)
            compile_to(classes, compiler)
            if given.check:
                print(f"the sources of the jar compile against PySpark {version('pyspark')}")
            else:
                pack(classes, given.output)
                print(f"built {_shown(given.output)} against PySpark {version('pyspark')}")
    except NoCompilerError as error:
        if not given.optional:
            print(f"error: the jar cannot be built: {error}. {HOW}.", file=sys.stderr)
            return 1
        # A jar of other sources is worse than none: it would be taken for the one of these.
        given.output.unlink(missing_ok=True)
        print(f"note: {error}, so the jar is left out and Spark reads through the Python data source. {HOW}.")
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def find_compiler() -> str:
    """JAVA_HOME's javac, or else the PATH's: JAVA_HOME may well be a runtime without one."""
    home = os.environ.get("JAVA_HOME")
    found = [os.path.join(home, "bin", "javac")] if home else []
    too_old = ""
    for javac in filter(shutil.which, [*found, "javac"]):
        told = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
        # macOS has a javac that only says that there is none, and Java 8 says its version on stderr.
        major = re.search(r"javac (?:1\.)?(\d+)", told.stdout + told.stderr)
        if told.returncode == 0 and major:
            if int(major[1]) >= JAVA:
                return javac
            too_old = f", only one of Java {major[1]}"
    raise NoCompilerError(f"there is no javac of a JDK {JAVA} or newer{too_old}")


def compile_to(classes: Path, compiler: str) -> None:
    spark = find_spec("pyspark")
    if spark is None or not spark.submodule_search_locations:
        raise BuildError(f"{sys.executable} has no PySpark, whose jars the sources are compiled against")
    jars = Path(spark.submodule_search_locations[0]) / "jars"
    options = [
        "--release", str(JAVA),
        "-encoding", "UTF-8",  # javac would take the locale's
        "-proc:none",
        "-Xlint:all", "-Werror",
        "-Xlint:-path",  # the manifests of Spark's own jars name jars that it does not have
    ]  # fmt: skip
    sources = sorted(str(source) for source in HERE.glob("src/main/java/**/*.java"))
    command = [compiler, *options, "-classpath", str(jars / "*"), "-d", str(classes), *sources]
    if subprocess.run(command, check=False).returncode != 0:
        raise BuildError(f"the sources of the jar do not compile against PySpark {version('pyspark')}")


def pack(classes: Path, output: Path) -> None:
    """Write the jar beside where it belongs, then put it there: a running JVM keeps the file that it has opened."""
    resources = HERE / "src" / "main" / "resources"
    contents = {"META-INF/MANIFEST.MF": manifest(), "META-INF/LICENSE": (ROOT / "LICENSE").read_bytes()}
    for folder in (resources, classes):
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            contents[file.relative_to(folder).as_posix()] = file.read_bytes()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".build-") as beside:
        made = Path(beside) / output.name
        with zipfile.ZipFile(made, "w") as jar:
            for name, content in contents.items():  # the manifest first, where the tools look for it
                entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                entry.external_attr = 0o644 << 16
                jar.writestr(entry, content, zipfile.ZIP_DEFLATED)
        made.replace(output)


def manifest() -> bytes:
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise BuildError("pyproject.toml names no version")
    lines = ["Manifest-Version: 1.0", "Implementation-Title: bloomparquet", f"Implementation-Version: {found[1]}"]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    sys.exit(main())
