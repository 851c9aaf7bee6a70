"""Forged tails and stripe footers: what is read from them, and which errors they raise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloomparquet.errors import EncryptionError, FormatError, LimitError, UnsupportedError
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc import stripe_indexes as indexes
from bloomparquet.orc.bloom_filter import OrcBloomFilter, hash_longs
from bloomparquet.orc.file_tail import Tail, read_tails
from bloomparquet.orc.statistics import Statistics, StatisticsKind, parse_statistics
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER, BLOOM_FILTER_UTF8, ROW_INDEX
from bloomparquet.orc.writer_quirks import why_filters_unusable
from bloomparquet.storage.files import ReadCount
from tests.support.orc import OrcFile, bloom_message, filter_of, forge, list_files, tail_of


def row_index(groups: int = 1, values: int = 10) -> bytes:
    index = messages.RowIndex()
    for _ in range(groups):
        statistics = messages.ColumnStatistics(number_of_values=values, has_null=False)
        statistics.int_statistics.minimum, statistics.int_statistics.maximum = -3, 7
        index.entry.add(statistics=statistics.SerializeToString())
    data: bytes = index.SerializeToString()
    return data


def filters(*blooms: OrcBloomFilter, utf8: bool = True) -> bytes:
    data: bytes = messages.BloomFilterIndex(
        bloom_filter=[bloom_message(each, utf8=utf8) for each in blooms]
    ).SerializeToString()
    return data


def filled(*values: int) -> OrcBloomFilter:
    return filter_of(hash_longs(np.array(values)))


@pytest.mark.parametrize("utf8", [True, False])
def test_both_kinds_of_streams_are_read(tmp_path: Path, utf8: bool) -> None:
    kind = BLOOM_FILTER_UTF8 if utf8 else BLOOM_FILTER
    file = OrcFile.open(
        forge(tmp_path / "f", {(ROW_INDEX, 1): row_index(), (kind, 1): filters(filled(1, 2), utf8=utf8)})
    )
    filters_read = file.filters("c0")
    (stripe,) = file.stripes
    assert (stripe.filter_kind(1), stripe.bloom_encoding(1), len(filters_read)) == (kind, 1, 1)
    assert filters_read[0].check(hash_longs(np.array([1, 2, 3]))).tolist() == [True, True, False]
    assert file.statistics("c0") == (Statistics(StatisticsKind.INTEGER, 10, False, -3, 7),)
    assert why_filters_unusable(file.tail, 1, stripe) is None


@pytest.mark.parametrize(
    ("stream", "error", "says"),
    [
        (b"", FormatError, "there are 0 of them"),
        (filters(filled(1), filled(2)), FormatError, "there are 2 of them; expected 1"),
        (messages.BloomFilterIndex(bloom_filter=[messages.BloomFilter()]).SerializeToString(), FormatError, "0 hash"),
        (filters(filled(1), utf8=False), UnsupportedError, "layout"),
        (b"\x0a\xff\xff\xff\xff\x0f", FormatError, "6 bytes. is no Elements message"),
        (b"\x0b\x0c", FormatError, "there are 0 of them; expected 1"),
    ],
)
def test_impossible_filters_are_errors_that_name_the_row_group(
    tmp_path: Path, stream: bytes, error: type[Exception], says: str
) -> None:
    file = OrcFile.open(forge(tmp_path / "f", {(BLOOM_FILTER_UTF8, 1): stream}))
    with pytest.raises(error, match=says) as raised:
        file.filters("c0")
    assert f"{tmp_path / 'f'}: the Bloom filters of column 1 in stripe 0" in str(raised.value)


@pytest.mark.parametrize("groups", [0, 2, 50])
def test_a_wrong_number_of_row_index_entries_is_a_format_error(tmp_path: Path, groups: int) -> None:
    file = OrcFile.open(forge(tmp_path / "f", {(ROW_INDEX, 1): row_index(groups) or b"\x10\x00"}))
    with pytest.raises(FormatError, match=f"there are {groups} of them; expected 1"):
        file.statistics("c0")


def test_an_entry_without_statistics_is_none(tmp_path: Path) -> None:
    file = OrcFile.open(forge(tmp_path / "f", {(ROW_INDEX, 1): b"\x0a\x00"}))
    assert file.statistics("c0") == (None,)


@pytest.mark.parametrize(
    "change",
    [
        lambda message: setattr(message.streams[0], "length", 2**40),
        lambda message: [message.streams.add(kind=ROW_INDEX, column=1, length=0) for _ in range(2)],
        lambda message: message.streams.add(kind=1, column=1, length=2**63),
        lambda message: [message.columns.add() for _ in range(5)],
    ],
    ids=["longer stream", "many streams", "data beyond the stripe", "too many encodings"],
)
def test_a_wrong_stripe_footer_is_a_format_error(tmp_path: Path, change: Callable[[Any], None]) -> None:
    with pytest.raises(FormatError, match="the footer of stripe 0"):
        OrcFile.open(forge(tmp_path / "f", {(ROW_INDEX, 1): row_index()}, stripe_footer=change))


def stripe_at(**values: int) -> Callable[[Any], None]:
    def change(footer: Any) -> None:
        for name, value in values.items():
            setattr(footer.stripes[0], name, value)

    return change


def typed(change: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda footer: change(footer.types)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (stripe_at(offset=2**63), FormatError, "stripe 0 claims"),
        (stripe_at(index_length=2**64 - 1), FormatError, "stripe 0 claims"),
        (stripe_at(footer_length=2**40), FormatError, "stripe 0 claims"),
        (lambda footer: footer.ClearField("types"), FormatError, "no types"),
        (typed(lambda types: types[0].MergeFrom(types[0])), FormatError, "has the child 1; expected"),
        (typed(lambda types: types[0].subtypes.extend([2**32 - 1] * 9)), FormatError, "more children"),
        (typed(lambda types: types[1].subtypes.append(0)), FormatError, "has the child 0; expected"),
        (typed(lambda types: types[0].field_names.append(b"x")), FormatError, "STRUCT of 1 children; expected 2"),
        (typed(lambda types: types[1].ClearField("kind")), FormatError, "no kind"),
        (typed(lambda types: types[0].field_names.__setitem__(0, b"\xff")), FormatError, "UTF-8"),
        (lambda footer: setattr(footer, "encryption", b"\x0a\x00"), EncryptionError, "encrypted columns"),
        (lambda footer: setattr(footer, "encryption", b""), EncryptionError, "encrypted columns"),
    ],
)
def test_a_wrong_footer_is_an_error_that_names_the_file(
    tmp_path: Path, change: Callable[[Any], None], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as raised:
        tail_of(forge(tmp_path / "file.orc", {}, footer=change))
    assert str(tmp_path / "file.orc") in str(raised.value)


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        ({"footer_length": 2**63}, FormatError, "claims a footer"),
        ({"metadata_length": 2**40}, FormatError, "claims a footer"),
        ({"compression": 17}, UnsupportedError, "number 17"),
        ({"compression": 3}, UnsupportedError, "LZO"),
        ({"compression": 1, "compression_block_size": 0}, FormatError, "block size of 0"),
        ({"compression": 1, "compression_block_size": 2**23}, FormatError, "block size"),
        ({"compression": 1}, FormatError, "chunk"),
    ],
)
def test_a_wrong_postscript_is_an_error(
    tmp_path: Path, values: dict[str, int], error: type[Exception], says: str
) -> None:
    def change(postscript: Any) -> None:
        for name, value in values.items():
            setattr(postscript, name, value)

    with pytest.raises(error, match=says):
        tail_of(forge(tmp_path / "f", {}, postscript=change))


@pytest.mark.parametrize("content", [b"", b"O", b"ORC", b"hello, world", b"PAR1" * 20, bytes(300), b"\xff" * 300])
def test_a_file_that_is_not_orc_is_named_and_others_are_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    forge(tmp_path / "b", {})
    storage, files = list_files(tmp_path)
    bad, good = read_tails(storage, files, ReadCount())
    assert isinstance(bad, FormatError)
    assert str(tmp_path / "a") in str(bad)
    assert isinstance(good, Tail)


def test_an_old_file_has_its_magic_in_front_only(tmp_path: Path) -> None:
    path = forge(tmp_path / "f", {}, postscript=lambda message: message.ClearField("magic"))
    assert tail_of(path).rows == 10
    path.write_bytes(b"XRC" + path.read_bytes()[3:])
    with pytest.raises(FormatError, match="neither of its ends"):
        tail_of(path)


def test_a_tail_beyond_the_first_read_is_read_again(tmp_path: Path) -> None:
    def change(footer: Any) -> None:
        footer.software_version = b"x" * 100_000

    path = forge(tmp_path / "f", {}, footer=change)
    storage, files = list_files(path)
    count = ReadCount()
    (tail,) = read_tails(storage, files, count)
    assert isinstance(tail, Tail)
    assert count.requests == 2
    assert tail.size > 100_000


def test_too_many_elements_are_a_limit_error() -> None:
    with pytest.raises(LimitError, match="fields"):
        messages.parse(messages.Footer, b"\x22\x00" * (messages.MAX_ELEMENTS + 1), "it")


def test_stripe_statistics_must_match_stripes_and_columns(tmp_path: Path) -> None:
    def metadata(stripes: int, columns: int) -> bytes:
        message = messages.Metadata()
        for _ in range(stripes):
            each = message.stripe_stats.add()
            for _ in range(columns):
                each.col_stats.add(number_of_values=4)
        data: bytes = message.SerializeToString()
        return data

    assert tail_of(forge(tmp_path / "f", {})).stripe_statistics(0, 1) is None
    statistics = tail_of(forge(tmp_path / "f", {}, statistics=metadata(1, 2))).stripe_statistics(0, 1)
    assert statistics == Statistics(StatisticsKind.NONE, 4)
    for stripes, columns in ((2, 2), (1, 1), (1, 3)):
        with pytest.raises(FormatError, match="expected"):
            tail_of(forge(tmp_path / "f", {}, statistics=metadata(stripes, columns))).stripe_statistics(0, 1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (StatisticsKind.NONE, None, None)),
        ({"int_statistics": {}}, (StatisticsKind.INTEGER, None, None)),
        ({"string_statistics": {"lower_bound": b"a", "upper_bound": b"b"}}, (StatisticsKind.STRING, b"a", b"b")),
        ({"double_statistics": {"minimum": float("nan"), "maximum": 1.0}}, (StatisticsKind.DOUBLE, None, None)),
        ({"timestamp_statistics": {"minimum": 3, "maximum": 4}}, (StatisticsKind.TIMESTAMP, None, None)),
        (
            {"timestamp_statistics": {"minimum_utc": 10**12, "maximum_utc": 10**12, "minimum_nanos": 8}},
            (StatisticsKind.TIMESTAMP, 10**18 + 7, 10**18 + 999_999),
        ),
    ],
)
def test_missing_statistics_are_none(fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    statistics = parse_statistics(messages.ColumnStatistics(**fields).SerializeToString(), "it")
    assert (statistics.kind, statistics.minimum, statistics.maximum) == expected
    assert (statistics.non_nulls, statistics.has_null) == (None, None)


@pytest.mark.parametrize("text", [b"", b"abc", b"NaN", b"Infinity", b"\xff"])
def test_a_decimal_bound_that_is_no_number_is_an_error(text: bytes) -> None:
    message = messages.ColumnStatistics(decimal_statistics={"minimum": text})
    with pytest.raises(FormatError, match="decimal number"):
        parse_statistics(message.SerializeToString(), "it")


def test_statistics_of_two_kinds_are_a_format_error() -> None:
    message = messages.ColumnStatistics(int_statistics={"minimum": 1}, date_statistics={"minimum": 1})
    with pytest.raises(FormatError, match="two kinds"):
        parse_statistics(message.SerializeToString(), "it")


def test_a_stream_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OrcFile.open(forge(tmp_path / "f", {(ROW_INDEX, 1): row_index()}))
    monkeypatch.setattr(indexes, "MAX_STREAM", 5)
    count = ReadCount()
    (result,) = indexes.read_statistics(file.storage, [(file.stripes[0], 1)], count)
    assert isinstance(result, LimitError)
    assert count.requests == 0
