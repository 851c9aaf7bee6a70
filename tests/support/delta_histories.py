"""Random histories of Delta Lake tables, written by ``deltalake`` and by hand-made commits."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import (
    BloomFilterProperties,
    ColumnProperties,
    DeltaTable,
    PostCommitHookProperties,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError

from tests.support import delta_log

UTC = dt.timezone.utc
DAY = dt.datetime(2024, 2, 28)


class Kind(NamedTuple):
    delta: str
    arrow: pa.DataType
    values: list[Any]
    sql: Callable[[Any], str] = str  # a literal for deltalake


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


KINDS = {
    "id": Kind("long", pa.int64(), [-(2**63), -1, *range(40), 2**63 - 1]),
    "small": Kind("integer", pa.int32(), list(range(-3, 12))),
    "tiny": Kind("byte", pa.int8(), list(range(-5, 5))),
    "text": Kind("string", pa.string(), ["", "a", "b b", "é", "x/y=z%20", "it's", "Z", *map(str, range(20))], _quoted),
    "number": Kind(
        "double", pa.float64(), [-0.0, 0.0, 0.1, 1.5, -2.25, 1e300, float("inf")], lambda value: f"{value!r}"
    ),
    # deltalake cannot read back a negative decimal as a partition value.
    "price": Kind("decimal(9,2)", pa.decimal128(9, 2), [Decimal(cents) / 100 for cents in range(30)]),
    "exact": Kind("decimal(14,4)", pa.decimal128(14, 4), [Decimal(n) / 10_000 for n in range(0, 3000, 50)]),
    "day": Kind(
        "date", pa.date32(), [DAY.date() + dt.timedelta(days=n) for n in range(6)], lambda day: f"DATE '{day}'"
    ),
    "at": Kind(
        "timestamp",
        pa.timestamp("us", "UTC"),
        [DAY.replace(tzinfo=UTC) + dt.timedelta(hours=7 * n, microseconds=n) for n in range(9)],
        lambda at: f"TIMESTAMP '{at.isoformat()}'",
    ),
    "flag": Kind("boolean", pa.bool_(), [True, False]),
    "raw": Kind("binary", pa.binary(), [b"", b"\x00", b"\xff\xfe", b"abc"]),
}
WIDER = {"tiny": ["small", "id"], "small": ["id", "number", "exact"], "price": ["exact"]}
STRUCT = pa.struct([("x", pa.int32()), ("label", pa.string())])
MAP = pa.map_(pa.string(), pa.struct([("w", pa.int32())]))
LIST = pa.list_(pa.struct([("v", pa.int32())]))
PARTITIONS = ("small", "text", "day", "at", "flag", "price")


class History:
    """A table at `path`. `columns`: their names in the table, and their kinds. `log`: the steps that were made."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.random = path, random.Random(seed)
        choose = self.random
        self.mapping = choose.choice([None, None, "name", "id"])
        self.vectors = choose.random() < 0.6
        names = choose.sample(sorted(KINDS), choose.randint(3, len(KINDS)))
        self.columns = {name: name for name in {"id": None, **dict.fromkeys(names)}}
        candidates = [name for name in names if name in PARTITIONS]
        self.partitions = candidates[: choose.choice([0, 0, 1, 1, 2])]
        self.has_struct, self.has_list = choose.random() < 0.5, choose.random() < 0.5
        self.added = 0
        self.deleted: dict[str, set[int]] = {}  # by descriptor, the rows that a deletion vector deletes
        self.log: list[str] = []
        configuration = {} if self.mapping is None else {"delta.columnMapping.mode": self.mapping}
        write_deltalake(
            path, self.rows(), partition_by=self.partitions or None, configuration=configuration,
            writer_properties=self.writing(), post_commithook_properties=_NO_HOOKS,
        )  # fmt: skip
        if self.vectors:
            features = ["deletionVectors", *(["columnMapping"] if self.mapping else [])]
            protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
            delta_log.commit(path, {"protocol": {**protocol, "writerFeatures": features}})

    # ---- data ----

    def writing(self) -> WriterProperties:
        bloom = self.random.random() < 0.7
        properties = ColumnProperties(
            dictionary_enabled=self.random.random() < 0.5,
            statistics_enabled=self.random.choice(["NONE", "CHUNK", "PAGE"]),
            bloom_filter_properties=BloomFilterProperties(bloom, 0.01 if bloom else None, 50 if bloom else None),
        )
        return WriterProperties(
            max_row_group_size=self.random.choice([3, 10, 100]), default_column_properties=properties
        )

    def rows(self) -> pa.Table:
        count = self.random.choice([1, 5, 20, 60])
        arrays = {name: self.values(name, count) for name in self.columns}
        if self.has_struct:
            cells = [
                self.random.choice([None, {"x": None, "label": "l"}, {"x": n % 7, "label": str(n)}])
                for n in range(count)
            ]
            arrays["struct"] = pa.array(cells, STRUCT)
        if self.has_list:
            cells = [self.random.choice([None, [], [{"v": n}, None, {"v": None}]]) for n in range(count)]
            arrays["list"] = pa.array(cells, LIST)
            cells = [self.random.choice([None, [], [("k", {"w": n}), ("l", None)]]) for n in range(count)]
            arrays["map"] = pa.array(cells, MAP)
        return pa.table(arrays)

    def values(self, name: str, count: int) -> pa.Array:
        kind = KINDS[self.columns[name]]
        few = self.random.sample(kind.values, min(len(kind.values), self.random.choice([2, 4, 50])))
        nulls = self.random.choice([0.0, 0.0, 0.2, 1.0 if name in self.partitions else 0.5])
        if name in self.partitions:
            few = [value for value in few if value != ""] or [None]
        return pa.array(
            [None if self.random.random() < nulls else self.random.choice(few) for _ in range(count)], kind.arrow
        )

    # ---- steps ----

    def step(self) -> None:
        steps = [
            self.append, self.append, self.append, self.append, self.overwrite, self.delete, self.delete, self.delete,
            self.add_column, self.vacuum,
        ]  # fmt: skip
        if self.vectors:
            steps += [self.delete_by_vector] * 5
        if self.mapping is not None:
            steps += [self.rename_column, self.drop_column, self.rename_field]
        if not self.vectors:  # without its reader feature, which deltalake does not know
            steps += [self.widen_column] * 2
        step = self.random.choice(steps)
        try:
            step()
            self.log.append(step.__name__)
        except DeltaError as error:
            self.log.append(f"{step.__name__} (refused: {str(error)[:60]})")

    def append(self) -> None:
        self.write("append")

    def overwrite(self) -> None:
        if self.random.random() < 0.3:
            self.write("overwrite")

    def write(self, mode: Any) -> None:
        write_deltalake(
            self.path, self.rows(), mode=mode, writer_properties=self.writing(), post_commithook_properties=_NO_HOOKS,
        )  # fmt: skip

    def delete(self) -> None:
        self.table.delete(self.condition(), writer_properties=self.writing(), post_commithook_properties=_NO_HOOKS)

    def add_column(self) -> None:
        kind = self.random.choice(sorted(KINDS))
        self.added += 1
        name = f"{kind}_{self.added}"
        before = dict(self.columns)
        self.columns[name] = kind
        if self.mapping is not None:  # deltalake cannot
            return delta_log.change_schema(self.path, lambda fields, _: fields.append(_mapped_field(name, kind)))
        try:
            write_deltalake(
                self.path, self.rows(), mode="append", schema_mode="merge", writer_properties=self.writing(),
                post_commithook_properties=_NO_HOOKS,
            )  # fmt: skip
        except DeltaError:
            self.columns = before
            raise

    def vacuum(self) -> None:
        # A full vacuum by deltalake also deletes the deletion vectors.
        full = not self.vectors and self.random.random() < 0.5
        self.table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=full)

    def delete_by_vector(self) -> None:
        live = pa.table(self.table.get_add_actions(flatten=True)).select(["path", "num_records"]).to_pylist()
        if not live:
            return
        file = self.random.choice(live)
        path, rows = _in_log(self.path, file["path"]), int(file["num_records"])
        add = next(each for each in reversed(delta_log.actions(self.path, "add")) if each["path"] == path)
        former = self.deleted.get(str(add.get("deletionVector")), set())
        share = self.random.choice([0.05, 0.5, 1.0])
        deleted = former | {row for row in range(rows) if self.random.random() < share}
        if deleted:
            delta_log.delete_rows(self.path, path, deleted, inline=self.random.random() < 0.5)
            self.deleted[str(delta_log.actions(self.path, "add")[-1]["deletionVector"])] = deleted

    def rename_column(self) -> None:
        old = self.random.choice(sorted(self.columns))
        self.added += 1
        new = f"{self.columns[old]} ({self.added})" if self.random.random() < 0.3 else f"renamed_{self.added}"

        def rename(fields: list[dict[str, Any]], partitions: list[str]) -> None:
            next(field for field in fields if field["name"] == old)["name"] = new
            partitions[:] = [new if name == old else name for name in partitions]

        delta_log.change_schema(self.path, rename)
        self.columns = {new if name == old else name: kind for name, kind in self.columns.items()}
        self.partitions = [new if name == old else name for name in self.partitions]

    def rename_field(self) -> None:
        """Rename a field of the struct and one inside the map."""
        if self.has_struct and self.has_list:

            def rename(fields: list[dict[str, Any]], partitions: list[str]) -> None:
                by_name = {field["name"]: field["type"] for field in fields}
                by_name["struct"]["fields"][1]["name"] = f"label_{self.added}"
                by_name["map"]["valueType"]["fields"][0]["name"] = f"w_{self.added}"

            delta_log.change_schema(self.path, rename)
            self.has_struct = self.has_list = False  # what is appended lacks them

    def widen_column(self) -> None:
        """Give a column a wider type than the files have."""
        choices = [name for name, kind in self.columns.items() if kind in WIDER and name not in self.partitions]
        if choices:
            name = self.random.choice(sorted(choices))
            wider = self.random.choice(WIDER[self.columns[name]])

            def widen(fields: list[dict[str, Any]], partitions: list[str]) -> None:
                next(field for field in fields if field["name"] == name)["type"] = KINDS[wider].delta

            delta_log.change_schema(self.path, widen)
            self.columns[name] = wider

    def drop_column(self) -> None:
        droppable = [name for name, kind in self.columns.items() if kind != "id" and name not in self.partitions]
        if not droppable:
            return
        dropped = self.random.choice(droppable)

        def drop(fields: list[dict[str, Any]], partitions: list[str]) -> None:
            fields[:] = [field for field in fields if field["name"] != dropped]

        delta_log.change_schema(self.path, drop)
        del self.columns[dropped]

    # ---- what is asked ----

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def literals(self, kinds: dict[str, str]) -> dict[tuple[str, ...], list[Any]]:
        """Literals for the columns of `kinds`."""
        return {(name,): KINDS[kind].values for name, kind in kinds.items()}

    def condition(self) -> str:
        """A condition for deltalake, on one column."""
        name = self.random.choice(
            [name for name, kind in self.columns.items() if kind in ("id", "small", "text", "day")]
        )
        kind = KINDS[self.columns[name]]
        return f"{_identifier(name)} {self.random.choice(['=', '<', '>'])} {kind.sql(self.random.choice(kind.values))}"


def _mapped_field(name: str, kind: str) -> dict[str, Any]:
    number = int(name.rpartition("_")[2])
    ids = {"delta.columnMapping.id": 1000 + number, "delta.columnMapping.physicalName": f"col-{name}"}
    return {"name": name, "type": KINDS[kind].delta, "nullable": True, "metadata": ids}


def _identifier(name: str) -> str:
    return f'"{name}"'


def _in_log(table: Path, path: str) -> str:
    """The spelling in the log's JSON of a path that deltalake returns."""
    spelled = {each["path"] for each in delta_log.actions(table, "add")}
    return path if path in spelled else next(each for each in spelled if path.endswith(each))


_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
