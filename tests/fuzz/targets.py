"""All targets by name."""

from __future__ import annotations

from tests.fuzz import metadata, tables

TARGETS = {target.name: target for target in (*metadata.TARGETS, *tables.TARGETS)}
