"""Spark Connect: settings of a server that starts here, and plans from the metrics that a server sends."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import UnsupportedError
from pyspark_bloomparquet.jar.protocol import COUNT_PREFIX
from pyspark_bloomparquet.jar.summary import ScanSummary, summarize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from bloomparquet.planning.evidence.formats import Unit

NO_JAR = (
    "the Spark Connect server does not have the jar of bloomparquet, so nothing is pruned. Start the server with "
    "--jars $(bloomparquet jar), and with a Python that has this package: spark.bloomparquet.python names it"
)
_VERSION = "spark.bloomparquet.version"  # the jar registers this setting
_SPARK_SCANS: dict[str, Unit] = {"Scan parquet": "row group", "Scan orc": "stripe"}
_INITIAL = "PYSPARK_REMOTE_INIT_CONF"


def is_remote(spark: SparkSession) -> bool:
    return getattr(spark, "_jsparkSession", None) is None


def server_of(options: Mapping[str, str]) -> str | None:
    """The Spark Connect server of a new session with these options. None without Spark Connect.

    The server is a URL, or a master such as ``local[2]``, for which PySpark starts a server in this process.
    """
    server = options.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if server is None and options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", "")).lower() == "connect":
        server = options.get("spark.master", os.environ.get("MASTER", "local"))
    return server


def set_for_server(settings: Mapping[str, str]) -> None:
    """Set settings of the server that PySpark starts next in this process.

    PySpark starts the server with the settings in the variables ``PYSPARK_REMOTE_INIT_CONF_0`` and so on; the variable
    with the highest number counts. Settings of the builder would not do: PySpark would also send them to the session of
    the running server, and warn that ``spark.jars`` cannot be changed there.
    """
    count = int(os.environ.get(f"{_INITIAL}_LEN", "0"))
    before = json.loads(os.environ[f"{_INITIAL}_{count - 1}"]) if count else {}
    os.environ[f"{_INITIAL}_{max(count, 1) - 1}"] = json.dumps({**before, **settings})
    os.environ[f"{_INITIAL}_LEN"] = str(max(count, 1))


def version_of_jar(spark: SparkSession) -> str | None:
    """The version of the server's jar; None if it has none."""
    from pyspark.errors import SparkNoSuchElementException

    try:
        return spark.conf.get(_VERSION)  # with a default, Spark would return it instead of the jar's value
    except SparkNoSuchElementException:
        return None


def plans_in_metrics(query: DataFrame | StreamingQuery) -> list[ScanSummary]:
    """The plans, from the metrics that the server sent with the rows of a DataFrame."""
    session = getattr(query, "sparkSession", None)
    if session is None:
        raise UnsupportedError("with Spark Connect, the plans of a stream are only in the UI of the server")
    if version_of_jar(session) is None:
        raise UnsupportedError(NO_JAR)
    execution: Any = getattr(query, "executionInfo", None)
    if execution is None:
        raise UnsupportedError(
            "with Spark Connect, plans are known after this DataFrame has run: call its collect() or toPandas() first"
        )
    root, nodes = execution.metrics.extract_graph()
    return [summarize(scan) for scan in _scans(root, nodes, set())]


def _scans(number: int, nodes: dict[int, Any], seen: set[int]) -> Iterator[dict[str, Any]]:
    """The counts of each scan below a node of the plan."""
    if number in seen:  # the root is also its own child
        return
    seen.add(number)
    node = nodes[number]
    metrics = {metric.name: int(metric.value) for metric in node.metrics}
    for unit, prefix in COUNT_PREFIX.items():
        if f"{prefix}SkippedByBloomFilter" in metrics:
            yield {"paths": [], "where": None, "unit": unit, **_state(metrics, f"{prefix}Total"), **metrics}
    own_unit = _SPARK_SCANS.get(" ".join(node.name.split()[:2]))
    if own_unit is not None:
        reason = "Spark's own scan: no filter on its data columns, or spark.bloomparquet.transparent is false"
        yield {"paths": [], "where": None, "unit": own_unit, "planned": False, "reason": reason}
    for child in node.children:
        if node.name != "PrunedFileScan":  # its child is Spark's own scan
            yield from _scans(child, nodes, seen)


def _state(metrics: dict[str, int], total: str) -> dict[str, Any]:
    """Whether a scan was planned. The metrics of a scan without a plan are all 0."""
    if metrics["numPlanningFailures"]:
        return {"planned": False, "reason": "the planner failed; the log of the server says why"}
    if metrics[total] or metrics["numFilesReadWhole"]:
        return {"planned": True}
    return {"planned": False, "reason": "no plan was made, or there are no files"}
