"""`inspect` and `probe` of ORC files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

import bloomparquet as bp
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import hash_bytes
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER_UTF8, read_stripe_footers
from tests.orc.test_files import TABLE
from tests.support.orc import forge
from tests.support.orc_forged import filter_stream, longs, with_filters
from tests.support.orc_probes import ABSENT, MAYBE, STRIDE, STRIPE, might_match, write


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("orc") / "all", TABLE, bloom_filter_columns=list(range(1, 16)))


def values_of(column: pa.ChunkedArray) -> list[Any]:
    if column.type == pa.timestamp("ns"):
        return [None if not value.is_valid else np.datetime64(value.value, "ns") for value in column]
    return list(column.to_pylist())


@pytest.mark.parametrize("name", TABLE.column_names)
def test_probe_never_denies_a_stored_value(written: str, name: str) -> None:
    read = orc.read_table(written, columns=[name])[name]
    groups = TABLE.num_rows // STRIDE
    asked = held = 0
    for values in (values_of(TABLE[name]), values_of(read)):
        for row in range(0, TABLE.num_rows, 97):
            value = values[row]
            if value is not None:
                answers = bp.probe(written, column=name, value=value)
                assert len(answers) == groups
                assert answers[row // STRIDE].verdict is MAYBE, value
                held += sum(answer.verdict is MAYBE for answer in answers)
                asked += 1
    assert asked > 20
    assert held <= asked * (groups if name == "near" else 1.3)


def test_inspect_has_one_row_for_each_filter(written: str) -> None:
    table = bp.inspect(written, columns=["i64", "short", "instant"])
    assert table.column_names[:4] == ["file", "row_group", "stripe", "column"]
    rows = table.to_pylist()
    assert [(row["row_group"], row["column"]) for row in rows] == [
        (i, name) for i in range(15) for name in ("i64", "instant", "short")
    ]
    data = Path(written).read_bytes()
    for row in rows:
        assert (row["file"], row["stripe"], row["rows"]) == (written, row["row_group"] // 3, STRIDE)
        assert row["type"] == {"i64": "LONG", "short": "DECIMAL (9, 2)", "instant": "TIMESTAMP_INSTANT"}[row["column"]]
        assert 0 < row["offset"] < len(data)
        assert row["bits_set"] <= row["bytes"] * 8
        assert row["estimated_ndv"] == pytest.approx(86, rel=0.1)
        assert row["estimated_fpp"] < 0.002
        assert row["unusable"] is None


def test_the_last_row_group_of_a_stripe_may_be_shorter(tmp_path: Path) -> None:
    path = write(tmp_path / "x", pa.table({"a": list(range(550))}))
    assert bp.inspect(path)["rows"].to_pylist() == [100, 100, 100, 100, 100, 50]
    assert [might_match(path, value, "a") for value in (1, 299, 300, 549)] == [[0], [2], [3], [5]]


def test_struct_fields_are_probed_and_list_elements_are_not(tmp_path: Path) -> None:
    inner = [{"x": i, "a.b": None if i % 2 else i, "l": [i, -i]} for i in range(200)]
    path = write(tmp_path / "x", pa.table({"st": inner, "m": pa.array([[(1, 2)]] * 200, pa.map_("int32", "int64"))}))
    shown = set(bp.inspect(path)["column"].to_pylist())
    assert {"st.x", "st.a.b", "st.l._elem", "m._key", "m._value"} == shown
    assert set(bp.inspect(path, columns=["st"])["column"].to_pylist()) == {"st.x", "st.a.b", "st.l._elem"}
    assert might_match(path, 7, "st.x") == [0]
    assert [a.verdict for a in bp.probe(path, column=("st", "a.b"), value=102)] == [ABSENT, MAYBE]
    assert [a.verdict for a in bp.probe(path, column=("st", "a.b"), value=103)] == [ABSENT, ABSENT]
    with pytest.raises(bp.PlanError, match=r"'st' is a struct.*: st\.`x`, st\.`a\.b`$"):
        bp.probe(path, column="st", value=10**9)
    for column in ("st.l", ("st", "l", "_elem"), "m", ("m", "_key")):
        with pytest.raises(bp.PlanError, match="filters of ORC on elements of these are not used"):
            bp.probe(path, column=column, value=10**9)
    with pytest.raises(bp.PlanError, match=r"'st\.xx'.*did you mean 'st\.x' \(in SQL st\.`x`\)\?"):
        bp.probe(path, column="st.xx", value=1)
    with pytest.raises(bp.PlanError, match=r"'st\.xx'"):
        bp.inspect(path, columns=["st.xx"])


def test_a_dotted_name_means_one_column_in_all_files(tmp_path: Path) -> None:
    write(tmp_path / "0", pa.table({"a": [{"b": 1}]}))
    assert [a.verdict for a in bp.probe(tmp_path, column="a.b", value=5)] == [ABSENT]
    write(tmp_path / "1", pa.table({"a.b": [2]}))
    assert [a.verdict for a in bp.probe(tmp_path, column="a.b", value=5)] == [MAYBE, ABSENT]


def test_an_ambiguous_or_absent_column_might_match(tmp_path: Path) -> None:
    def footer(message: Any) -> None:
        message.types[0].field_names[:] = [b"a", b"a"]

    kinds = [Kind.LONG, Kind.LONG]
    for name, change in (("0", footer), ("1", lambda _: None)):
        forge(tmp_path / name, {(BLOOM_FILTER_UTF8, 1): filter_stream(longs(1))}, kinds=kinds, footer=change)
    assert [answer.verdict for answer in bp.probe(tmp_path, column="a", value=5)] == [MAYBE, MAYBE]
    assert [answer.verdict for answer in bp.probe(tmp_path, column="c0", value=5)] == [MAYBE, ABSENT]


def test_stripes_without_filters_or_row_groups_might_match(tmp_path: Path) -> None:
    path = write(tmp_path / "0", pa.table({"a": list(range(400))}), bloom_filter_columns=[])
    assert might_match(path, 10**9, "a") == might_match(path, 2**70, "a") == [0, 1, 2, 3]
    assert bp.inspect(path).num_rows == 0
    assert might_match(forge(tmp_path / "1", {}, stride=0), 5) == [0]
    assert bp.probe(forge(tmp_path / "2", {}, rows=0), column="c0", value=5) == []
    assert bp.probe(write(tmp_path / "3", pa.table({"a": pa.array([], pa.int64())})), column="a", value=5) == []


def test_probes_that_filters_cannot_answer_are_errors(tmp_path: Path) -> None:
    table = pa.table({"x": [1.0], "i": [1], "s": ["a"], "t": [dt.datetime(2024, 1, 1)], "b": [True], "d": [Decimal(1)]})
    path = write(tmp_path / "f", table.append_column("day", pa.array([1], pa.date32())))
    for column, value, message in [
        ("x", None, "NULL"), ("x", np.datetime64("NaT"), "NULL"), ("x", "text", "x"), ("i", "1", "i"), ("s", 1, "s"),
        ("s", b"a", "s"), ("b", 1, "b"), ("xx", 1, "xx"), ("day", 5, "day"), ("t", "soon", "expected a timestamp"),
    ]:  # fmt: skip
        with pytest.raises(bp.PlanError, match=message):
            bp.probe(path, column=column, value=value)
    for column, value in [
        ("x", float("nan")), ("i", 2.0**60), ("i", Decimal("1.00000000000000000000000001")),
        ("b", True), ("day", dt.date(1582, 10, 20)), ("t", dt.datetime(1899, 1, 1)),
    ]:  # fmt: skip
        with pytest.raises(
            bp.UnsupportedError,
            match=rf"f: column {column} \(.*cannot probe for .*the bytes that this column stores for the value are",
        ):
            bp.probe(path, column=column, value=value)


def test_each_stripe_has_its_own_writer_time_zone(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_zones(*arguments: Any) -> list[Any]:
        stripes: list[Any] = read_stripe_footers(*arguments)
        return [replace(stripe, writer_timezone=f"Etc/GMT-{9 + i}") for i, stripe in enumerate(stripes)]

    monkeypatch.setattr("bloomparquet.orc.stripe_indexes.read_stripe_footers", in_zones)
    for stripe in range(5):
        row = STRIPE * stripe + 1
        value = TABLE["micros"][row].as_py() - dt.timedelta(hours=9 + stripe)
        assert row // STRIDE in might_match(written, value, "micros")


def test_each_file_is_probed_by_its_type_and_time_zone(tmp_path: Path) -> None:
    (tmp_path / "types").mkdir()
    for i, (kind, hashes) in enumerate(
        [(Kind.LONG, longs(5)), (Kind.DECIMAL, hash_bytes([b"5"])), (Kind.INT, longs(5))]
    ):
        with_filters(tmp_path / "types" / str(i), kind, hashes, precision=10, scale=0)
    assert [answer.verdict for answer in bp.probe(tmp_path / "types", column="c0", value=5)] == [MAYBE] * 3
    (tmp_path / "zones").mkdir()
    noon = int(dt.datetime(2024, 5, 17, 12, tzinfo=dt.timezone.utc).timestamp()) * 1000
    for i, hours in enumerate([0, 9, -5]):
        zone = f"Etc/GMT{-hours:+}"
        with_filters(tmp_path / "zones" / str(i), Kind.TIMESTAMP, longs(noon + hours * 3_600_000), zone=zone)
    answers = bp.probe(tmp_path / "zones", column="c0", value="2024-05-17 14:00:00", timezone="Europe/Berlin")
    assert [answer.verdict for answer in answers] == [MAYBE] * 3


def test_unusable_filters_are_listed_and_cannot_be_probed(orc_examples_dir: Path) -> None:
    path = orc_examples_dir / "bad_bloom_filter_1.6.0.orc"
    table = orc.read_table(path)
    assert 18_000_000_000 in table["id"].to_pylist()
    for name in table.column_names:
        for value in table[name].to_pylist():
            with pytest.raises(
                bp.UnsupportedError, match=rf"1\.6\.0\.orc: .*column {name} cannot be used to skip: .*ORC-1024"
            ):
                bp.probe(path, column=name, value=value)
    rows = bp.inspect(path).to_pylist()
    assert rows
    assert all("ORC-1024" in row["unusable"] for row in rows)


def test_filters_that_cannot_be_read_are_errors(orc_examples_dir: Path, tmp_path: Path) -> None:
    old = orc_examples_dir / "over1k_bloom.orc"
    bad = messages.BloomFilterIndex()
    bad.bloom_filter.add(num_hash_functions=3, utf8bitset=b"1234567")
    damaged = forge(tmp_path / "f", {(BLOOM_FILTER_UTF8, 1): bad.SerializeToString()})
    looks: list[Callable[[Path, str], Any]] = [
        lambda path, _: bp.inspect(path),
        lambda path, name: bp.probe(path, column=name, value=1),
    ]
    for look in looks:
        with pytest.raises(bp.UnsupportedError, match="layout"):
            look(old, "_col3")
        with pytest.raises(bp.FormatError, match="7 bytes"):
            look(damaged, "c0")


def test_types_the_cpp_writer_garbles_cannot_be_probed(tmp_path: Path) -> None:
    tiny = pa.array([5] + [100] * 99, pa.int8())
    path = write(tmp_path / "f", pa.table({"tiny": tiny, "real": tiny.cast(pa.float32())}))
    assert all("not the values" in row["unusable"] for row in bp.inspect(path).to_pylist())
    for name in ("tiny", "real"):
        with pytest.raises(bp.UnsupportedError, match=f"column {name} cannot be used to skip"):
            bp.probe(path, column=name, value=5)
    path = write(tmp_path / "g", pa.table({"tiny": tiny}), bloom_filter_columns=[])
    assert might_match(path, 5, "tiny") == [0]


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, Decimal("0.00")])
def test_both_zeros_are_found(tmp_path: Path, zero: Any) -> None:
    path = write(tmp_path / "f", pa.table({"x": [-0.0] * 100 + [0.0] * 100 + [1.0] * 100}))
    assert might_match(path, zero, "x") == [0, 1]
