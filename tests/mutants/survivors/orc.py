"""Surviving mutants of the values and Bloom filters of ORC."""

from __future__ import annotations

from tests.mutants.survivors.explanation import FLOAT64, INT64, explained

_ORC_ENCODING = "orc/encoding.py"
_ORC_BLOOM = "orc/bloom_filter.py"

EXPLAINED = (
    *(
        explained(_ORC_ENCODING, "_value_order", old, *new, why=why)
        for old, *new, why in (
            ('"boolean"', '"XXbooleanXX"', '"BOOLEAN"', "a boolean is 0 or 1"),
            ("column, integers=(0, 1)", "column, ", "column, integers=(0, 2)", "a boolean is 0 or 1"),
            ('"date"', '"XXdateXX"', '"DATE"', "Python's dates are less than 2**31 days"),
            ("column, integers=INT32_RANGE", "column, ", "Python's dates are less than 2**31 days"),
        )
    ),
    explained(
        _ORC_ENCODING,
        "_hash",
        "maximum_length or 0",
        "maximum_length or 1",
        why="a CHAR without a length has no order, and so no keys",
    ),
    explained(
        _ORC_ENCODING,
        "_scaled",
        "unscaled < 0",
        "unscaled <= 0",
        "unscaled < 1",
        why="the hashed text of zero has no sign",
    ),
    explained(
        _ORC_ENCODING,
        "_encode_timestamps",
        "_MICROSECOND - 1 if",
        "_MICROSECOND - 2 if",
        why="the last two nanoseconds of a microsecond are in the same millisecond",
    ),
    explained(
        _ORC_ENCODING,
        "_encode_timestamps",
        "in ordered], np.int64)",
        "in ordered], None)",
        "in ordered], )",
        why=INT64,
    ),
    explained(
        _ORC_ENCODING,
        "_clock_readings",
        '"timestamp_ntz", column=column',
        '"timestamp_ntz", column=None',
        '"timestamp_ntz", ',
        why="the error is caught",
    ),
    explained(
        _ORC_ENCODING, "_clock_readings", '"UTC"', '"XXUTCXX"', '"utc"', why="without a zone, the value has an offset"
    ),
    explained(
        _ORC_ENCODING, "_shown_by_clocks", "reading + sign * step", "reading - sign * step", why="sign is 1 and -1"
    ),
    explained(_ORC_BLOOM, "hash_doubles", "astype(np.float64)", "astype(None)", why=FLOAT64),
    *(
        explained(_ORC_BLOOM, "hash_bytes", old, new, why="the other way gives the same hashes")
        for old, new in (
            ("< _MIN_VECTORIZED", "<= _MIN_VECTORIZED"),
            (">= _MIN_VECTORIZED", "> _MIN_VECTORIZED"),
        )
    ),
    explained(
        _ORC_BLOOM,
        "hash_bytes",
        "np.int64, len(values))",
        "np.int64, )",
        why="the number of values is only for speed",
    ),
    explained(
        _ORC_BLOOM,
        "hash_bytes",
        ', kind="stable"',
        ", kind=None",
        ", ",
        ', kind="STABLE"',
        why="the order of strings of one length changes no hash",
    ),
    explained(
        _ORC_BLOOM,
        "hash_bytes",
        "sizes % _BLOCK > 0",
        "None",
        "sizes / _BLOCK > 0",
        "sizes % _BLOCK >= 0",
        why="a string without a tail has zeros there, which change no hash",
    ),
    explained(
        _ORC_BLOOM,
        "_murmur",
        "whole < len(value)",
        "whole <= len(value)",
        why="an empty tail is zero, which changes no hash",
    ),
    explained(
        _ORC_BLOOM,
        "bit_positions",
        "np.int32(31)",
        "np.int32(32)",
        why="numpy shifts by all bits as by all but the sign",
    ),
    explained(_ORC_BLOOM, "OrcBloomFilter.check", ".astype(np.bool_)", ".astype(None)", why="all() gives booleans"),
)
