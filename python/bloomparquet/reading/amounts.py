"""Counts what a scan reads."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bloomparquet.errors import shorten
from bloomparquet.storage.forks import new_lock


class ReadAmounts:
    """The amounts of one scan: returned `rows`, decoded row groups or stripes (`units`), and what was read of each
    column of Parquet files. Several threads may add."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self.rows = self.units = 0
        self._whole: Counter[str] = Counter()
        self._pages: Counter[str] = Counter()
        self._page_bytes: Counter[str] = Counter()

    def add_units(self, number: int) -> None:
        with self._lock:
            self.units += number

    def add_whole(self, column: str, size: int) -> None:
        """Count a column chunk of `size` bytes, which was read whole."""
        with self._lock:
            self._whole[column] += size

    def add_pages(self, column: str, sizes: list[int]) -> None:
        """Count pages of a column, dictionary pages included."""
        with self._lock:
            self._pages[column] += len(sizes)
            self._page_bytes[column] += sum(sizes)

    def describe(self, unit: str, total: int) -> list[str]:
        """A text for each amount. `total` is the number of row groups or stripes before any was skipped."""
        parts = [f"rows: {self.rows:,}", f"{unit}s: {self.units:,} of {total:,}"]
        parts += [f"{shorten(name)}: {size:,} bytes (whole)" for name, size in sorted(self._whole.items())]
        for name, size in sorted(self._page_bytes.items()):
            parts.append(f"{shorten(name)}: {size:,} bytes (pages: {self._pages[name]:,})")
        return parts

    def to_dict(self) -> dict[str, Any]:
        """The amounts as values that ``json.dumps`` takes."""
        columns = {
            name: {"whole_bytes": self._whole[name], "pages": self._pages[name], "page_bytes": self._page_bytes[name]}
            for name in sorted(self._whole | self._page_bytes)
        }
        return {"rows": self.rows, "units": self.units, "columns": columns}
