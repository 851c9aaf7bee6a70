"""The errors that a client may see: each has a name and a reason. Any other error fails the run."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Allowed:
    """An error that a client may see.

    `kinds`: a pattern of the operations that may see it. `calm`: also while nothing is killed.
    """

    name: str
    pattern: str
    why: str
    kinds: str = ".*"
    calm: bool = False


# The first that matches gives the name.
ALLOWED = (
    Allowed(
        "file changed while it was read",
        r"changed after this query was planned|FileChangedError|the file changed since it was listed",
        "another client replaced the file: an error is promised, never fewer rows",
        kinds="read changing|retrofit",
        calm=True,
    ),
    Allowed(
        "file changed while it was processed",
        r"the file changed while it was (processed|copied)",
        "another client replaced the file before filters were added; the file is left as it is",
        kinds="retrofit",
        calm=True,
    ),
    Allowed(
        "Spark read a file that was replaced",
        r"is not a Parquet file|Expected magic number at tail|could not read footer|FileNotFoundException"
        r"|FAILED_READ_FILE",
        "Spark without a plan reads a file by the size in its listing, which is that of the file before",
        kinds="read changing|retrofit",
        calm=True,
    ),
    Allowed(
        "index is being built",
        r"another process is building, refreshing or dropping this index|another build, refresh or drop",
        "one build of an index runs at a time",
        kinds="index",
        calm=True,
    ),
    Allowed(
        "Python worker of the driver was killed",
        r"(SparkException: Python worker (exited unexpectedly|failed to connect back)"
        r"|IOException: Broken pipe.*\bPythonWorkerFactory\.stopWorker).*\bPythonPlannerRunner\b",
        "Spark asks Python data sources for their schema and splits in a worker beside the driver, and asks once",
        kinds="read .*",
    ),
    Allowed(
        "task failed too often",
        r"Job aborted due to stage failure.*(ExecutorLostFailure|ExecutorDeadException|Worker (lost|shut down)"
        r"|Python worker exited unexpectedly|Connection (refused|reset)|Remote RPC client disassociated)",
        "Spark gives up a job after spark.task.maxFailures lost attempts",
    ),
    Allowed(
        "stage failed too often",
        r"has failed the maximum allowable number of times|FetchFailed|MetadataFetchFailed",
        "Spark gives up a job whose shuffle files were lost with their executors several times",
    ),
)


def name_of(kind: str, text: str, *, calm: bool) -> str:
    """The name of an error with this text, seen by an operation of this kind."""
    for each in ALLOWED:
        if (each.calm or not calm) and re.fullmatch(each.kinds, kind) and re.search(each.pattern, text, re.DOTALL):
            return each.name
    return UNEXPLAINED
