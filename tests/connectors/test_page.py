"""The blocks of ``docs/tables.md`` that need the connectors run, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import connectors

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables.md"
BLOCK = re.compile(r"^```(python|text) connectors\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("iceberg" not in connectors.TABLES, reason="no connector of Iceberg"),
]


def test_blocks_run_and_print_what_the_page_says(table_spark: SparkSession) -> None:
    namespace: dict[str, object] = {"spark": table_spark.newSession()}
    printed = ""
    kinds = []
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        kinds.append(kind)
        if kind == "text":
            assert text == printed
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(text, PAGE.name, "exec"), namespace)
        printed = out.getvalue()
    assert kinds == ["python", "text"]
