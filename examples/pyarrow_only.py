"""Without Spark: pyarrow writes Bloom filters, and bloomparquet reads by them. Writes ./users."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bloomparquet as bp

random = np.random.default_rng(7)
Path("users").mkdir(exist_ok=True)
for part in range(8):
    user_id = random.integers(0, 10_000_000, 200_000)
    table = pa.table({"user_id": user_id, "score": random.random(200_000)})
    filters = {"user_id": {"ndv": 50_000, "fpp": 0.01}}
    pq.write_table(table, f"users/part-{part}.parquet", row_group_size=50_000, bloom_filter_options=filters)
someone = int(user_id[0])

print(bp.plan("users", f"user_id = {someone}"))
print(bp.read_table("users", f"user_id = {someone}"))

# A predicate in pyarrow's notation, and rows in batches.
for batch in bp.scan_batches("users", [("user_id", "in", [someone, -1]), ("score", ">=", 0.0)], columns=["score"]):
    print(batch.num_rows, "rows")
