"""``python verify_release.py DIST``: the checks of `make verify-release`, in a fresh venv that has only the wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import bloomparquet as bp


def main() -> None:
    here = Path(sys.prefix).resolve()
    assert here in Path(bp.__file__).resolve().parents, f"{bp.__file__} is not the installed wheel's"
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "users.parquet")
        ids = [(i * 7919) % 100_000 for i in range(40_000)]
        pq.write_table(
            pa.table({"user_id": ids}), path, row_group_size=10_000, bloom_filter_options={"user_id": {"ndv": 10_000}}
        )
        wanted = ids[12_345]
        plan = bp.plan(path, f"user_id = {wanted}")
        assert plan.total == 4, plan
        assert plan.skipped["bloom"] >= 2, plan
        print(f"import:       {plan!r}")

        command = [here / "bin" / "bloomparquet", "read", path, "--where", f"user_id = {wanted}", "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert [json.loads(line) for line in done.stdout.splitlines()] == [{"user_id": wanted}], done.stdout
        print(f"command line: {done.stdout.strip()}")

        done = subprocess.run([here / "bin" / "bloomparquet", "jar"], check=True, capture_output=True, text=True)
        jar = Path(done.stdout.removesuffix("\n"))
        assert here in jar.parents, jar
        with zipfile.ZipFile(jar) as content:
            assert "io/bloomparquet/spark/PythonBridge.class" in content.namelist(), content.namelist()
            manifest = content.read("META-INF/MANIFEST.MF").decode()
        assert f"Implementation-Version: {version('bloomparquet')}\r\n" in manifest, manifest
        print(f"jar:          {jar.relative_to(here)}")

        from pyspark.sql import SparkSession

        import pyspark_bloomparquet

        os.environ["PYSPARK_PYTHON"] = sys.executable  # by default workers run the first python3 on the PATH
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        rows = spark.read.format("bloomparquet").option("where", f"user_id = {wanted}").load(path).collect()
        assert [tuple(row) for row in rows] == [(wanted,)], rows
        print(f"Spark:        {rows}")

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # attach warns if the jar cannot work
            pyspark_bloomparquet.attach(spark)
        frame = spark.read.format("bloomparquet").load(path).where(f"user_id = {wanted}")
        assert [tuple(row) for row in frame.collect()] == [(wanted,)], frame.collect()
        (scan,) = pyspark_bloomparquet.last_plan(frame)
        assert scan.planned, scan
        assert (scan.total, scan.kept) == (4, plan.kept), scan
        assert scan.skipped["bloom"] >= 2, scan
        print(f"with the jar: {scan}")
        spark.stop()
    program = Path(__file__).with_name("verify_packages.py")  # another JVM: this one has the jar
    subprocess.run([sys.executable, "-I", program, Path(sys.argv[1]) / "maven"], check=True)


if __name__ == "__main__":
    main()
