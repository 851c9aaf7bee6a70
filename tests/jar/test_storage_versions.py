"""What was read of another version of a remote file than the listed one is forgotten.

Local files that Spark reads by Hadoop's viewfs have no ETags. So nothing ties a read to a version, and the jar looks at
the files again after it. The planner of the test replaces a file when it first asks for its bytes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.planners import PYTHON, Interpreter
from tests.support.scenarios import PRUNED, Readers, texts
from tests.support.spark import application_conf, conf

pytestmark = pytest.mark.slow

SWAPPING = """
exec "{python}" -c "
import os
from bloomparquet.storage.host_files import HostStorage
from pyspark_bloomparquet.jar.planner_worker import main
real = HostStorage.read_many
def read_many(*arguments):
    if os.path.exists('{new}'):
        os.rename('{new}', '{old}')
    real(*arguments)
HostStorage.read_many = read_many
main()
"
"""


class Swap:
    """A file with the id 6, and another version of it without that id, of the same size."""

    def __init__(self, home: Path) -> None:
        self.folder, self.new, self.kept = home / "t", home / "new.parquet", home / "kept.parquet"
        self.file = self.folder / "a.parquet"
        self.folder.mkdir()
        for path, ids in ((self.file, [1, 6, 9, 4]), (self.new, [1, 7, 9, 4])):
            files.write(path, {"id": ids}, ["id"], rows_per_group=2, use_dictionary=False)
        assert self.file.stat().st_size == self.new.stat().st_size
        shutil.copy2(self.file, self.kept)
        os.utime(self.new, (1_700_000_000, 1_700_000_000))

    def restore(self) -> None:
        """Bring the first version back, with its time."""
        shutil.copy2(self.kept, self.file)


@pytest.fixture
def swap(readers: Readers, tmp_path: Path) -> Iterator[Swap]:
    made = Swap(tmp_path)
    program = SWAPPING.format(python=os.environ["PYSPARK_PYTHON"], new=made.new, old=made.file)
    hadoop = readers.spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    hadoop.set(f"fs.viewfs.mounttable.{tmp_path.name}.link./data", made.folder.as_uri())
    settings = {
        PYTHON: Interpreter(tmp_path, program).program,
        "spark.bloomparquet.cacheDirectory": str(tmp_path / "c"),
    }
    with application_conf(readers.spark, settings), conf(readers.spark, PRUNED):
        yield made


def test_a_file_that_is_replaced_before_it_is_read_and_comes_back_loses_no_row(
    readers: Readers, swap: Swap, tmp_path: Path
) -> None:
    frame = readers.oracle(f"viewfs://{tmp_path.name}/data").where("id = 6")
    assert texts(frame.collect()) == [], "the version that has come meanwhile"
    assert not swap.new.exists()
    assert "changed since Spark listed it" in str(last_plan(frame)[0].reason)
    swap.restore()
    again = readers.oracle(f"viewfs://{tmp_path.name}/data").where("id = 6")
    assert texts(again.collect()) == ["(6,)"]
    (plan,) = last_plan(again)
    assert (plan.planned, plan.kept, plan.total) == (True, 1, 2), plan.reason
