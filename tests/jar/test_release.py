"""`jvm-shim/release.py` and the package's description: what is published, what is not releasable, and ``spark-submit``
with ``--packages``.

`make release` and `make verify-release` use the same files on a clean machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyspark
import pytest

from bloomparquet.planning.index import manifest
from pyspark_bloomparquet import jar_path
from pyspark_bloomparquet.jar import protocol
from tests.support import files
from tests.support.class_archive import JAVA_FLAGS
from tests.support.spark import FOR_SMALL_QUERIES, INTERPRETED

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
GROUP, ARTIFACT = "io.github.bloomparquet", "bloomparquet-spark_2.13"
MAVEN = "{http://maven.apache.org/POM/4.0.0}"
(VERSION,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)


def run(*command: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, command)], cwd=cwd, check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for command in (
        ("-m", "hatchling", "build", "-t", "wheel", "-d", folder),
        (ROOT / "jvm-shim" / "release.py", "maven", "--dist", folder),
        (ROOT / "jvm-shim" / "release.py", "sums", "--dist", folder),
    ):
        done = run(*command)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def artifacts(dist: Path) -> Path:
    """The path of all files of the jar, without their endings."""
    folder = dist / "maven" / GROUP.replace(".", "/") / ARTIFACT / VERSION
    return folder / f"{ARTIFACT}-{VERSION}"


@pytest.fixture(scope="module")
def metadata(dist: Path) -> Message:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        return message_from_bytes(content.read(f"bloomparquet-{VERSION}.dist-info/METADATA"))


def test_links_of_the_description_are_absolute(metadata: Message) -> None:
    description = str(metadata.get_payload(decode=True), "utf-8")
    links = re.findall(r"\]\(([^)]*)\)", description)
    files = f"https://github.com/bloomparquet/bloomparquet/blob/v{VERSION}/"
    assert {link for link in links if not link.startswith("https://")} == set()
    ours = {link.removeprefix(files).partition("#")[0] for link in links if link.startswith(files)}
    assert "docs/limits.md" in ours
    assert {path for path in ours if not (ROOT / path).is_file()} == set()


def test_the_pom_says_what_maven_central_asks_for(artifacts: Path, metadata: Message) -> None:
    pom = ET.parse(f"{artifacts}.pom").getroot()
    texts = {name: pom.findtext("/".join(MAVEN + part for part in name.split("/"))) for name in (
        "groupId", "artifactId", "version", "name", "description", "url", "licenses/license/name",
        "licenses/license/url", "developers/developer/name", "scm/connection", "scm/url", "scm/tag",
    )}  # fmt: skip
    assert all(texts.values()), texts
    assert (texts["version"], texts["description"]) == (VERSION, metadata["Summary"])
    assert texts["licenses/license/name"] == "Apache-2.0"
    assert pom.find(f"{MAVEN}dependencies") is None


def test_the_repository_has_the_jar_its_sources_and_its_javadoc(artifacts: Path) -> None:
    assert Path(f"{artifacts}.jar").read_bytes() == Path(jar_path()).read_bytes()
    names = {}
    for kind in ("sources", "javadoc"):
        with zipfile.ZipFile(f"{artifacts}-{kind}.jar") as content:
            names[kind] = content.namelist()
    sources = [
        path.relative_to(ROOT / "jvm-shim/src/main/java") for path in ROOT.glob("jvm-shim/src/main/java/**/*.java")
    ]
    assert {str(path) for path in sources} <= set(names["sources"])
    assert {"index.html", "io/bloomparquet/spark/PythonBridge.html"} <= set(names["javadoc"])
    files = {path.name.removeprefix(artifacts.name) for path in artifacts.parent.iterdir()}
    main = {".jar", ".pom", "-sources.jar", "-javadoc.jar"}
    assert files == main | {f"{each}.{kind}" for each in main for kind in ("md5", "sha1", "sha256")}
    for each in main:
        for kind in ("md5", "sha1", "sha256"):
            expected = hashlib.new(kind, Path(f"{artifacts}{each}").read_bytes()).hexdigest()
            assert Path(f"{artifacts}{each}.{kind}").read_text() == expected


def test_the_checksums_are_those_of_all_files(dist: Path) -> None:
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {path.relative_to(dist).as_posix(): path for path in dist.rglob("*") if path.is_file()}
    assert sums.keys() == files.keys() - {"SHA256SUMS"}
    assert all(hashlib.sha256(files[name].read_bytes()).hexdigest() == digest for name, digest in sums.items())


def test_the_notes_are_the_section_of_the_changelog(dist: Path) -> None:
    notes = (dist / "NOTES.md").read_text()
    assert f"\n{notes}" in (ROOT / "CHANGELOG.md").read_text()
    assert "\n## " not in notes


def test_the_pages_have_this_version() -> None:
    row = f"| {VERSION} | {manifest.VERSION} | {protocol.VERSION} |"
    assert row in (ROOT / "docs" / "upgrades.md").read_text().splitlines()
    assert f":bloomparquet-spark_2.13:{VERSION}`" in (ROOT / "docs" / "spark.md").read_text()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda root: None, ""),
        (lambda root: (root / "new.py").touch(), "the tree has changes; commit or remove them:\n?? new.py"),
        (lambda root: (root / "LICENSE").write_text("x"), "the tree has changes; commit or remove them:\n M LICENSE"),
        (lambda root: shutil.rmtree(root / ".git"), "{root} is not a checkout by git"),
        (lambda root: title(root, "## 9.9.9 - 2026-01-01"), "CHANGELOG.md has no section '## 9.9.8 - YYYY-MM-DD'"),
        (lambda root: title(root, "## 9.9.8"), "CHANGELOG.md has no section"),
        (lambda root: title(root, "## 9.9.8 - 2026-01-01\n## 9.9.7 - 2025-01-01"), "CHANGELOG.md has no section"),
    ],
)  # fmt: skip
def test_only_a_clean_tree_with_notes_is_released(tmp_path: Path, change: Callable[[Path], object], error: str) -> None:
    (tmp_path / "jvm-shim").mkdir()
    for name in ("build.py", "release.py"):
        shutil.copy(ROOT / "jvm-shim" / name, tmp_path / "jvm-shim")
    (tmp_path / "LICENSE").touch()
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    (tmp_path / "pyproject.toml").write_text('version = "9.9.8"\n')
    title(tmp_path, "## 9.9.8 - 2026-01-01", commit=False)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    commit_all(tmp_path)
    change(tmp_path)
    done = run("jvm-shim/release.py", "check", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1 if error else 0, "")
    assert done.stderr.startswith(f"error: {error.format(root=tmp_path)}" if error else "")


def title(root: Path, line: str, *, commit: bool = True) -> None:
    (root / "CHANGELOG.md").write_text(f"# Changes\n\n{line}\n\nText.\n")
    if commit:
        commit_all(root)


def commit_all(root: Path) -> None:
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "all"], check=True)


MODULES = ("xxhash", "numpy", "colorsys", "json")
JOB = """
import json, os, subprocess, sys, time, warnings
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark_bloomparquet import attach, last_plan

path, modules = sys.argv[1:]
answers = []
for attached in (False, True):
    spark = SparkSession.builder.getOrCreate()
    for module in sorted(Path(modules).iterdir()):
        spark.sql(f"ADD FILE '{module}'")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2 * attached):
            attach(spark)
    frames = [spark.read.format(name).load(path).where("id = 4711") for name in ("bloomparquet", "parquet")]
    rows = [[tuple(row) for row in frame.collect()] for frame in frames]
    plans = [[plan.planned, plan.total, plan.kept, plan.skipped["bloom"]] for plan in last_plan(frames[0])]
    jvm = str(spark._jvm.java.lang.ProcessHandle.current().pid())
    ps = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", jvm], capture_output=True, text=True).stdout
    (planner,) = [int(line.split()[0]) for line in ps.splitlines() if "planner_worker" in line]
    jars = spark.sparkContext._jsc.sc().listJars().mkString(" ").split()
    spark.stop()
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{planner}") and time.monotonic() < deadline:
        time.sleep(0.1)
    answers.append({
        "rows": rows, "plans": plans, "planner": planner, "is left": os.path.exists(f"/proc/{planner}"),
        "jars": [jar.split("/")[-1] for jar in jars if jar.endswith(".jar")],
        "warned": [str(each.message) for each in warned],
    })
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("submit")


@pytest.fixture(scope="module")
def applications(home: Path, dist: Path) -> list[dict[str, Any]]:
    """What each of two applications found that run one after the other in one JVM. The first one does not attach.

    The JVM has an empty home: Ivy would take jars from ~/.m2 and ~/.ivy2.
    """
    ids = [i * 7919 % 8009 for i in range(8000)]
    files.write(home / "t" / "a.parquet", {"id": ids}, ["id"], rows_per_group=1000)
    (home / "modules").mkdir()
    for module in MODULES:
        (home / "modules" / f"{module}.py").write_text(f"open({str(home / 'imported')!r}, 'w')\nraise SystemExit\n")
    (home / "job.py").write_text(JOB)
    settings = {
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars.ivy": f"{home}/ivy", **FOR_SMALL_QUERIES, **INTERPRETED,
    }  # fmt: skip
    given = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    given += ["--packages", f"{GROUP}:{ARTIFACT}:{VERSION}", "--repositories", (dist / "maven").as_uri()]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [submit, "--master", "local[1]", *given, home / "job.py", home / "t", home / "modules"],
        cwd=home, check=False, capture_output=True, text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": f"{JAVA_FLAGS} -Duser.home={home}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_a_submitted_job_with_the_package_is_planned(applications: list[dict[str, Any]]) -> None:
    for answer in applications:
        assert answer["rows"] == [[[4711]], [[4711]]]
        assert answer["plans"] == [[True, 8, 1, 7]]


def test_the_planner_ends_with_its_application(applications: list[dict[str, Any]]) -> None:
    """And not with the JVM, which PySpark keeps: the next application has its own planner."""
    first, second = applications
    assert first["planner"] != second["planner"]
    assert not first["is left"]
    assert not second["is left"]


def test_attach_adds_no_second_jar(applications: list[dict[str, Any]]) -> None:
    for answer in applications:
        assert (answer["jars"], answer["warned"]) == ([f"{GROUP}_{ARTIFACT}-{VERSION}.jar"], [])


def test_files_added_by_sql_are_not_imported(applications: list[dict[str, Any]], home: Path) -> None:
    """A planner that starts after ADD FILE imports no module from there. Spark's own Python workers do import them, and
    none runs here."""
    assert applications
    assert not (home / "imported").exists()
