"""How a column chunk is stored: its codec, and whether it has a page index.

Source: parquet-format ``parquet.thrift`` (ColumnChunk, CompressionCodec), ``PageIndex.md``.
"""

from __future__ import annotations

from contextlib import suppress

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.thrift.definitions import ColumnChunk
from bloomparquet.parquet.thrift.numbers import read_numbers

_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")


def has_page_index(footer: Footer) -> bool:
    """Whether the first column chunk of a file has an offset index: writers give one to all chunks or to none."""
    if not footer.chunks.size:
        return False
    with suppress(FormatError):  # a form of its own, which other readers of the footer may accept
        chunk, _ = read_numbers(footer.raw, int(footer.chunks[0, 0]))
        return bool(chunk.get(ColumnChunk.offset_index_offset.id))
    return False


def codec_of(footer: Footer, row_group: int, leaf: int) -> str | None:
    """The codec of a column chunk. None if the footer does not say it, or if it cannot be decrypted."""
    with suppress(BloomParquetError):
        number = footer.chunk_metadata(row_group, leaf).codec
        return _CODECS[number] if 0 <= number < len(_CODECS) else None
    return None
