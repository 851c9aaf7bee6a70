"""The tree of a pyarrow expression: calls of functions, fields and literals.

Python cannot inspect expressions, but pyarrow pickles them as an Arrow file with one row. Its columns are the literals
and the options of calls. The metadata of its schema lists the nodes, each call before its arguments.

Source: Arrow's ``cpp/src/arrow/compute/expression.cc``, ``Serialize``. Keys of the metadata are not unique, so it is
read through the Arrow C data interface, ``ArrowSchema.metadata``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from bloomparquet.query.predicate import Column

_AND_OR = {"and_kleene": "and", "or_kleene": "or"}


@dataclass(frozen=True)
class Call:
    """A call of a compute function. ANDs directly inside an AND are one call with more arguments, and so are ORs.
    `options`: a struct, or None."""

    function: str
    arguments: list[Node]
    options: Any = None


@dataclass(frozen=True)
class Field:
    """A column, or a field of a struct."""

    path: Column


@dataclass(frozen=True)
class Literal:
    """A scalar of pyarrow."""

    scalar: Any


Node: TypeAlias = Call | Field | Literal


def read_tree(expression: Any) -> Node | None:
    """The tree of `expression`. None if pyarrow cannot pickle it."""
    try:
        _, (pickled,) = expression.__reduce__()
    except pa.ArrowException:
        return None
    with pa.ipc.open_file(pickled) as file:
        values = file.get_batch(0)
        nodes = list(_entries(file.schema))
    calls: list[Call] = [Call("", [])]  # the open ones, each an argument of the one before
    path, length = list[str](), 1  # of a field of a struct, the length comes first
    for kind, text in nodes:
        if kind == "call":
            calls.append(Call(_AND_OR.get(text, text), []))
        elif kind == "end":
            call = calls.pop()
            is_spliced = call.function in ("and", "or") and call.function == calls[-1].function
            calls[-1].arguments.extend(call.arguments if is_spliced else [call])
        elif kind == "options":
            calls[-1] = Call(calls[-1].function, calls[-1].arguments, values.column(int(text))[0])
        elif kind == "literal":
            calls[-1].arguments.append(Literal(values.column(int(text))[0]))
        elif kind == "nested_field_ref":
            length = int(text)
        elif kind == "field_ref":
            path.append(text)
            if len(path) == length:
                calls[-1].arguments.append(Field(tuple(path)))
                path, length = [], 1
        else:
            return None
    return calls[0].arguments[0] if len(calls) == 1 and len(calls[0].arguments) == 1 else None


def fields(tree: Node) -> Iterator[Field]:
    """The fields in `tree`, in no particular order."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Call):
            pending += node.arguments
        elif isinstance(node, Field):
            yield node


class _CSchema(ctypes.Structure):
    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _entries(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """The metadata of `schema`: keys and values in order, where the same key may come again."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if address is None:
        return
    position = address

    def read_int() -> int:
        nonlocal position
        number = ctypes.c_int32.from_address(position).value
        position += 4
        return number

    def read_text() -> str:
        nonlocal position
        size = read_int()
        text = ctypes.string_at(position, size).decode()
        position += size
        return text

    for _ in range(read_int()):
        yield read_text(), read_text()
