"""Faulty streams of frames: cut, duplicated, late, reordered, and with junk between them."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Sequence
from random import Random
from threading import Thread
from typing import IO, Any

HARMLESS = ("duplicated", "late", "reordered")
KINDS = (*HARMLESS, "cut", "junk", "other JSON")
"""After a harmless fault, all frames are there."""
JSON = (
    "[]",
    "3",
    "null",
    '"text"',
    "{}",
    '{"id": 99}',
    '{"id": [], "version": {}}',
    "[" * 100_000,
    "NaN",
    '{"id": 1e999}',
)


def frame(head: str | bytes | dict[str, Any], data: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else (head if isinstance(head, str) else json.dumps(head)).encode()
    return b"".join((len(text).to_bytes(4, "big"), text, len(data).to_bytes(4, "big"), data))


def disturbed(frames: Sequence[bytes], random: Random, kinds: Sequence[str] = KINDS) -> tuple[list[bytes], str]:
    """The pieces of a stream of `frames` with one fault, and its kind."""
    pieces, kind, at = list(frames), random.choice(list(kinds)), random.randrange(len(frames))
    if kind == "duplicated":
        pieces.insert(random.randint(at, len(pieces)), pieces[at])
    elif kind == "reordered":
        random.shuffle(pieces)
    elif kind == "cut":
        whole = pieces[at]
        pieces[at] = whole[: random.randrange(len(whole))]
        if random.random() < 0.5:
            del pieces[at + 1 :]
    elif kind == "junk":
        pieces.insert(at, random.randbytes(random.choice((1, 3, 4, 5, 9, 200))))
    elif kind == "other JSON":
        pieces.insert(at, frame(random.choice(JSON), random.randbytes(random.choice((0, 0, 16)))))
    return pieces, kind


def late_stream(pieces: Sequence[bytes], random: Random) -> IO[bytes]:
    """A pipe on which the pieces arrive in parts, with pauses."""
    reads, writes = os.pipe()

    def send() -> None:
        with open(writes, "wb", buffering=0) as out:
            for piece in pieces:
                at = random.randrange(len(piece) + 1)
                try:
                    out.write(piece[:at])
                    time.sleep(0.002)
                    out.write(piece[at:])
                except BrokenPipeError:  # the reader has seen enough
                    return

    Thread(target=send, daemon=True).start()
    return open(reads, "rb")


def stream(pieces: Sequence[bytes], kind: str, random: Random) -> IO[bytes]:
    return late_stream(pieces, random) if kind == "late" else io.BytesIO(b"".join(pieces))
