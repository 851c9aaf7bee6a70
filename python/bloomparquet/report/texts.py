"""Numbers, sizes and paths as reports write them."""

from __future__ import annotations

import os
from collections.abc import Iterable


def human_bytes(count: int) -> str:
    """``"1.5 MiB"``: a size with three digits at most before its unit."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 5)
    size = count / 1024**power
    return f"{size:.{1 if size < 100 else 0}f} {'KMGTP'[power - 1]}iB"


def plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def share(part: int, whole: int) -> str:
    """``"12 %"``. Only nothing is 0 %, and only everything is 100 %."""
    percent = 100 * part / whole
    if part and percent < 0.05:
        return "< 0.1 %"
    if part < whole and percent > 99.95:
        return "> 99.9 %"
    return f"{percent:.{1 if 0 < percent < 10 or 99 < percent < 100 else 0}f} %"


def common_directory(paths: Iterable[str]) -> str:
    """The directory that all paths share, with its slash, so that a report can leave it out."""
    prefix = os.path.commonprefix([path[: path.rfind("/") + 1] for path in paths])  # noqa: RUF071 (of characters)
    return prefix[: prefix.rfind("/") + 1]
