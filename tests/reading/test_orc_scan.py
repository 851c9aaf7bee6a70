"""`read_table` of ORC files: types, time zones and damage that only ORC has; and the commands `plan` and `read`."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.orc as orc
import pytest

import bloomparquet as bp
from tests.support.events import an_id, write, write_events
from tests.support.orc_rewriting import rewrite

field = pc.field
UTC = dt.timezone.utc
NTZ = {"spark.sql.catalyst.type": "timestamp_ntz"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_events(tmp_path_factory.mktemp("events"), "orc")


def test_a_lookup_reads_only_kept_stripes(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, stripes = an_id(root), []
    read_stripe = orc.ORCFile.read_stripe

    def counted(file: orc.ORCFile, number: int, columns: Any = None) -> pa.RecordBatch:
        stripes.append((number, columns))
        return read_stripe(file, number, columns)

    monkeypatch.setattr(orc.ORCFile, "read_stripe", counted)
    plan = bp.plan(root, f"id = {one}")
    assert (plan.unit, plan.total) == ("stripe", 24)
    assert 1 <= plan.kept <= 4
    assert bp.read_table(root, f"id = {one}", columns=["name"]).num_rows >= 1
    assert stripes == [(group.index, ["id", "name"]) for group in plan.kept_row_groups()]


def test_files_by_other_writers_are_read(orc_examples_dir: Path) -> None:
    over1k = orc_examples_dir / "over1k_bloom.orc"
    with gzip.open(orc_examples_dir / "over1k_bloom.jsn.gz", "rt") as lines:
        expected = [json.loads(line) for line in lines]
    result = bp.read_table(over1k)
    assert result.num_rows == len(expected)
    for name in ("_col0", "_col3", "_col7"):
        assert result[name].to_pylist() == [row[name] for row in expected]
    row = expected[123]
    where = f"_col3 = {row['_col3']} AND _col7 = '{row['_col7']}'"
    matching = [other for other in expected if (other["_col3"], other["_col7"]) == (row["_col3"], row["_col7"])]
    assert bp.read_table(over1k, where)["_col0"].to_pylist() == [other["_col0"] for other in matching]


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (pa.array([1, -1, None], pa.int8()), -1),
        (pa.array([1.5, 2.5, None], pa.float32()), 2.5),
        (pa.array([float("nan"), 0.0, None]), float("nan")),
        (pa.array([-0.0, 1.0]), 0.0),
        (pa.array([True, False, None]), True),
        (pa.array([b"abc", b"abd"], pa.binary(3)), b"abd"),
        (pa.array([dt.date(2024, 1, 1), dt.date(1500, 1, 2)]), dt.date(1500, 1, 2)),
        (pa.array([Decimal("1.10"), Decimal("-2.20")], pa.decimal128(38, 2)), Decimal("-2.2")),
        (pa.array([dt.datetime(2024, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)]),
         dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)),
        (pa.array([dt.datetime(2024, 1, 1), dt.datetime(1960, 1, 1, 0, 0, 0, 999_999)], pa.timestamp("us", "UTC")),
         dt.datetime(1960, 1, 1, 0, 0, 0, 999_999, UTC)),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_every_type_finds_its_value_and_nothing_else(array: pa.Array, value: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "x.orc", {"x": array, "s": pa.StructArray.from_arrays([array], ["in"])}, ["x"])
    for column in ("x", ("s", "in")):
        assert bp.read_table(path, bp.Eq(column, value)).num_rows == 1
        assert bp.read_table(path, bp.IsNull(column)).num_rows == array.null_count
        assert bp.read_table(path, bp.NotEq(column, value)).num_rows == len(array) - array.null_count - 1
        assert bp.read_table(path, bp.In(column, (value, None))).num_rows == 1


def test_sparks_timestamp_ntz_is_compared_without_a_zone(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("t", pa.int64(), metadata=NTZ)])
    micros = [1_715_940_000_000_001 + i for i in range(3000)]
    path = write(tmp_path / "x.orc", pa.table([micros], schema=schema), ["t"], row_index_stride=1000)
    first = dt.datetime(2024, 5, 17, 10, 0, 0, 1)
    assert bp.read_table(path, bp.Eq("t", first))["t"].to_pylist() == [first]
    assert bp.read_table(path, f"t <= TIMESTAMP '{first}'").num_rows == 1
    plans = [bp.plan(path, where) for where in (bp.Eq("t", first), f"t = TIMESTAMP '{first}'")]
    assert plans[0].row_group_counts == plans[1].row_group_counts
    assert bp.read_table(path, "t = TIMESTAMP '2024-05-17 10:00:00.0000005'").num_rows == 0


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_timestamps_compare_with_local_times_and_instants(zone: str, tmp_path: Path) -> None:
    readings = [dt.datetime(2024, 5, 17) + dt.timedelta(hours=i) for i in range(48)]
    path = write(tmp_path / "x.orc", {"t": pa.array(readings, pa.timestamp("us"))}, ["t"])
    at = readings[20]
    assert bp.read_table(path, bp.Eq("t", at), timezone=zone)["t"].to_pylist() == [at]
    hours = {"UTC": 0, "Europe/Berlin": 2, "America/New_York": -4}[zone]
    shown = at + dt.timedelta(hours=hours)
    for literal in (at.replace(tzinfo=UTC), f"{at}+00:00"):
        assert bp.read_table(path, bp.Eq("t", literal), timezone=zone)["t"].to_pylist() == [shown]
        assert bp.read_table(path, bp.Lt("t", literal), timezone=zone).num_rows == 20 + hours
        assert bp.read_table(path, bp.In("t", (literal,)), timezone=zone)["t"].to_pylist() == [shown]


def test_unions_and_empty_structs_are_returned(tmp_path: Path) -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])])
    empty = pa.array([{}, None, {}], pa.struct([]))
    write(tmp_path / "1.orc", {"u": union, "e": empty, "x": [1, 2, 3]})
    write(tmp_path / "2.orc", {"x": [2]})
    assert bp.read_table(tmp_path, "x = 2").to_pydict() == {"u": ["b", None], "e": [None, None], "x": [2, 2]}


def test_a_damaged_stripe_is_an_error_naming_the_file(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "x.orc", {"x": [f"{i:x}" * 7 for i in range(5000)]}, compression="zlib"))
    (stripe,) = bp.plan(path).kept_row_groups()
    data = bytearray(path.read_bytes())
    middle = stripe.start + stripe.length // 2
    data[middle : middle + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(bp.FormatError, match=r"x\.orc: stripe 0: pyarrow cannot read it"):
        bp.read_table(path, "x = 'a'")


def test_stripes_of_one_remote_file_are_read_side_by_side(tmp_path: Path) -> None:
    """Threads that share an open file must not move its position."""
    table = pa.table({"id": np.arange(20_000), "text": [f"{i:032x}" for i in range(20_000)]})
    orc.write_table(table, str(tmp_path / "x.orc"), stripe_size=20_000, batch_size=1_000, compression="uncompressed")
    remote = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for _ in range(8):
        assert bp.read_table("x.orc", "id >= 100", filesystem=remote).equals(table.slice(100))


def test_conditions_on_days_of_the_julian_calendar_are_refused(tmp_path: Path) -> None:
    """Spark reads other days than the file has. Null tests, other columns and younger days are not concerned."""
    for year in (1500, 2020):
        days = pa.array([dt.date(year, 1, 1), None])
        path = write(tmp_path / f"{year}.orc", {"d": days, "s": pa.StructArray.from_arrays([days], ["d"]), "i": [1, 2]})
        rewrite(path, footer=lambda footer: setattr(footer, "calendar", 1))
        assert bp.read_table(path, "d IS NULL AND i = 2").num_rows == 1
        for where in (f"d = DATE '{year}-01-01'", f"s.d <= DATE '{year}-01-01'"):
            if year == 2020:
                assert bp.read_table(path, where).num_rows == 1
            else:
                with pytest.raises(bp.UnsupportedError, match=r"1500\.orc: column .* calendar of Spark 2"):
                    bp.read_table(path, where)
