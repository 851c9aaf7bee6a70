"""Pictures of plans, filters and advice in a real browser: what they say, how they look, and that they load nothing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell

import bloomparquet as bp
from bloomparquet.pictures.show import show_in_notebooks
from bloomparquet.query.verdict import DECISIONS, Decision
from bloomparquet.report.cells import binned
from bloomparquet.report.html import document, text
from bloomparquet.report.style import STYLE
from pyspark_bloomparquet.jar.summary import Pictures, summarize
from tests.support.browser import Browser, start_browser
from tests.support.files import filter_offset, patch, write, write_groups
from tests.support.orc_rewriting import write as write_orc

pytestmark = pytest.mark.slow

EVEN = list(range(0, 100, 2))
LETTERS = dict(zip(Decision, "Rcpnmib", strict=True))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with start_browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> str:
    """In each of eight partitions, a row group of even numbers, one of nulls, and one of larger numbers."""
    root = tmp_path_factory.mktemp("pictures") / "t"
    groups: list[dict[str, list[Any]]] = [
        {"a": EVEN, "b": EVEN}, {"a": [None] * 50, "b": EVEN}, {"a": [n + 1000 for n in EVEN], "b": EVEN},
    ]  # fmt: skip
    tables = [pa.table({name: pa.array(values, pa.int64()) for name, values in group.items()}) for group in groups]
    for day in range(8):
        write_groups(root / f"day={day}" / "x.parquet", tables, ["a"])
    return str(root)


def cells(html: str) -> dict[str, str]:
    """The letters beside each name of a grid: what shows where the style sheet is left out."""
    lines = re.findall(r"<tr><td>(.*?)</td><td>(<div.*?)</td></tr>", html)
    return {name: "".join(re.findall(r">(\w+)</i>", line)) for name, line in lines}


PLANNED = {
    "paths": ["/data/t"], "where": "id = 7", "planned": True, "unit": "row group", "numRowGroupsTotal": 9,
    "numRowGroupsRead": 1, "numRowGroupsSkippedByStatistics": 2, "numRowGroupsSkippedByBloomFilter": 6,
    "numFilesReadWhole": 1, "planningTimeMs": 12,
}  # fmt: skip
NOT_PLANNED = {**PLANNED, "planned": False, "reason": "the planner failed"}


def stripes(root: str) -> bp.ScanPlan:
    ids = pa.table({"id": np.arange(900) * 2})
    return bp.plan(write_orc(Path(root).parent / "x.orc", ids, stripe=300, stride=100), "id = 601")


def locked(root: str) -> bp.ScanPlan:
    """Two files: one is encrypted, and its key is not given; the filter of the other is damaged."""
    folder = Path(root).parent / "locked"
    folder.mkdir()
    table = pa.table({"a": EVEN})
    keys = bp.Keys(footer=b"0123456789abcdef")
    bp.write_table(table, folder / "secret.parquet", encryption=bp.Encryption(keys))
    path = write(folder / "x.parquet", table, ["a"])
    patch(path, filter_offset(path)[0], b"\xff" * 8)
    return bp.plan(folder, "a = 31")


CASES: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "plan": (
        lambda root: bp.plan(root, "a = 31 AND day > 3"),
        ["0 of 12 row groups read from 8 files", "skipped by partition values", "4 whole files", "skipped by min/max",
         "skipped by null and row counts", "skipped by Bloom filters", "day=7/x.parquet", "the slowest part: ",
         "a = 31", "what to do"],
    ),
    "no predicate": (bp.plan, ["24 of 24 row groups read", "there is no predicate"]),
    "stripes": (stripes, ["0 of 3 stripes read", "row groups in the stripes might match"]),
    "locked": (
        locked,
        ["1 of 1 row groups read; 1 file read whole", "1 whole file + 1", "could not be used", "unknown Thrift type"],
    ),
    "explanation": (lambda root: bp.plan(root, "b = 31").explain(), ["bloomparquet add", "b = 31"]),
    "filters": (bp.inspect, ["24 Bloom filters on 1 column in 8 files", "highest FPP", "day=7/x.parquet"]),
    "no filters": (lambda root: bp.inspect(root, columns=["b"]), ["There is no Bloom filter", "bloomparquet advise"]),
    "advice": (bp.advise, ["Filters of 2 columns", "a lookup of one value", "because", "INT64"]),
    "scan": (lambda _: Pictures([summarize(PLANNED)]), ["1 of 9 row groups read", "id = 7", "1 whole file + 1"]),
    "no scan": (lambda _: summarize(NOT_PLANNED), ["not planned, so all is read", "the planner failed"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_picture_says_what_it_shows(case: str, days: str, browser: Browser, tmp_path: Path) -> None:
    draw, texts = CASES[case]
    report = tmp_path / "report.html"
    report.write_text(bp.to_html(draw(days)), "utf-8")  # type: ignore[arg-type]
    light, dark = browser.show(report), browser.show(report, dark=True)
    for shown, is_background in ((light, lambda pixel: min(pixel) > 200), (dark, lambda pixel: max(pixel) < 60)):
        assert (shown.messages, shown.requests) == ([], [report.as_uri()])
        assert [each for each in texts if each not in shown.text] == []
        colours = browser.colours(shown.png)
        assert len(colours) > 20, "the picture is blank"
        assert is_background(max(colours, key=colours.__getitem__))


@pytest.mark.parametrize("where", [None, "a = 30", "a = 31", "a = 31 AND day = 2", "a = 31 OR day = 2", "a = NULL"])
def test_the_cells_are_the_decisions(days: str, where: str | None) -> None:
    plan = bp.plan(days, where)
    expected: dict[str, str] = {}
    names = [Path(file.path).relative_to(days).as_posix() for file in plan.dataset.files]
    decisions = plan.decisions()
    order = np.lexsort((decisions.row_group, decisions.file))
    for i in order.tolist():
        name = names[decisions.file[i]]
        expected[name] = expected.get(name, "") + LETTERS[DECISIONS[decisions.decision[i]]]
    assert cells(plan._repr_html_()) == expected


def test_ten_thousand_files_are_small_and_show_what_is_read(tmp_path: Path) -> None:
    sources = [
        write(tmp_path / f"{i}.parquet", {"a": [n + shift for n in range(0, 80, 2)]}, ["a"], rows_per_group=10)
        for i, shift in enumerate((0, 1, 500))
    ]
    for day in range(4):
        (tmp_path / f"many/day={day}").mkdir(parents=True)
    for i in range(10_000):
        source = sources[1] if i == 7_321 else sources[2 * (i % 2)]
        os.link(source, tmp_path / f"many/day={i // 2_500}/part-{i:05d}.parquet")
    plan = bp.plan(tmp_path / "many", "a = 31 AND day > 0")
    assert (plan.kept, plan.total) == (1, 32_500)
    html = bp.to_html(plan)
    assert len(html.encode()) < 1_000_000
    assert cells(html) == {"day=2/part-07321.parquet": "mRmm"}
    assert html.count("bp-line") < 110
    every = bp.to_html(bp.plan(tmp_path / "many"))
    assert len(every.encode()) < 1_000_000
    assert "20 of the 10,000 files that are read" in every


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 70))
def test_what_is_read_is_never_lost_among_others(codes: list[int], most: int) -> None:
    shown, per_cell = binned(np.array(codes, np.uint8), most, marks=7, always=0)
    assert len(shown) <= most
    for i, code in enumerate(shown.tolist()):
        members = codes[i * per_cell : (i + 1) * per_cell]
        assert code in members
        assert (code == 0) == (0 in members)
        assert code == 0 or members.count(code) == max(map(members.count, members))


HOSTILE = "<script>window.hacked=1</script>\"'&amp;<img src=x onerror='window.hacked=1'></style>\u202e\n\x00\udcff"


def test_hostile_names_and_values_are_text(browser: Browser, tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "\u2215").replace("\x00", "").replace("\udcff", "")
    path = tmp_path / f"{name}.parquet"
    column = HOSTILE.replace("\udcff", "")
    pq.write_table(
        pa.table({column: ["x"], "ok": [1]}), str(path), bloom_filter_options={column: {"ndv": 1, "fpp": 0.01}}
    )
    plan = bp.plan(str(path), bp.Eq(column, HOSTILE.replace("\udcff", "")))
    failed = summarize({**NOT_PLANNED, "reason": HOSTILE, "where": HOSTILE, "paths": [HOSTILE]})
    for result in (plan, plan.explain(), bp.inspect(str(path)), bp.advise(str(path)), failed):
        page = tmp_path / "page.html"
        for content in (bp.to_html(result, title=HOSTILE), f"<body>{bp.to_html(result).partition('<body')[2]}"):
            page.write_text(content, "utf-8")
            shown = browser.show(page)
            assert (shown.messages, shown.requests) == ([], [page.as_uri()])
            assert browser.evaluate("document.querySelectorAll('script,img').length") == 0
            assert browser.evaluate("window.hacked") is None
            assert "window.hacked=1</script>" in shown.text
            assert "\u202e" not in shown.text


@given(st.text())
def test_text_has_neither_markup_nor_invisible_characters(value: str) -> None:
    shown = text(value)
    assert not set(shown) & set("<>\"'")
    assert shown.isprintable()
    shown.encode()


def test_read_cells_differ_in_brightness_from_all_others() -> None:
    """A contrast of 3:1 is what WCAG 2.1 (1.4.11) asks of graphics; it does not depend on hue."""
    themes = re.findall(r"--read:[^}]*", STYLE)
    assert len(themes) == 4
    for theme in themes:
        colours = dict(re.findall(r"--(\w+):#([0-9a-f]{6});", theme))
        read = luminance(colours["read"])
        grounds = [luminance(colours[f"{kind}0"]) for kind in "pmbic"]
        assert all((max(read, each) + 0.05) / (min(read, each) + 0.05) >= 3 for each in grounds)
        heat = [luminance(colours[f"h{i}"]) for i in range(6)]
        assert heat in (sorted(heat), sorted(heat, reverse=True))


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_only_results_have_a_picture() -> None:
    for other in (pa.table({"a": [1]}), "text"):
        with pytest.raises(bp.OptionError, match="expected a plan, its explanation, an item of last_plan"):
            bp.to_html(other)  # type: ignore[arg-type]


def test_ipython_shows_our_tables_and_others_as_before(days: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = InteractiveShell()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    for before in (None, "<b>a table</b>"):
        if before is not None:
            shell.display_formatter.formatters["text/html"].for_type(pa.Table, lambda _, html=before: html)
        show_in_notebooks()
        shown = [
            shell.display_formatter.format(table)[0].get("text/html")
            for table in (bp.inspect(days), bp.advise(days), bp.inspect(days).drop_columns(["type"]))
        ]
        assert [each is not None and 'class="bloomparquet"' in each for each in shown] == [True, True, False]
        assert shown[2] == before
    for other in (None, object()):
        monkeypatch.setitem(sys.modules, "IPython", other)
        show_in_notebooks()


def test_a_plan_whose_files_are_gone_still_has_a_picture(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"a": EVEN, "b": EVEN}, ["a"])
    plan = bp.plan(path, "a = 31 OR b = 31")
    os.unlink(path)
    assert "row groups read" in document("gone", plan._repr_html_())
