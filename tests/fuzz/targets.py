"""All targets by name."""

from __future__ import annotations

from tests.fuzz import files, index, metadata, orc, queries, tables

TARGETS = {target.name: target for room in (metadata, orc, queries, index, files, tables) for target in room.TARGETS}
