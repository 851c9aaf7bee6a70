"""Reads from the Substrait plan of an Arrow expression a predicate that the expression implies.

pyarrow binds the expression to a schema when it writes the plan. Wherever it compares values of different types, the
plan has a cast around the column; and ``isin`` casts its list without a trace. Such conditions are left out here, so
literals always have the column's type.

Source: substrait-io/substrait ``proto/substrait/extended_expression.proto``, ``algebra.proto``.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa

from bloomparquet.query.names import column_to_sql
from bloomparquet.query.predicate import (
    Always,
    And,
    Column,
    Comparison,
    Eq,
    Gt,
    GtEq,
    In,
    IsNotNull,
    IsNull,
    Lt,
    LtEq,
    Not,
    NotEq,
    Opaque,
    Or,
    Predicate,
)
from bloomparquet.query.values import Value
from bloomparquet.query.why_not import WhyNot

PART = "a part of the expression"
"""The text of a condition that is not understood and whose own text is not known."""

_PACKAGE = "bloomparquet.substrait"
_MESSAGES = {
    "ExtendedExpression": "2 extensions repeated Extension, 3 referred repeated Reference",
    "Extension": "3 function Function",
    "Function": "2 anchor uint32, 3 name bytes",
    "Reference": "1 expression Expression",
    "Expression": "1 literal Literal, 2 selection Selection, 3 call Call, 8 in_list InList",
    "Literal": """1 boolean bool, 2 i8 int32, 3 i16 int32, 5 i32 int32, 7 i64 int64, 10 fp32 float, 11 fp64 double,
        12 string string, 13 binary bytes, 14 timestamp int64, 16 date int32, 17 time int64, 24 decimal Decimal,
        27 timestamp_tz int64, 29 null bytes, 33 user_defined UserDefined""",
    "UserDefined": "2 value Any",
    "Any": "1 type_url bytes, 2 value Unsigned",
    "Unsigned": "1 number uint64",
    "Decimal": "1 value bytes, 2 precision int32, 3 scale int32",
    "Selection": "1 direct Segment, 4 root bytes",
    "Segment": "2 field Field",
    "Field": "1 number int32, 2 child Segment",
    "Call": "1 function uint32, 4 arguments repeated Argument",
    "Argument": "3 value Expression",
    "InList": "1 value Expression, 2 options repeated Expression",
}
_UINT64 = b"/google.protobuf.UInt64Value"
_EPOCH = dt.datetime(1970, 1, 1)
_Compare = type[Comparison]
_COMPARISONS: dict[str, tuple[_Compare, _Compare]] = {  # as written, and with the sides exchanged
    "equal": (Eq, Eq), "not_equal": (NotEq, NotEq), "lt": (Lt, Gt), "lte": (LtEq, GtEq), "gt": (Gt, Lt),
    "gte": (GtEq, LtEq),
}  # fmt: skip
_MISSING = object()


def implied_by(plan: bytes, schema: pa.Schema) -> Predicate:
    """A predicate that is TRUE for each row for which the expression of `plan` is TRUE. `schema` is what the expression
    is bound to. Raises ``google.protobuf.message.DecodeError`` if `plan` is no Substrait."""
    message = _message_class()()
    message.ParseFromString(plan)
    if len(message.referred) != 1:
        return Opaque(PART, WhyNot.NOT_A_COMPARISON, "")
    functions = {
        each.function.anchor: each.function.name.decode(errors="replace").partition(":")[0]
        for each in message.extensions
    }
    return _Reader(schema, functions).implied(message.referred[0].expression)


class _Reader:
    """Reads the nodes of one plan. `functions`: the names of functions, by their numbers in the plan."""

    def __init__(self, schema: pa.Schema, functions: dict[int, str]) -> None:
        self._schema, self._functions = schema, functions

    def implied(self, node: Any) -> Predicate:
        """A predicate that is TRUE wherever `node` is; Opaque, which skips nothing, if nothing is known."""
        if node.HasField("in_list"):
            return self._in_list(node)
        if node.HasField("literal"):
            value = self._literal(node)
            return Always(value) if isinstance(value, bool) else self._opaque(node)
        if not node.HasField("call"):
            return self._opaque(node)
        name = self._functions.get(node.call.function, "")
        arguments = [argument.value for argument in node.call.arguments]
        if name in ("and", "or"):
            children = [self.implied(argument) for argument in arguments]
            return And(*children) if name == "and" else Or(*children)
        if name == "not" and len(arguments) == 1:
            return self._negated(node, arguments[0])
        if name in ("is_null", "is_not_null") and len(arguments) == 1:
            column = self._column(arguments[0])
            return self._opaque(node) if column is None else (IsNull if name == "is_null" else IsNotNull)(column)
        if name in _COMPARISONS and len(arguments) == 2:
            return self._comparison(node, name, *arguments)
        return self._opaque(node)

    def _comparison(self, node: Any, name: str, left: Any, right: Any) -> Predicate:
        for build, column, literal in zip(_COMPARISONS[name], (left, right), (right, left), strict=True):
            path, value = self._column(column), self._literal(literal)
            if path is not None and value is not _MISSING:
                return build(path, value)
        return self._opaque(node)

    def _negated(self, node: Any, operand: Any) -> Predicate:
        """The negation of `operand`; opaque unless Arrow and this package find it false for the same rows. They order
        NaN differently."""
        child = self.implied(operand)
        if isinstance(child, (IsNull, IsNotNull)):
            return Not(child)
        is_known = isinstance(child, Comparison) and not isinstance(child.value, float)
        return Not(child) if is_known else self._opaque(node)

    def _in_list(self, node: Any) -> Predicate:
        in_list = node.in_list
        column, values = self._column(in_list.value), [self._literal(option) for option in in_list.options]
        if column is None or any(value is _MISSING for value in values):
            return self._opaque(node)
        kinds = {field.name for option in in_list.options for field, _ in option.literal.ListFields()} - {"null"}
        if not kinds <= _kinds(self._type(column)):
            return self._opaque(node)
        contained = In(column, [value for value in values if value is not None])
        return Or(contained, IsNull(column)) if None in values else contained  # Arrow finds null in a list with null

    def _opaque(self, node: Any) -> Opaque:
        """A condition that is not understood, with its text as far as the plan has it."""
        name = self._functions.get(node.call.function, "") if node.HasField("call") else ""
        arguments = [argument.value for argument in node.call.arguments]
        columns = [self._column(argument) for argument in arguments]
        if not name:
            column = self._column(node)
            return Opaque(PART if column is None else column_to_sql(column), WhyNot.NOT_A_COMPARISON, "")
        known = [column_to_sql(column) for column in columns if column is not None]
        if name in _COMPARISONS and len(known) == len(columns) == 2:
            return Opaque(f" {_COMPARISONS[name][0].symbol} ".join(known), WhyNot.TWO_COLUMNS, "")
        is_function = name not in ("and", "or", "not") and not (
            name in _COMPARISONS and any(each.HasField("literal") for each in arguments) and any(columns)
        )
        return Opaque(PART, WhyNot.FUNCTION if is_function else WhyNot.NOT_A_COMPARISON, "")

    def _column(self, node: Any) -> Column | None:
        """The path of the column, or of the field of a struct, that `node` selects."""
        if not node.HasField("selection") or not node.selection.HasField("direct"):
            return None
        segment, fields = node.selection.direct, list(self._schema)
        path: Column = ()
        while segment.HasField("field") and 0 <= segment.field.number < len(fields):
            field = fields[segment.field.number]
            path = (*path, field.name)
            if not segment.field.HasField("child"):
                return path
            fields = list(field.type) if pa.types.is_struct(field.type) else []
            segment = segment.field.child
        return None

    def _type(self, column: Column) -> pa.DataType:
        kind = self._schema.field(column[0]).type
        for name in column[1:]:
            kind = kind.field(name).type
        return kind

    def _literal(self, node: Any) -> Any:
        """The value of a literal; _MISSING for other nodes, and for NaN, which Arrow finds in lists but not by
        ``=``."""
        if not node.HasField("literal"):
            return _MISSING
        fields = [(field.name, value) for field, value in node.literal.ListFields()]
        if len(fields) != 1:
            return _MISSING
        (kind, value), *_ = fields
        if kind == "user_defined":  # Substrait has no unsigned integers
            return value.value.value.number if value.value.type_url.endswith(_UINT64) else _MISSING
        try:
            value = _to_value(kind, value)
        except OverflowError:  # a date after the year 9999
            return _MISSING
        return _MISSING if isinstance(value, float) and math.isnan(value) else value


def _kinds(column: pa.DataType) -> frozenset[str]:
    """The kinds of literals that have the type of a column. A Python integer in a list is an i64. UINT64 is
    user-defined."""
    if pa.types.is_integer(column):
        signed = ("i8", "i16", "i32", "i64")
        return frozenset((*signed, "user_defined") if pa.types.is_uint64(column) else signed)
    if pa.types.is_timestamp(column):
        return frozenset(("timestamp",) if column.tz is None else ("timestamp_tz",))
    return frozenset(kind for kind, has_type in _KINDS if has_type(column))


_KINDS = (
    ("boolean", pa.types.is_boolean), ("fp32", pa.types.is_float32), ("fp64", pa.types.is_float64),
    ("string", pa.types.is_string), ("string", pa.types.is_large_string), ("binary", pa.types.is_binary),
    ("binary", pa.types.is_large_binary), ("date", pa.types.is_date32), ("decimal", pa.types.is_decimal128),
    ("time", pa.types.is_time64),
)  # fmt: skip


def _to_value(kind: str, value: Any) -> Value:
    if kind == "null":
        return None
    if kind == "decimal":
        unscaled = int.from_bytes(value.value, "little", signed=True)
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -value.scale))
    if kind == "date":
        return (_EPOCH + dt.timedelta(days=value)).date()
    if kind == "time":
        return (_EPOCH + dt.timedelta(microseconds=value)).time()
    if kind in ("timestamp", "timestamp_tz"):
        zone = dt.timezone.utc if kind == "timestamp_tz" else None
        return _EPOCH.replace(tzinfo=zone) + dt.timedelta(microseconds=value)
    return value  # type: ignore[no-any-return]


@cache
def _message_class() -> Any:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    def field(text: str) -> Any:
        number, name, *repeated, kind = text.split()
        label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
        made = FieldDescriptorProto(name=name, number=int(number), label=label)
        if kind in _MESSAGES:
            made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
        else:
            made.type = getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}")
        return made

    # Syntax proto2 says of every field whether it is there.
    file = FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2")
    file.message_type.extend(
        DescriptorProto(name=name, field=map(field, fields.split(","))) for name, fields in _MESSAGES.items()
    )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ExtendedExpression"))
