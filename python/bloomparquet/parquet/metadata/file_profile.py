"""The profile of files with one schema and one writer: parsed once and recognised by its bytes in other footers.

Source: parquet-format ``parquet.thrift`` (FileMetaData, KeyValue, ColumnOrder), ``Encryption.md`` (section 5.2).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from bloomparquet.errors import FormatError
from bloomparquet.parquet.encryption.modules import Algorithm
from bloomparquet.parquet.metadata.column_chunks import ChunkTemplates, TemplatePool
from bloomparquet.parquet.metadata.schema import parse_schema
from bloomparquet.parquet.thrift.definitions import ColumnOrder, FileMetaData, KeyValue, SchemaElement
from bloomparquet.parquet.thrift.reader import CompactReader, read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.columns import FileSchema, LeafColumn, SchemaNode
from bloomparquet.storage.forks import lazy_property, new_lock

_NO_ROW_GROUPS = b"\x29\x0c"  # row_groups, an empty list, after the schema
_ROW_GROUPS_FIRST = b"\x49\x0c"  # row_groups, an empty list, as the first field
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
_COLLATIONS = "__COLLATIONS"
ARROW_SCHEMA = "ARROW:schema"
_SPARK, _LEGACY_INT96, _REWRITTEN = _TRAIT_KEYS = (
    "org.apache.spark.version", "org.apache.spark.legacyINT96", "original.created.by",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WriterTraits:
    """The traits of a file's writer that decide how values are hashed and which bounds are usable.

    `spark`: Apache Spark wrote the file. Other writers copy Spark's key-value metadata, but not its created_by.
    parquet-java's ParquetRewriter, which merges files by several writers, has a created_by like Spark's and a key of
    its own.
    `legacy_int96`: INT96 values are in the writer's calendar and time zone.
    `has_padded_or_collated_text`: some string column is CHAR(n) or VARCHAR(n) or has a collation, so that equal strings
    may differ in bytes. The metadata is searched as text, so it is not known which column that is, and no string column
    of the file is used.
    `collated`: the top-level columns with text that Spark compares by a collation, not by its bytes.
    ``column_orders[leaf]``: min_value and max_value of the leaf are in the order that the format defines for its type,
    or, if it has floating-point numbers, in the total order of IEEE 754, which differs only for the zeros and NaN.
    """

    spark: bool
    legacy_int96: bool
    has_padded_or_collated_text: bool
    column_orders: tuple[bool, ...]
    collated: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class FileProfile:
    """The part of footers that files with one schema and one writer share. Compared by identity.

    `templates`: one for each leaf. `skeleton`: a serialised FileMetaData without row groups and without anything about
    one file: :func:`bloomparquet.parquet.metadata.footer.parse_footer` makes an equal profile of it.
    """

    schema: FileSchema
    traits: WriterTraits
    templates: tuple[ChunkTemplates, ...]
    skeleton: bytes

    @lazy_property
    def elements(self) -> tuple[tuple[SchemaElement, ...], ...]:
        """The root of the stored schema, and the elements of each top-level column."""
        elements = iter(read_struct(self.skeleton, FileMetaData)[0].schema)
        sizes = [1, *map(_size, self.schema.root.children)]
        return tuple(tuple(islice(elements, size)) for size in sizes)


def _size(node: SchemaNode) -> int:
    """The number of schema elements of `node`."""
    return 1 + sum(map(_size, node.children))


class FooterSignature(NamedTuple):
    """The signing of a plaintext footer. The signature is the last `signature_bytes` bytes of the footer."""

    algorithm: Algorithm
    key_metadata: bytes | None
    signature_bytes: int


class Tail(NamedTuple):
    """The parts of a footer after its row groups, and the profile of its file."""

    profile: FileProfile
    key_values: dict[str, str]
    created_by: bytes | None
    signature: FooterSignature | None


_schemas_lock = new_lock()
_schemas: list[tuple[bytes, FileSchema, tuple[ChunkTemplates, ...]]] = []
_profiles: dict[tuple[int, bool, WriterTraits], FileProfile] = {}
_tails: dict[tuple[int, bool, bytes], Tail] = {}
_KEPT_SCHEMAS = 512
_MAX_VALUES = 1 << 16  # Thrift values after the row groups; a pair of the key-value metadata has three
_COLUMN_ORDER_VALUES = 4  # more for each column


class SchemaStart(NamedTuple):
    """The schema at the start of a footer, its templates, and the number of bytes up to its end."""

    schema: FileSchema
    templates: tuple[ChunkTemplates, ...]
    size: int


def schema_of(footer: bytes) -> SchemaStart:
    """The schema of a footer. All footers of a data set begin with the same bytes up to its end."""
    with _schemas_lock:
        for i, (head, schema, templates) in enumerate(_schemas):
            if footer.startswith(head):
                if i:  # move it to the front: the next file most likely has it too
                    _schemas.insert(0, _schemas.pop(i))
                return SchemaStart(schema, templates, len(head))
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
    return SchemaStart(schema, templates, size)


def profile_of(
    schema: FileSchema, templates: tuple[ChunkTemplates, ...], head: bytes, tail: bytes, *, encrypted: bool
) -> Tail:
    """The profile of a footer, and the parts of its `tail`, which follows the row groups. `head` is the part up to the
    end of the schema.

    Most files of a data set share one profile. Files with `encrypted` footers share none with other files, because
    those profiles may be written to a cache file.
    """
    known = _tails.get((id(schema), encrypted, tail))
    if known is None or known.profile.schema is not schema:
        traits, key_values, created_by, signature = _parse_tail(schema, tail)
        key = (id(schema), encrypted, traits)
        profile = _profiles.get(key)
        if profile is None or profile.schema is not schema:
            profile = FileProfile(schema, traits, templates, _skeleton_of(head, tail))
        for cache in (_tails, _profiles):
            if len(cache) >= 4 * _KEPT_SCHEMAS:
                cache.clear()
        _profiles[key] = profile
        known = Tail(profile, key_values, created_by, signature)
        if signature is None:  # every signature differs
            _tails[id(schema), encrypted, tail] = known
    return known


def _skeleton_of(head: bytes, tail: bytes) -> bytes:
    """The skeleton of a profile. `head` stays as it is."""
    metadata = without_row_groups(_ROW_GROUPS_FIRST + tail)
    pairs = metadata.key_value_metadata
    if pairs is not None:
        pairs[:] = [pair for pair in pairs if _text(pair.key) in _TRAIT_KEYS or _is_altered(_value(pair))]
    return head + _NO_ROW_GROUPS + write_struct(metadata)[len(_ROW_GROUPS_FIRST) :]


def without_row_groups(raw: bytes) -> FileMetaData:
    """The FileMetaData in `raw` without anything about row groups and encryption."""
    metadata, _ = read_struct(raw, FileMetaData)
    metadata.row_groups = []
    metadata.encryption_algorithm = metadata.footer_signing_key_metadata = None
    return metadata


def _parse_tail(
    schema: FileSchema, tail: bytes
) -> tuple[WriterTraits, dict[str, str], bytes | None, FooterSignature | None]:
    reader = CompactReader(tail, most=_MAX_VALUES + _COLUMN_ORDER_VALUES * len(schema.leaves))
    metadata = reader.read_struct(FileMetaData, last_id=FileMetaData.row_groups.id)
    for twice in (FileMetaData.schema, FileMetaData.row_groups):
        if metadata.has(twice):
            raise FormatError(f"{twice} occurs twice")
    left, signature = len(tail) - reader.position, None
    if metadata.encryption_algorithm is not None:
        signature = FooterSignature(
            Algorithm.parse(metadata.encryption_algorithm), metadata.footer_signing_key_metadata, left
        )
    elif left and any(tail[-left:]):  # parquet-java appends zeros to some footers before it encrypts them
        raise FormatError(f"{left} bytes follow the end of FileMetaData")
    given = [(_text(pair.key), _value(pair)) for pair in metadata.key_value_metadata or ()]
    pairs = dict(reversed(given))  # of a key that occurs twice, the first value counts, as for pyarrow
    orders, leaves = metadata.column_orders or (), schema.leaves
    are_known = map(_is_known, orders, leaves) if len(orders) == len(leaves) else (False for _ in leaves)
    traits = WriterTraits(
        spark=_SPARK in pairs and _REWRITTEN not in pairs and _text(metadata.created_by).startswith("parquet-mr"),
        legacy_int96=_LEGACY_INT96 in pairs,
        has_padded_or_collated_text=any(_is_altered(value) for _, value in given),
        column_orders=tuple(are_known),
        collated=_collated(pairs.get(_SPARK_SCHEMA, ""), schema),
    )
    return traits, pairs, metadata.created_by, signature


def _is_known(order: ColumnOrder, leaf: LeafColumn) -> bool:
    member, is_float = order.member(), leaf.node.physical_type in ("FLOAT", "DOUBLE")
    return member == "TYPE_ORDER" or (is_float and member == "IEEE_754_TOTAL_ORDER")


def _is_altered(text: str) -> bool:
    return "__CHAR_VARCHAR_TYPE_STRING" in text or _COLLATIONS in text


def _collated(spark_schema: str, schema: FileSchema) -> frozenset[str]:
    """The top-level columns that have a collation by Spark's schema in a footer; all columns if it cannot be read."""
    if _COLLATIONS not in spark_schema:
        return frozenset()
    try:
        return frozenset(f["name"] for f in json.loads(spark_schema)["fields"] if _COLLATIONS in json.dumps(f))
    except (ValueError, TypeError, KeyError, RecursionError):
        return frozenset(node.name for node in schema.root.children)


def _value(pair: KeyValue) -> str:
    """The value of a pair; empty if it is no text. Other readers leave it out; fastparquet 0.8 writes numbers."""
    raw = pair.get(KeyValue.value.id)
    return _text(raw if isinstance(raw, bytes) else None)


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "surrogateescape")
