"""Changes of inputs: of plain bytes, and of Thrift, protobuf and JSON, whose structure survives.

`atheris` changes bytes as well. These mutators reach what is behind the lengths of a format, and they run without
`atheris`, repeatably.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from tests.support.core import Field, Items, decode_first, encode, varint

NUMBERS = sorted(
    {
        sign * (1 << bits) + add
        for bits in (0, 3, 5, 7, 8, 15, 16, 31, 32, 62, 63)
        for sign in (1, -1)
        for add in (-1, 0, 1)
    }
)
_INTEGERS = (4, 5, 6)
_BINARY, _LIST, _SET, _STRUCT = 8, 9, 10, 12
_KINDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12)


def change_bytes(data: bytes, random: Random) -> bytes:
    """One change: a bit, a byte, a number, a part removed, repeated, moved or filled with noise."""
    at = random.randrange(len(data) + 1)
    end = min(len(data), at + random.choice((1, 1, 2, 4, 8, 16, 64)))
    part = data[at:end]
    choice = random.randrange(8)
    if choice == 0 and part:
        new = bytes([part[0] ^ 1 << random.randrange(8)]) + part[1:]
    elif choice == 1:
        new = b""
    elif choice == 2:
        new = part * random.choice((2, 2, 3, 16))
    elif choice == 3:
        new = random.randbytes(len(part))
    elif choice == 4:
        new = part + random.randbytes(random.choice((1, 2, 4)))
    elif choice == 5:
        size = random.choice((1, 2, 4, 8))
        number = random.choice(NUMBERS) & (1 << 8 * size) - 1
        new, end = number.to_bytes(size, random.choice(("little", "big"))), min(len(data), at + size)
    elif choice == 6:
        start = random.randrange(len(data) + 1)
        new = data[start : start + len(part)]
    else:
        new = bytes([random.choice((0, 1, 0x7F, 0x80, 0xFF))]) * max(1, len(part))
    return data[:at] + new + data[end:]


def change_some(change: Callable[[bytes, Random], bytes], share: float = 0.25) -> Callable[[bytes, Random], bytes]:
    """A mutator that uses `change`, and plain bytes for a `share` of its changes and where `change` raises."""

    def mutate(data: bytes, random: Random) -> bytes:
        if random.random() >= share:
            try:
                return change(data, random)
            except Exception:  # noqa: BLE001 - `change` need not understand what earlier changes made of the input
                pass
        return change_bytes(data, random)

    return mutate


def in_parts(change: Callable[[bytes, Random], bytes], parts: int) -> Callable[[bytes, Random], bytes]:
    """A mutator of inputs of :func:`join`, that lets `change` change one of their parts."""

    def mutate(data: bytes, random: Random) -> bytes:
        pieces = split(data, parts)
        at = random.randrange(parts)
        pieces[at] = change(pieces[at], random)
        return join(pieces)

    return mutate


def join(pieces: list[bytes]) -> bytes:
    """Several byte strings as one input: each but the last with its length in two bytes before it."""
    return b"".join(len(piece).to_bytes(2, "big") + piece for piece in pieces[:-1]) + pieces[-1]


def split(data: bytes, parts: int) -> list[bytes]:
    """The inverse of :func:`join`, which any bytes have."""
    pieces = []
    for _ in range(parts - 1):
        size = int.from_bytes(data[:2], "big")
        pieces.append(data[2 : 2 + size])
        data = data[2 + size :]
    return [*pieces, data]


def _thrift(data: bytes, random: Random) -> bytes:
    """Change one field of a Thrift struct. Bytes behind the struct stay."""
    tree, end = decode_first(data)
    places: list[tuple[Any, Any, int]] = []  # the struct or list, the key, the type

    def walk(kind: int, value: Any) -> None:
        if kind == _STRUCT:
            for key, each in value.items():
                places.append((value, key, each.kind))
                walk(each.kind, each.value)
        elif kind in (_LIST, _SET):
            for i, each in enumerate(value.values):
                places.append((value.values, i, value.kind))
                walk(value.kind, each)

    walk(_STRUCT, tree)
    holder, key, kind = random.choice(places)
    is_field = isinstance(holder, dict)
    value = holder[key].value if is_field else holder[key]
    choice = random.randrange(8)
    if choice == 0:
        del holder[key]
    elif choice == 1 and not is_field:
        holder[key:key] = [value] * random.choice((1, 2, 20))
    elif choice == 2 and is_field:
        holder[random.choice((key + 1, key + 100, random.randrange(1, 20)))] = holder[key]
    elif choice == 3 and is_field:
        holder[key] = _new_thrift(random.choice(_KINDS), random)
    else:
        new = _changed(kind, value, random, [(other, at) for other, at, same in places if same == kind])
        holder[key] = Field(kind, new) if is_field else new
    return encode(tree) + data[end:]


def _changed(kind: int, value: Any, random: Random, like: list[tuple[Any, Any]]) -> Any:
    if random.random() < 0.3:  # a value of the same type from elsewhere
        holder, key = random.choice(like)
        return holder[key].value if isinstance(holder, dict) else holder[key]
    if kind in _INTEGERS:
        new = random.choice((random.choice(NUMBERS), value + 1, value - 1, -value, value * 2, random.randrange(20)))
        return max(-(2**63), min(new, 2**63 - 1))
    if kind == _BINARY:
        return change_bytes(value, random)
    if kind in (1, 2):
        return not value
    if kind in (_LIST, _SET) and value.values:
        return Items(value.kind, random.choices(value.values, k=random.choice((0, 1, 2, 14, 15, 16))))
    return value


def _new_thrift(kind: int, random: Random) -> Field:
    if kind in (_LIST, _SET):
        return Field(kind, Items(5, [1] * random.choice((0, 1, 15))))
    new = {1: True, 2: False, 3: 7, 7: 1.5, _BINARY: b"text", _STRUCT: {1: Field(5, 1)}}
    return Field(kind, new.get(kind, random.choice(NUMBERS[10:-10])))


change_thrift = change_some(_thrift)


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := data[at]) > 127:
        number |= (byte & 127) << shift
        shift += 7
        at += 1
    return number | byte << shift, at + 1


def _fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """The tags and values of a protobuf message. Raises LookupError if it is none."""
    fields: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(data):
        tag, at = _varint_at(data, at)
        value: int | bytes
        if tag & 7 == 0:
            value, at = _varint_at(data, at)
        else:
            size, at = _varint_at(data, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
            value, at = data[at : at + size], at + size
        if at > len(data) or tag >> 3 == 0:
            raise IndexError(at)
        fields.append((tag, value))
    return fields


def _encoded(tag: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(tag) + varint(value & (1 << 64) - 1)
    return varint(tag) + (varint(len(value)) if tag & 7 == 2 else b"") + value


def _protobuf(data: bytes, random: Random) -> bytes:
    """Change one field of a protobuf message, or of a message in it. Larger fields are changed more often."""
    fields = _fields(data)
    weights = [len(_encoded(*each)) for each in fields]
    (at,) = random.choices(range(len(fields)), weights)
    tag, value = fields[at]
    new = [(tag, value)]
    choice = random.randrange(8)
    if isinstance(value, bytes) and random.random() < 0.75:
        with suppress(LookupError):  # it may be a text
            new, choice = [(tag, _protobuf(value, random))], 8
    if choice == 0:
        new = []
    elif choice == 1:
        new *= random.choice((2, 3, 21))
    elif choice == 2:
        new = [(random.randrange(1, 20) << 3 | tag & 7, value)]
    elif choice == 3:
        new = [random.choice(fields)]
    elif choice < 8 and isinstance(value, int):
        new = [(tag, random.choice((random.choice(NUMBERS), value + 1, value - 1, value * 2, random.randrange(20))))]
    elif choice < 8 and isinstance(value, bytes):
        new = [(tag & ~7 | 2, change_bytes(value, random))]
    return b"".join(_encoded(*each) for each in [*fields[:at], *new, *fields[at + 1 :]])


change_protobuf = change_some(_protobuf)


def change_tree(tree: Any, random: Random) -> Any:
    """Change one value of a tree of JSON, in place where possible."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            walk(node[key])

    walk(tree)
    holder, key = random.choice(places)
    value, choice = holder[key], random.randrange(8)
    other_holder, other_key = random.choice(places)
    if choice == 0:
        del holder[key]
    elif choice == 1 and isinstance(holder, list):
        holder[key:key] = [value] * random.choice((1, 20))
    elif choice == 2:
        holder[key] = random.choice(
            (None, True, 0, -1, 2**64, 1.5, 1e400, "", "text", "ß\ud800\0", [], {}, [[]], {"": 0})
        )
    elif choice == 3:
        holder[key] = json.loads(json.dumps(other_holder[other_key]))
    elif choice == 4 and isinstance(holder, dict):
        holder[random.choice((str(key) + "x", str(other_key), str(key)[:-1]))] = holder.pop(key)
    elif isinstance(value, int):
        holder[key] = random.choice((*NUMBERS, value + 1, value - 1, value * 64))
    elif isinstance(value, str):
        holder[key] = change_bytes(value.encode("utf-8", "surrogatepass"), random).decode("utf-8", "replace")
    elif isinstance(value, list):
        holder[key] = [value]
    else:
        holder[key] = {str(other_key): value}
    return tree


def _json(data: bytes, random: Random) -> bytes:
    return json.dumps(change_tree(json.loads(data), random)).encode()


change_json = change_some(_json)
