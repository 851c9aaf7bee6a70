"""How a column chunk is stored: its codec, and whether it has a page index.

Source: parquet-format ``parquet.thrift`` (ColumnChunk, CompressionCodec), ``PageIndex.md``.
"""

from __future__ import annotations

from contextlib import suppress

from bloomparquet.errors import FormatError
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.thrift.definitions import ColumnChunk, ColumnMetaData
from bloomparquet.parquet.thrift.numbers import Numbers, read_numbers

_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")


def has_page_index(footer: Footer) -> bool:
    """Whether the first column chunk of a file has an offset index: writers give one to all chunks or to none."""
    return footer.chunks.size > 0 and bool(_numbers(footer, 0, 0).get(ColumnChunk.offset_index_offset.id))


def codec_of(footer: Footer, row_group: int, leaf: int) -> str | None:
    """The codec of a column chunk. None if the footer does not say it, or says it encrypted."""
    metadata = _numbers(footer, row_group, leaf).get(ColumnChunk.meta_data.id)
    number = metadata.get(ColumnMetaData.codec.id) if isinstance(metadata, dict) else None
    return _CODECS[number] if isinstance(number, int) and 0 <= number < len(_CODECS) else None


def _numbers(footer: Footer, row_group: int, leaf: int) -> Numbers:
    with suppress(FormatError):  # a form of its own, which other readers of the footer may accept
        return read_numbers(footer.raw, int(footer.chunks[row_group, leaf]))[0]
    return {}
