"""Changes messages and index streams of real, uncompressed ORC files, and keeps their data.

Fields that :mod:`bloomparquet.orc.protobuf` does not know survive.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc

from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.compression import Codec
from bloomparquet.orc.file_tail import MAX_SECTION, Tail
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER, BLOOM_FILTER_UTF8, ROW_INDEX
from tests.support.orc import OrcFile, footer_message

Edit = Callable[[Any], None]


def write(path: Path, table: pa.Table, *, stripe: int = 300, stride: int = 100, **options: Any) -> str:
    """Write a file with pyarrow: stripes and row groups of so many rows, a filter for every column, nested ones too.
    Not compressed, unless `options` say so.

    Each stripe is first written to a file of its own: rows alone do not decide where the writer ends a stripe.
    """
    defaults = {"bloom_filter_columns": list(range(1, 60)), "bloom_filter_fpp": 0.05, "compression": "uncompressed"}
    bodies, tails = bytearray(b"ORC"), []
    for at in range(0, max(table.num_rows, 1), stripe):
        # pyarrow takes the fields of a slice's structs from the rows before it.
        rows = table.take(pa.array(range(at, min(at + stripe, table.num_rows)), pa.int64()))
        orc.write_table(rows, path, row_index_stride=stride, **{**defaults, **options})
        data, file = path.read_bytes(), OrcFile.open(path)
        tails.append((file.tail, footer_message(data, file.tail.compression), len(bodies)))
        bodies += b"".join(data[each.offset : each.offset + each.length] for each in file.tail.stripes)
    if len(tails) > 1:
        last = file.tail
        footer = footer_message(data, last.compression)
        del footer.stripes[:]
        for _, each, start in tails:
            footer.stripes.add().CopyFrom(each.stripes[0])
            footer.stripes[-1].offset = start
        footer.number_of_rows = table.num_rows
        plain = [tail.compression.decompress(tail.raw[tail.metadata], MAX_SECTION) for tail, _, _ in tails]
        ends = [_stored(last, b"".join(plain)), _stored(last, footer.SerializeToString())]
        postscript = messages.PostScript.FromString(data[-1 - data[-1] : -1])
        postscript.metadata_length, postscript.footer_length = map(len, ends)
        end = postscript.SerializeToString()
        path.write_bytes(bytes(bodies) + b"".join(ends) + end + bytes([len(end)]))
    return str(path)


def _stored(tail: Tail, plain: bytes) -> bytes:
    """`plain` as a section of the tail: in a compressed file, one uncompressed chunk."""
    return plain if tail.compression.codec == Codec.NONE else (len(plain) << 1 | 1).to_bytes(3, "little") + plain


def rewrite(
    path: Path | str,
    *,
    stream: Callable[[int, int, bytes], bytes | None] = lambda kind, column, data: data,
    stripe_footer: Edit = lambda _: None,
    statistics: Callable[[bytes], bytes] = lambda data: data,
    footer: Edit = lambda _: None,
    postscript: Edit = lambda _: None,
) -> str:
    """Change the file at `path` in place: ``stream(kind, column, data)`` returns each index stream (None removes it),
    `statistics` the Metadata message; the other callables change messages."""
    data, file = Path(path).read_bytes(), OrcFile.open(path)
    tail = footer_message(data, file.tail.compression)
    body = bytearray(b"ORC")
    for stripe, info in zip(file.tail.stripes, tail.stripes, strict=True):
        end = messages.StripeFooter.FromString(data[stripe.footer_offset : stripe.offset + stripe.length])
        info.offset, at, streams = len(body), stripe.offset, list(end.streams)
        del end.streams[:]
        for each in streams:
            changed: bytes | None = data[at : at + each.length]
            at += each.length
            if each.kind in (ROW_INDEX, BLOOM_FILTER, BLOOM_FILTER_UTF8):
                changed = stream(each.kind, each.column, changed or b"")
                if changed is None:
                    continue
                each.length = len(changed)
                body += changed
            end.streams.append(each)
        info.index_length = len(body) - info.offset
        body += data[stripe.offset + stripe.index_length : stripe.footer_offset]
        stripe_footer(end)
        last = end.SerializeToString()
        info.footer_length = len(last)
        body += last
    footer(tail)
    middle, last = statistics(file.tail.raw[file.tail.metadata]), tail.SerializeToString()
    size = data[-1]
    closing = messages.PostScript.FromString(data[-1 - size : -1])
    closing.footer_length, closing.metadata_length = len(last), len(middle)
    postscript(closing)
    end_of_file = closing.SerializeToString()
    Path(path).write_bytes(bytes(body) + middle + last + end_of_file + bytes([len(end_of_file)]))
    return str(path)


def drop_statistics(path: Path | str, *, stripes: bool = True, row_groups: bool = True) -> str:
    """Remove the statistics of stripes, of row groups, or both."""

    def without(kind: int, column: int, data: bytes) -> bytes:
        if kind != ROW_INDEX or not row_groups:
            return data
        index = messages.RowIndex.FromString(data)
        for entry in index.entry:
            entry.ClearField("statistics")
        return bytes(index.SerializeToString())

    return rewrite(path, stream=without, statistics=lambda data: b"" if stripes else data)
