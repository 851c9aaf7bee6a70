"""The states that a disk may be in after a power failure: what was not flushed may be lost, in part or as a whole.

A run of a work is recorded: each call of ``os`` that changes a file or a directory below a root, with what the file
holds afterwards. From a prefix of that record, :meth:`Recorder.after_crash` makes a state that a file system may show
after a crash at that moment:

* a file holds what it held when it was last flushed, or any later state, cut, or with blocks of zeros;
* names were made, replaced and removed in order up to some call, at least up to the last flush of their directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

BLOCK = 512


@dataclass(frozen=True)
class Event:
    """`kind`: ``"data"``: the file holds `data`. ``"flush"``: it is on the disk. ``"name"``: `path` names the file, no
    file if that is None, and `former` none any more. ``"flush names"``: the names in the directory `path` are on the
    disk."""

    kind: str
    path: str
    file: int | None = None
    data: bytes = b""
    former: str = ""
    is_new: bool = False


class Recorder:
    """`events`: all of a run below `root`. `flushes`: whether flushes are done."""

    def __init__(self, root: Path, *, flushes: bool = True) -> None:
        self._root, self._flushes = str(root), flushes
        self.events: list[Event] = []
        self._before = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        self._files = {path: os.stat(path).st_ino for path in self._before}
        self._numbers = {
            inode: inode for inode in self._files.values()
        }  # a new file may have the inode of a former one
        self._next = -1

    @contextmanager
    def recording(self) -> Iterator[None]:
        with ExitStack() as patches:
            for name, note in _NOTES.items():
                patches.enter_context(patch.object(os, name, self._noted(getattr(os, name), note)))
            yield

    def _noted(self, original: Callable[..., Any], note: Callable[..., list[Event]]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            for event in note(result, *arguments):
                if event.path.startswith(self._root) and (self._flushes or "flush" not in event.kind):
                    self.events.append(self._numbered(event))
            return result

        return call

    def _numbered(self, event: Event) -> Event:
        if event.file is None:
            return event
        if event.is_new or event.file not in self._numbers:
            self._numbers[event.file] = self._next
            self._next -= 1
        return replace(event, file=self._numbers[event.file])

    def after_crash(self, end: int, random: Random) -> dict[str, bytes]:
        """The files, by path, after a crash that followed the first `end` events."""
        events = self.events[:end]
        names: dict[str, int | None] = dict(self._files)
        name_events = [i for i, event in enumerate(events) if event.kind == "name"]
        flushed = max((i for i, event in enumerate(events) if event.kind == "flush names"), default=-1)
        least = sum(i < flushed for i in name_events)
        for i in name_events[: random.randint(least, len(name_events))]:
            names[events[i].path] = events[i].file
            names.pop(events[i].former, None)
        state = {}
        for path, file in names.items():
            if file is not None:
                state[path] = self._content(file, events, random)
        return state

    def _content(self, file: int, events: list[Event], random: Random) -> bytes:
        before = next((self._before[path] for path, number in self._files.items() if number == file), b"")
        of_file = [event for event in events if event.file == file and event.kind in ("data", "flush")]
        last = max((i for i, event in enumerate(of_file) if event.kind == "flush"), default=-1)
        durable = next((event.data for event in reversed(of_file[: last + 1]) if event.kind == "data"), before)
        later = [event.data for event in of_file[last + 1 :]]
        if not later or random.random() < 0.3:
            return durable
        data = random.choice(later)
        if random.random() < 0.3:
            return data
        kept = bytearray(data[: random.randint(0, len(data))] if random.random() < 0.5 else data)
        for start in range(len(durable) // BLOCK * BLOCK, len(kept), BLOCK):
            if random.random() < 0.5:
                kept[start : start + BLOCK] = bytes(len(kept[start : start + BLOCK]))
        return durable + bytes(kept[len(durable) :])


def _content_of(descriptor: int) -> list[Event]:
    """The present content of a regular file."""
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    try:
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            return [Event("data", path, os.fstat(descriptor).st_ino, file.read())]
    except OSError:
        return []


def _noted_open(result: int, path: Any, flags: int, *_: Any) -> list[Event]:
    made = Event("name", os.fspath(path), os.fstat(result).st_ino, is_new=True)
    return [made] if flags & os.O_CREAT else []


def _noted_flush(_: None, descriptor: int) -> list[Event]:
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    if os.path.isdir(path):
        return [Event("flush names", path)]
    return [Event("flush", path, os.fstat(descriptor).st_ino)]


def _noted_rename(_: None, source: Any, target: Any) -> list[Event]:
    inode = os.stat(target).st_ino
    with open(target, "rb") as file:
        written = Event("data", os.fspath(target), inode, file.read())  # not all of it by calls of `os`
    return [written, Event("name", os.fspath(target), inode, former=os.fspath(source))]


_NOTES: dict[str, Callable[..., list[Event]]] = {
    "open": _noted_open,
    "write": lambda _, descriptor, *rest: _content_of(descriptor),
    "copy_file_range": lambda _, source, target, *rest: _content_of(target),
    "fsync": _noted_flush,
    "rename": _noted_rename,
    "replace": _noted_rename,
    "unlink": lambda _, path: [Event("name", os.fspath(path), None)],
}
