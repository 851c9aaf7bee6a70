"""``python -m tests.walk``: the way of one warm lookup through the code, in order.

Prints every function of bloomparquet that the third ``bp.read_table(directory, "id = 6")`` enters, with its room, in
the order of the first calls, and the numbers of functions, files and calls. The data are 4 files of 4 row groups.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa

import bloomparquet as bp

PACKAGE = Path(bp.__file__).parent
_PART_OF_A_FUNCTION = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def walk(directory: Path) -> Counter[CodeType]:
    """The calls of each function of the package, in the order of their first calls."""
    for i in range(4):
        ids = [i + 4 * number for number in range(400)]
        bp.write_table(
            pa.table({"id": ids, "n": ids}), directory / f"{i}.parquet", bloom={"id": bp.Bloom(fpp=1e-6)},
            row_group_size=100,
        )  # fmt: skip
    for _ in range(2):
        assert bp.read_table(str(directory), "id = 6").num_rows == 1
    calls = Counter[CodeType]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and code.co_name not in _PART_OF_A_FUNCTION:
            calls[code] += 1

    sys.setprofile(note)
    try:
        bp.read_table(str(directory), "id = 6")
    finally:
        sys.setprofile(None)
    return calls


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        calls = walk(Path(directory))
    for code, number in calls.items():
        where, name = Path(code.co_filename).relative_to(PACKAGE), getattr(code, "co_qualname", code.co_name)
        print(f"{where.parent!s:24} {where.name:24} {name:48} {number if number > 1 else ''}".rstrip())
    files = {code.co_filename for code in calls}
    print(f"{len(calls)} functions in {len(files)} files, {calls.total()} calls")


if __name__ == "__main__":
    main()
