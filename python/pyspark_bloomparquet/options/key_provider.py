"""The keys of the option ``keyProvider``, for the planner and for Spark's Python workers.

The option is the name of a function, and only this name travels between processes. Each process that reads encrypted
files calls the function, and caches the keys for ten minutes: plans find the footers that they decrypted with the same
keys, and queries do not ask a key server again.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from pathlib import Path

from bloomparquet.errors import EncryptionError, OptionError, PlanError
from bloomparquet.parquet.encryption.keys import Keys, load_keys
from bloomparquet.storage.forks import new_lock

_CACHE_SECONDS = 600.0
_MIN_CACHE_SECONDS = 5.0  # also after a decryption failure
_USER_FILES = "userFiles-"  # how Spark's directories of shipped files begin
_ALLOWED = "BLOOMPARQUET_KEY_PROVIDERS"
_SEARCHED = (
    "on PYTHONPATH, and among the files of --py-files and SparkContext.addPyFile; the jar's planner also in "
    "spark.bloomparquet.pythonPath; a function of a notebook or of the main program is not found"
)

_lock = new_lock()
_calls: dict[str, _Call] = {}


class _Call:
    """One call of a provider, in a thread of its own; any number of threads may wait for the keys."""

    def __init__(self, provider: str, shipped_files: str | None) -> None:
        self.provider, self._started = provider, time.monotonic()
        self._keys: Future[Keys] = Future()
        # Not the caller's thread: a provider that hangs would block the planner's threads, and so all other queries.
        name = f"key provider {provider}"
        threading.Thread(target=self._run, args=(shipped_files,), name=name, daemon=True).start()

    @property
    def age(self) -> float:
        """Seconds since the call."""
        return time.monotonic() - self._started

    @property
    def is_expired(self) -> bool:
        has_failed = self._keys.done() and self._keys.exception() is not None
        return has_failed or self.age >= _CACHE_SECONDS

    def keys(self, timeout: float | None) -> Keys:
        try:
            return self._keys.result(None if timeout is None else max(timeout - self.age, 0.0))
        except FutureTimeoutError:
            raise PlanError(f"key provider {self.provider!r} did not return within {timeout:.0f} seconds") from None

    def _run(self, shipped_files: str | None) -> None:
        try:
            self._keys.set_result(_load(self.provider, shipped_files))
        except OptionError as error:
            self._keys.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - the waiting threads raise it
            reason = OptionError(f"key provider {self.provider!r} raised {type(error).__name__}")
            self._keys.set_exception(reason)


def check_allowed(provider: str) -> None:
    """OptionError unless the environment variable ``BLOOMPARQUET_KEY_PROVIDERS`` names `provider`.

    Options and table properties come from people who may only query. They must not choose the code that runs. The jar
    has a setting of the application for this; without the jar no setting can be seen.
    """
    allowed = [name.strip() for name in os.environ.get(_ALLOWED, "").split(",") if name.strip()]
    if provider not in allowed:
        # Other text may be a key that was given by mistake: no message repeats it.
        text = repr(provider) if re.fullmatch(r"[\w.]+:[\w.]+", provider) else "not of the form module:function"
        raise OptionError(
            f"option keyProvider is {text}; expected a function that the driver's environment variable {_ALLOWED} "
            f"names (found: {', '.join(allowed) or 'none'}). Set the variable, a list with commas, before the session "
            "starts. With the jar, set spark.bloomparquet.keyProviders instead"
        )


def provided_keys(provider: str | None, timeout: float | None = None, shipped_files: str | None = None) -> Keys | None:
    """The keys that the function `provider` (``"module:function"``) returns. None if `provider` is None.

    Raises PlanError if the function has not returned `timeout` seconds after it was called, and OptionError if there is
    no such function, on the path or among `shipped_files`, or if it does not return keys.
    """
    if provider is None:
        return None
    if not isinstance(provider, str):
        raise OptionError(f"key provider is a {type(provider).__name__}; expected a function's name, module:function")
    with _lock:
        call = _calls.get(provider)
        if call is None or call.is_expired:
            call = _calls[provider] = _Call(provider, shipped_files)
    return call.keys(timeout)


def invalidate(provider: str | None) -> None:
    """Forget the cached keys of `provider` after a decryption failure, unless they are only a few seconds old."""
    with _lock:
        call = _calls.get(provider or "")
        if call is not None and call.age > _MIN_CACHE_SECONDS:
            del _calls[call.provider]


@contextmanager
def invalidating(provider: str | None) -> Iterator[None]:
    """Invalidate the provider's keys if the block raises EncryptionError."""
    try:
        yield
    except EncryptionError:
        invalidate(provider)
        raise


def _load(provider: str, shipped_files: str | None) -> Keys:
    importlib.invalidate_caches()  # the module may have been shipped after this process started
    if _is_missing(provider):
        _add_shipped(provider, shipped_files)
    try:
        return load_keys(provider)
    except OptionError as error:
        if _is_missing(provider):
            raise OptionError(f"{error}; {sys.executable} looks for modules {_SEARCHED}") from None
        raise


def _add_shipped(provider: str, shipped_files: str | None) -> None:
    """Append shipped files to ``sys.path`` if they hold the provider's module.

    SQL's ADD FILE writes to the same directory. It must not replace an installed module, so the directory comes last.
    """
    before = list(sys.path)
    if shipped_files and shipped_files not in sys.path:
        sys.path.append(shipped_files)
    if _is_missing(provider):
        sys.path += [archive for archive in _shipped_archives() if archive not in sys.path]
    if _is_missing(provider):
        sys.path[:] = before


def _shipped_archives() -> list[str]:
    """Archives in the directories of shipped files. Spark adds them to ``sys.path`` in its own processes only."""
    directories = [Path(entry) for entry in sys.path if Path(entry).name.startswith(_USER_FILES)]
    return sorted(str(file) for folder in directories for kind in ("*.zip", "*.egg") for file in folder.glob(kind))


def _is_missing(provider: str) -> bool:
    """Whether the provider's package is not found."""
    package = provider.partition(":")[0].partition(".")[0]
    try:
        return package.isidentifier() and importlib.util.find_spec(package) is None
    except ValueError:  # imported without a spec, so it is there
        return False
