"""A faulty object store in memory. An object appears when its upload is closed; a copy replaces one in one step."""

from __future__ import annotations

import itertools
import time
from io import BytesIO
from typing import Any

import fsspec

from tests.faults.injector import Injector
from tests.faults.local_calls import LATE_SECONDS, FaultyReader

_READS = ("fail", "short", "empty", "late")


class ObjectStore(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """`objects`: their bytes and times by path. `injector` chooses the faults; None: all is done right. `lies`: also
    short answers, and wrong sizes."""

    protocol = "memory"
    root_marker = ""
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.injector: Injector | None = None
        self.lies = True
        self._times = itertools.count(1_700_000_000, 10)

    def put_object(self, path: str, data: bytes) -> None:
        self.objects[path] = data, float(next(self._times))

    def _fault(self, name: str, *kinds: str) -> str | None:
        """Raise the error of a failed call; else the fault of its answer."""
        if self.injector is None:
            return None
        kinds = tuple(kind for kind in kinds if self.lies or kind != "size")
        fault = self.injector.choose(name, kinds)
        if fault == "fail":
            raise self.injector.error(name)
        if fault == "late":
            time.sleep(LATE_SECONDS)
        return fault

    def _answered(self, fault: str | None) -> None:
        """Raise the error of a call that was done, and whose answer was lost."""
        if fault == "lost":
            assert self.injector is not None
            raise self.injector.error()

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        fault = self._fault("info", "fail", "late", "size")
        path = path.strip("/")
        if path in self.objects:
            made = self._described(path)
            if fault == "size":
                assert self.injector is not None
                made["size"] = self.injector.lie(made["size"])
            return made
        if any(each.startswith(f"{path}/") for each in self.objects):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def _described(self, path: str) -> dict[str, Any]:
        data, mtime = self.objects[path]
        return {"name": path, "size": len(data), "type": "file", "mtime": mtime}

    def find(self, path: str, maxdepth: Any = None, withdirs: bool = False, detail: bool = False, **_: Any) -> Any:
        fault = self._fault("find", "fail", "late", "size")
        found = {each: self._described(each) for each in sorted(self.objects) if each.startswith(f"{path.strip('/')}/")}
        if maxdepth is not None:
            found = {each: info for each, info in found.items() if "/" not in each[len(path.strip("/")) + 1 :]}
        if fault == "size" and found:
            assert self.injector is not None
            info = next(iter(found.values()))
            info["size"] = self.injector.lie(info["size"])
        return found if detail else list(found)

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        found = self.find(path, maxdepth=1, detail=True)
        return list(found.values()) if detail else list(found)

    def isdir(self, path: str) -> bool:
        return any(each.startswith(f"{path.strip('/')}/") for each in self.objects)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        path = path.strip("/")
        self._fault(f"open {mode}", "fail", "late")
        if mode == "wb":
            return _Upload(self, path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        data = BytesIO(self.objects[path][0])
        kinds = [kind for kind in _READS if self.lies or kind != "empty"]
        return data if self.injector is None else FaultyReader(data, path, self.injector, kinds)

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return self._open(path, mode)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        fault = self._fault("copy", "fail", "late", "lost")
        self.put_object(path2.strip("/"), self.objects[path1.strip("/")][0])
        self._answered(fault)

    def rm_file(self, path: str) -> None:
        fault = self._fault("delete", "fail", "late", "lost")
        if self.objects.pop(path.strip("/"), None) is None:
            raise FileNotFoundError(path)
        self._answered(fault)


class _Upload(BytesIO):
    def __init__(self, store: ObjectStore, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path

    def write(self, data: Any) -> int:
        self._store._fault("write", "fail", "late")
        return super().write(data)

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            fault = self._store._fault("close", "fail", "late", "lost")
            self._store.put_object(self._path, data)
            self._store._answered(fault)
