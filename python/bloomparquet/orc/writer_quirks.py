"""What the writers of ORC files hash, and when their filters and bounds are not to be believed.

**Whatever is not proven by a file that the writer wrote cannot be told**, and then nothing is skipped. What was found,
with ORC Java 2.3.0 (Spark 4.3), ORC C++ 2.2.2 (pyarrow 26), and the files of apache/orc's ``examples``; "long" is
Thomas Wang's hash of a signed 64-bit number, "bytes" is Murmur3:

    column              hashed by ORC Java (BLOOM_FILTER_UTF8)          by ORC C++, where it differs
    TINYINT             long                                            **lost**: see below
    SMALLINT … BIGINT   long
    DATE                long: days since 1970, in the file's calendar
    FLOAT               long: the bits of the number widened to double  **unknown**: the double that was given, before
                        (not the 32 bits that the specification names)  it was narrowed to what is stored
    DOUBLE              long: the bits; -0.0 is not 0.0
      NaN               one NaN for all                                 the NaN's own bits
    TIMESTAMP           long: milliseconds of the clock time in the     milliseconds rounded towards 1970 (pyarrow
                        writer's zone as if it were UTC, rounded down   hands over negative nanoseconds)
    TIMESTAMP_INSTANT   long: milliseconds since 1970 in UTC            the same
    DECIMAL             bytes: the shortest plain decimal text: "0", "-0.01", "1.5" (of 1.50), "100"
    STRING              bytes: UTF-8
    VARCHAR             bytes: UTF-8, cut to the column's length
    CHAR                bytes: UTF-8, cut, or padded with spaces, to    **lost**: the padded length of the bytes that
                        the column's length in characters               were not padded, and what lies behind them
    BINARY              bytes
    BOOLEAN             nothing: an empty filter                        **lost**, as TINYINT

* C++ narrows a batch of bytes and booleans in place and hashes afterwards: of each 1,024 values the first 128 were
  overwritten, and what was hashed is no value at all.
* A timestamp less than a second before 1970 that has a fraction comes back from ORC as one less than a second
  *after* it (the sign is lost with the whole seconds). Java hashes what is read back, C++ what was written.
* In BLOOM_FILTER streams, which Java wrote beside the others until ORC-101 and still does when it is asked to,
  strings and decimals are in the JVM's character set, timestamps in its zone; numbers, dates and binary are the same.
* C++ 1.6.0 to 1.6.11 and 1.7.0 shifted without sign: large or negative numbers went to other bits (ORC-1024).
* The decimals of format 2 ("UNSTABLE") would be longs; those of Java before it named its release may have another text.
* The filters of ``over1k_bloom.orc`` are of a layout before the first release, with hashes that no release has:
  :meth:`OrcBloomFilter.from_message` refuses them.

Sources: apache/orc, ``impl/writer/*TreeWriter.java``, ``ColumnWriter.cc``; and the files that ``tests`` write.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np

from bloomparquet.orc.file_tail import Tail, Writer, WriterVersion
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.statistics import Statistics, StatisticsKind
from bloomparquet.orc.stripe_indexes import RowGroupFilters

_NANOS_PER_MILLI = 1_000_000
_MILLIS_PER_SECOND = 1_000
_MILLIS_PER_DAY = 86_400 * _MILLIS_PER_SECOND

_INTEGERS = frozenset({Kind.SHORT, Kind.INT, Kind.LONG})
_NUMBERS = _INTEGERS | {Kind.BYTE, Kind.FLOAT, Kind.DOUBLE, Kind.DATE}
_STRINGS = frozenset({Kind.STRING, Kind.VARCHAR, Kind.CHAR})
_TIMESTAMPS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})
_HASHED = _NUMBERS | _STRINGS | _TIMESTAMPS | {Kind.DECIMAL, Kind.BINARY}
_FORMATS = frozenset({(0, 11), (0, 12)})
_BAD_CPP = re.compile(r"1\.6\.(\d|10|11)|1\.7\.0")
_MOST_DECIMAL64_PRECISION = 18
_LAST_EXACT: dict[int, bytes] = {Writer.JAVA: "\ufffd".encode(), Writer.CPP: b"\0"}
"""What bounds of strings are exact up to. Java notes them as text, in which this stands for bytes that are no UTF-8:
those of a value, or the code point after the last one there is, by which it raises what it has shortened. C++ compares
no further than to a NUL, whatever follows."""


def is_known(tail: Tail) -> bool:
    """Whether it was found out, by its files, what the writer notes of values."""
    return tail.writer in (Writer.JAVA, Writer.CPP)


def why_filters_unusable(tail: Tail, column: int, filters: RowGroupFilters | None = None) -> str | None:
    """Why a column's filters prove nothing, None where they do.

    Without `filters` it is judged by the file alone: None then means that they are worth reading.
    """
    kind = tail.types[column].kind
    if kind not in _HASHED:
        return f"nothing is hashed that {_name(kind)} columns could be asked for"
    if tail.writer == Writer.CPP:
        if tail.software_version is None or _BAD_CPP.fullmatch(tail.software_version.partition("-")[0]):
            return f"ORC C++ {tail.software_version or 'before 1.6.12'} set the wrong bits (ORC-1024)"
        if kind in (Kind.BYTE, Kind.CHAR, Kind.FLOAT):
            return f"ORC C++ hashes {_name(kind)} columns, but not the values that it stores"
    elif tail.writer != Writer.JAVA:
        return f"it is not known what writer {tail.writer} hashes"
    if kind == Kind.DECIMAL:
        if tail.file_version not in _FORMATS:
            return f"it is not known how decimals are hashed in format {'.'.join(map(str, tail.file_version))}"
        if tail.software_version is None:
            return "it is not known which text of decimals was hashed: the file does not name its writer's release"
    if kind == Kind.TIMESTAMP and tail.writer_version < WriterVersion.ORC_135:
        return "timestamps are hashed in a zone that is not known (before ORC-135)"
    return None if filters is None else _why_stream_unusable(kind, filters)


def _why_stream_unusable(kind: int, filters: RowGroupFilters) -> str | None:
    if filters.encoding not in (0, 1):
        return f"the filters have the unknown encoding {filters.encoding}"
    if kind in _TIMESTAMPS and not (filters.utf8 and filters.encoding == 1):
        return "timestamps are hashed in a zone that is not known (before ORC-135)"
    if kind in _STRINGS | {Kind.DECIMAL} and not filters.utf8:
        return "strings and decimals are hashed in a character set that is not known (before ORC-101)"
    return None


def why_bounds_unusable(tail: Tail, column: int) -> str | None:
    """Why the minimum and maximum of a column prove nothing, None where they do."""
    found = tail.types[column]
    if not is_known(tail):
        return f"it is not known how writer {tail.writer} compares values"
    java = tail.writer == Writer.JAVA
    if found.kind in _TIMESTAMPS and tail.writer_version < WriterVersion.ORC_135:
        return "timestamps are in a zone that is not known (before ORC-135)"
    if java and found.kind in _STRINGS and tail.writer_version < WriterVersion.HIVE_8732:
        return "strings are compared otherwise than by their UTF-8 bytes (before HIVE-8732)"
    if (
        found.kind == Kind.DECIMAL
        and java
        and tail.writer_version == WriterVersion.ORC_135
        and (found.precision or 0) <= _MOST_DECIMAL64_PRECISION
    ):
        return "the bounds of short decimals are wrong (before ORC-517)"
    return None


def usable_bounds(tail: Tail, column: int, statistics: Statistics | None) -> tuple[Any, Any]:
    """The minimum and the maximum of a column's values as :class:`Statistics` has them, None for each that is not known
    or not to be believed. NaN may lie outside, and ``statistics.total`` is NaN where there may be one."""
    if statistics is None or why_bounds_unusable(tail, column) is not None:
        return None, None
    minimum, maximum = statistics.minimum, statistics.maximum
    if statistics.kind is StatisticsKind.STRING and tail.writer in _LAST_EXACT:
        last = _LAST_EXACT[tail.writer]
        return None if minimum is None else minimum.partition(last)[0], _above(maximum, last)
    if tail.types[column].kind != Kind.FLOAT or statistics.kind is not StatisticsKind.DOUBLE:
        return minimum, maximum
    # C++ notes the doubles that it was given, and stores what they are rounded to.
    return _narrowed(minimum), _narrowed(maximum)


def _above(bound: bytes | None, last: bytes) -> bytes | None:
    """`bound`, or, where `last` is in it, what is above everything that begins as it does before that; None where that
    is nothing."""
    if bound is None or last not in bound:
        return bound
    head = bound.partition(last)[0].rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _narrowed(bound: float | None) -> float | None:
    with np.errstate(over="ignore"):
        return None if bound is None else float(np.float32(bound))


def decimal_text(value: Decimal) -> bytes:
    """What is hashed of a decimal number: plain, without zeros at the end of the fraction, and 0 without a sign."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return b"0" if text == "-0" else text.encode()


def char_text(value: str, length: int) -> bytes:
    """What is hashed of a value of CHAR(`length`)."""
    return value[:length].ljust(length).encode()


def timestamp_millis(first: int, last: int) -> list[int]:
    """Every number of milliseconds that a timestamp from `first` to `last` may have been hashed as; both in nanoseconds
    since 1970 and not more than a millisecond apart.

    A reader that keeps microseconds reads 1,000 nanoseconds as one value. Rounded down and rounded towards 1970, and
    a second less for what may be in the first second after 1970 by having been in the last before it: 1970 as the
    clock of any zone has it.
    """
    found = {bound // _NANOS_PER_MILLI for bound in (first, last)}
    found |= {-(-bound // _NANOS_PER_MILLI) for bound in (first, last) if bound < 0}
    found |= {millis - _MILLIS_PER_SECOND for millis in found if abs(millis) < _MILLIS_PER_DAY}
    return sorted(found)


def _name(kind: int) -> str:
    return kind.name if isinstance(kind, Kind) else f"kind {kind}"
