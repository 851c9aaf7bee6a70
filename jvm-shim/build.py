"""Compile the jar, as ``make jar`` does: ``.venv/bin/python jvm-shim/build.py``.

Needs javac and the jars of this interpreter's PySpark, but no build tool and no download. The same sources and compiler
make the same bytes: names are sorted, and all files have one date.
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
JAVA = 17  # the oldest version that Spark 4 supports
HOW = f"Debian and Ubuntu: apt-get install openjdk-{JAVA}-jdk-headless; or set JAVA_HOME to a JDK you have"


class BuildError(Exception):
    """The jar cannot be built. The message is for the user."""


class NoCompilerError(BuildError):
    """There is no javac, or it is too old."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=JAR, help="the jar to write (default: the package's)")
    parser.add_argument("--optional", action="store_true", help="without a javac, print a note and make no jar")
    arguments = parser.parse_args()
    try:
        compiler = find_compiler()
        with tempfile.TemporaryDirectory() as folder:
            classes = Path(folder)
            compile_to(classes, compiler)
            write_jar(arguments.output, HERE / "src" / "main" / "resources", classes)
            print(f"built {_shown(arguments.output)} against PySpark {version('pyspark')}")
    except NoCompilerError as error:
        if not arguments.optional:
            print(f"error: the jar cannot be built: {error}. {HOW}.", file=sys.stderr)
            return 1
        # an old jar would be taken for the jar of these sources
        arguments.output.unlink(missing_ok=True)
        print(f"note: {error}, so the jar is left out and Spark reads through the Python data source. {HOW}.")
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def find_compiler() -> str:
    """The javac of JAVA_HOME, or of the PATH if JAVA_HOME is a runtime without one."""
    home = os.environ.get("JAVA_HOME")
    candidates = [os.path.join(home, "bin", "javac")] if home else []
    too_old = ""
    for javac in filter(shutil.which, [*candidates, "javac"]):
        version_output = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
        # macOS has a javac that only prints that there is none. Java 8 prints its version on stderr.
        major = re.search(r"javac (?:1\.)?(\d+)", version_output.stdout + version_output.stderr)
        if version_output.returncode == 0 and major:
            if int(major[1]) >= JAVA:
                return javac
            too_old = f", only one of Java {major[1]}"
    raise NoCompilerError(f"there is no javac of a JDK {JAVA} or newer{too_old}")


def spark_jars() -> Path:
    spark = find_spec("pyspark")
    if spark is None or not spark.submodule_search_locations:
        raise BuildError(f"{sys.executable} has no PySpark; the sources are compiled against its jars")
    return Path(spark.submodule_search_locations[0]) / "jars"


def compile_to(classes: Path, compiler: str) -> None:
    options = [
        "--release", str(JAVA),
        "-encoding", "UTF-8",  # the default is the locale's
        "-proc:none",
        "-Xlint:all", "-Werror",
        "-Xlint:-path",  # manifests of Spark's jars name missing jars
    ]  # fmt: skip
    sources = sorted(str(source) for source in HERE.glob("src/main/java/**/*.java"))
    command = [compiler, *options, "-classpath", str(spark_jars() / "*"), "-d", str(classes), *sources]
    if subprocess.run(command, check=False).returncode != 0:
        raise BuildError(f"the sources of the jar do not compile against PySpark {version('pyspark')}")


def write_jar(output: Path, *folders: Path) -> None:
    """Write a jar, and replace the old one atomically: a running JVM keeps the file that it has opened."""
    contents = {"META-INF/MANIFEST.MF": manifest(), "META-INF/LICENSE": (ROOT / "LICENSE").read_bytes()}
    for folder in folders:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            contents[file.relative_to(folder).as_posix()] = file.read_bytes()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".build-") as directory:
        made = Path(directory) / output.name
        with zipfile.ZipFile(made, "w") as jar:
            for name, content in contents.items():  # the manifest first, as tools expect
                entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                entry.external_attr = 0o644 << 16
                jar.writestr(entry, content, zipfile.ZIP_DEFLATED)
        made.replace(output)


def declared_version() -> str:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    if declared is None:
        raise BuildError("pyproject.toml has no version")
    return declared[1]


def manifest() -> bytes:
    title, number = "Implementation-Title: bloomparquet", f"Implementation-Version: {declared_version()}"
    return "".join(f"{line}\r\n" for line in ["Manifest-Version: 1.0", title, number, ""]).encode()


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    sys.exit(main())
