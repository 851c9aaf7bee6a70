"""What pyarrow's writer made, as far as it is in memory: the footer, and the filters.

Source: parquet-format ``README.md`` (file layout), ``BloomFilter.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from bloomparquet.errors import FormatError
from bloomparquet.parquet.bloom_filter.header import MAX_HEADER_BYTES, parse_header
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.metadata.file_tail import TRAILER
from bloomparquet.parquet.metadata.footer import Footer, parse_footer
from bloomparquet.writing.filters.locate import Extent, Place


def footer_of(end: memoryview) -> Footer:
    """The footer of a file that is not encrypted, of which `end` are the last bytes."""
    size = int.from_bytes(end[-TRAILER:-4], "little")
    return parse_footer(bytes(end[-TRAILER - size : -TRAILER]))


def filters_in(
    footer: Footer, end: memoryview, first: int = 0
) -> Iterator[tuple[Place, Extent, SplitBlockBloomFilter]]:
    """The filters in the bytes of a file from byte `first` on."""
    for row_group in range(len(footer.rows)):
        for leaf in range(len(footer.profile.schema.leaves)):
            offset = footer.read_chunk(row_group, leaf).bloom_offset
            if offset is None:
                continue
            if offset < first:
                raise FormatError(f"pyarrow {pa.__version__} wrote a Bloom filter before the file's end")
            at = offset - first
            header, size = parse_header(end[at : at + MAX_HEADER_BYTES])
            bitset = end[at + header : at + header + size]
            yield (row_group, leaf), (offset, offset + header + size), SplitBlockBloomFilter.from_bytes(bitset)
