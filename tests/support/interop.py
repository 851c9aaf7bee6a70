"""Columns that several writers write, and what must hold of their Bloom filters whoever wrote them.

A `Kind` is a type with values in ascending order, of which every second one is written, the first and the last among
them. So each absent value lies between minimum and maximum, where only a filter can exclude it. Each file has two row
groups. Both hold the least and the greatest value, and share the others out between them.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.header import parse_header
from bloomparquet.parquet.metadata.file_profile import WriterTraits
from bloomparquet.parquet.values.encoding import encode_values
from bloomparquet.planning.decisions import REASONS
from bloomparquet.query.columns import LeafColumn
from tests.support import nan_counts
from tests.support.core import plan_with
from tests.support.parquet_table import parquet_table

EPOCH = dt.datetime(1970, 1, 1)
UTC = dt.timezone.utc
_LADDER = 2_043
"""Values of a type with room for them: 1,022 are written, 512 in each row group, and 1,021 are absent."""

ROWS = 520
"""The rows of a row group: each of the 512 values, and nulls."""

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Kind:
    """An Arrow type, the values `stored(i)` that Arrow makes arrays of, and the literals that name them."""

    arrow: pa.DataType
    stored: Callable[[int], Any]
    literal: Callable[[Any], Any] = lambda value: value
    rungs: int = _LADDER

    @cached_property
    def groups(self) -> tuple[list[Any], list[Any]]:
        """The distinct values of the two row groups, as Arrow stores them."""
        least, *between, greatest = (self.stored(i) for i in range(0, self.rungs, 2))
        return [least, *between[0::2], greatest], [least, *between[1::2], greatest]

    @cached_property
    def literals(self) -> tuple[list[Any], list[Any]]:
        """The values of :attr:`groups` as literals of predicates."""
        first, second = self.groups
        return [self.literal(value) for value in first], [self.literal(value) for value in second]

    @cached_property
    def absent(self) -> list[Any]:
        return [self.literal(self.stored(i)) for i in range(1, self.rungs, 2)]

    def array(self, values: Iterable[Any]) -> pa.Array:
        if isinstance(self.arrow, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(self.arrow, pa.array(values, self.arrow.storage_type))
        if pa.types.is_dictionary(self.arrow):
            return pa.array(values, self.arrow.value_type).dictionary_encode()
        return pa.array(values, self.arrow)


def integer(arrow: pa.DataType, first: int, step: int, rungs: int = _LADDER) -> Kind:
    return Kind(arrow, lambda i: first + step * i, rungs=rungs)


def decimal(precision: int, scale: int, arrow: pa.DataType | None = None) -> Kind:
    """Numbers of both signs; the outermost have all digits of the precision."""
    middle = _LADDER // 2
    step = (10**precision - 1) // middle
    return Kind(
        arrow or pa.decimal128(precision, scale),
        lambda i: Decimal((0 if i >= middle else 1, tuple(map(int, str(abs(i - middle) * step))), -scale)),
    )


def timestamp(unit: str, zone: str | None = None, *, grain: int = 1) -> Kind:
    """From 1905 to 2200, with a fraction that fills the unit; `grain` keeps to multiples of so many units."""
    per_second = _PER_SECOND[unit]
    step = (4_555_555 * per_second + 987_654_321 * per_second // 10**9) // grain * grain
    start = -2_050_000_000 * per_second // grain * grain

    def literal(value: int) -> Any:
        if unit == "ns":
            return np.datetime64(value, "ns")
        moment = EPOCH + dt.timedelta(microseconds=value * (10**6 // per_second))
        return moment if zone is None else moment.replace(tzinfo=UTC)

    return Kind(pa.timestamp(unit, zone), lambda i: start + step * i, literal)


def time_of_day(unit: str) -> Kind:
    per_second = _PER_SECOND[unit]
    step = 86_399 * per_second // _LADDER

    def literal(value: int) -> Any:
        seconds, fraction = divmod(value, per_second)
        digits = f"{fraction * 10**9 // per_second:09}"
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{text}.{digits}" if unit == "ns" else dt.time.fromisoformat(f"{text}.{digits[:6]}")

    return Kind(pa.time64(unit) if unit in ("us", "ns") else pa.time32(unit), lambda i: step * i, literal)


def text(i: int) -> str:
    """Text of 5 to 45 bytes, some beyond ASCII: 32 bytes and more go through the four lanes of XXH64."""
    return f"{i:05}" + "é中𝄞"[: i % 4] + "x" * (i % 31)


def blob(i: int) -> bytes:
    """No valid UTF-8, with zero bytes, of 4 to 44 bytes."""
    return i.to_bytes(4, "big") + b"\xff\x00" * (i % 21)


STRING = Kind(pa.string(), text)
BINARY = Kind(pa.binary(), blob)
FIXED_5 = Kind(pa.binary(5), lambda i: b"\xff" + i.to_bytes(4, "big"))
FIXED_33 = Kind(pa.binary(33), lambda i: b"\x80" * 29 + i.to_bytes(4, "big"))
_UUID_STEP = (1 << 128) // _LADDER
UUID_BYTES = Kind(pa.binary(16), lambda i: (i * _UUID_STEP).to_bytes(16, "big"), lambda raw: UUID(bytes=raw))
INT8 = integer(pa.int8(), -127, 1, rungs=255)
INT16 = integer(pa.int16(), -32_700, 32)
INT32 = integer(pa.int32(), -(2**31), 2_100_001)
INT64 = integer(pa.int64(), -(2**63), 9_000_000_000_000_007)
UINT8 = integer(pa.uint8(), 0, 1, rungs=255)
UINT16 = integer(pa.uint16(), 3, 32)
UINT32 = integer(pa.uint32(), 1, 2_100_001)
UINT64 = integer(pa.uint64(), 1, 9_000_000_000_000_007)
FLOAT16 = Kind(pa.float16(), lambda i: i - 1021.5)
FLOAT = Kind(pa.float32(), lambda i: float(np.float32((i - 1000.5) * 0.1)))
DOUBLE = Kind(pa.float64(), lambda i: (i - 1000.5) * 0.1)
DATE = Kind(pa.date32(), lambda i: dt.date(1600, 2, 28) + dt.timedelta(days=181 * i))

TYPES: dict[str, Kind] = {
    "int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64, "uint8": UINT8, "uint16": UINT16, "uint32": UINT32,
    "uint64": UINT64, "float16": FLOAT16, "float32": FLOAT, "float64": DOUBLE,
    "decimal32": decimal(7, 2, pa.decimal32(7, 2)), "decimal64": decimal(15, 4, pa.decimal64(15, 4)),
    "decimal_5_2": decimal(5, 2), "decimal_9_0": decimal(9, 0), "decimal_18_4": decimal(18, 4),
    "decimal_20_2": decimal(20, 2), "decimal_38_10": decimal(38, 10),
    "decimal256": decimal(70, 20, pa.decimal256(70, 20)),
    "string": STRING, "large_string": Kind(pa.large_string(), text), "string_view": Kind(pa.string_view(), text),
    "json": Kind(pa.json_(), lambda i: f'{{"i": {i:05}}}'),
    "binary": BINARY, "large_binary": Kind(pa.large_binary(), blob), "binary_view": Kind(pa.binary_view(), blob),
    "fixed_5": FIXED_5, "fixed_33": FIXED_33, "uuid": Kind(pa.uuid(), UUID_BYTES.stored, UUID_BYTES.literal),
    "uuid_bytes": Kind(pa.binary(16), UUID_BYTES.stored),
    "date32": DATE, "date64": Kind(pa.date64(), DATE.stored),
    **{f"time_{unit}": time_of_day(unit) for unit in _PER_SECOND},
    **{f"timestamp_{unit}": timestamp(unit) for unit in _PER_SECOND},
    **{f"utc_{unit}": timestamp(unit, "UTC") for unit in _PER_SECOND},
    "berlin_us": timestamp("us", "Europe/Berlin"),
    "dictionary_string": Kind(pa.dictionary(pa.int32(), pa.string()), text),
    "dictionary_int64": Kind(pa.dictionary(pa.int32(), pa.int64()), INT64.stored),
    "dictionary_decimal": Kind(pa.dictionary(pa.int32(), pa.decimal128(9, 2)), decimal(9, 2).stored),
    "struct.int64": INT64, "struct.string": STRING,
}  # fmt: skip
"""A column of each type that most writers write."""


def table(columns: Mapping[str, Kind], rows_per_group: int = ROWS) -> pa.Table:
    """Two runs of `rows_per_group` rows, one for each row group: a null and its distinct values in turn, over and over.

    A dotted name is a field of a struct.
    """
    arrays: dict[str, pa.Array] = {}
    for name, kind in columns.items():
        rows = [
            value
            for group in kind.groups
            for value in itertools.islice(itertools.cycle([None, *group]), rows_per_group)
        ]
        arrays[name] = kind.array(rows)
    flat = {name: array for name, array in arrays.items() if "." not in name}
    for struct in dict.fromkeys(name.split(".")[0] for name in arrays if "." in name):
        fields = {name.split(".")[1]: array for name, array in arrays.items() if name.startswith(f"{struct}.")}
        flat[struct] = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    return pa.table(flat)


def only_file(path: Path | str) -> str:
    """`path`, or the one Parquet file in it when it is a directory."""
    if Path(path).is_file():
        return str(path)
    (found,) = Path(path).rglob("*.parquet")
    return str(found)


def filtered_columns(path: str) -> set[str]:
    """The columns that have a filter in every row group, by `bp.inspect`; one that has it in some only is an error."""
    groups = pq.ParquetFile(path).metadata.num_row_groups
    names = bp.inspect(path)["column"].to_pylist()
    assert all(names.count(name) == groups for name in names), "a filter is missing in some row group"
    return set(names)


def reasons(path: str, predicate: bp.Predicate | str) -> list[str | None]:
    """The reason of `bp.plan` to skip each row group, None where it is kept; cheaper than `ScanPlan.row_groups`."""
    return [REASONS[code] for code in bp.plan(path, predicate).codes.tolist()]


def leaf_of(path: str, column: str) -> tuple[LeafColumn, WriterTraits]:
    (layout,) = parquet_table(bp.plan(path)).profiles
    (leaf,) = (leaf for leaf in layout.schema.leaves if ".".join(leaf.path) == column)
    return leaf, layout.traits


def physical(path: str, column: str) -> str:
    """The column's physical type, with the length of a fixed one: ``INT32``, ``FIXED_LEN_BYTE_ARRAY(5)``."""
    node = leaf_of(path, column)[0].node
    return f"{node.physical_type}({node.type_length})" if node.type_length else str(node.physical_type)


def filters_of(path: str, column: str) -> list[bp.SplitBlockBloomFilter]:
    """The filter of each row group, read with nothing of the package but the header parser."""
    data = Path(path).read_bytes()
    leaf, _ = leaf_of(path, column)
    metadata = pq.ParquetFile(path).metadata
    found = []
    for group in range(metadata.num_row_groups):
        offset = metadata.row_group(group).column(leaf.index).bloom_filter_offset
        header, size = parse_header(data[offset : offset + 64])
        found.append(bp.SplitBlockBloomFilter.from_bytes(data[offset + header : offset + header + size]))
    return found


def hashes_of(path: str, column: str, literals: Sequence[Any]) -> np.ndarray:
    """The hash of each literal in this column, shape (n,), for distinct literals in ascending order."""
    leaf, traits = leaf_of(path, column)
    encoded = encode_values(leaf, literals, traits, "UTC")
    assert encoded is not None, f"{column}: cannot tell"
    assert encoded.hashes is not None, f"{column}: filters prove nothing"
    assert len(encoded.hashes) == len(literals), f"{column}: some literal has no hash, or several"
    return encoded.hashes


def assert_same_bits(path: str, column: str, kind: Kind) -> None:
    """The filters in the file are, bit for bit, those that this package makes of the same values in as many blocks."""
    for theirs, literals in zip(filters_of(path, column), kind.literals, strict=True):
        ours = bp.SplitBlockBloomFilter.empty(theirs.n_blocks)
        ours.insert(hashes_of(path, column, literals))
        assert ours.to_bytes() == theirs.to_bytes(), f"{column}: another filter of {theirs.n_blocks} blocks"


def assert_never_skipped(path: str, column: str, kind: Kind) -> None:
    """No row group is skipped that holds a value.

    Every value is in its filter, and `bp.plan` keeps the row group for =, and for IN, in the company of absent values
    or without it.
    """
    for group, (bloom, literals) in enumerate(zip(filters_of(path, column), kind.literals, strict=True)):
        assert bloom.check(hashes_of(path, column, literals)).all(), f"{column}: a written value is not in the filter"
        for literal in [*literals[::64], literals[-1]]:
            assert reasons(path, bp.Eq(column, literal))[group] is None, f"{column} = {literal!r}"
        assert reasons(path, bp.In(column, tuple(literals)))[group] is None, f"{column} IN all"
        for literal in literals[::128]:
            among = bp.In(column, (*kind.absent[:5], literal, *kind.absent[5:10]))
            assert reasons(path, among)[group] is None, str(among)
            assert reasons(path, str(among)) == reasons(path, among), f"as SQL text: {among}"
        assert bp.read_table(path, bp.Eq(column, literals[-2]), columns=[column.split(".", maxsplit=1)[0]]).num_rows > 0


def skip_rate(path: str, column: str, kind: Kind) -> float:
    """The share of absent values that the filters exclude, over all of them and both row groups.

    That `bp.plan` follows the filters, and nothing else, is checked on every 40th value and on lists of values.
    """
    verdicts = np.array([one.check(hashes_of(path, column, kind.absent)) for one in filters_of(path, column)])
    for at in range(0, len(kind.absent), 40):
        expected = [None if kept else "bloom" for kept in verdicts[:, at]]
        assert reasons(path, bp.Eq(column, kind.absent[at])) == expected, f"{column} = {kind.absent[at]!r}"
    for at in range(0, len(kind.absent), 250):
        expected = [None if kept else "bloom" for kept in np.any(verdicts[:, at : at + 20], axis=1).tolist()]
        assert reasons(path, bp.In(column, tuple(kind.absent[at : at + 20]))) == expected
        probed = [one.verdict for one in bp.probe(path, column=column, value=kind.absent[at])]
        assert probed == [bp.Verdict.MIGHT_MATCH if kept else bp.Verdict.CANNOT_MATCH for kept in verdicts[:, at]]
    assert bp.read_table(path, bp.Eq(column, kind.absent[-1]), columns=[column.split(".", maxsplit=1)[0]]).num_rows == 0
    return 1 - float(verdicts.mean())


def assert_filters_are_used(path: str, column: str, kind: Kind) -> None:
    """The filters of a column have the bits of this package's own, keep what they hold, and skip what they do not."""
    assert_same_bits(path, column, kind)
    assert_never_skipped(path, column, kind)
    assert skip_rate(path, column, kind) >= 0.95


ZEROS = {"double": pa.array([-0.0, -1.0, 1.0] * 3_000), "float": pa.array([-0.0, -1.0, 1.0] * 3_000, pa.float32())}
"""Columns without a positive zero; often enough repeated that DuckDB writes a filter."""


def assert_finds_zeros(path: str) -> None:
    """A row of `ZEROS` equals zero, whichever sign either has. Only a count proves that there is no NaN."""
    assert filtered_columns(path) == set(ZEROS)
    for column in ZEROS:
        assert_keeps_all(path, column, [0.0, -0.0, 0, -1.0, 1.0])
        is_counted = nan_counts.are_in(path)
        assert set(reasons(path, bp.Eq(column, float("nan")))) == {"statistics" if is_counted else None}
        assert set(reasons(path, bp.Eq(column, 0.5))) == {"bloom"}


LONG = {
    "string": pa.array([f"{'é' * 200}{i:04}" for i in range(0, 100, 2)] * 10),
    "unending": pa.array([f"{chr(0x10FFFF) * 200}{i:04}" for i in range(0, 100, 2)] * 10),
    "binary": pa.array([b"\xff" * 5_000 + b"%04d" % i for i in range(0, 100, 2)] * 10),
}
"""Longer than the bounds that writers keep: a maximum that is cut must be rounded up, which a run of 0xff cannot be."""


def assert_finds_long_values(path: str) -> None:
    assert filtered_columns(path) == set(LONG)
    for column, array in LONG.items():
        assert_keeps_all(path, column, array[:50].to_pylist())
    absent = [f"{'é' * 200}{i:04}" for i in range(1, 99, 2)]
    assert sum(set(reasons(path, bp.Eq("string", literal))) == {"bloom"} for literal in absent) >= 46


SPECIAL = {
    "zero under either sign": (ZEROS, assert_finds_zeros),
    "values longer than the bounds in the footer": (LONG, assert_finds_long_values),
}
"""Columns, and what must hold of a file with them."""


def assert_keeps_all(path: str, column: str, literals: Sequence[Any]) -> None:
    """Nothing is proven about this column: every row group is kept, whatever value is asked for."""
    for literal in literals:
        plan = plan_with(path, bp.Eq(column, literal), strict=False)  # strict planning compares no list elements
        assert plan.kept == plan.total, f"{column} = {literal!r}: {plan}"
