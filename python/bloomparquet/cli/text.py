"""Numbers as people read them."""

from __future__ import annotations


def human_bytes(count: int) -> str:
    """``"1.5 MiB"``: a size with three digits at most before its unit."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 5)
    size = count / 1024**power
    return f"{size:.{1 if size < 100 else 0}f} {'KMGTP'[power - 1]}iB"


def plural(count: int, what: str) -> str:
    """``"1,204 files"``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
