"""All targets by name."""

from __future__ import annotations

from tests.fuzz import files, index, metadata, orc, queries

TARGETS = {target.name: target for room in (metadata, orc, queries, index, files) for target in room.TARGETS}
