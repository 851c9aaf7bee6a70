"""Random ways to load a data set: a schema, options, settings, and an entry such as ``load`` or a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from tests.differential.column_types import TYPES, converted
from tests.differential.random_files import DataSet
from tests.differential.settings import READ_BY_ALL, random_settings

_ENTRIES = ("load", "load", "load", "using", "path", "table", "files")


@dataclass(frozen=True)
class Load:
    """A way to load a data set: `at_load` are the settings meanwhile, `settings` those while a query runs."""

    data: DataSet
    entry: str = "load"
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    at_load: Mapping[str, str] = field(default_factory=dict)

    @property
    def zone(self) -> str:
        return self.settings.get("spark.sql.session.timeZone", "UTC")

    @property
    def case_sensitive(self) -> bool:
        return self.settings.get("spark.sql.caseSensitive") == "true"


_OPTIONS = (
    ("mergeSchema", ("true", "false")), ("recursiveFileLookup", ("true",)), ("pathGlobFilter", ("*-000*", "*")),
    ("ignoreCorruptFiles", ("true", "false")), ("modifiedAfter", ("2020-01-01T00:00:00",)),
)  # fmt: skip
_OPTIONS_OF_PARQUET = (
    ("datetimeRebaseMode", ("LEGACY", "CORRECTED", "EXCEPTION")), ("int96RebaseMode", ("LEGACY", "CORRECTED")),
)  # fmt: skip


def plain_load(random: Random, data: DataSet) -> Load:
    """A load that every way in supports, under settings that they all know."""
    settings = {key: random.choice(values) for key, values in READ_BY_ALL.items()}
    # Else a column may be compared with another one's literal. For Spark, NULL <= a large DECIMAL is TRUE.
    if len({column.name.lower() for column in data.columns}) < len(data.columns):
        settings["spark.sql.caseSensitive"] = "true"
    return Load(data, settings=settings, at_load=settings)


def random_load(random: Random, data: DataSet) -> Load:
    settings = random_settings(random)
    at_load = random_settings(random) if random.random() < 0.1 else settings
    options: dict[str, str] = {}
    if random.random() < 0.25:
        key, values = random.choice(_OPTIONS if data.format == "orc" else (*_OPTIONS, *_OPTIONS_OF_PARQUET))
        options[key] = random.choice(values)
    chance = random.random()
    schema = None
    if chance < 0.2:
        schema = data.ddl()
    elif chance < 0.65:  # types to which readers convert the files' own, not all without losses
        data = data.read_as({c.name: converted(random, c.type) for c in data.columns if random.random() < 0.7})
        schema = data.ddl()
    elif chance < 0.68:  # any other type, most of them an error
        column = replace(data.columns[0], type=random.choice(list(TYPES.values())))
        schema = replace(data, columns=(*data.columns[1:], column)).ddl()
    entry = random.choice(_ENTRIES)
    if schema and entry == "table" and not data.partitions and random.random() < 0.5:
        kind = random.choice(("CHAR(3)", "VARCHAR(3)", "STRING COLLATE UTF8_LCASE"))
        schema = re.sub(r"(?<=` )STRING", kind, schema)
    return Load(data, entry, schema, options, settings, at_load)
