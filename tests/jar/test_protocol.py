"""The protocol between the jar and its planner: frames, predicates, listings, byte ranges."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import struct
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.errors import FormatError, LimitError, PlanError
from bloomparquet.planning import planner
from bloomparquet.query import predicate as p
from bloomparquet.query.variants import VariantField
from bloomparquet.storage.host_files import HostStorage
from pyspark_bloomparquet.jar.listing import ScanListing, Storages
from pyspark_bloomparquet.jar.protocol import read_frame, to_predicate, write_frame
from tests.support import files
from tests.support.planner_process import listing_of

UTC = dt.timezone.utc


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), st.binary())
def test_a_frame_round_trips(head: dict[str, Any], body: bytes) -> None:
    stream = io.BytesIO()
    write_frame(stream, head, body)
    write_frame(stream, {}, b"")
    stream.seek(0)
    assert read_frame(stream) == (head, body)
    assert read_frame(stream) == ({}, b"")
    assert read_frame(stream) is None


def test_a_truncated_frame_is_an_error() -> None:
    stream = io.BytesIO()
    write_frame(stream, {"id": 1}, b"data")
    whole = stream.getvalue()
    for size in range(1, len(whole)):
        with pytest.raises(FormatError, match="ends within a frame"):
            read_frame(io.BytesIO(whole[:size]))


@pytest.mark.parametrize("head", [b"[]", b"3", b"null", b'"{}"', b"{", b"\xff", b"[" * 100_000])
def test_a_frame_that_is_no_json_object_is_an_error(head: bytes) -> None:
    with pytest.raises(FormatError, match=r"a frame (with .*; expected a JSON object|whose JSON cannot be read)"):
        read_frame(io.BytesIO(len(head).to_bytes(4, "big") + head + bytes(4)))


def test_a_frame_above_one_gibibyte_is_an_error() -> None:
    with pytest.raises(LimitError, match="a frame of"):
        read_frame(io.BytesIO((1 << 30 | 1).to_bytes(4, "big") + b"{}"))


def leaf(op: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "column": ["st", "a.b"], **more}


PATH = ("st", "a.b")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (leaf("=", type="int64", value=2**63 - 1), p.Eq(PATH, 2**63 - 1)),
        (leaf("=", type="boolean", value=True), p.Eq(PATH, True)),
        (
            leaf("in", variant={"path": "$.a", "type": "bigint"}, type="int64", values=[1, None]),
            VariantField(PATH, "$.a", "bigint", p.In(PATH, [1, None])),
        ),
        (leaf("<=>", type="string", value=None), p.EqNullSafe(PATH, None)),
        (leaf("<", type="float", value="-0.0"), p.Lt(PATH, -0.0)),
        (leaf("<=", type="float", value="Infinity"), p.LtEq(PATH, float("inf"))),
        (leaf(">", type="decimal", value="1.50"), p.Gt(PATH, Decimal("1.50"))),
        (leaf(">=", type="string", value="a\0é"), p.GtEq(PATH, "a\0é")),
        (leaf("=", type="string", value={"base64": "/w=="}), p.Eq(PATH, b"\xff")),
        (leaf("=", type="binary", value="AP8="), p.Eq(PATH, b"\0\xff")),
        (leaf("starts with", type="string", value="ab"), p.StartsWith(PATH, "ab")),
        (leaf("=", type="date", value=-719_162), p.Eq(PATH, dt.date(1, 1, 1))),
        (leaf("=", type="date", value=2_932_896), p.Eq(PATH, dt.date(9999, 12, 31))),
        (leaf("=", type="timestamp", value=-1), p.Eq(PATH, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC))),
        (leaf("=", type="timestamp_ntz", value=1), p.Eq(PATH, dt.datetime(1970, 1, 1, microsecond=1))),
        (leaf("in", type="int64", values=[1, None, 2]), p.In(PATH, [1, None, 2])),
        (leaf("contains", part="element", type="int8", values=[1, None]), bp.ContainsAny(PATH, [1, None])),
        (leaf("contains", part="key", type="string", values=["k"]), bp.ContainsAny(PATH, ["k"], of="key")),
        (leaf("=", case="lower", type="string", value="a"), bp.CaseIn(PATH, "lower", ["a"])),
        (leaf("=", case="lower", type="string", value=None), bp.CaseIn(PATH, "lower", [None])),
        (leaf("in", case="upper", type="string", values=["A", None]), bp.CaseIn(PATH, "upper", ["A", None])),
        (
            leaf("<=>", case="lower", type="string", value="a"),
            p.And(p.IsNotNull(PATH), bp.CaseIn(PATH, "lower", ["a"])),
        ),
        (leaf("<=>", case="lower", type="string", value=None), p.IsNull(PATH)),
        (leaf("is null"), p.IsNull(PATH)),
        (leaf("is not null"), p.IsNotNull(PATH)),
        ({"not": leaf("is null")}, p.Not(p.IsNull(PATH))),
        (
            {"and": [leaf("is null"), {"or": [leaf("is null"), leaf("is not null")]}]},
            p.And(p.IsNull(PATH), p.Or(p.IsNull(PATH), p.IsNotNull(PATH))),
        ),
    ],
)
def test_every_predicate_form_is_parsed(node: dict[str, Any], expected: p.Predicate) -> None:
    parsed = to_predicate(json.loads(json.dumps(node)))
    assert parsed == expected
    assert repr(parsed) == repr(expected)  # -0.0 is no 0.0, True no 1


def test_nan_is_parsed() -> None:
    parsed = to_predicate(leaf("=", type="float", value="NaN"))
    assert isinstance(parsed, p.Eq)
    assert parsed.value != parsed.value


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"op": "=", "column": ["a"]},
        leaf("like", type="string", value="a"),
        leaf("=", type="interval", value=1),
        leaf("in", type="interval", values=[1]),
        leaf("<", case="lower", type="string", value="a"),
        leaf("=", case="lower", variant={"path": "$.a", "type": "string"}, type="string", value="a"),
        leaf("contains", case="lower", part="element", type="string", values=["a"]),
    ],
)
def test_unknown_predicate_forms_are_errors(node: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="does not know"):
        to_predicate(node)


def root(number: int) -> dict[str, Any]:
    return {"number": number, "key": f"key {number}", "isFirst": True}


def no_reads(files: Any, ranges: Any) -> bytes:
    raise AssertionError(f"{files} would be read")


def parse(data: bytes, count: int, storages: dict[str, Any] | None = None) -> ScanListing:
    return ScanListing.parse(data, count, hashlib.sha256(data).hexdigest(), Storages(storages or {}, no_reads))


@pytest.mark.parametrize("name", ["t.parquet", "with space.parquet", "50%20é.parquet", "a#b?c=d.pq", "*[x].pq"])
@pytest.mark.parametrize("uri", [True, False])
def test_a_listing_round_trips(tmp_path: Path, name: str, uri: bool) -> None:
    paths = [tmp_path / name, tmp_path / "z.parquet"]
    for i, path in enumerate(paths, 1):
        files.write(path, {"id": [i]}, ["id"])
    listing = listing_of(paths)
    dataset = parse(listing if uri else listing.replace(b"file:", b""), 2).dataset
    assert [file.size for file in dataset.files] == [path.stat().st_size for path in paths]
    assert planner.plan(dataset, p.Eq("id", 1)).kept == 1


def test_a_listing_of_a_wrong_length_is_refused(tmp_path: Path) -> None:
    listing = listing_of([Path(files.write(tmp_path / "t.parquet", {"id": [1]}))])
    with pytest.raises((PlanError, ValueError)):
        parse(listing, 2)
    with pytest.raises(PlanError, match="has 2 paths"):
        parse(listing + b"file:/x\0", 1)


def test_a_listing_of_an_unknown_storage_is_refused(tmp_path: Path) -> None:
    path = Path(files.write(tmp_path / "t.parquet", {"id": [1]}))
    listing = listing_of([path, path])[: 4 * 8] + f"file:{path}\0vault://a/x\0".encode()
    for storages, message in (({}, "file:, vault://a"), ({"vault://a": root(1)}, "file:")):
        with pytest.raises(PlanError, match=f"no storage for {message}$"):
            parse(listing, 2, storages)


def test_the_planner_starts_without_spark() -> None:
    script = """
import importlib.abc, io, json, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j"):
            raise ImportError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
from pyspark_bloomparquet.jar.planner_worker import Worker
from pyspark_bloomparquet.jar.protocol import read_frame, write_frame
requests, answers = io.BytesIO(), io.BytesIO()
write_frame(requests, {"id": 1, "version": 0, "files": 0, "predicate": {}, "caseSensitive": False}, b"")
requests.seek(0)
Worker(answers).serve(requests)
answers.seek(0)
print(json.dumps(read_frame(answers)[0]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "protocol" in json.loads(done.stdout)["error"]


@pytest.mark.parametrize("name", ["day=2024-01-01 00%3A00%3A00", "straße #1?", "a%20b"])
@pytest.mark.parametrize(
    ("at", "inner"),
    [
        ("s3a://bucket", "bucket"),
        ("abfss://box@account.dfs.core.windows.net", "box"),
        ("hdfs://name:8020", ""),
        ("vault://box", "box"),
        ("vault:", ""),
    ],
)
def test_remote_paths_are_those_of_pyarrow_and_not_decoded(at: str, inner: str, name: str) -> None:
    url = f"{at}/{name}/x.parquet"
    dataset = parse(struct.pack(">2q", 12, 0) + f"{url}\0".encode(), 1, {at: root(1)}).dataset
    assert dataset.files[0].path == f"{inner}/{name}/x.parquet"
    assert isinstance(dataset.storage, HostStorage)
    assert dataset.storage.url(dataset.files[0].path) == url
