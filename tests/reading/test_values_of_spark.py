"""Conditions on values that Spark reads as others than Arrow are refused: text with a collation, days of Spark 2."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.reading.calendars import require_gregorian
from tests.support.files import write, write_groups


def test_conditions_on_text_with_a_collation_are_refused(tmp_path: Path) -> None:
    """Spark compares such text by rules that bytes do not follow. Null tests and other columns are not concerned."""
    spark = {"type": "struct", "fields": [
        {"name": "c", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}},
        {"name": "d", "type": "string", "nullable": True, "metadata": {}},
    ]}  # fmt: skip
    for schema, refused in ((json.dumps(spark), ["c"]), ("__COLLATIONS", ["c", "d"])):
        table = pa.table({"c": ["a", None], "d": ["a", "b"]})
        table = table.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": schema})
        path = write(tmp_path / "x.parquet", table)
        wheres = {"c = 'A'": "c", "d = 'a'": "d", "C LIKE 'a%'": "c", "upper(d) = 'A'": "d"}
        for where, column in wheres.items():
            if column in refused:
                with pytest.raises(bp.UnsupportedError, match=rf"x\.parquet: cannot compare .*{column}.* collation"):
                    bp.read_table(path, where, case_sensitive=False)
            else:
                assert bp.read_table(path, where).num_rows == 1
        assert bp.read_table(path, "c IS NULL")["d"].to_pylist() == ["b"]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")], ids=str)
def test_conditions_on_days_of_the_julian_calendar_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    """Spark reads other days than the file has. Null tests, other columns and younger days are not concerned."""
    old, new = ([None, dt.date(year, 1, 1)] for year in (1500, 2020))
    groups = [
        {"c": pa.array(days).cast(kind), "s": pa.array([{"d": day} for day in days]), "i": [i, i + 1]}
        for i, days in ((0, old), (2, new))
    ]
    literal = "DATE '1500-01-01'" if pa.types.is_date(kind) else "TIMESTAMP '1500-01-01 00:00:00Z'"
    wheres = [f"c = {literal}", f"NOT c > {literal}", "s.d = DATE '1500-01-01'", "C < DATE '1600-01-01'"]
    others = {"c IS NULL": 2, "i = 1": 1, "i >= 2 AND s.d = DATE '2020-01-01'": 1}
    for legacy in (True, False):
        names = {"org.apache.spark.version": "4.0.0"} | ({"org.apache.spark.legacyDateTime": ""} if legacy else {})
        tables = [pa.table(group).replace_schema_metadata(names) for group in groups]
        path = write_groups(tmp_path / "x.parquet", tables)
        assert {where: bp.read_table(path, where).num_rows for where in others} == others
        for where in wheres:
            if legacy:
                with pytest.raises(bp.UnsupportedError, match=r"x\.parquet: column .* calendar of Spark 2"):
                    bp.read_table(path, where, case_sensitive=False)
            else:
                assert bp.read_table(path, where, case_sensitive=False).num_rows > 0, where


def test_the_calendars_agree_from_1582_10_15() -> None:
    first = dt.date(1582, 10, 15)
    require_gregorian(pa.array([first]), "c", "")
    with pytest.raises(bp.UnsupportedError, match="calendar of Spark 2"):
        require_gregorian(pa.array([first - dt.timedelta(days=1)]), "c", "")
