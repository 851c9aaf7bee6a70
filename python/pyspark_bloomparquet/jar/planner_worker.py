"""What the jar's planner process runs: requests in, plans out. Knows no Spark; :class:`Dataset` and `plan` do the work.

A frame is a length (4 bytes, big-endian) and so many bytes of JSON, then a length and so many bytes of data. Frames
arrive on standard input and are answered on standard output, in any order, each with the `id` of its request.

A request is ``{"id": 7, "version": 3, "format": "parquet", "files": 1000, "predicate": …, "shownAs": …,
"caseSensitive": false, "timeZone": null, "offsets": […], "options": {…}}``; its data are the files: all sizes and all
modification times in milliseconds (8 bytes each, big-endian), then all paths in UTF-8, each ended by a zero byte.
`format` is ``parquet`` or ``orc``; `timeZone` is that of the reader's clock, where it matters and is known, and
`offsets` are what that clock shows. The grammar of predicates and of `shownAs` is in
:mod:`pyspark_bloomparquet.jar.protocol`.

An answer is ``{"id": 7, "plan": {"numRowGroupsTotal": 4000, …}, "versions": 1000}``, over ORC files ``numStripesTotal``
and so on; its data (8 bytes each, big-endian) are the byte ranges to read, sorted by file: the places of their files in
the request, their starts, their lengths. Where the files are local, `versions` is their number and not 0, and the data
go on with the version of each file that the plan is about, as the request may be of an earlier one: all sizes, all
modification times in milliseconds, all inodes, all change times in nanoseconds. Or the answer is
``{"id": 7, "error": "…"}``, with ``"fatal": true`` when the query shall fail by it. While requests wait, ``{"id": 0}``
is a sign of life.
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
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.parquet.cache import FooterCache, process_cache
from bloomparquet.planning.parquet.cache_file import code_fingerprint
from bloomparquet.planning.plan import KEPT, ScanPlan
from bloomparquet.storage.files import FileInfo, LocalStorage, Storage, open_storage
from pyspark_bloomparquet.jar.protocol import COUNTED, read_frame, to_clock, to_predicate, to_reader_types, write_frame
from pyspark_bloomparquet.options.key_provider import doubt, provided_keys
from pyspark_bloomparquet.options.load import PlannerOptions

VERSION = 3
_THREADS = 4
_KEPT_LISTINGS = 16
_SHOWN_ERRORS = 3
_LONGEST = 500  # characters of an error
_FORMATS = {each.value: each for each in FileFormat}
_SIGN_SECONDS = 2
_SECONDS_TO_END = 10
_PATIENCE_WITH_PROVIDERS = 15.0  # seconds; below what queries wait for their plans
_SECONDS_CLOSED = 60  # a storage that could not be opened is not asked again for so long


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # in a shell, it is for the query
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not end up between the frames
    requests = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # and whatever reads, such as a key provider's child, must not read of them
    logging.getLogger("bloomparquet").addHandler(logging.NullHandler())  # told in the answers
    np.unique(np.zeros(1))  # imports more of numpy when it is first called
    code_fingerprint()
    failed = False
    try:
        Worker(answers).serve(requests)
    except Exception:
        failed = True
        logging.getLogger(__name__).exception("the planner ends")
    os._exit(failed)  # a plan that hangs in a storage must not keep this process when the JVM is gone


class Worker:
    """Plans several requests at a time; what they learn is shared."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers = answers
        self._lock = Lock()
        self._busy = 0  # requests without an answer
        self._unfinished = 0  # or of which not everything is written down
        self._datasets: OrderedDict[bytes, Dataset] = OrderedDict()

    def serve(self, requests: IO[bytes]) -> None:
        """Until the input ends. Then nothing is waited for but what is being written down, and that not for long."""
        Thread(target=self._give_signs_of_life, daemon=True).start()
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="plan")
        while (frame := read_frame(requests)) is not None:
            with self._lock:
                self._busy += 1
                self._unfinished += 1
            threads.submit(self._answer, *frame)
        threads.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + _SECONDS_TO_END
        while self._unfinished and time.monotonic() < deadline:
            time.sleep(0.01)

    def _give_signs_of_life(self) -> None:
        """Who waits for a long plan can tell it from one that will never come."""
        while True:
            time.sleep(_SIGN_SECONDS)
            with self._lock:
                if self._busy:
                    write_frame(self._answers, {"id": 0}, b"")

    def _answer(self, request: dict[str, Any], listing: bytes) -> None:
        answer, data, cache = self._plan(request, listing)
        with self._lock:
            self._busy -= 1
            write_frame(self._answers, {"id": request.get("id"), **answer}, data)
        cache.persist()
        with self._lock:
            self._unfinished -= 1

    def _plan(self, request: dict[str, Any], listing: bytes) -> tuple[dict[str, Any], bytes, FooterCache]:
        """The answer, its data, and the cache that keeps what was read."""
        fatal, cache = False, process_cache
        try:
            if request.get("version") != VERSION:
                raise PlanError(
                    f"the jar speaks version {request.get('version')} of the planner's protocol, this Python package "
                    f"{VERSION}; attach the jar of the same release"
                )
            if request["format"] not in _FORMATS:
                raise PlanError(
                    f"the planner was asked about files of format {request['format']!r}, which it does not know"
                )
            options = PlannerOptions.parse(request.get("options", {}))
            if options.cache:
                cache = process_cache.on_disk(options.cache_directory, options.cache_max_bytes)
            fatal = options.on_filter_error == "fail"
            dataset = self._dataset(listing, request["files"])
            keys = provided_keys(options.key_provider, _PATIENCE_WITH_PROVIDERS, options.shipped_files)
            plan_options = planner.PlanOptions(
                # Without a zone, a timestamp that needs one skips nothing.
                timezone=to_clock(request["timeZone"], request["offsets"]),
                case_sensitive=request["caseSensitive"],
                on_filter_error=options.on_filter_error,
                skip_corrupt=True,
                strict=False,
                exact_names=True,
                reader_types=to_reader_types(request["shownAs"]),
                cache=cache,
            )
            dataset = replace(dataset.with_keys(keys), format=_FORMATS[request["format"]])
            found = planner.plan_dataset(dataset, to_predicate(request["predicate"]), plan_options)
            if any(isinstance(error, EncryptionError) for error in found.errors):
                doubt(options.key_provider)
            return *summarize(found, []), cache
        except BloomParquetError as error:
            fatal = isinstance(error, OptionError) or (fatal and not isinstance(error, PlanError))
            return {"error": _in_short(error), "fatal": fatal}, b"", cache
        except BaseException as error:  # noqa: BLE001 - a query must never fail, or wait, because planning does
            return {"error": f"{type(error).__name__}: {_in_short(error)}"}, b"", cache

    def _dataset(self, listing: bytes, files: int) -> Dataset:
        with self._lock:
            known = self._datasets.get(listing)
        dataset = present(known or parse_listing(listing, files))
        with self._lock:
            self._datasets[listing] = dataset
            self._datasets.move_to_end(listing)
            while len(self._datasets) > _KEPT_LISTINGS:
                self._datasets.popitem(last=False)
        return dataset


def parse_listing(listing: bytes, files: int) -> Dataset:
    """The files of a request. Their partition values stay with Spark, which has applied what depends on them."""
    numbers = np.frombuffer(listing, ">i8", 2 * files).astype(np.int64)
    text = listing[16 * files :].decode("utf-8", "surrogateescape")
    paths = text.split("\0")[:-1]
    if len(paths) != files:
        raise PlanError(f"a listing of {files} files has {len(paths)} paths")
    storage, inner = _on_one_storage(paths)
    sizes, times = numbers[:files].tolist(), (numbers[files:] * 1_000_000).tolist()
    return Dataset(storage, tuple(map(FileInfo, inner, sizes, times)), (), ((),) * files)


def present(dataset: Dataset) -> Dataset:
    """`dataset` with its local files as they are now; the same object where none has changed. FileNotFoundError.

    Spark lists files when a DataFrame is loaded, and neither inodes nor change times.
    """
    if not isinstance(dataset.storage, LocalStorage):
        return dataset
    changed: dict[int, FileInfo] = {}
    for i, (path, size, mtime, inode, ctime) in enumerate(dataset.files):
        now = os.stat(path)  # of every file in every query: nothing else may cost time here
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
        raise PlanError(f"the files of one scan lie on one storage; {paths[0]} and {stray} were given")
    # Only the root is taken for a URI: Hadoop's paths are written as they are, with blanks and percent signs.
    storage, inner = _open(root)
    return storage, [inner + path[len(root) :] for path in paths]


_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
_cannot_open: dict[str, tuple[str, float]] = {}


def _open(root: str) -> tuple[Storage, str]:
    """The storage at a scheme and an authority, and how it calls that place. What goes wrong is told in one line, and
    the same line for a while."""
    if root.startswith("file:") or not root:
        return open_storage("/")[0], ""
    told, until = _cannot_open.get(root, ("", 0.0))
    if time.monotonic() >= until:
        try:
            storage, inner = open_storage(root)
            return storage, inner.rstrip("/")
        except (OSError, ImportError, ValueError, pa.ArrowException) as error:
            told = f"the planner's Python cannot open {root}: {_in_short(error)}"
            _cannot_open[root] = told, time.monotonic() + _SECONDS_CLOSED
    raise PlanError(told)


def _in_short(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:_LONGEST]


def summarize(found: ScanPlan, warnings: list[str]) -> tuple[dict[str, Any], bytes]:
    """A plan as an answer: its counts, and the ranges to read with the versions of files that they are of."""
    sizes = np.array([file.size for file in found.dataset.files], np.int64)
    understood = np.zeros(len(sizes), np.bool_)
    understood[found.file_positions] = True
    # Spark may be able to read the others, or says why not.
    whole = np.flatnonzero(~understood & (sizes > 0))
    file, start, length = ranges(found)
    file, start, length = (
        np.concatenate(parts)
        for parts in ((found.file_positions[file], whole), (start, np.zeros_like(whole)), (length, sizes[whole]))
    )
    order = np.lexsort((start, file))
    skipped = found.skipped
    errors = [str(error) for error in found.errors]
    if errors:
        more = f" (and {len(errors) - _SHOWN_ERRORS} more)" if len(errors) > _SHOWN_ERRORS else ""
        what = (
            "What is encrypted" if isinstance(found.errors[0], EncryptionError) else "Bloom filters that cannot be used"
        )
        warnings = [*warnings, f"{what}: " + "; ".join(errors[:_SHOWN_ERRORS]) + more]
    counted = COUNTED[found.unit]
    plan = {
        f"{counted}Total": len(found.table),
        f"{counted}SkippedByStatistics": skipped["statistics"],
        f"{counted}SkippedByBloomFilter": skipped["bloom"],
        f"{counted}Read": found.kept - len(found.unreadable),
        "bloomFilterBytes": found.bloom_bytes_read,
        "planningTimeMs": round(found.seconds * 1000),
        "numFilterErrors": len(errors),
        "numFilesNotUnderstood": len(whole),
        "requests": found.requests,
        "rows": -1 if len(whole) else int(found.table.rows[found.codes == KEPT].sum()),
        "warnings": warnings,
    }
    if found.row_group_counts is not None:
        plan |= {
            "numRowGroupsTotal": found.row_group_counts.total,
            "numRowGroupsExcludedByStatistics": found.row_group_counts.by_statistics,
            "numRowGroupsExcludedByBloomFilter": found.row_group_counts.by_bloom,
        }
    numbers = [part[order] for part in (file, start, length)]
    versions = _versions(found.dataset)
    data = b"".join(part.astype(">i8").tobytes() for part in [*numbers, *versions])
    return {"plan": plan, "versions": len(versions[0]) if versions else 0}, data


def _versions(dataset: Dataset) -> list[NDArray[Any]]:
    """Sizes, modification times (ms), inodes and change times (ns) of local files; nothing of others."""
    if not isinstance(dataset.storage, LocalStorage):
        return []
    _, sizes, times, inodes, ctimes = zip(*dataset.files, strict=True)
    return [
        np.array(sizes, np.int64),
        np.array(times, np.int64) // 1_000_000,
        np.array(inodes, np.uint64).view(np.int64),
        np.array(ctimes, np.int64),
    ]


def ranges(found: ScanPlan) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """File (its place in ``found.table.files``), start and length of what is to be read of the files.

    A reader of Spark's takes the row groups whose middle, as parquet-java computes it, lies in its range; of ORC the
    stripes whose first byte does (RecordReaderImpl). So each range holds that point of the units that are kept in it
    and of no other, whatever a footer says about extents.
    """
    table = found.table
    kept = found.codes == KEPT
    some = np.flatnonzero(np.isin(table.file, np.unique(table.file[kept])))
    start, length = table.extents_of(some)
    file, wanted, point = table.file[some], kept[some], start if table.format is FileFormat.ORC else start + length // 2
    order = np.lexsort((point, file))
    file, start, length, wanted, point = (each[order] for each in (file, start, length, wanted, point))
    # Units of one point (empty row groups) are read together or not at all.
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
        # Ranges that overlap would be harmless, were they not taken for bytes to read.
        start, end = np.where(clear, start, point), np.where(clear, end, point + 1)
        file, start, end = file[wanted], start[wanted], end[wanted]
        return file, start, end - start
    return file, start, length


if __name__ == "__main__":
    main()
