"""The program of the jar's planner process: reads requests, writes plans. It does not import Spark.

:mod:`pyspark_bloomparquet.jar.protocol` describes requests and answers.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock, Thread
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError, OptionError, PlanError
from bloomparquet.planning import planner
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.cache_file import code_fingerprint
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.open import persist
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.parquet.cache import FooterCache, process_cache
from bloomparquet.planning.plan import KEPT, ScanPlan
from bloomparquet.storage.files import FileInfo, LocalStorage, Storage, open_storage
from pyspark_bloomparquet.jar.protocol import (
    COUNT_PREFIX,
    agreed_zone,
    read_frame,
    to_predicate,
    to_reader_types,
    write_frame,
)
from pyspark_bloomparquet.options.key_provider import invalidate, provided_keys
from pyspark_bloomparquet.options.load import PlannerOptions

VERSION = 5
"""Raise it, and ``PlannerProcess.VERSION``, with every change of the request, the answer or the predicate grammar."""
_THREADS = 4
_CACHED_LISTINGS = 16
_MAX_ERRORS = 3
_MAX_ERROR_LENGTH = 500  # characters
_FORMATS = {each.value: each for each in FileFormat}
_HEARTBEAT_SECONDS = 2
_SHUTDOWN_SECONDS = 10
_KEY_PROVIDER_SECONDS = 15.0  # less than queries wait for their plans
_STORAGE_RETRY_SECONDS = 60
_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")  # scheme and authority

_storage_errors: dict[str, tuple[str, float]] = {}  # message and time of the next attempt, by root


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a shell is for the query
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not end up between the frames
    requests = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # a child process, such as a key provider's, must not read the frames
    logging.getLogger("bloomparquet").addHandler(logging.NullHandler())  # warnings are in the answers
    np.unique(np.zeros(1))  # the first call imports more of numpy
    code_fingerprint()
    failed = False
    try:
        Worker(answers).serve(requests)
    except Exception:
        failed = True
        logging.getLogger(__name__).exception("the planner stops")
    os._exit(failed)  # a plan that hangs in a storage must not keep this process alive


class Worker:
    """Plans several requests at a time, with a shared cache."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers = answers
        self._lock = Lock()
        self._unanswered = 0  # requests
        self._unfinished = 0  # requests without an answer, or whose cache entries are not on disk
        self._datasets: OrderedDict[bytes, Dataset] = OrderedDict()

    def serve(self, requests: IO[bytes]) -> None:
        """Answer requests until the input ends, then wait a few seconds for the cache to be written."""
        Thread(target=self._send_heartbeats, daemon=True).start()
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="plan")
        while (frame := read_frame(requests)) is not None:
            with self._lock:
                self._unanswered += 1
                self._unfinished += 1
            threads.submit(self._answer, *frame)
        threads.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + _SHUTDOWN_SECONDS
        while self._unfinished and time.monotonic() < deadline:
            time.sleep(0.01)

    def _send_heartbeats(self) -> None:
        """Lets the jar tell a long plan from a process that hangs."""
        while True:
            time.sleep(_HEARTBEAT_SECONDS)
            with self._lock:
                if self._unanswered:
                    write_frame(self._answers, {"id": 0}, b"")

    def _answer(self, request: dict[str, Any], listing: bytes) -> None:
        answer, data, cache = self._plan(request, listing)
        with self._lock:
            self._unanswered -= 1
            write_frame(self._answers, {"id": request.get("id"), **answer}, data)
        persist(cache)
        with self._lock:
            self._unfinished -= 1

    def _plan(self, request: dict[str, Any], listing: bytes) -> tuple[dict[str, Any], bytes, FooterCache]:
        """The answer, its data, and the cache that keeps what was read."""
        fatal, cache = False, process_cache
        try:
            if request.get("version") != VERSION:
                raise PlanError(
                    f"the jar has version {request.get('version')} of the planner's protocol, and this Python package "
                    f"has version {VERSION}; attach the jar of the same release"
                )
            if request["format"] not in _FORMATS:
                raise PlanError(f"the planner does not know the file format {request['format']!r}")
            options = PlannerOptions.parse(request.get("options", {}))
            if options.cache:
                cache = process_cache.on_disk(options.cache_directory, options.cache_max_bytes)
            fatal = options.on_filter_error == "fail"
            dataset = self._dataset(listing, request["files"])
            keys = provided_keys(options.key_provider, _KEY_PROVIDER_SECONDS, options.shipped_files)
            plan_options = PlanOptions(
                # Without a zone, a timestamp that needs one skips nothing.
                timezone=agreed_zone(request["timeZone"], request["offsets"]),
                case_sensitive=request["caseSensitive"],
                on_filter_error=options.on_filter_error,
                skip_corrupt=True,
                strict=False,
                exact_names=True,
                reader_types=to_reader_types(request["readerTypes"]),
                cache=cache,
            )
            dataset = replace(dataset.with_keys(keys), format=_FORMATS[request["format"]])
            plan = planner.plan_dataset(dataset, to_predicate(request["predicate"]), plan_options)
            if any(isinstance(error, EncryptionError) for error in plan.errors):
                invalidate(options.key_provider)
            return *summarize(plan), cache
        except BloomParquetError as error:
            fatal = isinstance(error, OptionError) or (fatal and not isinstance(error, PlanError))
            return {"error": _first_line(error), "fatal": fatal}, b"", cache
        except BaseException as error:  # noqa: BLE001 - no failure of planning may fail a query or block it
            return {"error": f"{type(error).__name__}: {_first_line(error)}"}, b"", cache

    def _dataset(self, listing: bytes, files: int) -> Dataset:
        with self._lock:
            known = self._datasets.get(listing)
        dataset = refresh(known or parse_listing(listing, files))
        with self._lock:
            self._datasets[listing] = dataset
            self._datasets.move_to_end(listing)
            while len(self._datasets) > _CACHED_LISTINGS:
                self._datasets.popitem(last=False)
        return dataset


def parse_listing(listing: bytes, files: int) -> Dataset:
    """The files of a request, without partition values: Spark has already applied its partition filters."""
    numbers = np.frombuffer(listing, ">i8", 2 * files).astype(np.int64)
    text = listing[16 * files :].decode("utf-8", "surrogateescape")
    paths = text.split("\0")[:-1]
    if len(paths) != files:
        raise PlanError(f"the request has {len(paths)} paths; expected {files}")
    storage, inner = _on_one_storage(paths)
    sizes, times = numbers[:files].tolist(), (numbers[files:] * 1_000_000).tolist()
    return Dataset(storage, tuple(map(FileInfo, inner, sizes, times)), (), ((),) * files)


def refresh(dataset: Dataset) -> Dataset:
    """`dataset` with the current versions of its local files; the same object if none has changed.

    Spark lists files when a DataFrame is loaded, without inodes and change times. Raises FileNotFoundError.
    """
    if not isinstance(dataset.storage, LocalStorage):
        return dataset
    changed: dict[int, FileInfo] = {}
    for i, (path, size, mtime, inode, ctime) in enumerate(dataset.files):
        now = os.stat(path)  # runs for every file of every query, so this loop does nothing else
        if now.st_ctime_ns != ctime or now.st_mtime_ns != mtime or now.st_ino != inode or now.st_size != size:
            changed[i] = FileInfo.of(path, now)
    if not changed:
        return dataset
    return replace(dataset, files=tuple([changed.get(i, file) for i, file in enumerate(dataset.files)]))


def _on_one_storage(paths: list[str]) -> tuple[Storage, list[str]]:
    match = _ROOT.match(paths[0])
    root = match.group() if match else ""
    stray = next((path for path in paths if not path.startswith(f"{root}/")), None)
    if stray is not None:
        raise PlanError(f"the files of one scan must be on one storage; found {paths[0]} and {stray}")
    # Only the root is parsed as a URI: Hadoop does not escape blanks and percent signs in paths.
    storage, inner = _open(root)
    return storage, [inner + path[len(root) :] for path in paths]


def _open(root: str) -> tuple[Storage, str]:
    """The storage at a scheme and authority, and the path of its root in it.

    Raises PlanError if the storage cannot be opened; that error is cached for a minute.
    """
    if root.startswith("file:") or not root:
        return open_storage("/")[0], ""
    message, until = _storage_errors.get(root, ("", 0.0))
    if time.monotonic() >= until:
        try:
            storage, inner = open_storage(root)
            return storage, inner.rstrip("/")
        except (OSError, ImportError, ValueError, pa.ArrowException) as error:
            message = f"the planner's Python cannot open {root}: {_first_line(error)}"
            _storage_errors[root] = message, time.monotonic() + _STORAGE_RETRY_SECONDS
    raise PlanError(message)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:_MAX_ERROR_LENGTH]


def summarize(plan: ScanPlan) -> tuple[dict[str, Any], bytes]:
    """The answer for `plan`: its counts; and as data the byte ranges to read and the versions of the files."""
    sizes = np.array([file.size for file in plan.dataset.files], np.int64)
    is_planned = np.zeros(len(sizes), np.bool_)
    is_planned[plan.file_positions] = True
    # Spark reads these files completely, or raises an error.
    whole = np.flatnonzero(~is_planned & (sizes > 0))
    file, start, length = ranges(plan)
    file, start, length = (
        np.concatenate(parts)
        for parts in ((plan.file_positions[file], whole), (start, np.zeros_like(whole)), (length, sizes[whole]))
    )
    order = np.lexsort((start, file))
    skipped = plan.skipped
    errors, warnings = [str(error) for error in plan.errors], []
    if errors:
        more = f" (and {len(errors) - _MAX_ERRORS} more)" if len(errors) > _MAX_ERRORS else ""
        kind = "Encrypted data" if isinstance(plan.errors[0], EncryptionError) else "Unusable Bloom filters"
        warnings = [f"{kind}: " + "; ".join(errors[:_MAX_ERRORS]) + more]
    prefix = COUNT_PREFIX[plan.unit]
    counts = {
        f"{prefix}Total": len(plan.table),
        f"{prefix}SkippedByStatistics": skipped["statistics"],
        f"{prefix}SkippedByBloomFilter": skipped["bloom"],
        f"{prefix}Read": plan.kept - len(plan.unreadable),
        "bloomFilterBytes": plan.bloom_bytes_read,
        "planningTimeMs": round(plan.seconds * 1000),
        "numFilterErrors": len(errors),
        "numFilesReadWhole": len(whole),
        "requests": plan.requests,
        "rows": -1 if len(whole) else int(plan.table.rows[plan.codes == KEPT].sum()),
        "warnings": warnings,
    }
    if plan.row_group_counts is not None:
        counts |= {
            "numRowGroupsTotal": plan.row_group_counts.total,
            "numRowGroupsExcludedByStatistics": plan.row_group_counts.by_statistics,
            "numRowGroupsExcludedByBloomFilter": plan.row_group_counts.by_bloom,
        }
    numbers = [part[order] for part in (file, start, length)]
    versions = _versions(plan.dataset)
    data = b"".join(part.astype(">i8").tobytes() for part in [*numbers, *versions])
    return {"plan": counts, "versions": len(versions[0]) if versions else 0}, data


def _versions(dataset: Dataset) -> list[NDArray[Any]]:
    """Sizes, modification times (ms), inodes and change times (ns) of local files; empty for other storages."""
    if not isinstance(dataset.storage, LocalStorage):
        return []
    _, sizes, times, inodes, ctimes = zip(*dataset.files, strict=True)
    return [
        np.array(sizes, np.int64),
        np.array(times, np.int64) // 1_000_000,
        np.array(inodes, np.uint64).view(np.int64),
        np.array(ctimes, np.int64),
    ]


def ranges(plan: ScanPlan) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The byte ranges to read: file (index in ``plan.table.files``), start, length.

    Spark's Parquet reader takes the row groups whose middle, as parquet-java computes it, lies in its range; its ORC
    reader takes the stripes whose first byte does (``RecordReaderImpl``). So each range holds that point of kept units
    only, whatever extents a footer states.
    """
    table = plan.table
    kept = plan.codes == KEPT
    some = np.flatnonzero(np.isin(table.file, np.unique(table.file[kept])))
    start, length = table.extents_of(some)
    file, wanted, point = table.file[some], kept[some], start if table.format is FileFormat.ORC else start + length // 2
    order = np.lexsort((point, file))
    file, start, length, wanted, point = (each[order] for each in (file, start, length, wanted, point))
    # Units with the same point (empty row groups) are read together or not at all.
    first = np.flatnonzero(np.append(True, (np.diff(file) != 0) | (np.diff(point) != 0))) if len(file) else order
    if len(first):
        wanted = np.logical_or.reduceat(wanted, first)
        end = np.maximum.reduceat(start + length, first)
        start = np.minimum.reduceat(start, first)
        file, point = file[first], point[first]
        same_before = np.append(False, file[1:] == file[:-1])
        same_after = np.append(file[1:] == file[:-1], False)
        clear = (start >= 0) & (start <= point) & (point < end)
        clear &= ~(same_before & (np.append(0, point[:-1]) >= start))
        clear &= ~(same_after & (np.append(point[1:], 0) < end))
        # Ranges that overlap would read no other rows, but Spark counts their bytes.
        start, end = np.where(clear, start, point), np.where(clear, end, point + 1)
        file, start, end = file[wanted], start[wanted], end[wanted]
        return file, start, end - start
    return file, start, length


if __name__ == "__main__":
    main()
