"""What was read of another version of a remote file than the listed one is forgotten.

Local files that Spark reads by Hadoop's viewfs have no ETags. So nothing ties a read to a version, and the jar looks at
the files again after it. The planner of the test replaces a file when it first asks for its bytes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.hadoop import configuration
from tests.support.planners import PYTHON, Interpreter
from tests.support.scenarios import PRUNED, Readers, texts
from tests.support.spark import application_conf, conf

pytestmark = pytest.mark.slow

CACHE = "spark.bloomparquet.cacheDirectory"
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


def test_a_file_that_is_replaced_before_it_is_read_and_comes_back_loses_no_row(
    readers: Readers, tmp_path: Path
) -> None:
    """The other version has the same size, and other ids."""
    new, kept, file, url = (
        tmp_path / "new",
        tmp_path / "kept",
        tmp_path / "t/a.parquet",
        f"viewfs://{tmp_path.name}/data",
    )
    for path, ids in ((file, [1, 6, 9, 4]), (new, [1, 7, 9, 4])):
        files.write(path, {"id": ids}, ["id"], rows_per_group=2, use_dictionary=False)
    assert file.stat().st_size == new.stat().st_size
    shutil.copy2(file, kept)
    os.utime(new, (1_700_000_000, 1_700_000_000))
    program = SWAPPING.format(python=os.environ["PYSPARK_PYTHON"], new=new, old=file)
    configuration(readers.spark).set(f"fs.viewfs.mounttable.{tmp_path.name}.link./data", file.parent.as_uri())
    settings = {PYTHON: Interpreter(tmp_path, program).program, CACHE: str(tmp_path / "c")}
    with application_conf(readers.spark, settings), conf(readers.spark, PRUNED):
        frame = readers.oracle(url).where("id = 6")
        assert texts(frame.collect()) == [], "the version that has come meanwhile"
        assert not new.exists()
        assert "changed since Spark listed it" in str(last_plan(frame)[0].reason)
        shutil.copy2(kept, file)  # with its time
        again = readers.oracle(url).where("id = 6")
        assert texts(again.collect()) == ["(6,)"]
        (plan,) = last_plan(again)
        assert (plan.planned, plan.kept, plan.total) == (True, 1, 2), plan.reason
