"""The keys behind the option ``keyProvider``, in each process that opens encrypted files: the planner, and Spark's
Python workers.

What travels between them is the name of a function. What it gave is kept for a while, for plans to find the footers
that they have opened with the same keys, and for no query to ask a key server for what the last one was told.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import time
from collections import defaultdict

from bloomparquet.errors import OptionError
from bloomparquet.keys import Keys, load_keys

_SECONDS_KEPT = 600.0
_WHERE_FOUND = (
    "on PYTHONPATH, and among the files that --py-files or SparkContext.addPyFile ships; the jar's planner also in "
    "spark.bloomparquet.pythonPath"
)

_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_kept: dict[str, tuple[Keys, float]] = {}


def provided_keys(provider: str | None) -> Keys | None:
    """What the function that `provider` names (``"module:function"``) returns; None where none is named.

    Raises OptionError that says what to do: where there is no such function, or it does not return keys.
    """
    if provider is None:
        return None
    with _locks[provider]:
        keys, until = _kept.get(provider, (None, 0.0))
        if keys is None or time.monotonic() >= until:
            keys = _load(provider)
            _kept[provider] = keys, time.monotonic() + _SECONDS_KEPT
        return keys


def _load(provider: str) -> Keys:
    importlib.invalidate_caches()  # the module may have been shipped since this process began
    try:
        return load_keys(provider)
    except OptionError as error:
        if _is_missing(provider):
            raise OptionError(f"{error}; {sys.executable} looks for modules {_WHERE_FOUND}") from None
        raise


def _is_missing(provider: str) -> bool:
    """Whether it is the module itself that is not found."""
    package = provider.partition(":")[0].partition(".")[0]
    try:
        return package.isidentifier() and importlib.util.find_spec(package) is None
    except ValueError:  # it is there, and says nothing of where it is from
        return False
