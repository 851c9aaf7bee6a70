"""The site: its API reference and its contents are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bloomparquet
import pyspark_bloomparquet

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("package", [bloomparquet, pyspark_bloomparquet])
def test_the_reference_has_every_public_name(package: object) -> None:
    sections = (DOCS / "api.md").read_text().split(".. currentmodule:: ")[1:]
    (section,) = [text for text in sections if text.split("\n", 1)[0] == package.__name__]  # type: ignore[attr-defined]
    documented = re.findall(r"^\.\. auto\w+:: (\w+)$", section, re.MULTILINE)
    assert sorted(documented) == sorted(package.__all__)  # type: ignore[attr-defined]


def test_the_contents_have_every_page() -> None:
    listed = (DOCS / "contents.md").read_text().split("```{toctree}", 1)[1].split()
    assert {name for name in listed if not name.startswith((":", "`")) and name != "1"} == {
        page.stem for page in DOCS.glob("*.md")
    } - {"contents"}


def test_no_page_has_a_placeholder() -> None:
    assert not [page.name for page in DOCS.glob("*.md") if "@@" in page.read_text()]
