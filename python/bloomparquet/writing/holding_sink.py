"""The file object that pyarrow's Parquet writer writes to: it holds back the end of the file, which is changed."""

from __future__ import annotations

import io
import os
from typing import Any

from bloomparquet.storage.atomic import Output


class HoldingSink(io.RawIOBase):
    """A file object that writes to `output`; once `hold` is set, it keeps the bytes in memory instead.

    It drops what a forked child writes: when the child ends, pyarrow's writer there would end the parent's file.
    """

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output: Output | None = output
        self._owner = os.getpid()
        self._held = bytearray()
        self.hold = False
        self.written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.written + len(self._held)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self.hold:
            self._held += view
        elif self._output is not None:
            if os.getpid() == self._owner:
                self._output.write(view)
            self.written += len(view)
        return len(view)

    def discard(self) -> None:
        """Ignore all further writes."""
        self._output, self.hold = None, False

    def held(self) -> memoryview:
        return memoryview(self._held)
