"""A forked child leaves alone what its parent writes, and reads without its parent's threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

START = """
import os, sys
import pyarrow as pa
import bloomparquet as bp
from bloomparquet.storage.files import LocalStorage
from bloomparquet.storage.locks import locked

path = sys.argv[1]
table = pa.table({"id": range(1000)})

def fork(work=lambda: None):
    pid = os.fork()
    if pid == 0:
        work()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", START + program, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_child_that_ends_leaves_writers_and_locks_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    done = run(
        """
with bp.ParquetWriter(path, table.schema, bloom="id", row_group_size=500) as w:
    w.write_table(table)
    code = fork()
    w.write_table(table)
with locked(LocalStorage(), path + ".lock"):
    code = code or fork()
    assert os.path.exists(path + ".lock")
    try:
        with locked(LocalStorage(), path + ".lock"):
            sys.exit("it is not locked")
    except bp.FileBusyError:
        pass
sys.exit(code)
""",
        path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert pq.read_table(path).num_rows == 2000
    assert pq.ParquetFile(path).metadata.num_row_groups == 4
    assert [each.name for each in tmp_path.iterdir()] == ["a.parquet"]


def test_a_child_cannot_write_its_parents_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    done = run(
        """
def work():
    w.write_table(table)
    w.close()

w = bp.ParquetWriter(path, table.schema, bloom="id", row_group_size=500)
w.write_table(table)
code = fork(work)
w.close()
sys.exit(code)
""",
        path,
    )
    assert done.returncode == 1
    assert "another process is writing this file" in done.stderr
    assert "open a writer in each process" in done.stderr
    assert pq.read_table(path).num_rows == 1000


def test_a_child_reads_while_a_thread_of_its_parent_does(tmp_path: Path) -> None:
    """The thread waits in the middle of a plan, with the locks of the tables that it reads."""
    done = run(
        """
import signal, threading
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.parquet.filters import ParquetFilters

ids = pa.table({"id": [i * 7919 % 1009 for i in range(1000)]})
bp.write_table(ids, path, bloom={"id": bp.Bloom(fpp=1e-6)}, row_group_size=100)

def read():
    signal.alarm(20)
    assert bp.read_table(path, "id = 6").num_rows == 1

for filters, name in ((ParquetFilters, "_known_absent"), (TiledFilters, "ask")):
    if filters is TiledFilters:
        bp.build_index(path)
    assert bp.read_table(path, "id = 7919").num_rows == 0
    ask, asked, forked = getattr(filters, name), threading.Event(), threading.Event()

    def ask_slowly(store, *arguments):
        if threading.current_thread() is not threading.main_thread():
            asked.set()
            forked.wait()
        return ask(store, *arguments)

    setattr(filters, name, ask_slowly)
    reader = threading.Thread(target=bp.read_table, args=(path, "id = 5"))
    reader.start()
    assert asked.wait(20)
    code = fork(read)
    forked.set()
    reader.join()
    setattr(filters, name, ask)
    assert code == 0, name
""",
        tmp_path / "a.parquet",
    )
    assert (done.returncode, done.stderr) == (0, "")
