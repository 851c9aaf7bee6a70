"""The program of the jar's planner process: reads requests, writes plans. It does not import Spark.

:mod:`pyspark_bloomparquet.jar.protocol` describes requests and answers.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Thread
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError, OptionError, PlanError
from bloomparquet.planning import planner
from bloomparquet.planning.cache.directory import code_fingerprint
from bloomparquet.planning.cache.plan_cache import PlanCache, process_cache
from bloomparquet.planning.decisions import KEPT
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.open import has_expression_filters
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.query.case_mapping import needs_expression_filters
from bloomparquet.query.predicate import Eq, In, IsNotNull, Leaf, Predicate, leaves
from bloomparquet.storage.files import Storage
from bloomparquet.storage.forks import new_lock
from bloomparquet.storage.host_files import HostStorage
from pyspark_bloomparquet.jar.jar_reads import JarReads
from pyspark_bloomparquet.jar.listing import LocalVersions, ScanListing, Storages
from pyspark_bloomparquet.jar.protocol import (
    COUNT_PREFIX,
    VERSION,
    agreed_zone,
    read_frame,
    to_predicate,
    to_reader_types,
    write_frame,
)
from pyspark_bloomparquet.jar.table import of_table
from pyspark_bloomparquet.options.key_provider import invalidate, provided_keys
from pyspark_bloomparquet.options.load import PlannerOptions

_THREADS = 4
_CACHED_LISTINGS = 16
_CACHED_LOOKS = 16
_LOOK_SECONDS = 1.0  # how old a look at files may be for a plan of the same query
_MAX_ERRORS = 3
_MAX_INDEX_WARNINGS = 16
_MAX_ERROR_LENGTH = 500  # characters
_FORMATS = {each.value: each for each in FileFormat}
_HEARTBEAT_SECONDS = 2
_SHUTDOWN_SECONDS = 10
_KEY_PROVIDER_SECONDS = 15.0  # less than queries wait for their plans


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a shell is for the query
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not end up between the frames
    requests = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # a child process, such as a key provider's, must not read the frames
    logging.getLogger("bloomparquet").addHandler(logging.NullHandler())  # warnings are in the answers
    logging.getLogger("bloomparquet.index").addHandler(_index_warnings)
    np.unique(np.zeros(1))  # the first call imports more of numpy
    code_fingerprint()  # cached: the first plan need not read all sources
    failed = False
    try:
        Worker(answers).serve(requests)
    except Exception:
        failed = True
        logging.getLogger(__name__).exception("the planner stops")
    os._exit(failed)  # a plan that hangs in a storage must not keep this process alive


class _IndexWarnings(logging.Handler):
    """Keeps the warnings about indexes for the next answer. A plan has no errors of an index, because it needs none."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: deque[str] = deque(maxlen=_MAX_INDEX_WARNINGS)

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(record.getMessage()[:_MAX_ERROR_LENGTH])

    def take(self) -> list[str]:
        return [self._texts.popleft() for _ in range(len(self._texts))]


_index_warnings = _IndexWarnings()


class _Look(NamedTuple):
    """A look at the versions of files: when it `began`, by the monotonic clock, and its result."""

    began: float
    versions: Future[LocalVersions | None]

    @property
    def is_recent(self) -> bool:
        return time.monotonic() - self.began <= _LOOK_SECONDS


class Worker:
    """Plans several requests at a time, with a shared cache."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers = answers
        self._lock = new_lock()
        self._unanswered = 0  # requests
        self._reads = JarReads(self._send)
        self._listings: dict[tuple[str, tuple[int, ...]], ScanListing] = {}  # by digest and storages
        self._looks: dict[tuple[str, str], _Look] = {}  # by digest of files and query

    def serve(self, requests: IO[bytes]) -> None:
        """Answer requests until the input ends, then wait a few seconds for the cache to be written."""
        Thread(target=self._send_heartbeats, daemon=True).start()
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="plan")
        unfinished = set[Future[None]]()  # requests without an answer, or whose cache entries are not on disk
        while (frame := read_frame(requests)) is not None:
            if "read" in frame[0]:
                self._reads.answer(*frame)
                continue
            if "look" in frame[0]:
                self._look(threads, frame[0])
                continue
            if "forget" in frame[0]:
                threads.submit(_forget, frozenset(frame[0]["forget"]))
                continue
            with self._lock:
                self._unanswered += 1
            future = threads.submit(self._answer, *frame)
            unfinished.add(future)
            future.add_done_callback(unfinished.discard)
        threads.shutdown(wait=False, cancel_futures=True)
        wait(list(unfinished), _SHUTDOWN_SECONDS)

    def _send(self, head: dict[str, Any], data: bytes) -> None:
        with self._lock:
            write_frame(self._answers, head, data)

    def _send_heartbeats(self) -> None:
        """Send signs of life, by which the jar tells a long plan from a process that hangs."""
        while True:
            time.sleep(_HEARTBEAT_SECONDS)
            with self._lock:
                if self._unanswered:
                    write_frame(self._answers, {"id": 0}, b"")

    def _answer(self, request: dict[str, Any], data: bytes) -> None:
        answer, result, cache = self._plan(request, data)
        with self._lock:
            self._unanswered -= 1
            write_frame(self._answers, {"id": request.get("id"), **answer}, result)
        cache.persist()

    def _plan(self, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes, PlanCache]:
        """The answer, its data, and the cache that keeps what was read."""
        fatal, cache = False, process_cache
        try:
            if request.get("version") != VERSION:
                raise PlanError(
                    f"the jar has version {request.get('version')} of the planner's protocol, and this Python package "
                    f"has version {VERSION}; attach the jar of the same release"
                )
            options = PlannerOptions.parse(request.get("options", {}))
            if options.cache:
                cache = process_cache.on_disk(options.cache_directory, options.cache_max_bytes)
            fatal = options.on_filter_error == "fail"
            storages = Storages(request["storages"], self._reads.read)
            listing = self._listing(request["listing"], data, request["files"], storages, request["execution"])
            if listing is None:
                return {"unknown": "listing"}, b"", cache
            return *_plan_listing(listing, request, options, storages, cache), cache
        except BloomParquetError as error:
            fatal = isinstance(error, OptionError) or (fatal and not isinstance(error, PlanError))
            return {"error": _first_line(error), "fatal": fatal}, b"", cache
        except BaseException as error:  # noqa: BLE001 - no failure of planning may fail a query or block it
            return {"error": f"{type(error).__name__}: {_first_line(error)}"}, b"", cache

    def _look(self, threads: ThreadPoolExecutor, request: dict[str, Any]) -> None:
        """Begin to look at the present versions of a listing's files, for a plan of the same query.

        That plan may wait for the look: it comes later, so one of `threads` has begun with the look by then.
        """
        digest = str(request["look"])
        key = digest, str(request.get("execution"))
        with self._lock:
            self._drop_old_looks()
            known = next((each for (of_files, _), each in self._listings.items() if of_files == digest), None)
            if known is None or key in self._looks:
                return
            self._looks[key] = _Look(time.monotonic(), threads.submit(known.present_versions))
            while len(self._looks) > _CACHED_LOOKS:
                del self._looks[next(iter(self._looks))]

    def _drop_old_looks(self) -> None:
        """Free the looks that no plan has asked for: a look at a million files takes 200 MB."""
        for key in [key for key, look in self._looks.items() if not look.is_recent]:
            del self._looks[key]

    def _listing(
        self, digest: str, data: bytes, files: int, storages: Storages, query: str | None
    ) -> ScanListing | None:
        """The listing with this `digest`, with versions of its files that are not older than `query`. None: the jar
        must send the listing."""
        key = digest, storages.numbers
        with self._lock:
            known = self._listings.get(key)
            self._drop_old_looks()
            look = None if query is None else self._looks.pop((digest, query), None)  # it serves one plan
        if known is None:
            if not data:
                return None
            known = ScanListing.parse(data, files, digest, storages)
        listing = known.of_versions(known.present_versions() if look is None else look.versions.result())
        with self._lock:
            self._listings.pop(key, None)
            self._listings[key] = listing
            while len(self._listings) > _CACHED_LISTINGS:
                del self._listings[next(iter(self._listings))]
        return listing


def _forget(numbers: frozenset[int]) -> None:
    """Forget what was read of the storages with these numbers: it may be of other versions than the listed ones."""

    def is_read_by(storage: Storage) -> bool:
        return isinstance(storage, HostStorage) and not numbers.isdisjoint(storage.numbers)

    process_cache.forget(is_read_by)


def _first_line(error: BaseException) -> str:
    """The first line of an error's message, shortened; the name of its class if it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0][:_MAX_ERROR_LENGTH]


def _plan_listing(
    listing: ScanListing, request: dict[str, Any], options: PlannerOptions, storages: Storages, cache: PlanCache
) -> tuple[dict[str, Any], bytes]:
    """Plan the files of `listing` for `request`. Returns the answer and its data."""
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
        index=storages.index(options.index),
    )
    dataset = of_table(listing.dataset.with_keys(keys), request["table"], storages)
    dataset = replace(dataset, format=_FORMATS[request["format"]])
    predicate = to_predicate(request["predicate"])
    explains = request.get("explain", False)
    if not explains and needs_expression_filters(predicate) and not has_expression_filters(dataset, plan_options):
        return {"unplanned": "the files have no filters of lower(column) and upper(column)"}, b""
    plan = planner.plan_dataset(dataset, predicate, plan_options)
    if any(isinstance(error, EncryptionError) for error in plan.errors):
        invalidate(options.key_provider)
    answer, data = to_answer(plan)
    answer["plan"]["warnings"] += _index_warnings.take()
    if explains:
        answer["plan"]["explanation"] = plan.explain().to_dict()
    answer["revision"] = listing.revision
    return answer, data + (b"" if listing.revision == request["revision"] else listing.versions)


def to_answer(plan: ScanPlan) -> tuple[dict[str, Any], bytes]:
    """The answer for `plan`: its counts; and as data the byte ranges to read."""
    files = plan.dataset.files
    is_planned = np.zeros(len(files), np.bool_)
    is_planned[plan.file_positions] = True
    # Spark reads these files completely, or raises an error.
    unplanned = {i: files[i].size for i in np.flatnonzero(~is_planned).tolist() if files[i].size > 0}
    whole, sizes = np.array([*unplanned], np.int64), np.array([*unplanned.values()], np.int64)
    file, start, length = ranges(plan)
    file, start, length = (
        np.concatenate(parts)
        for parts in ((plan.file_positions[file], whole), (start, np.zeros_like(whole)), (length, sizes))
    )
    order = np.lexsort((start, file))
    data = b"".join(part[order].astype(">i8").tobytes() for part in (file, start, length))
    return {"plan": _counts(plan, len(whole)), "ranges": len(order)}, data


def _counts(plan: ScanPlan, whole_files: int) -> dict[str, Any]:
    """The counts of `plan` by the names of Spark's metrics, and its warnings. Spark reads `whole_files` unplanned."""
    skipped, prefix = plan.skipped, COUNT_PREFIX[plan.unit]
    counts: dict[str, Any] = {
        f"{prefix}Total": len(plan.table),
        f"{prefix}SkippedByStatistics": skipped["statistics"],
        f"{prefix}SkippedByBloomFilter": skipped["bloom"],
        f"{prefix}Read": plan.kept - len(plan.unreadable),
        "bloomFilterBytes": plan.bloom_bytes_read,
        "planningTimeMs": round(plan.seconds * 1000),
        "numFilterErrors": len(plan.errors),
        "numFilesReadWhole": whole_files,
        "numFilesTotal": len(plan.dataset.files),
        "numFilesIndexed": plan.indexed,
        "requests": plan.requests,
        "warnings": _warnings(plan.errors),
        "withoutFilters": plan.columns_without_filters(),
        "filtersDecided": _has_exact_dictionaries(plan.where) and plan.filters_decided(),
    }
    if plan.row_group_counts is not None:
        counts |= {
            "numRowGroupsTotal": plan.row_group_counts.total,
            "numRowGroupsExcludedByStatistics": plan.row_group_counts.by_statistics,
            "numRowGroupsExcludedByBloomFilter": plan.row_group_counts.by_bloom,
        }
    return counts


def _has_exact_dictionaries(where: Predicate | None) -> bool:
    """Whether dictionaries exclude no row that matches. For parquet-java, 0.0 and -0.0 are different values, and a dot
    in a name leads to a field. Then Spark lacks rows, which a reader without dictionaries would have."""

    def is_exact(leaf: Leaf) -> bool:
        values = [leaf.value] if isinstance(leaf, Eq) else leaf.values if isinstance(leaf, In) else None
        has_name = len(leaf.column) == 1 and "." not in leaf.column[0]
        is_equality = values is not None and not any(isinstance(value, float) for value in values)
        return has_name and (is_equality or isinstance(leaf, IsNotNull))

    return where is not None and all(map(is_exact, leaves(where)))


def _warnings(errors: Sequence[Exception]) -> list[str]:
    """One warning that names the first errors of a plan; none without errors."""
    if not errors:
        return []
    kind = "Encrypted data" if isinstance(errors[0], EncryptionError) else "Unusable Bloom filters"
    more = f" (and {len(errors) - _MAX_ERRORS} more)" if len(errors) > _MAX_ERRORS else ""
    return [f"{kind}: {'; '.join(map(str, errors[:_MAX_ERRORS]))}{more}"]


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
