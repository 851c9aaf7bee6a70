"""Commits to the log of a Delta Lake table that ``deltalake`` cannot make: deletion vectors, renamed columns and such.

Source: Delta Lake's PROTOCOL.md ("Deletion Vectors", "Column Mapping").
"""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyroaring import BitMap

Action = dict[str, Any]

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377


def actions(table: Path, kind: str) -> list[Action]:
    """All actions of one kind in the JSON commits, oldest first."""
    lines = (line for file in sorted((table / "_delta_log").glob("*.json")) for line in file.read_text().splitlines())
    return [action[kind] for action in map(json.loads, lines) if kind in action]


def commit(table: Path, *new: Action) -> None:
    """Append a commit."""
    last = max(int(file.stem) for file in (table / "_delta_log").glob("*.json"))
    lines = [{"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "TEST"}}, *new]
    (table / "_delta_log" / f"{last + 1:020}.json").write_text("\n".join(map(json.dumps, lines)))


def delete_rows(table: Path, path: str, positions: Iterable[int], *, inline: bool = True) -> None:
    """Give the file that the log calls `path` a deletion vector of `positions` in place of the one that it has."""
    add = next(each for each in reversed(actions(table, "add")) if each["path"] == path)
    old = {key: add[key] for key in ("path", "partitionValues", "size", "deletionVector") if add.get(key) is not None}
    rows = sorted(set(positions))
    descriptor = {**_write_bitmap(table, bitmap(rows), inline), "cardinality": len(rows)}
    commit(
        table,
        {"remove": {**old, "deletionTimestamp": int(time.time() * 1000), "dataChange": True}},
        {"add": {**add, "dataChange": True, "deletionVector": descriptor}},
    )


def change_schema(table: Path, change: Callable[[list[Action], list[str]], None]) -> None:
    """Commit a new schema: `change` edits the fields and the partition columns in place."""
    metadata = dict(actions(table, "metaData")[-1])
    schema, partitions = json.loads(metadata["schemaString"]), list(metadata["partitionColumns"])
    change(schema["fields"], partitions)
    commit(table, {"metaData": {**metadata, "schemaString": json.dumps(schema), "partitionColumns": partitions}})


def _write_bitmap(table: Path, bitmap: bytes, inline: bool) -> Action:
    if inline:
        return {"storageType": "i", "pathOrInlineDv": z85(bitmap), "sizeInBytes": len(bitmap)}
    name = uuid.uuid4()
    checked = struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
    (table / f"deletion_vector_{name}.bin").write_bytes(b"\x01" + checked)
    return {"storageType": "u", "pathOrInlineDv": z85(name.bytes), "offset": 1, "sizeInBytes": len(bitmap)}


def z85(data: bytes) -> str:
    """The text of `data` in Z85, after zeros up to a multiple of four bytes."""
    data += b"\0" * (-len(data) % 4)
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(_Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def bitmap(positions: Iterable[int]) -> bytes:
    """A RoaringBitmapArray, which deletion vectors of Delta Lake and of Iceberg contain."""
    by_key: dict[int, list[int]] = {}
    for position in positions:
        by_key.setdefault(position >> 32, []).append(position & 0xFFFFFFFF)
    parts = b"".join(struct.pack("<I", key) + BitMap(by_key[key]).serialize() for key in sorted(by_key))
    return struct.pack("<IQ", _MAGIC, len(by_key)) + parts
