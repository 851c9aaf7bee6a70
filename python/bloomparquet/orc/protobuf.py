"""ORC's protobuf messages, as far as they are read; their descriptors are made here from one table.

The ``protobuf`` library parses. The descriptors are made in code, in a pool of their own, so that no compiler is needed
and no other package's ``orc.proto`` conflicts. A field that is not in the table survives as an unknown field. Three
deviations from the published file change no byte of the encoding:

* enumerations are numbers, so that a value of a future release does not read as "absent";
* strings are bytes, because writers cut them anywhere, and their order is that of the bytes;
* the statistics of a row group and the encryption of a file are the bytes of their messages, parsed only on demand.

Source: apache/orc-format ``orc_proto.proto``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.storage.varint import read_varint

_PACKAGE = "bloomparquet.orc"

MAX_ELEMENTS = 1 << 18
"""The most fields of one message: no file has so many columns, stripes or row groups. Without a limit, an element of
two bytes would take a hundred bytes of memory."""

_TABLE = {
    "PostScript": """
        1 footer_length uint64, 2 compression uint32, 3 compression_block_size uint64, 4 version packed uint32,
        5 metadata_length uint64, 6 writer_version uint32, 7 stripe_statistics_length uint64, 8000 magic bytes""",
    "Footer": """
        3 stripes repeated StripeInformation, 4 types repeated Type, 6 number_of_rows uint64,
        8 row_index_stride uint32, 9 writer uint32, 10 encryption bytes, 11 calendar uint32,
        12 software_version bytes""",
    "StripeInformation": """
        1 offset uint64, 2 index_length uint64, 3 data_length uint64, 4 footer_length uint64, 5 number_of_rows uint64
        """,
    "Type": """
        1 kind uint32, 2 subtypes packed uint32, 3 field_names repeated bytes, 4 maximum_length uint32,
        5 precision uint32, 6 scale uint32, 7 attributes repeated StringPair""",
    "StringPair": "1 key bytes, 2 value bytes",
    "Metadata": "1 stripe_stats repeated StripeStatistics",
    "StripeStatistics": "1 col_stats repeated ColumnStatistics",
    "ColumnStatistics": """
        1 number_of_values uint64, 2 int_statistics IntegerStatistics, 3 double_statistics DoubleStatistics,
        4 string_statistics StringStatistics, 5 bucket_statistics BucketStatistics,
        6 decimal_statistics DecimalStatistics, 7 date_statistics DateStatistics, 8 binary_statistics BinaryStatistics,
        9 timestamp_statistics TimestampStatistics, 10 has_null bool, 11 bytes_on_disk uint64,
        12 collection_statistics CollectionStatistics""",
    "IntegerStatistics": "1 minimum sint64, 2 maximum sint64, 3 sum sint64",
    "DoubleStatistics": "1 minimum double, 2 maximum double, 3 sum double",
    "StringStatistics": "1 minimum bytes, 2 maximum bytes, 3 sum sint64, 4 lower_bound bytes, 5 upper_bound bytes",
    "BucketStatistics": "1 count packed uint64",
    "DecimalStatistics": "1 minimum bytes, 2 maximum bytes, 3 sum bytes",
    "DateStatistics": "1 minimum sint32, 2 maximum sint32",
    "BinaryStatistics": "1 sum sint64",
    "TimestampStatistics": """
        1 minimum sint64, 2 maximum sint64, 3 minimum_utc sint64, 4 maximum_utc sint64, 5 minimum_nanos int32,
        6 maximum_nanos int32""",
    "CollectionStatistics": "1 min_children uint64, 2 max_children uint64, 3 total_children uint64",
    "StripeFooter": """
        1 streams repeated Stream, 2 columns repeated ColumnEncoding, 3 writer_timezone bytes,
        4 encryption repeated bytes""",
    "Stream": "1 kind uint32, 2 column uint32, 3 length uint64",
    "ColumnEncoding": "1 kind uint32, 2 dictionary_size uint32, 3 bloom_encoding uint32",
    "RowIndex": "1 entry repeated RowIndexEntry",
    "RowIndexEntry": "2 statistics bytes",
    "BloomFilterIndex": "1 bloom_filter repeated BloomFilter",
    "Elements": "1 element repeated bytes",
    "BloomFilter": "1 num_hash_functions uint32, 2 bitset repeated fixed64, 3 utf8bitset bytes",
}


def _field(text: str) -> FieldDescriptorProto:
    number, name, *labels, kind = text.split()
    field = FieldDescriptorProto(name=name, number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL)
    if labels:
        field.label = FieldDescriptorProto.LABEL_REPEATED
    if labels == ["packed"]:
        field.options.packed = True
    if kind in _TABLE:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}")
    return field


def _message_classes() -> dict[str, Any]:
    file = FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2")
    file.message_type.extend(
        DescriptorProto(name=name, field=map(_field, fields.split(","))) for name, fields in _TABLE.items()
    )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _TABLE}


_CLASSES = _message_classes()

PostScript = _CLASSES["PostScript"]
Footer = _CLASSES["Footer"]
Type = _CLASSES["Type"]
Metadata = _CLASSES["Metadata"]
StripeStatistics = _CLASSES["StripeStatistics"]
ColumnStatistics = _CLASSES["ColumnStatistics"]
StripeFooter = _CLASSES["StripeFooter"]
ColumnEncoding = _CLASSES["ColumnEncoding"]
RowIndex = _CLASSES["RowIndex"]
RowIndexEntry = _CLASSES["RowIndexEntry"]
BloomFilterIndex = _CLASSES["BloomFilterIndex"]
BloomFilter = _CLASSES["BloomFilter"]
_SMALL = 1 << 20  # bytes that hold too few elements to do harm


def parse(message: Any, data: bytes | memoryview, what: str) -> Any:
    """Parse `data` as a `message`, one of the classes above. `what` names the data in errors.

    Raises FormatError if `data` is not such a message, LimitError if it has more than :data:`MAX_ELEMENTS` fields.
    """
    _scan(data, what)
    return parse_uncounted(message, data, what)


def parse_uncounted(message: Any, data: bytes | memoryview, what: str) -> Any:
    """Parse without the limit of :func:`parse`: for a message without repeated fields, or whose fields were counted."""
    parsed = message()
    try:
        parsed.ParseFromString(bytes(data))
    except DecodeError as error:
        raise FormatError(f"{what} ({len(data)} bytes) is no {message.DESCRIPTOR.name} message: {error}") from error
    return parsed


def elements(data: bytes | memoryview, what: str) -> Sequence[bytes | memoryview]:
    """The bytes of every element of the repeated message field 1, in order, not parsed. Errors are those of
    :func:`parse`."""
    if len(data) < _SMALL:
        return list(parse_uncounted(_CLASSES["Elements"], data, what).element)
    return _scan(data, what)


def _scan(data: bytes | memoryview, what: str) -> list[memoryview]:
    """Count the fields of a message, and collect the elements of field 1."""
    view = memoryview(data)
    collected: list[memoryview] = []
    position = fields = 0
    try:
        while position < len(view):
            tag, position = read_varint(view, position)
            wire_type, start = tag & 7, position
            if wire_type == 2:
                size, start = read_varint(view, position)
                position = start + size
            elif wire_type == 0:
                position = read_varint(view, position)[1]
            elif wire_type in (1, 5):
                position += 8 if wire_type == 1 else 4
            else:
                raise FormatError(f"{what}: a field of wire type {wire_type} at byte {position}; expected 0, 1, 2 or 5")
            if position > len(view):
                raise IndexError
            if wire_type == 2 and tag >> 3 == 1:
                collected.append(view[start:position])
            fields += 1
            if fields > MAX_ELEMENTS:
                raise LimitError(f"{what} has more than {MAX_ELEMENTS} fields; it is damaged, or made to do harm")
    except IndexError:
        raise FormatError(f"{what} ({len(view)} bytes) ends in the middle of a field; it is truncated") from None
    except OverflowError:
        raise FormatError(f"{what}: an integer at byte {position} is longer than 64 bits") from None
    return collected
