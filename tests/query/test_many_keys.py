"""Many keys at once: sets of literals of any size, and an OR of composite keys, find what each key finds alone."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bloomparquet as bp
from bloomparquet.query.evaluate import composite_keys
from bloomparquet.query.evaluate.mask import bind_mask, mask
from bloomparquet.query.predicate import Predicate

ROWS = 500


def _nullable(rng: random.Random, values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if rng.random() < 0.1 else rng.choice(values) for _ in range(ROWS)], kind)


VALUES: dict[str, tuple[list[Any], pa.DataType]] = {
    "i": ([*range(12)], pa.int64()),
    "u": ([0, 1, 2, 2**64 - 1], pa.uint64()),
    "b": ([-128, 0, 127], pa.int8()),
    "s": (["", "a", "b", "ab", "\0"], pa.string()),
    "v": (["x", "y", "z" * 20], pa.string_view()),
    "c": (["p", "q"], pa.dictionary(pa.int8(), pa.string())),
    "n": ([Decimal("1.50"), Decimal("-2.25"), Decimal(3)], pa.decimal128(9, 2)),
    "d": ([dt.date(2026, 1, day) for day in range(1, 6)], pa.date32()),
    "o": ([True, False], pa.bool_()),
    "f": ([0.0, -0.0, 1.5, float("nan")], pa.float64()),
}
OTHERS: dict[str, list[Any]] = {"i": [1.5, 99, 2**70], "u": [-1], "b": [300], "n": [Decimal("1.234")], "f": [2]}
"""Literals that no row has; some of them no value of the type can equal."""


def _batch(rng: random.Random, *, nulls: bool = True) -> pa.RecordBatch:
    columns = {name: _nullable(rng, *each) for name, each in VALUES.items()}
    if not nulls:
        columns = {name: pa.array([rng.choice(values) for _ in range(ROWS)], k) for name, (values, k) in VALUES.items()}
    return pa.RecordBatch.from_pydict(columns)


def _key(rng: random.Random, names: list[str]) -> Predicate:
    leaves = [bp.Eq(name, rng.choice([*VALUES[name][0], *OTHERS.get(name, [])])) for name in names]
    return bp.And(*rng.sample(leaves, len(leaves)))


@pytest.mark.parametrize("seed", range(24))
def test_an_or_of_composite_keys_is_the_or_of_each(seed: int) -> None:
    rng = random.Random(seed)
    batch = _batch(rng, nulls=seed % 3 > 0)
    names = rng.sample(sorted(VALUES), rng.randint(2, 4))
    keys = [_key(rng, names) for _ in range(rng.randint(8, 40))]
    others: list[Predicate] = [bp.Eq("i", 3), _key(rng, ["i", "s"]), bp.IsNull("s")][: rng.randint(0, 3)]
    children = rng.sample([*keys, *others], len(keys) + len(others))
    expected = reduce(pc.or_kleene, (mask(child, batch) for child in children))
    for data in (batch, pa.Table.from_batches([batch.slice(0, 123), batch.slice(123)])):
        assert mask(bp.Or(*children), data).to_pylist() == expected.to_pylist()
        assert mask(bp.Not(bp.Or(*children)), data).to_pylist() == pc.invert(expected).to_pylist()


def test_composite_keys_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = _batch(random.Random(1), nulls=False)
    where = bp.Or(*(bp.And(bp.Eq("i", n), bp.Eq("s", str(n))) for n in range(300)))
    evaluate = bind_mask(where, batch.schema)
    calls: list[str] = []
    for name in ("equal", "and_kleene", "or_kleene"):
        monkeypatch.setattr(pc, name, lambda *_, name=name: calls.append(name))
    assert evaluate(batch).true_count == 0
    assert calls == []


def test_keys_whose_numbers_do_not_fit_are_tested_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composite_keys, "_MOST_NUMBERS", 9)
    batch = _batch(random.Random(2))
    keys = [bp.And(bp.Eq("i", n), bp.Eq("s", text)) for n in range(3) for text in VALUES["s"][0]]
    assert mask(bp.Or(*keys), batch).to_pylist() == reduce(pc.or_kleene, (mask(k, batch) for k in keys)).to_pylist()


def test_a_missing_column_of_composite_keys_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [bp.And(bp.Eq("i", n), bp.Eq("missing", n)) for n in range(9)]
    values = mask(bp.Or(*keys), pa.RecordBatch.from_pydict({"i": [3, 10]})).to_pylist()
    assert values == [None, False]


@pytest.mark.parametrize("size", [0, 1, 10, 11, 10_000])
@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int64(), pa.uint64(), pa.date32(), pa.timestamp("us"), pa.string()], ids=str
)
@pytest.mark.parametrize("nulls", [False, True])
def test_a_set_of_any_size_finds_its_values(size: int, kind: pa.DataType, nulls: bool) -> None:
    rng = np.random.default_rng(size)
    numbers = rng.integers(0, 100, 300)
    stored = pa.array([f"{n}" for n in numbers]) if kind == pa.string() else pa.array(numbers % 128)
    if nulls:
        stored = pc.if_else(pa.array(rng.random(300) < 0.2), None, stored)
    narrow = pa.int32() if kind == pa.date32() else stored.type
    column = stored.cast(narrow).cast(kind)
    literals = [f"{n}" for n in rng.integers(50, 200, size)] if kind == pa.string() else rng.integers(50, 127, size)
    values = pa.array(literals, pa.string() if kind == pa.string() else narrow).cast(kind).to_pylist()
    wanted = set(values)
    expected = [None if value is None else value in wanted for value in column.to_pylist()]
    for data in (pa.record_batch({"x": column}), pa.table({"x": pa.chunked_array([column[:7], column[7:]])})):
        result = mask(bp.In("x", values), data).to_pylist()
        assert result == ([False] * 300 if size == 0 else expected)


@pytest.mark.parametrize("value", [0, 2**63, 2**64 - 1])
def test_a_null_is_not_taken_for_the_zero_below_it(value: int) -> None:
    column = pa.array([None, 0, 2**64 - 1], pa.uint64())
    many = [value, *range(100, 200)]
    result = mask(bp.In("x", many), pa.record_batch({"x": column})).to_pylist()
    assert result == [None, value == 0, value == 2**64 - 1]
