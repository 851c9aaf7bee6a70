"""Error messages shorten very long names and literals, keep both of their ends, and name no page of the repository."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.errors import BloomParquetError
from tests.support.files import write

LONG = "begins" + "x" * 10_000 + "ends"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of 2,005 columns, some of them with long names."""
    columns: dict[str, Any] = {f"column {i}": [1] for i in range(2_000)}
    columns |= {LONG: [1], "id": [1], "st" + LONG: pa.array([{"x" + LONG: 1}]), "b" + LONG: [True]}
    columns["t"] = pa.array([0], pa.timestamp("us", "UTC"))
    return write(tmp_path_factory.mktemp("long") / "t.parquet", columns)


@pytest.mark.parametrize(
    "call",
    [
        lambda path: bp.plan(path, bp.Eq("no" + LONG, 1)),
        lambda path: bp.read_table(path, bp.Eq(LONG, "text")),
        lambda path: bp.read_table(path, bp.Eq("st" + LONG, 1)),
        lambda path: bp.read_table(path, columns=["no" + LONG]),
        lambda path: bp.plan(path, bp.Eq(LONG.upper(), 1), case_sensitive=True),
        lambda path: bp.plan(path, bp.Eq("id", LONG)),
        lambda path: bp.plan(path, f"id = '{LONG}'"),
        lambda path: bp.read_table(path, f"id = upper('{LONG}')"),
        lambda path: bp.plan(path, [("id", LONG, 1)]),
        lambda path: bp.plan(path, "id = 1", timezone=LONG) and bp.plan(path, "t = '2020-01-01'", timezone=LONG),
        lambda path: bp.add_filters(path, bloom="no" + LONG),
        lambda path: bp.add_filters(path, bloom="st" + LONG),
        lambda path: bp.add_filters(path, bloom="b" + LONG),
        lambda path: bp.probe(path, column="no" + LONG, value=1),
        lambda path: bp.inspect(path, columns=["no" + LONG]),
    ],
)
def test_no_message_is_very_long(call: Callable[[str], Any], path: str) -> None:
    with pytest.raises(BloomParquetError) as raised:
        call(path)
    message = str(raised.value)
    assert len(message) < 4_500
    assert "x" * 1_000 not in message


def test_a_cut_message_keeps_its_file_and_its_remedy() -> None:
    message = str(bp.PlanError(f"/data/t.parquet: {LONG} is wrong; write it otherwise"))
    assert message.startswith("/data/t.parquet: beginsxxx")
    assert message.endswith("xends is wrong; write it otherwise")
    assert len(message) < 4_100


def test_no_message_names_a_page_of_the_repository() -> None:
    for path in (Path(__file__).parents[2] / "python").rglob("*.py"):
        if "docs/" not in (text := path.read_text()):
            continue
        tree = ast.parse(text)
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        assert [text.value for text in texts if "docs/" in text.value and id(text) not in docs] == [], path
