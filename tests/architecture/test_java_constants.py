"""Constants that Python and Java both have are equal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK, MAX_BLOCKS, TOLERANCE
from bloomparquet.storage import host_files
from bloomparquet.writing.filters.spec import MAX_AUTO_FPP, MIN_AUTO_FPP
from bloomparquet.writing.retrofit.change import ShrinkFilters
from pyspark_bloomparquet.jar import protocol
from pyspark_bloomparquet.options import load
from pyspark_bloomparquet.options.table import OPTIONS, PLANNER, Option

SOURCES = Path(__file__).resolve().parents[2] / "jvm-shim" / "src" / "main" / "java"
TEXT = "\n".join(file.read_text() for file in SOURCES.rglob("*.java"))


def default(name: str) -> object:
    option: Option = next(each for each in (*OPTIONS, *PLANNER) if each.name == name)
    return option.default


CONSTANTS = {
    "FPP_TOLERANCE": TOLERANCE,
    "USELESS_FPP": ShrinkFilters().drop_above,
    "MIN_BYTES": BYTES_PER_BLOCK,
    "MAX_BYTES": MAX_BLOCKS * BYTES_PER_BLOCK,
    "DEFAULT_FPP": float(str(default("bloomFpp"))),
    "DEFAULT_ROW_GROUPS": default("bloomRowGroups"),
    "MAX_AUTO_FPP": MAX_AUTO_FPP,
    "MIN_AUTO_FPP": MIN_AUTO_FPP,
    "DEFAULT_MAX_BYTES": default("bloomMaxBytes"),
    "DEFAULT_CACHE_MAX_BYTES": default("cacheMaxBytes"),
    "DEFAULT_TIMEOUT": default("planningTimeout"),
    "MAX_ANSWER_BYTES": 2 * host_files._PIECE_BYTES,
    "VERSION": protocol.VERSION,
    "MAX_FRAME_BYTES": protocol._MAX_FRAME_BYTES,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_java_and_python_agree(name: str) -> None:
    (value,) = re.findall(rf"static final \w+ {name} = (\S.*);", TEXT)
    assert eval(value) == CONSTANTS[name]  # literals are written alike in both


def test_java_and_python_agree_on_names_of_options() -> None:
    (synonyms,) = re.findall(r"SYNONYMS_OF_WHERE = names\((.*?)\);", TEXT)
    assert tuple(re.findall(r'"(\w+)"', synonyms)) == load._MEANT_AS_WHERE
    (settings,) = re.findall(r"DRIVER_ONLY =.*?;", TEXT, re.DOTALL)
    assert tuple(re.findall(r'"(\w+)"', settings)) == load._DRIVER_SETTINGS
    assert set(re.findall(r'planner\.put\(\s*"(\w+)"', TEXT)) == {option.name for option in PLANNER}
