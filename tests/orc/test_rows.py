"""Rows of stripes read through pyarrow: the wanted columns, in the types by which planning judges them."""

from __future__ import annotations

import datetime as dt
import io
import os
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from bloomparquet.errors import BloomParquetError, FormatError, UnsupportedError, unless_error
from bloomparquet.orc import rows as rows_module
from bloomparquet.orc.file_tail import Tail, parse_tail, read_tails
from bloomparquet.orc.rows import arrow_schema, coerce_all, read_stripes
from bloomparquet.orc.schema import Kind
from bloomparquet.storage.files import ArrowStorage, FileInfo, ReadCount, Storage
from tests.support.orc import forge, list_files

UTC = dt.timezone.utc
DAY, CLOCK = dt.date(2024, 5, 17), dt.datetime(2024, 5, 17, 10, 0, 0, 1)
NTZ = {"spark.sql.catalyst.type": "timestamp_ntz"}


def write(path: Path, table: pa.Table | dict[str, Any], **options: Any) -> Path:
    orc.write_table(table if isinstance(table, pa.Table) else pa.table(table), str(path), **options)
    return path


def open_tail(path: Path) -> tuple[Storage, Tail]:
    storage, files = list_files(path)
    return storage, unless_error(read_tails(storage, files, ReadCount())[0])


def read(path: Path, columns: list[str] | None = None, stripes: list[int] | None = None, **more: Any) -> pa.Table:
    storage, tail = open_tail(path)
    batches = list(read_stripes(storage, tail, stripes or range(len(tail.stripes)), columns, **more))
    return pa.Table.from_batches(batches) if batches else arrow_schema(tail).empty_table()


@pytest.mark.parametrize(
    ("given", "arrow_type"),
    [
        (pa.array([True, None]), pa.bool_()),
        (pa.array([-128, 127], pa.int8()), pa.int8()),
        (pa.array([2**63 - 1, -(2**63)]), pa.int64()),
        (pa.array([-0.0, None]), pa.float64()),
        (pa.array(["käse", ""]), pa.string()),
        (pa.array([b"\xff\0", b""]), pa.binary()),
        (pa.array([DAY, dt.date(1, 1, 1)]), pa.date32()),
        (pa.array([Decimal("-1.50"), None], pa.decimal128(9, 2)), pa.decimal128(9, 2)),
        (pa.array([CLOCK, dt.datetime(1960, 1, 1, 0, 0, 0, 5)]), pa.timestamp("ns")),
        (pa.array([CLOCK], pa.timestamp("ms", "Europe/Berlin")), pa.timestamp("ns", "UTC")),
        (pa.array([[1, None], None, []]), pa.list_(pa.int64())),
        (pa.array([[CLOCK]], pa.large_list(pa.timestamp("us"))), pa.list_(pa.timestamp("ns"))),
        (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())), pa.map_(pa.string(), pa.int32())),
        (pa.array([{"x": 1, "y": {"z": "a"}}, None]), None),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_columns_have_the_types_and_values_that_were_written(
    given: pa.Array, arrow_type: pa.DataType | None, tmp_path: Path
) -> None:
    rows = read(write(tmp_path / "x.orc", {"x": given}))
    assert rows.schema.field("x").type == (arrow_type or given.type)
    expected = given.cast(arrow_type) if arrow_type is not None and not pa.types.is_nested(arrow_type) else given
    assert rows["x"].to_pylist() == expected.to_pylist()


def test_sparks_timestamp_ntz_is_a_timestamp(tmp_path: Path) -> None:
    micros = pa.array([1_715_940_000_000_001, -1, None])
    struct = pa.StructArray.from_arrays([micros], fields=[pa.field("t", pa.int64(), metadata=NTZ)])
    fields = [pa.field("t", pa.int64(), metadata=NTZ), pa.field("s", struct.type), pa.field("n", pa.int64())]
    path = write(tmp_path / "x.orc", pa.table([micros, struct, micros], schema=pa.schema(fields)))
    rows = read(path)
    assert rows.schema.types == [pa.timestamp("us"), pa.struct([("t", pa.timestamp("us"))]), pa.int64()]
    assert rows["t"].to_pylist() == [CLOCK, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), None]
    assert rows["s"].to_pylist()[0] == {"t": CLOCK}
    assert read(path, ["t"])["t"].to_pylist() == rows["t"].to_pylist()


NAMES: list[dict[str, Any]] = [
    {"a.b": [1], "a": pa.array([{"b": 2}]), "A": [3], "é": [4], "": [5], "_col0": [6]},
    {"a": pa.array([{"b": 2}]), "a.b": [1]},
    {"l.b": [1], "l": pa.array([[{"b": 2}]]), "x": [3]},
    {"m.k": [1], "m": pa.array([[({"k": 2}, 3)]], pa.map_(pa.struct({"k": pa.int8()}), pa.int8()))},
    {"s": pa.array([{"t": {"u": 1}}]), "s.t": [2], "s.t.u": [3]},
]  # fmt: skip


@pytest.mark.parametrize("columns", NAMES, ids=",".join)
def test_a_name_selects_exactly_its_column(columns: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "x.orc", columns)
    everything = pa.table(columns)
    for name in columns:
        assert read(path, [name]).to_pydict() == everything.select([name]).to_pydict(), name
    for left in columns:
        for right in columns:
            names = [name for name in columns if name in (left, right)]
            assert read(path, [right, left]).to_pydict() == everything.select(names).to_pydict()


def test_columns_with_the_same_name_stay_distinct(tmp_path: Path) -> None:
    path = write(tmp_path / "x.orc", pa.table([[1], [2], [3]], names=["x", "y", "x"]))
    assert [column.to_pylist() for column in read(path, ["x"]).columns] == [[1], [3]]
    assert [column.to_pylist() for column in read(path).columns] == [[1], [2], [3]]


def test_no_columns_keep_their_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "x.orc", {"x": list(range(1000))})
    assert read(path, [], batch_rows=300).num_rows == 1000
    assert read(path, ["y"]).num_rows == 1000
    assert read(write(tmp_path / "none.orc", pa.table({}))).num_rows == 0
    empty = read(write(tmp_path / "empty.orc", {"x": pa.array([], pa.int64())}))
    assert empty.num_rows == 0
    assert empty.schema.field("x").type == pa.int64()


@pytest.fixture(scope="module")
def striped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = random.Random(7).sample(range(10**9), 60_000)
    columns = {"id": numbers, "text": [f"{number:040d}" for number in numbers], "row": list(range(60_000))}
    return write(tmp_path_factory.mktemp("orc") / "x.orc", columns, stripe_size=300_000, batch_size=1024)


def test_only_the_wanted_stripes_are_read_in_order(striped: Path) -> None:
    _, tail = open_tail(striped)
    assert len(tail.stripes) > 3
    firsts = [sum(stripe.rows for stripe in tail.stripes[:i]) for i in range(len(tail.stripes))]
    rows = read(striped, ["row"], [2, 0])["row"].to_pylist()
    expected = [row for i in (2, 0) for row in range(firsts[i], firsts[i] + tail.stripes[i].rows)]
    assert rows == expected


def test_a_damaged_stripe_is_an_error_never_fewer_rows(striped: Path, tmp_path: Path) -> None:
    data = striped.read_bytes()
    _, tail = open_tail(striped)
    rng = random.Random(1)
    names_stripe: list[bool] = []
    for i in range(40):
        stripe = rng.randrange(len(tail.stripes))
        location = tail.stripes[stripe]
        start = rng.choice([location.offset + location.index_length, location.footer_offset])
        damaged = bytearray(data)
        damaged[start : start + 200] = rng.randbytes(200)
        path = tmp_path / f"{i}.orc"
        path.write_bytes(damaged)
        try:
            assert read(path, ["id", "text"], [stripe]).num_rows == location.rows
        except FormatError as error:
            names_stripe.append(f"{path}: stripe {stripe}" in str(error))
    assert len(names_stripe) > 20
    assert all(names_stripe)


def test_a_replaced_or_truncated_file_is_an_error(striped: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    path.write_bytes(striped.read_bytes())
    storage, tail = open_tail(path)
    write(path, {"id": [1, 2, 3]})
    with pytest.raises(FormatError, match=r"x\.orc: the file was replaced"):
        list(read_stripes(storage, tail, [0], ["id"]))
    os.truncate(path, 20)
    with pytest.raises(FormatError, match=r"x\.orc: pyarrow cannot read the tail"):
        list(read_stripes(storage, tail, [0], ["id"]))
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"x\.orc"):
        list(read_stripes(storage, tail, [0], ["id"]))


def test_a_stripe_with_another_row_count_is_an_error(striped: Path) -> None:
    storage, tail = open_tail(striped)
    first, *others = tail.stripes
    fewer = replace(tail, stripes=(replace(first, rows=first.rows - 1), *others))
    with pytest.raises(FormatError, match=rf"stripe 0 has {first.rows} rows; expected {first.rows - 1}"):
        list(read_stripes(storage, fewer, [0], ["id"]))
    assert sum(batch.num_rows for batch in read_stripes(storage, fewer, [1], ["id"])) == others[0].rows


class _CountingFile(io.BytesIO):
    """A file that counts reads and bytes, and fails to read one part."""

    reads = size = 0
    broken: tuple[int, int] = (0, 0)

    def read(self, size: int | None = -1) -> bytes:
        at = self.tell()
        data = super().read(size)
        _CountingFile.reads += 1
        _CountingFile.size += len(data)
        if at < self.broken[1] and at + len(data) > self.broken[0]:
            raise PermissionError(13, "not any more")
        return data


def counting_storage(path: Path, threads: int) -> tuple[Storage, Tail, list[tuple[int, int]]]:
    """A file on a storage with so many `threads`, and a list whose element is the part that cannot be read."""
    data = path.read_bytes()
    broken: list[tuple[int, int]] = [(0, 0)]

    class Files:
        @staticmethod
        def open_input_file(_: str) -> pa.NativeFile:
            file = _CountingFile(data)
            file.broken = broken[0]
            return pa.PythonFile(file, "r")

    files: Any = Files()
    storage: Any = ArrowStorage(files, "counting")
    storage.threads = threads
    tail = parse_tail(FileInfo("x.orc", len(data), 0), data[-open_tail(path)[1].size :])
    return storage, tail, broken


@pytest.mark.parametrize("threads", [1, 16])
def test_errors_of_the_storage_are_not_taken_for_damage(threads: int, striped: Path) -> None:
    storage, tail, broken = counting_storage(striped, threads)
    first, second = tail.stripes[:2]
    for part in ((second.offset, second.footer_offset), (second.footer_offset, second.footer_offset + 1)):
        broken[0] = part
        assert list(read_stripes(storage, tail, [0], ["id"]))
        with pytest.raises(PermissionError, match="not any more"):
            list(read_stripes(storage, tail, [1], ["id"]))
    end = len(striped.read_bytes())
    broken[0] = (end - tail.size, end)
    with pytest.raises(PermissionError, match="not any more"):
        list(read_stripes(storage, tail, [0], ["id"]))
    assert first.rows


def test_a_remote_stripe_takes_few_requests(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    columns = {f"c{i}": rng.integers(0, 2**60, 200_000) for i in range(5)}
    nested = pa.array([{"x": int(x), "l": [int(x)]} for x in columns["c0"][:200_000]])
    path = write(tmp_path / "x.orc", {**columns, "s": nested, "t": [f"{x:020d}" for x in columns["c1"]]})
    near, near_tail, _ = counting_storage(path, 1)
    far, tail, _ = counting_storage(path, 16)
    for names in (["c0"], ["c0", "c4", "s"], ["s", "t"], None):
        _CountingFile.reads = _CountingFile.size = 0
        expected = pa.Table.from_batches(read_stripes(near, near_tail, [0], names))
        before, size = _CountingFile.reads, _CountingFile.size
        _CountingFile.reads = _CountingFile.size = 0
        assert pa.Table.from_batches(read_stripes(far, tail, [0], names)).equals(expected)
        assert _CountingFile.reads <= 8 < 12 <= before
        assert _CountingFile.size <= 1.1 * size


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_timestamp_beyond_nanoseconds_is_an_error(zone: str | None, tmp_path: Path) -> None:
    for i, year in enumerate((1, 1600, 2300, 9999)):
        timestamps = pa.array([CLOCK, dt.datetime(year, 1, 1)], pa.timestamp("us", zone))
        path = write(
            tmp_path / f"{i}.orc", {"t": timestamps, "s": pa.StructArray.from_arrays([timestamps], ["t"]), "x": [1, 2]}
        )
        for name in "ts":
            with pytest.raises(UnsupportedError, match=rf"{i}\.orc: stripe 0: a timestamp is beyond the years"):
                read(path, [name])
        assert read(path, ["x"])["x"].to_pylist() == [1, 2]


def test_a_pyarrow_with_wrong_timestamps_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_WRAPS_TIMESTAMPS", True)
    path = write(tmp_path / "x.orc", {"t": pa.array([{"in": CLOCK}]), "x": [1]})
    with pytest.raises(UnsupportedError, match=r"25\.0"):
        read(path)
    assert read(path, ["x"])["x"].to_pylist() == [1]


def test_types_that_pyarrow_does_not_read_are_named(tmp_path: Path) -> None:
    def root_is_a_long(footer: Any) -> None:
        del footer.types[:]
        footer.types.add(kind=Kind.LONG)

    with pytest.raises(UnsupportedError, match=r"x\.orc: the rows are of type LONG; expected a STRUCT"):
        read(forge(tmp_path / "x.orc", {}, footer=root_is_a_long))
    with pytest.raises(UnsupportedError, match=r"y\.orc: column 2 is of type kind 77"):
        read(forge(tmp_path / "y.orc", {}, kinds=[Kind.LONG, 77]))


def test_instants_compare_with_clocks_by_what_they_show() -> None:
    wall = (CLOCK - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) * 1000
    aware = CLOCK.replace(tzinfo=UTC)
    hours = 3_600_000_000_000
    assert coerce_all([CLOCK, aware, None], "timestamp_ntz", timezone="Europe/Berlin") == [wall, wall + 2 * hours, None]
    assert coerce_all(["2024-05-17 10:00:00.000001-01:00"], "timestamp_ntz") == [wall + hours]
    assert coerce_all([aware], "timestamp", timezone="Europe/Berlin") == [wall]
    (first,) = coerce_all([dt.datetime(1, 1, 1, tzinfo=UTC)], "timestamp_ntz", timezone="America/New_York")
    assert first < -2_000 * 365 * 86_400_000_000_000 + 40 * 365 * 86_400_000_000_000
    with pytest.raises(BloomParquetError, match="expected a timestamp"):
        coerce_all([5], "timestamp_ntz", column="t")
