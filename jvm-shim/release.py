"""Check that the project can be released, and make what is published beside the wheel and the sdist.

``make release`` runs it. The tree must be clean, and CHANGELOG.md must have a section of the version. In ``dist/`` it
makes

- ``maven/``: a Maven repository with the jar, its sources, its javadoc and a pom without dependencies: Spark has them;
- ``NOTES.md``: the section of CHANGELOG.md;
- ``SHA256SUMS``: the checksums of all other files.

Names, licence and address are those in the wheel's metadata.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from shutil import copyfile
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parent))

from build import HERE, JAR, ROOT, BuildError, declared_version, find_compiler, spark_jars, write_jar

SOURCES = HERE / "src" / "main" / "java"
SCALA = "2.13"
POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <name>{name}</name>
  <description>{description}</description>
  <url>{url}</url>
  <licenses><license><name>{licence}</name><url>{url}/blob/v{version}/LICENSE</url></license></licenses>
  <developers><developer><name>{author}</name><url>{url}</url></developer></developers>
  <scm><connection>scm:git:{url}.git</connection><tag>v{version}</tag><url>{url}</url></scm>
</project>
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=("check", "maven", "sums"))
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the directory of the wheel")
    arguments = parser.parse_args()
    try:
        if arguments.step == "check":
            require_clean_tree()
            notes()
        elif arguments.step == "maven":
            write_repository(arguments.dist)
        else:
            (arguments.dist / "NOTES.md").write_text(notes(), encoding="utf-8")
            write_sums(arguments.dist)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def require_clean_tree() -> None:
    status = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, check=False, capture_output=True, text=True)
    if status.returncode != 0:
        raise BuildError(f"{ROOT} is not a checkout by git: {status.stderr.rstrip()}")
    if status.stdout:
        raise BuildError(f"the tree has changes; commit or remove them:\n{status.stdout.rstrip()}")


def notes() -> str:
    """The section of CHANGELOG.md on this version, without its title."""
    version, text = declared_version(), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    title = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n"
    section = re.search(rf"{title}(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None or not section[1].strip():
        raise BuildError(f"CHANGELOG.md has no section '## {version} - YYYY-MM-DD' with text")
    return section[1].strip() + "\n"


def write_repository(dist: Path) -> None:
    metadata = wheel_metadata(dist)
    url, version = metadata["Project-URL"].split(", ")[1], metadata["Version"]
    if version != declared_version():
        raise BuildError(f"{dist} has the wheel of {version}; pyproject.toml has {declared_version()}")
    group, artifact = f"io.github.{url.split('/')[-2]}", f"{metadata['Name']}-spark_{SCALA}"
    folder = dist.joinpath("maven", *group.split("."), artifact, version)
    folder.mkdir(parents=True)
    fields = {
        "group": group, "artifact": artifact, "version": version, "url": url, "name": metadata["Name"],
        "description": metadata["Summary"], "licence": metadata["License-Expression"], "author": metadata["Author"],
    }  # fmt: skip
    stem = folder / f"{artifact}-{version}"
    Path(f"{stem}.pom").write_text(POM.format_map({name: escape(text) for name, text in fields.items()}))
    copyfile(JAR, f"{stem}.jar")
    write_jar(Path(f"{stem}-sources.jar"), SOURCES)
    with tempfile.TemporaryDirectory() as pages:
        write_javadoc(Path(pages))
        write_jar(Path(f"{stem}-javadoc.jar"), Path(pages))
    for file in sorted(folder.iterdir()):
        for algorithm in ("md5", "sha1", "sha256"):
            file.with_name(f"{file.name}.{algorithm}").write_text(_digest(file, algorithm))


def wheel_metadata(dist: Path) -> Message:
    wheels = list(dist.glob("*.whl"))
    if len(wheels) != 1:
        raise BuildError(f"{dist} has {len(wheels)} wheels, expected one")
    with zipfile.ZipFile(wheels[0]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(wheel.read(name))


def write_javadoc(pages: Path) -> None:
    command = [
        str(Path(find_compiler()).with_name("javadoc")), "-quiet", "-notimestamp", "-Xdoclint:none",
        "-encoding", "UTF-8", "-docencoding", "UTF-8", "-locale", "en",
        "-classpath", str(spark_jars() / "*"), "-d", str(pages),
        "-sourcepath", str(SOURCES), "-subpackages", "io.bloomparquet",
    ]  # fmt: skip
    if subprocess.run(command, check=False).returncode != 0:
        raise BuildError("javadoc failed on the sources of the jar")


def write_sums(dist: Path) -> None:
    """Readable by ``sha256sum --check``."""
    sums = dist / "SHA256SUMS"
    files = sorted(path for path in dist.rglob("*") if path.is_file() and path != sums)
    sums.write_text("".join(f"{_digest(file, 'sha256')}  {file.relative_to(dist).as_posix()}\n" for file in files))


def _digest(file: Path, algorithm: str) -> str:
    return hashlib.new(algorithm, file.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
