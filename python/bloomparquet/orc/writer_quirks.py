"""The hashed bytes of each writer of ORC files, and which of its filters and bounds are usable.

**Whatever is not proven by a file of that writer is unknown**, and then nothing is skipped. The table shows ORC Java
2.3.0 (Spark 4.3), ORC C++ 2.2.2 (pyarrow 26), and the files in apache/orc's ``examples``. "long" is Thomas Wang's hash
of a signed 64-bit number, "bytes" is Murmur3:

    column              ORC Java (BLOOM_FILTER_UTF8)                    ORC C++, if it differs
    TINYINT             long                                            **lost**: see below
    SMALLINT … BIGINT   long
    DATE                long: days since 1970, in the file's calendar
    FLOAT               long: the bits of the number widened to double  **unknown**: the double that was given, before
                        (not the 32 bits that the specification names)  it was narrowed to what is stored
    DOUBLE              long: the bits; -0.0 is not 0.0
      NaN               one NaN for all                                 the NaN's own bits
    TIMESTAMP           long: milliseconds of the clock time in the     milliseconds rounded towards 1970 (pyarrow
                        writer's zone as if it were UTC, rounded down   passes negative nanoseconds)
    TIMESTAMP_INSTANT   long: milliseconds since 1970 in UTC            as for TIMESTAMP
    DECIMAL             bytes: the shortest plain decimal text: "0", "-0.01", "1.5" (of 1.50), "100"
    STRING              bytes: UTF-8
    VARCHAR             bytes: UTF-8, cut to the column's length
    CHAR                bytes: UTF-8, cut, or padded with spaces, to    **lost**: the unpadded bytes and what follows
                        the column's length in characters               them in memory, in the padded length
    BINARY              bytes
    BOOLEAN             nothing: an empty filter                        **lost**, as TINYINT

* C++ narrows a batch of bytes and booleans in place and hashes afterwards: of each 1,024 values the first 128 were
  overwritten, so that other values are hashed.
* A timestamp with a fraction less than a second before 1970 is read back as less than a second *after* it, because its
  sign is lost. Java hashes the value that is read back, C++ the value that was written.
* BLOOM_FILTER streams, which Java wrote in addition until ORC-101 and still writes on request, have strings and
  decimals in the JVM's character set and timestamps in its zone. Numbers, dates and binary values do not differ.
* C++ 1.6.0 to 1.6.11 and 1.7.0 shifted without sign, so that large or negative numbers set other bits (ORC-1024).
* pyarrow writes the values that lie under a null struct within a struct, and C++ counts them. Readers show them as the
  values of later rows.
* Decimals of format 2 ("UNSTABLE") would be hashed as longs. Java releases that do not name themselves in the file may
  hash another text of decimals.
* ``OrcFile.mergeFiles`` copies stripes. The merged file names ORC Java as its writer, also if C++ wrote the stripes.
* The filters of ``over1k_bloom.orc`` have a layout and hashes of before the first release;
  :meth:`OrcBloomFilter.from_message` refuses them.

Sources: apache/orc, ``impl/writer/*TreeWriter.java``, ``ColumnWriter.cc``; files that ``tests`` write.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np

from bloomparquet.orc.file_tail import Tail, Writer, WriterVersion
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.statistics import Statistics, StatisticsKind
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER_UTF8, StripeIndexes
from bloomparquet.query.literals import NANOSECONDS_PER_SECOND

_MILLISECOND = 1_000_000  # in nanoseconds
_SECOND = NANOSECONDS_PER_SECOND // _MILLISECOND  # in milliseconds
_DAY = 86_400 * _SECOND

_STRINGS = frozenset({Kind.STRING, Kind.VARCHAR, Kind.CHAR})
_TIMESTAMPS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})
_HASHED = (
    frozenset({Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.DATE, Kind.DECIMAL})
    | {Kind.BINARY}
    | _STRINGS
    | _TIMESTAMPS
)
_KNOWN_FORMATS = frozenset({(0, 11), (0, 12)})
_BAD_CPP = re.compile(r"1\.6\.(\d|10|11)|1\.7\.0")
_MAX_SHORT_DECIMAL = 18  # digits
_END_OF_EXACT_TEXT: dict[int, bytes] = {Writer.JAVA: "\ufffd".encode(), Writer.CPP: b"\0"}
"""The bytes up to which bounds of strings are exact.

Java stores bounds as text, in which U+FFFD replaces bytes that are not UTF-8: bytes of a value, or the code point that
follows the last one there is, by which Java raises a bound that it has shortened. C++ compares only up to a NUL.
"""


def is_known(tail: Tail) -> bool:
    """Whether this module knows the writer of the file's stripes."""
    return tail.writer in (Writer.JAVA, Writer.CPP) and not tail.is_merged


def may_misplace_values(tail: Tail, column: int) -> bool:
    """Whether the values of a column may be read as values of later rows of their stripe than they were written for.

    Statistics and filters of other row groups may then include these values, and null counts may be too small.
    """
    if tail.writer == Writer.JAVA and not tail.is_merged:
        return False
    parents = {child: parent for parent, each in enumerate(tail.types) for child in each.children}
    structs = 0
    while (column := parents.get(column, 0)) > 0:
        structs += tail.types[column].kind == Kind.STRUCT
    return structs > 1


def why_filters_unusable(tail: Tail, column: int, stripe: StripeIndexes | None = None) -> str | None:
    """The reason why a column's filters in `stripe` prove nothing. None if they prove something, or if there are none.

    Without `stripe`: the reason why the column's filters prove nothing in any stripe of the file.
    """
    orc_type = tail.types[column]
    kind = orc_type.kind
    if kind not in _HASHED:
        return f"nothing is hashed that {orc_type.name} columns could be asked for"
    if tail.is_merged:
        return "ORC Java merged the file from files by an older or another writer, and which one is not known"
    if tail.writer == Writer.CPP:
        if tail.software_version is None or _BAD_CPP.fullmatch(tail.software_version.partition("-")[0]):
            return f"ORC C++ {tail.software_version or 'before 1.6.12'} set the wrong bits (ORC-1024)"
        if kind in (Kind.BYTE, Kind.CHAR, Kind.FLOAT):
            return f"ORC C++ hashes {orc_type.name} columns, but not the values that it stores"
        if may_misplace_values(tail, column):
            return "values of structs in structs may lie in other row groups than their filters (pyarrow)"
    elif tail.writer != Writer.JAVA:
        return f"it is not known what writer {tail.writer} hashes"
    if kind == Kind.DECIMAL:
        if tail.file_version not in _KNOWN_FORMATS:
            return f"it is not known how decimals are hashed in format {'.'.join(map(str, tail.file_version))}"
        if tail.software_version is None:
            return "it is not known which text of decimals was hashed: the file does not name its writer's release"
    if kind == Kind.TIMESTAMP and tail.writer_version < WriterVersion.ORC_135:
        return "timestamps are hashed in an unknown time zone (before ORC-135)"
    return None if stripe is None else _why_stream_unusable(kind, column, stripe)


def _why_stream_unusable(kind: int, column: int, stripe: StripeIndexes) -> str | None:
    stream, encoding = stripe.filter_kind(column), stripe.bloom_encoding(column)
    if stream is None:
        return None
    utf8 = stream == BLOOM_FILTER_UTF8
    if encoding not in (0, 1):
        return f"the filters have the unknown encoding {encoding}"
    if kind in _TIMESTAMPS and not (utf8 and encoding == 1):
        return "timestamps are hashed in an unknown time zone (before ORC-135)"
    if kind in _STRINGS | {Kind.DECIMAL} and not utf8:
        return "strings and decimals are hashed in an unknown character set (before ORC-101)"
    return None


def are_bounds_usable(tail: Tail, column: int) -> bool:
    """Whether the minimum and maximum of a column prove something."""
    orc_type, version = tail.types[column], tail.writer_version
    if not is_known(tail):
        return False
    if orc_type.kind in _TIMESTAMPS:  # before, they are in an unknown time zone
        return version >= WriterVersion.ORC_135
    if tail.writer == Writer.CPP:
        return True
    if orc_type.kind in _STRINGS:  # before, they are not compared by their UTF-8 bytes
        return version >= WriterVersion.HIVE_8732
    # From ORC-135 to ORC-517, the bounds of short decimals are wrong.
    is_short_decimal = orc_type.kind == Kind.DECIMAL and (orc_type.precision or 0) <= _MAX_SHORT_DECIMAL
    return not (is_short_decimal and version == WriterVersion.ORC_135)


def usable_bounds(tail: Tail, column: int, statistics: Statistics | None) -> tuple[Any, Any]:
    """The minimum and the maximum of a column, as in :class:`Statistics`. A bound that is unknown or not usable is
    None.

    NaN may lie outside the bounds. If there may be a NaN, ``statistics.total`` is NaN.
    """
    if statistics is None or not are_bounds_usable(tail, column):
        return None, None
    minimum, maximum = statistics.minimum, statistics.maximum
    if statistics.kind is StatisticsKind.STRING and tail.writer in _END_OF_EXACT_TEXT:
        end = _END_OF_EXACT_TEXT[tail.writer]
        return None if minimum is None else minimum.partition(end)[0], _raise_bound(maximum, end)
    if tail.types[column].kind != Kind.FLOAT or statistics.kind is not StatisticsKind.DOUBLE:
        return minimum, maximum
    # C++ stores the doubles that it was given as bounds, but the values rounded to floats.
    return _round_to_float(minimum), _round_to_float(maximum)


def _raise_bound(bound: bytes | None, end: bytes) -> bytes | None:
    """An upper bound of every text that has the same beginning as `bound` before `end`; None if there is none.

    Returns `bound` itself if `end` is not in it.
    """
    if bound is None or end not in bound:
        return bound
    prefix = bound.partition(end)[0].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


def _round_to_float(bound: float | None) -> float | None:
    with np.errstate(over="ignore"):
        return None if bound is None else float(np.float32(bound))


def decimal_text(value: Decimal) -> bytes:
    """The text that is hashed for a decimal: without an exponent and trailing zeros, and 0 without a sign."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return b"0" if text == "-0" else text.encode()


def char_text(value: str, length: int) -> bytes:
    """The text that is hashed for a value of CHAR(`length`)."""
    return value[:length].ljust(length).encode()


def timestamp_millis(first: int, last: int) -> list[int]:
    """Every number of milliseconds that may have been hashed for a timestamp between `first` and `last`.

    Both are nanoseconds since 1970, at most a millisecond apart: a reader with microseconds reads 1,000 nanoseconds as
    one value. The result includes the milliseconds rounded down and rounded towards 1970. Within a day of 1970 in the
    clock of any zone, it also includes the milliseconds a second earlier, for values of the last second before 1970
    that are read back as in the first second after it.
    """
    millis = {bound // _MILLISECOND for bound in (first, last)}
    millis |= {-(-bound // _MILLISECOND) for bound in (first, last) if bound < 0}
    millis |= {each - _SECOND for each in millis if abs(each) < _DAY}
    return sorted(millis)
