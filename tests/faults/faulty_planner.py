"""A planner that answers as the real one does, but for one of its answers: the program of `test_planner_frames`."""

from __future__ import annotations

import json
import os
import time
from random import Random
from typing import IO, Any

from pyspark_bloomparquet.jar import planner_worker

KINDS = (
    "nothing but its id", "other files", "duplicated", "cut", "held back", "late", "junk", "other JSON", "other id",
    "without an id", "fewer ranges", "more ranges", "negative ranges", "no data", "other types",
)  # fmt: skip
JSON = (
    "[]", "3", "null", '"text"', "{}", '{"id": 99}', '{"id": [], "version": {}}', "[" * 100_000, "NaN", '{"id": 1e999}',
)  # fmt: skip


def frame(head: str | dict[str, Any], data: bytes = b"") -> bytes:
    text = (head if isinstance(head, str) else json.dumps(head)).encode()
    return b"".join((len(text).to_bytes(4, "big"), text, len(data).to_bytes(4, "big"), data))


def main(seed: int) -> None:
    """Run the planner. Its answer of a random number has a fault."""
    random, kind = Random(seed), KINDS[seed % len(KINDS)]
    at = random.choice((1, 1, 2, 3))
    real, answered = planner_worker.write_frame, 0  # type: ignore[attr-defined]
    held: list[bytes] = []

    def write_frame(stream: IO[bytes], head: dict[str, Any], body: bytes) -> None:
        nonlocal answered
        if "plan" not in head:
            real(stream, head, body)
            return
        answered += 1
        pieces = [frame(head, body)] if answered != at else disturb(random, kind, head, body, held)
        for number, piece in enumerate([*pieces, *(held if answered > at else ())]):
            if number and kind == "late":
                time.sleep(0.5)
            stream.write(piece)
            stream.flush()
        if answered == at and kind == "cut":
            os._exit(0)
        if answered > at:
            held.clear()

    planner_worker.write_frame = write_frame  # type: ignore[attr-defined]
    planner_worker.main()


def disturb(random: Random, kind: str, head: dict[str, Any], body: bytes, held: list[bytes]) -> list[bytes]:
    """The bytes to send instead of an answer."""
    whole = frame(head, body)
    half = random.randrange(1, len(whole))
    if kind == "duplicated":
        held.append(whole)
        return [whole, whole]
    if kind == "held back":
        held.append(whole)
        return []
    if kind == "junk":
        return [random.randbytes(random.choice((1, 4, 9, 200))), whole]
    if kind == "other JSON":
        return [frame(random.choice(JSON)), whole]
    if kind in ("late", "cut"):
        return [whole[:half], whole[half:]][: 1 if kind == "cut" else 2]
    if kind == "other id":
        return [frame({**head, "id": head["id"] + random.choice((-1, 1, 1000))}, body)]
    if kind == "without an id":
        return [frame({key: value for key, value in head.items() if key != "id"}, body)]
    if kind == "nothing but its id":
        return [frame({"id": head["id"], **random.choice(({}, {"ranges": 0}, {"plan": None, "ranges": 0}))})]
    if kind == "no data":
        return [frame(head)]
    if kind == "other types":
        wrong: Any = random.choice(([], "x", None, 1e999, -1, {}))
        return [frame({**head, random.choice(("plan", "ranges", "revision", "id")): wrong}, body)]
    count = head["ranges"]
    changed = bytearray(body)
    if kind == "fewer ranges":
        return [frame({**head, "ranges": max(0, count - 1)}, body)]
    if kind == "more ranges":
        return [frame({**head, "ranges": count + random.choice((1, 2, 1 << 28, 1 << 31))}, body)]
    if kind == "other files":
        changed[:8] = random.choice((1 << 40, 4, (1 << 63) - 1)).to_bytes(8, "big")
    else:
        at = 8 * count * random.choice((0, 1, 2))
        changed[at : at + 8] = (-random.choice((1, 1 << 40))).to_bytes(8, "big", signed=True)
    return [frame(head, bytes(changed))]
