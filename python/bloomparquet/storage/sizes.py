"""Parses sizes in bytes such as ``64MB``."""

from __future__ import annotations

import re

_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"(\d+)\s*(?:([kmgt])(?:i?b)?|b?)", re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """The number of bytes: ``4096``, ``512k``, ``16MB``, ``1 GiB``. As in Spark, each unit is 1024 times the one below.
    None if `text` is not a size."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(match.group(1)) << _POWERS[(match.group(2) or "").lower()]
