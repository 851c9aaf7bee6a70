"""Hostile footers: limits bound the work, errors name the limits, and no row is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import bloomparquet as bp
from bloomparquet.parquet.metadata import column_chunks as chunks
from bloomparquet.parquet.metadata import file_profile
from bloomparquet.parquet.metadata.column_chunks import ChunkTemplates, TemplatePool
from bloomparquet.parquet.metadata.footer import parse_footer
from bloomparquet.parquet.thrift.template import compile_template
from tests.support.core import Field, edit_footer, plan_with, read_footer, replace_footer, varint
from tests.support.files import write
from tests.support.page_files import footer_of

MANY = 300_000
VALUES = {"id": [i * 7919 % 1009 for i in range(1009)]}
LIST, STRUCT, BINARY, TRUE = 9, 12, 8, 1


@pytest.fixture
def path(tmp_path: Path) -> str:
    return write(tmp_path / "t" / "x.parquet", VALUES, ["id"], rows_per_group=100)


def with_field_15(value: bytes) -> Callable[[bytes], bytes]:
    """Adds a field 15 to a footer; `value` begins with its type."""
    return lambda footer: footer[:-1] + value[:1] + b"\x1e" + value[1:] + b"\x00"


def long_list(kind: int, element: bytes) -> bytes:
    """A list of `MANY` elements, with its type before it."""
    return bytes([LIST, 0xF0 | kind]) + varint(MANY) + element * MANY


HOSTILE = {
    "structs": with_field_15(long_list(STRUCT, b"\x00")),
    "texts": with_field_15(long_list(BINARY, b"\x00")),
    "numbers": with_field_15(long_list(5, b"\x02")),
    "booleans": with_field_15(long_list(TRUE, b"\x01")),
    "lists": with_field_15(long_list(LIST, b"\x0c")),
    "maps": with_field_15(long_list(11, b"\x00")),
    "a map": with_field_15(bytes([11]) + varint(MANY) + b"\x55" + b"\x02\x02" * MANY),
    "fields": with_field_15(bytes([STRUCT]) + b"\x11" * MANY + b"\x00"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_footer_of_too_many_values_keeps_its_file(name: str, path: str) -> None:
    write(Path(path).with_name("y.parquet"), VALUES, ["id"], rows_per_group=100)
    replace_footer(path, HOSTILE[name](read_footer(path)))
    for skip_corrupt in (False, True):
        plan = bp.plan(Path(path).parent, "id = 7", skip_corrupt=skip_corrupt)
        (error,) = plan.errors
        assert isinstance(error, bp.LimitError)
        assert "x.parquet" in str(error)
        assert "more than 65,540 values" in str(error)
        # The file with the unreadable footer is kept whole; the other one is pruned.
        assert [(Path(group.path).name, group.index) for group in plan.kept_row_groups()] == [
            ("y.parquet", VALUES["id"].index(7) // 100),
            ("x.parquet", None),
        ]
        with pytest.raises(bp.LimitError, match=r"x\.parquet.*more than 65,540 values"):
            bp.read_table(Path(path).parent, "id = 7", skip_corrupt=skip_corrupt)
    with pytest.raises(bp.LimitError, match="more than"):
        bp.plan(path, "id = 7", on_filter_error="fail")


def test_wide_tables_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column may have more values behind the row groups: its order."""
    monkeypatch.setattr(file_profile, "_MAX_VALUES", 100)
    path = write(tmp_path / "wide.parquet", {f"c{i}": [i] for i in range(2_000)})
    assert bp.plan(path, "c1999 = 5").skipped == {"statistics": 1}


def with_form(path: str, number: int) -> bytes:
    """The footer of a file whose column metadata has unknown fields of a form that depends on `number`."""

    def edit(metadata: dict[int, Field]) -> None:
        for group in metadata[4].value[1]:
            chunk = group[1].value[1][0][3].value
            for bit in range(14):
                chunk[30 + bit] = Field(TRUE if number >> bit & 1 else 5, True if number >> bit & 1 else 7)

    edit_footer(path, edit)
    return read_footer(path)


def test_chunks_of_many_forms_are_read(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_MAX_LEARNED", 3)
    monkeypatch.setattr(chunks, "_CHUNKS_PER_TEMPLATE", 5)
    expected = [footer_of(path).read_chunk(group, 0) for group in range(11)]
    for number in range(40):
        footer = parse_footer(with_form(path, number * 397 % 16_384))
        assert [footer.read_chunk(group, 0) for group in range(11)] == expected
        assert bp.plan(path, "id = 7").kept == 1


def test_too_many_chunks_of_distinct_forms_are_an_error(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_MAX_LEARNED", 0), ("_MAX_STEPWISE", 4), ("_STEPWISE_PER_COLUMN", 1)):
        monkeypatch.setattr(chunks, name, value)
    monkeypatch.setattr(chunks, "_CHUNKS_PER_TEMPLATE", sys.maxsize)
    monkeypatch.setattr(chunks, "compile_template", lambda *_, **__: None)
    with_form(path, 12_345)
    plan = bp.plan(path, "id = 7")
    assert plan.kept == 1
    assert "more than 5 column chunks have metadata of a form of their own" in str(plan.errors[0])
    assert plan_with(path, "id = 7", skip_corrupt=True, strict=False).kept == 1


@pytest.mark.parametrize("kind", [TRUE, 5, BINARY])
def test_a_chunk_of_too_many_fields_is_an_error(kind: int, path: str) -> None:
    one = {TRUE: b"\x11", 5: b"\x15\x00", BINARY: b"\x18\x00"}[kind]
    raw = b"\x26\x08\x1c\x15\x02" + one * 100_000 + b"\x00\x00"
    with pytest.raises(bp.LimitError, match="more than 8,192 values"):
        ChunkTemplates(TemplatePool(fixed_width=True), ("id",)).read(raw, 0)


def test_columns_of_one_type_share_their_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[int] = []
    learn = compile_template
    monkeypatch.setattr(
        chunks, "compile_template", lambda *arguments, **options: learned.append(1) or learn(*arguments, **options)
    )
    path = write(tmp_path / "wide.parquet", {f"column_{i}": [i] for i in range(2_000)})
    assert bp.plan(path, "column_7 = 8").kept == 0
    assert len(learned) == 1


def test_a_schema_of_too_many_columns_is_an_error(path: str) -> None:
    element = b"\x15\x02\x25\x02\x18\x00" + b"\xa5\x02" * 6 + b"\x00"
    elements = b"\x48\x00\x15" + varint(2 * MANY) + b"\x00" + element * MANY
    replace_footer(path, b"\x15\x02\x19\xfc" + varint(MANY + 1) + elements + b"\x16\x02\x19\x0c\x00")
    (error,) = bp.plan(path).errors
    assert isinstance(error, bp.LimitError)
    assert "more than 1,048,576 values" in str(error)
