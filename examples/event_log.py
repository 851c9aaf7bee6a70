"""A realistic event log: eight days of a shop's web servers, as two data sets with equal rows.

8 days × 8 files × 4 row groups × 8,192 rows, hive-partitioned by day. The columns:

* `user_id` is a counter. New users have higher numbers, and most events come from old users. So min/max skips the days
  before a user registered, and none after.
* `session` is a random UUID with a few events, close together in time. Min/max skips nothing.
* `ip` depends on the user. `url` repeats, is dictionary encoded and has no Bloom filter.
* `amount` is null unless something was bought.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = [dt.date(2026, 3, 1) + dt.timedelta(days=i) for i in range(8)]
FILES_PER_DAY = 8
ROWS_PER_GROUP = 8_192
ROWS_PER_FILE = 4 * ROWS_PER_GROUP
BLOOM_COLUMNS = ("user_id", "session", "ip", "amount")

_FIRST_USER, _USERS_BEFORE, _NEW_USERS_PER_FILE = 10_000_000, 400_000, 2_000
_PAGES = ["/", "/cart", "/checkout", "/account", "/search?q=shoes", "/search?q=tents"]
_URLS = pa.array([f"https://shop.example{page}" for page in [*_PAGES, *(f"/product/{i}" for i in range(1_500))]])
_OCTETS = pa.array([str(i) for i in range(256)])


def files() -> Iterator[tuple[str, pa.Table]]:
    """Every file of the log: its path below the root, and its rows ordered by time. Equal on every machine."""
    for day, date in enumerate(DAYS):
        for part in range(FILES_PER_DAY):
            yield f"day={date.isoformat()}/part-{part}.parquet", _events(day, part)


def write_with_pyarrow(root: Path) -> None:
    """Write the log, with a Bloom filter for each of BLOOM_COLUMNS, sized for one row group."""
    for name, table in files():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            table,
            path,
            row_group_size=ROWS_PER_GROUP,
            use_dictionary=["url"],
            bloom_filter_options={column: {"ndv": ROWS_PER_GROUP, "fpp": 0.01} for column in BLOOM_COLUMNS},
        )


def write_with_spark(spark: SparkSession, source: Path, root: Path) -> None:
    """Copy the rows below `source` with Spark's own Parquet writer, to as many files and row groups."""
    # With this cost of opening a file, every file is one task, and so is written as one file.
    spark.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))
    writer = spark.read.parquet(str(source)).write.mode("overwrite").partitionBy("day")
    writer = writer.option("parquet.block.row.count.limit", str(ROWS_PER_GROUP))
    for column in BLOOM_COLUMNS:
        writer = (
            writer.option(f"parquet.bloom.filter.enabled#{column}", "true")
            .option(f"parquet.bloom.filter.expected.ndv#{column}", str(ROWS_PER_GROUP))
            # parquet-java writes no filter for a column chunk with dictionary pages only.
            .option(f"parquet.enable.dictionary#{column}", "false")
        )
    writer.parquet(str(root))
    spark.conf.unset("spark.sql.files.openCostInBytes")


def samples(root: Path) -> dict[str, Any]:
    """Values to look up, from the log below `root`: users of the sixth day, a session, an amount."""
    group = pq.ParquetFile(root / f"day={DAYS[5].isoformat()}" / "part-3.parquet").read_row_group(2)
    users = np.unique(group["user_id"].to_numpy())
    bought = group.filter(pc.is_valid(group["amount"])).sort_by([("amount", "descending")])
    return {
        "newest_user": int(users[-1]),
        "users": users[[0, len(users) // 2, -2]].tolist(),
        "session": group["session"][1_000].as_py(),
        "amount": bought["amount"][0].as_py(),
    }


def _events(day: int, part: int) -> pa.Table:
    rng = np.random.default_rng([2026, day, part])
    n, n_sessions = ROWS_PER_FILE, ROWS_PER_FILE // 4
    seconds_per_file = 86_400 / FILES_PER_DAY

    # One session in six is of a user who registered in these hours; the others are of any earlier user.
    earlier = _USERS_BEFORE + _NEW_USERS_PER_FILE * (day * FILES_PER_DAY + part)
    start = np.sort(rng.uniform(0, seconds_per_file, n_sessions))
    arrived = earlier + (start / seconds_per_file * _NEW_USERS_PER_FILE).astype(np.int64)
    user = _FIRST_USER + np.where(rng.random(n_sessions) < 1 / 6, arrived, rng.integers(0, earlier, n_sessions))

    session = rng.integers(0, n_sessions, n)
    seconds = np.minimum(start[session] + rng.exponential(90, n), seconds_per_file - 1e-6)
    order = np.argsort(seconds, kind="stable")
    session, seconds = session[order], seconds[order]
    midnight = int(dt.datetime.combine(DAYS[day], dt.time(), dt.timezone.utc).timestamp())
    micros = ((midnight + part * seconds_per_file + seconds) * 1_000_000).astype(np.int64)

    cents = np.exp(rng.normal(8.3, 1.4, n)).astype(np.int64) + 99
    page = (rng.zipf(1.3, n) - 1) % len(_URLS)
    return pa.table(
        {
            "user_id": pa.array(user[session]),
            "session": _uuids(rng, n_sessions).take(pa.array(session)),
            "url": _URLS.take(pa.array(page)),
            "ip": _addresses(user).take(pa.array(session)),
            "amount": _money(cents, bought=rng.random(n) < 0.15),
            "event_time": pa.array(micros).cast(pa.timestamp("us", "UTC")),
        }
    )


def _uuids(rng: np.random.Generator, n: int) -> pa.Array:
    raw = rng.integers(0, 256, (n, 16), dtype=np.uint8)
    raw[:, 6] = raw[:, 6] & 0x0F | 0x40
    raw[:, 8] = raw[:, 8] & 0x3F | 0x80
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    hexadecimal = np.stack([digits[raw >> 4], digits[raw & 15]], axis=2).reshape(n, 32)
    text = np.insert(hexadecimal, [8, 12, 16, 20], ord("-"), axis=1)
    offsets = np.arange(0, 36 * (n + 1), 36, dtype=np.int32)
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))


def _addresses(user: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    # An odd multiplier modulo 2^24 gives every user an address of their own, in 10.0.0.0/8.
    scattered = (user * 0x9E3779B1) & 0xFFFFFF
    octets = [_OCTETS.take(pa.array((scattered >> shift) & 255)) for shift in (16, 8, 0)]
    return pc.binary_join_element_wise(pa.scalar("10"), *octets, ".")


def _money(cents: np.ndarray[Any, np.dtype[np.int64]], bought: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    # Arrow has no cast from unscaled integers to decimals, so this writes the 16 bytes of each decimal.
    unscaled = np.zeros((len(cents), 2), np.int64)
    unscaled[:, 0] = cents
    validity = pa.array(cents, mask=~bought).buffers()[0]
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [validity, pa.py_buffer(unscaled)])
