"""The compression codecs of column chunks.

Source: parquet-format ``parquet.thrift`` (CompressionCodec).
"""

from __future__ import annotations

from contextlib import suppress

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.metadata.footer import Footer

_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")


def codec_name(number: int) -> str | None:
    """The name of the codec with this number; None for an unknown one."""
    return _CODECS[number] if 0 <= number < len(_CODECS) else None


def codec_of(footer: Footer, row_group: int, leaf: int) -> str | None:
    """The codec of a column chunk. None if the footer does not say it, or if it cannot be decrypted."""
    with suppress(BloomParquetError):
        return codec_name(footer.chunk_metadata(row_group, leaf).codec)
    return None
