"""The Spark schema that ``spark.read.parquet`` infers for a Parquet file.

A Python data source cannot call Spark's converter in the JVM. pyarrow's schema of a file lacks the physical types,
annotations and legacy list layouts that the converter uses, so this module reads the Parquet schema itself.

Source: Spark 4's ``ParquetToSparkSchemaConverter``, ``StructType.merge``,
``PartitioningUtils.mergeDataAndPartitionSchema``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.errors import UnsupportedError, join_names, quoted, shorten
from bloomparquet.query.names import fold

if TYPE_CHECKING:
    import pyarrow as pa

    from bloomparquet.query.columns import Annotation, SchemaNode

SPARK_SCHEMA_KEY = "org.apache.spark.sql.parquet.row.metadata"

_SIGNED: dict[int, T.DataType] = {8: T.ByteType(), 16: T.ShortType(), 32: T.IntegerType(), 64: T.LongType()}
_UNSIGNED: dict[int, T.DataType] = {8: T.ShortType(), 16: T.IntegerType(), 32: T.LongType(), 64: T.DecimalType(20, 0)}
_PLAIN: dict[str, T.DataType] = {
    "BOOLEAN": T.BooleanType(),
    "INT32": T.IntegerType(),
    "INT64": T.LongType(),
    "INT96": T.TimestampType(),
    "FLOAT": T.FloatType(),
    "DOUBLE": T.DoubleType(),
    "BYTE_ARRAY": T.BinaryType(),
    "FIXED_LEN_BYTE_ARRAY": T.BinaryType(),
}
_MAX_PRECISION = 38


def file_schema(root: SchemaNode, key_values: Mapping[str, str] | None = None) -> T.StructType:
    """The Spark schema of one file, with every field nullable.

    It is the schema that Spark wrote into the footer; without such a schema, it is inferred from the columns. Raises
    UnsupportedError for a column that Spark has no type for.
    """
    text = (key_values or {}).get(SPARK_SCHEMA_KEY)
    if text is not None:
        try:
            return T.StructType.fromJson(json.loads(text)).toNullable()
        except Exception:  # noqa: BLE001 - a schema with types of a newer Spark: Spark, too, falls back
            pass
    return _struct(root, ()).toNullable()


def merge(left: T.StructType, right: T.StructType, *, case_sensitive: bool) -> T.StructType:
    """The union of two nullable schemas, `left`'s columns first. UnsupportedError if types of a column differ."""
    merged = _merge(left, right, "", case_sensitive)
    assert isinstance(merged, T.StructType)
    return merged


def add_partitions(schema: T.StructType, partitions: Sequence[T.StructField], *, case_sensitive: bool) -> T.StructType:
    """`schema` with the partition columns appended. A partition column that the files have, too, stays at its position
    in `schema`."""
    by_name = {fold(field.name, case_sensitive): field for field in partitions}
    kept = [by_name.pop(fold(field.name, case_sensitive), field) for field in schema.fields]
    return T.StructType([*kept, *by_name.values()])


def partition_field(name: str, kind: pa.DataType) -> T.StructField:
    """The field of a partition column of the inferred type `kind`."""
    from pyspark.sql.pandas.types import from_arrow_type

    return T.StructField(name, from_arrow_type(kind), True)


def resolve(names: Iterable[str], name: str, *, case_sensitive: bool) -> str | None:
    """The one of `names` that Spark finds by `name`; None if there is none.

    Raises UnsupportedError if several of `names` match and differ only by case.
    """
    matches = [each for each in names if fold(each, case_sensitive) == fold(name, case_sensitive)]
    if len(matches) > 1:
        several = join_names(map(repr, matches))
        raise UnsupportedError(f"column {quoted(name)} is ambiguous: there are {several}; set the option caseSensitive")
    return matches[0] if matches else None


def _merge(left: T.DataType, right: T.DataType, path: str, case_sensitive: bool) -> T.DataType:
    if isinstance(left, T.StructType) and isinstance(right, T.StructType):
        others = {fold(field.name, case_sensitive): field for field in right.fields}
        fields = []
        for field in left.fields:
            other = others.pop(fold(field.name, case_sensitive), None)
            if other is not None:
                kind = _merge(field.dataType, other.dataType, f"{path}.{field.name}", case_sensitive)
                field = T.StructField(field.name, kind, True, field.metadata)
            fields.append(field)
        return T.StructType([*fields, *others.values()])
    if isinstance(left, T.ArrayType) and isinstance(right, T.ArrayType):
        return T.ArrayType(_merge(left.elementType, right.elementType, f"{path}.element", case_sensitive))
    if isinstance(left, T.MapType) and isinstance(right, T.MapType):
        key = _merge(left.keyType, right.keyType, f"{path}.key", case_sensitive)
        value = _merge(left.valueType, right.valueType, f"{path}.value", case_sensitive)
        return T.MapType(key, value)
    if isinstance(left, T.DecimalType) and isinstance(right, T.DecimalType) and left.scale == right.scale:
        return T.DecimalType(max(left.precision, right.precision), left.scale)
    if left == right:
        return left
    raise UnsupportedError(
        f"column {path[1:]} is {left.simpleString()} in one file and {right.simpleString()} in another, which "
        "cannot be merged; read the files separately, or give a schema without the column"
    )


def _struct(group: SchemaNode, path: tuple[str, ...]) -> T.StructType:
    fields = []
    for child in group.children:
        kind = _type(child, (*path, child.name))
        # Outside of a LIST or MAP, a repeated field is a required list of required elements.
        fields.append(
            T.StructField(
                child.name,
                T.ArrayType(kind, False) if child.repetition == "REPEATED" else kind,
                child.repetition == "OPTIONAL",
            )
        )
    return T.StructType(fields)


def _type(node: SchemaNode, path: tuple[str, ...]) -> T.DataType:
    if node.physical_type is not None:
        return _leaf(node, path)
    kind = node.annotation.kind if node.annotation else None
    if kind is None:
        return _struct(node, path)
    if kind == "LIST":
        return _list(node, path)
    if kind == "MAP":
        return _map(node, path)
    if kind == "VARIANT" and hasattr(T, "VariantType"):
        return T.VariantType()
    raise _illegal(path, f"a group ({kind})")


def _list(node: SchemaNode, path: tuple[str, ...]) -> T.ArrayType:
    if len(node.children) != 1 or node.children[0].repetition != "REPEATED":
        raise _illegal(path, "a LIST that is not one repeated field")
    repeated = node.children[0]
    # Two-level lists of older writers: the repeated field is the element itself (LogicalTypes.md,
    # "Backward-compatibility rules").
    is_element = (
        repeated.physical_type is not None
        or len(repeated.children) > 1
        or repeated.name in ("array", f"{node.name}_tuple")
    )
    if is_element:
        return T.ArrayType(_type(repeated, (*path, repeated.name)), False)
    if not repeated.children:
        raise _illegal(path, "a LIST without an element")
    element = repeated.children[0]
    return T.ArrayType(_type(element, (*path, element.name)), element.repetition == "OPTIONAL")


def _map(node: SchemaNode, path: tuple[str, ...]) -> T.MapType:
    entries = node.children[0] if len(node.children) == 1 else None
    if entries is None or entries.repetition != "REPEATED" or len(entries.children) != 2:
        raise _illegal(path, "a MAP that is not one repeated group of key and value")
    key, value = entries.children
    return T.MapType(_type(key, (*path, key.name)), _type(value, (*path, value.name)), value.repetition == "OPTIONAL")


def _leaf(node: SchemaNode, path: tuple[str, ...]) -> T.DataType:
    physical, annotation = str(node.physical_type), node.annotation
    if annotation is None or annotation.kind == "UNKNOWN" or physical in ("BOOLEAN", "FLOAT", "DOUBLE", "INT96"):
        return _PLAIN[physical]
    kind = _annotated(physical, annotation, node.type_length)
    if kind is None:
        raise _illegal(path, f"{physical} ({_describe(annotation)})")
    return kind


def _annotated(physical: str, annotation: Annotation, length: int | None) -> T.DataType | None:
    kind = annotation.kind
    if kind == "DECIMAL":
        return _decimal(physical, annotation, length)
    if physical in ("INT32", "INT64"):
        if kind == "INTEGER" and (annotation.bit_width == 64) == (physical == "INT64"):
            return (_SIGNED if annotation.signed else _UNSIGNED).get(annotation.bit_width or 0)
        if kind == "DATE" and physical == "INT32":
            return T.DateType()
        if kind == "TIMESTAMP" and physical == "INT64" and annotation.unit in ("ms", "us"):
            return T.TimestampType() if annotation.adjusted_to_utc else T.TimestampNTZType()
        if kind == "TIME" and physical == "INT64" and annotation.unit == "us" and not annotation.adjusted_to_utc:
            time: Any = getattr(T, "TimeType", None)
            return None if time is None else time(6)
    if physical == "BYTE_ARRAY":
        if kind in ("STRING", "ENUM", "JSON"):
            return T.StringType()
        if kind == "BSON":
            return T.BinaryType()
    return None


def _decimal(physical: str, annotation: Annotation, length: int | None) -> T.DecimalType | None:
    digits = {"INT32": 9, "INT64": 18, "BYTE_ARRAY": _MAX_PRECISION}.get(physical)
    if digits is None:
        digits = len(str(2 ** (8 * (length or 0) - 1) - 1)) - 1 if length else 0
    precision = annotation.precision or 0
    return T.DecimalType(precision, annotation.scale or 0) if 1 <= precision <= min(digits, _MAX_PRECISION) else None


def _describe(annotation: Annotation) -> str:
    parts = [annotation.unit, annotation.bit_width, annotation.precision, annotation.scale]
    if annotation.adjusted_to_utc is not None:
        parts.append("UTC" if annotation.adjusted_to_utc else "local")
    details = ", ".join(str(part) for part in parts if part is not None)
    return f"{annotation.kind}({details})" if details else annotation.kind


def _illegal(path: tuple[str, ...], kind: str) -> UnsupportedError:
    return UnsupportedError(
        f"column {shorten('.'.join(path))} is {kind}, for which Spark has no type; "
        "give a schema without the column: spark.read.schema(…)"
    )
