"""The structs of ``parquet.thrift`` that this project reads or writes, with the names of the format.

A field that no code here uses is left out; it survives reading and writing anyway.

Source: parquet-format ``src/main/thrift/parquet.thrift``.
"""

from __future__ import annotations

from bloomparquet.parquet.thrift.struct import (
    BINARY,
    BYTE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Field,
    RequiredField,
    ThriftStruct,
)

PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
"""The enum Type: a name's index is its number in a file."""
REPETITIONS = ("REQUIRED", "OPTIONAL", "REPEATED")
"""The enum FieldRepetitionType."""


class Empty(ThriftStruct):
    """A union member without fields: its presence is the value."""


class Statistics(ThriftStruct):
    max = Field[bytes](1, BINARY)
    min = Field[bytes](2, BINARY)
    null_count = Field[int](3, I64)
    max_value = Field[bytes](5, BINARY)
    min_value = Field[bytes](6, BINARY)
    nan_count = Field[int](9, I64)


class DecimalType(ThriftStruct):
    scale = RequiredField[int](1, I32)
    precision = RequiredField[int](2, I32)


class TimeUnit(ThriftStruct):
    """A union."""

    MILLIS = Field[Empty](1, STRUCT, struct=Empty)
    MICROS = Field[Empty](2, STRUCT, struct=Empty)
    NANOS = Field[Empty](3, STRUCT, struct=Empty)


class TimeType(ThriftStruct):
    """TimeType and TimestampType, which have the same fields."""

    is_adjusted_to_utc = Field[bool](1, TRUE)
    unit = Field[TimeUnit](2, STRUCT, struct=TimeUnit)


class IntType(ThriftStruct):
    bit_width = Field[int](1, BYTE)
    is_signed = Field[bool](2, TRUE)


class LogicalType(ThriftStruct):
    """A union."""

    STRING = Field[Empty](1, STRUCT, struct=Empty)
    MAP = Field[Empty](2, STRUCT, struct=Empty)
    LIST = Field[Empty](3, STRUCT, struct=Empty)
    ENUM = Field[Empty](4, STRUCT, struct=Empty)
    DECIMAL = Field[DecimalType](5, STRUCT, struct=DecimalType)
    DATE = Field[Empty](6, STRUCT, struct=Empty)
    TIME = Field[TimeType](7, STRUCT, struct=TimeType)
    TIMESTAMP = Field[TimeType](8, STRUCT, struct=TimeType)
    INTEGER = Field[IntType](10, STRUCT, struct=IntType)
    UNKNOWN = Field[Empty](11, STRUCT, struct=Empty)
    JSON = Field[Empty](12, STRUCT, struct=Empty)
    BSON = Field[Empty](13, STRUCT, struct=Empty)
    UUID = Field[Empty](14, STRUCT, struct=Empty)
    FLOAT16 = Field[Empty](15, STRUCT, struct=Empty)
    VARIANT = Field[Empty](16, STRUCT, struct=Empty)
    GEOMETRY = Field[Empty](17, STRUCT, struct=Empty)
    GEOGRAPHY = Field[Empty](18, STRUCT, struct=Empty)


class SchemaElement(ThriftStruct):
    type = Field[int](1, I32)
    type_length = Field[int](2, I32)
    repetition_type = Field[int](3, I32)
    name = Field[bytes](4, BINARY)
    num_children = Field[int](5, I32)
    converted_type = Field[int](6, I32)
    scale = Field[int](7, I32)
    precision = Field[int](8, I32)
    field_id = Field[int](9, I32)
    logical_type = Field[LogicalType](10, STRUCT, struct=LogicalType)


class KeyValue(ThriftStruct):
    key = Field[bytes](1, BINARY)
    value = Field[bytes](2, BINARY)


class AesGcm(ThriftStruct):
    """AesGcmV1 and AesGcmCtrV1, which have the same fields."""

    aad_prefix = Field[bytes](1, BINARY)
    aad_file_unique = Field[bytes](2, BINARY)
    supply_aad_prefix = Field[bool](3, TRUE)


class EncryptionAlgorithm(ThriftStruct):
    """A union."""

    AES_GCM_V1 = Field[AesGcm](1, STRUCT, struct=AesGcm)
    AES_GCM_CTR_V1 = Field[AesGcm](2, STRUCT, struct=AesGcm)


class FileCryptoMetaData(ThriftStruct):
    """The struct in front of an encrypted footer."""

    encryption_algorithm = RequiredField[EncryptionAlgorithm](1, STRUCT, struct=EncryptionAlgorithm)
    key_metadata = Field[bytes](2, BINARY)


class EncryptionWithColumnKey(ThriftStruct):
    path_in_schema = RequiredField[list[bytes]](1, LIST, element=BINARY)
    key_metadata = Field[bytes](2, BINARY)


class ColumnCryptoMetaData(ThriftStruct):
    """A union."""

    ENCRYPTION_WITH_FOOTER_KEY = Field[Empty](1, STRUCT, struct=Empty)
    ENCRYPTION_WITH_COLUMN_KEY = Field[EncryptionWithColumnKey](2, STRUCT, struct=EncryptionWithColumnKey)


class PageEncodingStats(ThriftStruct):
    page_type = RequiredField[int](1, I32)
    encoding = RequiredField[int](2, I32)
    count = RequiredField[int](3, I32)


class ColumnMetaData(ThriftStruct):
    type = RequiredField[int](1, I32)
    encodings = RequiredField[list[int]](2, LIST, element=I32)
    path_in_schema = RequiredField[list[bytes]](3, LIST, element=BINARY)
    codec = RequiredField[int](4, I32)
    num_values = RequiredField[int](5, I64)
    total_uncompressed_size = RequiredField[int](6, I64)
    total_compressed_size = RequiredField[int](7, I64)
    data_page_offset = RequiredField[int](9, I64)
    index_page_offset = Field[int](10, I64)
    dictionary_page_offset = Field[int](11, I64)
    statistics = Field[Statistics](12, STRUCT, struct=Statistics)
    encoding_stats = Field[list[PageEncodingStats]](13, LIST, struct=PageEncodingStats)
    bloom_filter_offset = Field[int](14, I64)
    bloom_filter_length = Field[int](15, I32)


class ColumnChunk(ThriftStruct):
    file_path = Field[bytes](1, BINARY)
    file_offset = Field[int](2, I64)
    meta_data = Field[ColumnMetaData](3, STRUCT, struct=ColumnMetaData)
    offset_index_offset = Field[int](4, I64)
    offset_index_length = Field[int](5, I32)
    column_index_offset = Field[int](6, I64)
    column_index_length = Field[int](7, I32)
    crypto_metadata = Field[ColumnCryptoMetaData](8, STRUCT, struct=ColumnCryptoMetaData)
    encrypted_column_metadata = Field[bytes](9, BINARY)


class RowGroup(ThriftStruct):
    columns = RequiredField[list[ColumnChunk]](1, LIST, struct=ColumnChunk)
    total_byte_size = RequiredField[int](2, I64)
    num_rows = RequiredField[int](3, I64)
    file_offset = Field[int](5, I64)
    total_compressed_size = Field[int](6, I64)
    ordinal = Field[int](7, I16)


class ColumnOrder(ThriftStruct):
    """A union."""

    TYPE_ORDER = Field[Empty](1, STRUCT, struct=Empty)
    IEEE_754_TOTAL_ORDER = Field[Empty](2, STRUCT, struct=Empty)


class FileMetaData(ThriftStruct):
    version = RequiredField[int](1, I32)
    schema = RequiredField[list[SchemaElement]](2, LIST, struct=SchemaElement)
    num_rows = RequiredField[int](3, I64)
    row_groups = RequiredField[list[RowGroup]](4, LIST, struct=RowGroup)
    key_value_metadata = Field[list[KeyValue]](5, LIST, struct=KeyValue)
    created_by = Field[bytes](6, BINARY)
    column_orders = Field[list[ColumnOrder]](7, LIST, struct=ColumnOrder)
    encryption_algorithm = Field[EncryptionAlgorithm](8, STRUCT, struct=EncryptionAlgorithm)
    footer_signing_key_metadata = Field[bytes](9, BINARY)


class DataPageHeader(ThriftStruct):
    num_values = RequiredField[int](1, I32)
    encoding = RequiredField[int](2, I32)
    definition_level_encoding = RequiredField[int](3, I32)
    repetition_level_encoding = RequiredField[int](4, I32)


class DictionaryPageHeader(ThriftStruct):
    num_values = RequiredField[int](1, I32)
    encoding = RequiredField[int](2, I32)


class DataPageHeaderV2(ThriftStruct):
    num_values = RequiredField[int](1, I32)
    num_nulls = RequiredField[int](2, I32)
    num_rows = RequiredField[int](3, I32)
    encoding = RequiredField[int](4, I32)
    definition_levels_byte_length = RequiredField[int](5, I32)
    repetition_levels_byte_length = RequiredField[int](6, I32)
    is_compressed = Field[bool](7, TRUE)


class PageHeader(ThriftStruct):
    type = RequiredField[int](1, I32)
    uncompressed_page_size = RequiredField[int](2, I32)
    compressed_page_size = RequiredField[int](3, I32)
    crc = Field[int](4, I32)
    data_page_header = Field[DataPageHeader](5, STRUCT, struct=DataPageHeader)
    dictionary_page_header = Field[DictionaryPageHeader](7, STRUCT, struct=DictionaryPageHeader)
    data_page_header_v2 = Field[DataPageHeaderV2](8, STRUCT, struct=DataPageHeaderV2)


class PageLocation(ThriftStruct):
    offset = RequiredField[int](1, I64)
    compressed_page_size = RequiredField[int](2, I32)
    first_row_index = RequiredField[int](3, I64)


class OffsetIndex(ThriftStruct):
    page_locations = RequiredField[list[PageLocation]](1, LIST, struct=PageLocation)


class BloomFilterAlgorithm(ThriftStruct):
    """A union."""

    BLOCK = Field[Empty](1, STRUCT, struct=Empty)


class BloomFilterHash(ThriftStruct):
    """A union."""

    XXHASH = Field[Empty](1, STRUCT, struct=Empty)


class BloomFilterCompression(ThriftStruct):
    """A union."""

    UNCOMPRESSED = Field[Empty](1, STRUCT, struct=Empty)


class BloomFilterHeader(ThriftStruct):
    num_bytes = RequiredField[int](1, I32)
    algorithm = RequiredField[BloomFilterAlgorithm](2, STRUCT, struct=BloomFilterAlgorithm)
    hash = RequiredField[BloomFilterHash](3, STRUCT, struct=BloomFilterHash)
    compression = RequiredField[BloomFilterCompression](4, STRUCT, struct=BloomFilterCompression)
