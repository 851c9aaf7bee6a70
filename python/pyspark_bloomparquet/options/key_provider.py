"""The keys behind the option ``keyProvider``, in each process that opens encrypted files: the planner, and Spark's
Python workers.

What travels between them is the name of a function. What it gave is kept for a while, for plans to find the footers
that they have opened with the same keys, and for no query to ask a key server for what the last one was told.
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
from contextlib import contextmanager
from pathlib import Path

from bloomparquet.errors import EncryptionError, OptionError, PlanError
from bloomparquet.parquet.encryption.keys import Keys, load_keys

_SECONDS_KEPT = 600.0
_LEAST_SECONDS_KEPT = 5.0  # also after a decryption failure
_SPARKS_FILES = "userFiles-"
_ALLOWED = "BLOOMPARQUET_KEY_PROVIDERS"
_WHERE_FOUND = (
    "on PYTHONPATH, and among the files that --py-files or SparkContext.addPyFile ships; the jar's planner also in "
    "spark.bloomparquet.pythonPath; none of them sees a notebook, or the program itself"
)

_lock = threading.Lock()
_asked: dict[str, _Answer] = {}


class _Answer:
    """What a provider gives, when it does: one thread asks, and any number may wait."""

    def __init__(self, provider: str, shipped_files: str | None) -> None:
        self.provider = provider
        self._shipped_files = shipped_files
        self._keys: Keys | None = None
        self._error: OptionError | None = None
        self._done = threading.Event()
        self._began = time.monotonic()
        self._until = self._began + _SECONDS_KEPT
        # Not the thread of who waits: a provider that hangs must not take those with it that plan other queries.
        threading.Thread(target=self._ask, name=f"key provider {provider}", daemon=True).start()

    @property
    def age(self) -> float:
        """The seconds since the provider was asked."""
        return time.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        """Whether the provider is to be asked again."""
        return time.monotonic() >= self._until

    def keys(self, patience: float | None) -> Keys:
        left = None if patience is None else max(self._began + patience - time.monotonic(), 0.0)
        if not self._done.wait(left):
            raise PlanError(
                f"key provider {self.provider!r} has not answered for {patience:.0f} seconds; it is waited for no more"
            )
        if self._keys is None:
            raise OptionError(*(self._error.args if self._error else ()))
        return self._keys

    def _ask(self) -> None:
        try:
            self._keys = _load(self.provider, self._shipped_files)
        except OptionError as error:
            self._error = error
        except BaseException as error:  # noqa: BLE001 - who waits is to be told
            self._error = OptionError(f"key provider {self.provider!r} raised {type(error).__name__}")
        self._until = time.monotonic() + (_SECONDS_KEPT if self._keys is not None else 0.0)
        self._done.set()


def check_allowed(provider: str) -> None:
    """OptionError unless the environment variable ``BLOOMPARQUET_KEY_PROVIDERS`` names `provider`.

    For where an option chooses it and there is no JVM whose settings could be asked. Who may set options and properties
    of tables may thus not choose which code runs.
    """
    allowed = [name.strip() for name in os.environ.get(_ALLOWED, "").split(",") if name.strip()]
    if provider not in allowed:
        # Text of another form may be a key that was given by mistake: no message repeats it.
        what = repr(provider) if re.fullmatch(r"[\w.]+:[\w.]+", provider) else "not of the form module:function"
        raise OptionError(
            f"option keyProvider is {what}; expected one of the functions that the environment variable {_ALLOWED} of "
            f"the driver names (found: {', '.join(allowed) or 'none'}); set it, as a list with commas, before the "
            "session is started. With the jar, the setting is spark.bloomparquet.keyProviders"
        )


def provided_keys(provider: str | None, patience: float | None = None, shipped_files: str | None = None) -> Keys | None:
    """What the function that `provider` names (``"module:function"``) returns; None where none is named.

    Waits for it no longer than until `patience` seconds after it was called; then raises PlanError. Raises OptionError
    that says what to do where there is no such function, or it does not return keys. A module that is found nowhere
    else is looked for in the directory `shipped_files`, and in archives there.
    """
    if provider is None:
        return None
    if not isinstance(provider, str):
        raise OptionError(
            f"key provider is a {type(provider).__name__}; expected the name of a function: module:function"
        )
    with _lock:
        answer = _asked.get(provider)
        if answer is None or answer.is_over:
            answer = _asked[provider] = _Answer(provider, shipped_files)
    return answer.keys(patience)


def doubt(provider: str | None) -> None:
    """Invalidate the cached keys of `provider` after a decryption failure, unless they were fetched in the last few
    seconds."""
    with _lock:
        answer = _asked.get(provider or "")
        if answer is not None and answer.age > _LEAST_SECONDS_KEPT:
            del _asked[answer.provider]


@contextmanager
def doubted(provider: str | None) -> Iterator[None]:
    """Invalidate the cached keys of `provider` if the block raises EncryptionError."""
    try:
        yield
    except EncryptionError:
        doubt(provider)
        raise


def _load(provider: str, shipped_files: str | None) -> Keys:
    importlib.invalidate_caches()  # the module may have been shipped since this process began
    if _is_missing(provider):
        _add_shipped(provider, shipped_files)
    try:
        return load_keys(provider)
    except OptionError as error:
        if _is_missing(provider):
            raise OptionError(f"{error}; {sys.executable} looks for modules {_WHERE_FOUND}") from None
        raise


def _add_shipped(provider: str, shipped_files: str | None) -> None:
    """Look for the provider's module among what Spark has shipped, too; last, and only if it is there.

    SQL's ADD FILE writes into the same directory. It cannot replace a module that is installed, but it can supply one
    that is installed nowhere.
    """
    before = list(sys.path)
    if shipped_files and shipped_files not in sys.path:
        sys.path.append(shipped_files)
    if _is_missing(provider):
        sys.path += [archive for archive in _shipped_archives() if archive not in sys.path]
    if _is_missing(provider):
        sys.path[:] = before


def _shipped_archives() -> list[str]:
    """The archives that Spark has shipped to where modules are looked for; it adds them itself in its own processes
    only."""
    places = [Path(place) for place in sys.path if Path(place).name.startswith(_SPARKS_FILES)]
    return sorted(str(file) for place in places for kind in ("*.zip", "*.egg") for file in place.glob(kind))


def _is_missing(provider: str) -> bool:
    """Whether it is the module itself that is not found."""
    package = provider.partition(":")[0].partition(".")[0]
    try:
        return package.isidentifier() and importlib.util.find_spec(package) is None
    except ValueError:  # it is there, and says nothing of where it is from
        return False
