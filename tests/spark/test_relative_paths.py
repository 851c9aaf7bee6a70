"""A relative path means the same file to the Python data source and to Spark: below the JVM's working directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bloomparquet.errors import OptionError
from pyspark_bloomparquet.options import working_directory
from pyspark_bloomparquet.options.load import Options

pytestmark = pytest.mark.slow


def parsed_below(java: Path, home: Path, worker: Path, **environment: str) -> dict[str, Any]:
    """Parse the paths of a load in a Python worker in the directory `worker`, below a process `java` in `home`."""
    inner = (
        "import json\n"
        "from bloomparquet.errors import OptionError\n"
        "from pyspark_bloomparquet.options.load import Options\n"
        "try:\n"
        "    options = Options.parse({'paths': '[\"t\", \"a*/b\", \"/x\"]', 'basepath': '.'})\n"
        "    print(json.dumps({'paths': options.paths, 'base': options.base_path}))\n"
        "except OptionError as error:\n"
        "    print(json.dumps({'error': str(error)}))\n"
    )
    outer = "import subprocess, sys; subprocess.run([sys.argv[1], '-c', sys.argv[2]], cwd=sys.argv[3], check=True)"
    done = subprocess.run(
        [str(java), "-c", outer, sys.executable, inner, str(worker)],
        cwd=home, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "x", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("artifacts", ["f00d", "default"])
def test_relative_paths_are_below_the_directory_of_the_jvm(tmp_path: Path, artifacts: str) -> None:
    home, session, java = tmp_path / "home", tmp_path / "session", tmp_path / "java"
    home.mkdir()
    session.mkdir()
    java.symlink_to(Path(sys.executable).resolve())
    answer = parsed_below(java, home, session, SPARK_JOB_ARTIFACT_UUID=artifacts)
    assert answer == {"paths": [f"{home}/t", f"{home}/a*/b", "/x"], "base": f"{home}/."}


def test_connect_sessions_without_a_jvm_need_absolute_paths(tmp_path: Path) -> None:
    home, session = tmp_path / "home", tmp_path / "session"
    home.mkdir()
    session.mkdir()
    python = Path(sys.executable)
    answer = parsed_below(python, home, session, SPARK_JOB_ARTIFACT_UUID="f00d")
    assert "option basePath is '.', a relative path" in answer["error"]
    assert "expected an absolute path" in answer["error"]
    # Outside of Spark Connect, the JVM starts workers in its own directory.
    assert parsed_below(python, home, session)["paths"] == [f"{session}/t", f"{session}/a*/b", "/x"]


def test_outside_of_spark_paths_are_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Options.parse({"path": "t"}).paths == (f"{tmp_path}/t",)


@pytest.mark.parametrize("path", ["/t", "s3://b/t", "file:///t", "file:/t", "hdfs://h:1/t", "memory://t"])
def test_urls_and_absolute_paths_stay(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_directory, "_jvm_directory", lambda: None)
    assert Options.parse({"path": path, "basePath": path}).paths == (path,)


def test_a_relative_path_in_a_url_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"option path is 'file:t'; expected an absolute path in a URL: file:/…/t"):
        Options.parse({"path": "file:t"})
