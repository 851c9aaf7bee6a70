"""Directories with and without a table's log, and whether they may be read and written.

The tests of Python and of the jar share these cases, so that both follow one rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DELTA = "_delta_log/00000000000000000000.json"
ICEBERG = "metadata/v3.metadata.json"
HUDI = ".hoodie/hoodie.properties"
DATA = "{data}"  # a data file of the tested format


@dataclass(frozen=True)
class Case:
    """A directory tree, and the table that `path` in it belongs to.

    `entries` are files, directories (with a slash at the end), data files, and links ``name -> target``. `kind` is the
    table's product, or None. Writing to `path` is refused if reading is, unless `appending` or `overwriting` says
    otherwise. `is_nested`: the files are in directories that are not partitions, which Spark reads only on demand.
    """

    path: str
    entries: tuple[str, ...]
    kind: str | None = None
    appending: bool | None = None
    overwriting: bool | None = None
    is_nested: bool = False

    @property
    def may_append(self) -> bool:
        return self.kind is None if self.appending is None else self.appending

    @property
    def may_overwrite(self) -> bool:
        return self.kind is None if self.overwriting is None else self.overwriting


CASES: dict[str, Case] = {
    "Delta Lake": Case("t", (f"t/{DELTA}", f"t/a{DATA}"), "Delta Lake"),
    "Iceberg": Case("t", (f"t/{ICEBERG}", f"t/data/a{DATA}"), "Iceberg", is_nested=True),
    "Iceberg, compressed metadata": Case("t", ("t/metadata/0-1.gz.metadata.json", f"t/a{DATA}"), "Iceberg"),
    "Iceberg, metadata compressed by older versions": Case(
        "t", ("t/metadata/v1.metadata.json.gz", f"t/a{DATA}"), "Iceberg"
    ),
    "Iceberg, version hint": Case("t", ("t/metadata/version-hint.text", f"t/a{DATA}"), "Iceberg"),
    "Hudi": Case("t", (f"t/{HUDI}", f"t/a{DATA}"), "Hudi"),
    "an empty log": Case("t", ("t/_delta_log/", f"t/a{DATA}"), "Delta Lake"),
    "a log that is a file": Case("t", ("t/_delta_log", f"t/a{DATA}")),
    "a log that is a link to a directory": Case("t", ("log/", "t/_delta_log -> ../log", f"t/a{DATA}"), "Delta Lake"),
    "a partition of a table": Case("t/p=1", (f"t/{DELTA}", f"t/p=1/a{DATA}"), "Delta Lake"),
    "Iceberg's data": Case("t/data", (f"t/{ICEBERG}", f"t/data/a{DATA}"), "Iceberg"),
    "a partition of a Hudi table": Case("t/x/y", (f"t/{HUDI}", f"t/x/y/a{DATA}"), "Hudi"),
    "a file of a table": Case(f"t/p=1/a{DATA}", (f"t/{DELTA}", f"t/p=1/a{DATA}"), "Delta Lake"),
    "a glob of files": Case(f"t/p=*/*{DATA}", (f"t/{DELTA}", f"t/p=1/a{DATA}"), "Delta Lake"),
    "a glob of directories": Case("t/p=*", (f"t/{DELTA}", f"t/p=1/a{DATA}"), "Delta Lake"),
    "a glob of tables": Case("*", (f"t/{DELTA}", f"t/a{DATA}", f"u/a{DATA}"), "Delta Lake"),
    "a path with dots": Case("u/../t", (f"t/{DELTA}", f"t/a{DATA}", f"u/a{DATA}"), "Delta Lake"),
    "a Delta table below": Case(
        "lake", (f"lake/t/{DELTA}", f"lake/t/a{DATA}"), "Delta Lake", appending=True, is_nested=True
    ),
    "a Delta table below, all in partitions": Case(
        "lake", (f"lake/x/t/{DELTA}", f"lake/x/t/p=1/a{DATA}"), "Delta Lake", appending=True
    ),
    "an Iceberg table below": Case(
        "lake", (f"lake/t/{ICEBERG}", f"lake/t/data/a{DATA}"), "Iceberg", appending=True, is_nested=True
    ),
    "a Hudi table below": Case("lake", (f"lake/t/{HUDI}", f"lake/t/a{DATA}"), "Hudi", appending=True, is_nested=True),
    "a table in a partition's directory": Case(
        "lake", (f"lake/p=1/{DELTA}", f"lake/p=1/a{DATA}"), "Delta Lake", appending=True
    ),
    "a link to a table": Case("link", (f"t/{DELTA}", f"t/a{DATA}", "link -> t"), "Delta Lake"),
    "a link to a partition": Case("link", (f"t/{DELTA}", f"t/p=1/a{DATA}", "link -> t/p=1"), "Delta Lake"),
    "a link above": Case("link/t/p=1", (f"x/t/{DELTA}", f"x/t/p=1/a{DATA}", "link -> x"), "Delta Lake"),
    "a link to a file": Case(f"a{DATA}", (f"t/{DELTA}", f"t/a{DATA}", f"a{DATA} -> t/a{DATA}"), "Delta Lake"),
    "a link to a link": Case("b", (f"t/{DELTA}", f"t/a{DATA}", "a -> t", "b -> a"), "Delta Lake"),
    "links to files in a directory": Case(
        "u",
        (f"t/{DELTA}", f"t/a{DATA}", "u/", f"u/a{DATA} -> ../t/a{DATA}"),
        "Delta Lake",
        appending=True,
        overwriting=True,
    ),
    "a link to a partition in a directory": Case(
        "u", (f"t/{DELTA}", f"t/p=1/a{DATA}", "u/", "u/p=1 -> ../t/p=1"), "Delta Lake", appending=True, overwriting=True
    ),
    "a plain directory": Case("t", (f"t/a{DATA}",)),
    "a plain directory beside a table": Case("u", (f"t/{DELTA}", f"t/a{DATA}", f"u/a{DATA}")),
    "a name that begins like a table's": Case("tt", (f"t/{DELTA}", f"t/a{DATA}", f"tt/a{DATA}")),
    "a directory called metadata": Case("t", (f"t/metadata/a{DATA}", f"t/a{DATA}")),
    "Iceberg's file names elsewhere": Case(
        "t", (f"t/x/a{DATA}", "v3.metadata.json", "_x/v3.metadata.json"), is_nested=True
    ),
    "a table below without files": Case("lake", (f"lake/t/{DELTA}", f"lake/a{DATA}"), overwriting=False),
    "a table in a hidden directory": Case(
        "lake", (f"lake/_old/{DELTA}", f"lake/_old/a{DATA}", f"lake/a{DATA}"), overwriting=False
    ),
}


def make(root: Path, case: Case, data: bytes, suffix: str) -> str:
    """Make the case's entries below `root`, with `data` in every data file. Returns the path to read."""
    for entry in case.entries:
        name, _, target = entry.replace(DATA, suffix).partition(" -> ")
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if target:
            path.symlink_to(target)
        elif name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.write_bytes(data if name.endswith(suffix) else b"")
    return f"{root}/{case.path.replace(DATA, suffix)}"
