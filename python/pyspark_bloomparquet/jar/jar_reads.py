"""Reads that the jar does for its planner process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import FormatError
from bloomparquet.storage.host_files import HostFile

_ERRORS: dict[str, type[Exception]] = {"missing": FileNotFoundError, "end": FormatError, "denied": PermissionError}


class JarReads:
    """Asks the jar for byte ranges by `send`, which sends the JSON and the data of a frame. Threads that ask wait; the
    thread that receives frames calls :meth:`answer`, and never waits."""

    def __init__(self, send: Callable[[dict[str, Any], bytes], None]) -> None:
        self._send = send
        self._numbers = count(1)
        self._waiting: dict[int, Future[tuple[dict[str, Any], bytes]]] = {}

    def read(self, files: Sequence[HostFile], ranges: NDArray[np.int64]) -> bytes:
        """See :data:`bloomparquet.storage.host_files.ReadHostFiles`."""
        number, answer = next(self._numbers), Future[tuple[dict[str, Any], bytes]]()
        self._waiting[number] = answer
        self._send({"read": number, "files": files}, ranges.astype(">i8").tobytes())
        head, data = answer.result()
        if "error" in head:
            raise _ERRORS.get(head["kind"], OSError)(head["error"])
        return data

    def answer(self, head: dict[str, Any], data: bytes) -> None:
        """Hand the frame `head` and `data` to the thread that waits for it."""
        self._waiting.pop(head["read"]).set_result((head, data))
