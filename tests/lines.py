"""``python -m tests.lines``: the lines of the product and of its tests by room, beside those of the last release.

Blank lines and comments count. ``--release`` stores the numbers as those of the last release.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RELEASE = Path(__file__).with_suffix(".txt")
PRODUCT = {"python": 2, "jvm-shim": 7}  # the depth of a room's directory
TESTS = {"tests": 2}


def lines(homes: dict[str, int]) -> Counter[str]:
    """The lines of Python and Java files below the directories `homes`, by room."""
    counts = Counter[str]()
    for home, depth in homes.items():
        for suffix in ("py", "java"):
            for path in (ROOT / home).rglob(f"*.{suffix}"):
                room = path.relative_to(ROOT).parts[:-1][: depth + 1]
                counts["/".join(room)] += len(path.read_text().splitlines())
    return counts


def main() -> None:
    parts = {"product": lines(PRODUCT), "tests": lines(TESTS)}
    if sys.argv[1:] == ["--release"]:
        rows = [f"{room} {number}" for counts in parts.values() for room, number in sorted(counts.items())]
        RELEASE.write_text("\n".join(rows) + "\n")
    before = Counter({room: int(number) for room, number in map(str.split, RELEASE.read_text().splitlines())})
    for name, counts in parts.items():
        homes = PRODUCT if name == "product" else TESTS
        old = Counter({room: number for room, number in before.items() if room.partition("/")[0] in homes})
        for room in sorted(counts | old):
            print(f"{room:60}{counts[room]:8,}{old[room]:8,}")
        print(f"{name:60}{counts.total():8,}{old.total():8,}")


if __name__ == "__main__":
    main()
