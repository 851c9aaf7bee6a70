"""What the files of one writer and schema share: parsed once, and recognised by its bytes in the footers of the others.

Source: parquet-format ``parquet.thrift`` (FileMetaData, KeyValue, ColumnOrder), ``Encryption.md`` (section 5.2).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

from bloomparquet.errors import FormatError
from bloomparquet.parquet.encryption.modules import Algorithm
from bloomparquet.parquet.metadata.column_chunks import ChunkTemplates, TemplatePool
from bloomparquet.parquet.metadata.schema import parse_schema
from bloomparquet.parquet.thrift.definitions import ColumnOrder, FileMetaData
from bloomparquet.parquet.thrift.reader import CompactReader, read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.columns import FileSchema

_NO_ROW_GROUPS = b"\x29\x0c"  # field 4, where field 2 stands before it: a list of no structs
_ROW_GROUPS_FIRST = b"\x49\x0c"  # the same, where no field stands before it
_SPARK, _LEGACY_INT96 = _TELLING = ("org.apache.spark.version", "org.apache.spark.legacyINT96")


@dataclass(frozen=True, slots=True)
class WriterTraits:
    """What the footer says about how values were written, as far as it changes which bytes a value was hashed as, or
    which bounds can be trusted."""

    spark: bool  # written by Apache Spark; other writers hand its key-value metadata on, but not its created_by
    legacy_int96: bool  # INT96 in the calendar and time zone of the writer
    altered_text: (
        bool  # some string column is CHAR(n)/VARCHAR(n) or has a collation: equal strings may be unequal bytes
    )
    column_orders: tuple[bool, ...]  # per leaf: its min_value and max_value are in the type's defined order


@dataclass(frozen=True, eq=False)
class FileProfile:
    """What files of one writer and schema share; compared by identity, shared between footers.

    `skeleton` is a serialised FileMetaData without row groups, and without what is about one file only, from which
    :func:`bloomparquet.parquet.metadata.footer.parse_footer` makes the same layout.
    """

    schema: FileSchema
    traits: WriterTraits
    templates: tuple[ChunkTemplates, ...]  # per leaf
    skeleton: bytes


class Signing(NamedTuple):
    """What a footer in plain text says of its signature, which is what is left of the footer."""

    algorithm: Algorithm
    key_metadata: bytes | None
    signature_bytes: int


_schemas_lock = threading.Lock()
_schemas: list[tuple[bytes, FileSchema, tuple[ChunkTemplates, ...]]] = []
_layouts: dict[tuple[int, bool, WriterTraits], FileProfile] = {}
_tails: dict[tuple[int, bool, bytes], tuple[FileProfile, dict[str, str], Signing | None]] = {}
_KEPT_SCHEMAS = 512
_MOST_VALUES = 1 << 16  # behind the row groups: three in each pair of the key-value metadata,
_COLUMN_ORDER_VALUES = 4  # and at most so many for each column


def schema_of(footer: bytes) -> tuple[FileSchema, tuple[ChunkTemplates, ...], int]:
    """The schema, and where it ends. The files of a data set begin with the same bytes up to there."""
    with _schemas_lock:
        for i, (head, schema, templates) in enumerate(_schemas):
            if footer.startswith(head):
                if i:  # the next file most likely has the same
                    _schemas.insert(0, _schemas.pop(i))
                return schema, templates, len(head)
    schema, size = parse_schema(footer)
    pools: dict[object, TemplatePool] = {}
    for node in (leaf.node for leaf in schema.leaves):
        pool = TemplatePool(fixed_width=node.physical_type != "BYTE_ARRAY")
        pools.setdefault((node.physical_type, node.type_length), pool)
    templates = tuple(
        ChunkTemplates(pools[leaf.node.physical_type, leaf.node.type_length], leaf.path) for leaf in schema.leaves
    )
    with _schemas_lock:
        _schemas.insert(0, (footer[:size], schema, templates))
        del _schemas[_KEPT_SCHEMAS:]
    return schema, templates, size


def profile_of(
    schema: FileSchema, templates: tuple[ChunkTemplates, ...], head: bytes, tail: bytes, *, secret: bool
) -> tuple[FileProfile, dict[str, str], Signing | None]:
    """The layout and the key-value metadata of a file whose footer has `head`, with the schema, before its row groups
    and `tail` behind them, and how it is signed; most files of a data set have the same. Files with `secret` footers
    share none with others, of which it may be stored."""
    known = _tails.get((id(schema), secret, tail))
    if known is None or known[0].schema is not schema:
        traits, key_values, signing = _parse_tail(schema, tail)
        key = (id(schema), secret, traits)
        layout = _layouts.get(key)
        if layout is None or layout.schema is not schema:
            layout = FileProfile(schema, traits, templates, _skeleton_of(head, tail))
        for cache in (_tails, _layouts):
            if len(cache) >= 4 * _KEPT_SCHEMAS:
                cache.clear()
        _layouts[key] = layout
        known = layout, key_values, signing
        if signing is None:  # signatures are all different
            _tails[id(schema), secret, tail] = known
    return known


def _skeleton_of(head: bytes, tail: bytes) -> bytes:
    """A FileMetaData with what makes its layout, and nothing else that is about one file only. The `head`, with the
    schema, stays as it is."""
    metadata = without_row_groups(_ROW_GROUPS_FIRST + tail)
    pairs = metadata.key_value_metadata
    if pairs is not None:
        pairs[:] = [pair for pair in pairs if _text(pair.key) in _TELLING or _is_altered(_text(pair.value))]
    return head + _NO_ROW_GROUPS + write_struct(metadata)[len(_ROW_GROUPS_FIRST) :]


def without_row_groups(raw: bytes) -> FileMetaData:
    """The FileMetaData in `raw` without anything about row groups and encryption."""
    metadata, _ = read_struct(raw, FileMetaData)
    metadata.row_groups = []
    metadata.encryption_algorithm = metadata.footer_signing_key_metadata = None
    return metadata


def _parse_tail(schema: FileSchema, tail: bytes) -> tuple[WriterTraits, dict[str, str], Signing | None]:
    reader = CompactReader(tail, most=_MOST_VALUES + _COLUMN_ORDER_VALUES * len(schema.leaves))
    metadata = reader.read_struct(FileMetaData, last_id=FileMetaData.row_groups.id)
    left, signing = len(tail) - reader.position, None
    if metadata.encryption_algorithm is not None:
        signing = Signing(Algorithm.parse(metadata.encryption_algorithm), metadata.footer_signing_key_metadata, left)
    elif left and any(tail[-left:]):  # parquet-java encrypts footers with zeros behind them
        raise FormatError(f"{left} bytes follow the end of FileMetaData")
    pairs = {_text(pair.key): _text(pair.value) for pair in metadata.key_value_metadata or ()}
    orders = tuple(order.has(ColumnOrder.TYPE_ORDER) for order in metadata.column_orders or ())
    traits = WriterTraits(
        spark=_SPARK in pairs and _text(metadata.created_by).startswith("parquet-mr"),
        legacy_int96=_LEGACY_INT96 in pairs,
        altered_text=any(map(_is_altered, pairs.values())),
        column_orders=orders if len(orders) == len(schema.leaves) else (False,) * len(schema.leaves),
    )
    return traits, pairs, signing


def _is_altered(text: str) -> bool:
    return "__CHAR_VARCHAR_TYPE_STRING" in text or "__COLLATIONS" in text


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "surrogateescape")
