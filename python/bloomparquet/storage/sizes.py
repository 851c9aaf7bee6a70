"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re

_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"(\d+)\s*(?:([kmgt])(?:i?b)?|b?)", re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """The bytes that `text` means: ``4096``, ``512k``, ``16MB``, ``1 GiB``. Each unit is 1024 of the one below, as in
    Spark. None if it is not a size."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(match.group(1)) << _POWERS[(match.group(2) or "").lower()]
