"""README.md and docs/*.md: every Python block and every command runs, and prints what its page says. The API reference
and the contents are complete."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import bloomparquet
import pyspark_bloomparquet
from bloomparquet.cli.main import main
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.index.lookup import forget_indexes

ROOT = Path(__file__).resolve().parents[2]
PAGES = {page.relative_to(ROOT).as_posix(): page.read_text() for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"))}
LINKING = {**PAGES, "jvm-shim/README.md": (ROOT / "jvm-shim" / "README.md").read_text()}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

NOT_RUN = ("make", "pip")  # they set up the machine; `test_make_targets_exist` looks at them instead


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    text = PAGES[page]
    for match in FENCE.finditer(text):
        yield Block(page, match.group(1), match.group(2), text.count("\n", 0, match.start()) + 1)


def test_readme_is_one_page() -> None:
    assert PAGES["README.md"].count("\n") <= 150


def test_an_example_runs_before_line_30() -> None:
    first = next(blocks("README.md"))
    assert first.language == "python"
    assert first.line + first.text.count("\n") + 1 < 30


def test_the_first_example_is_examples_lookup() -> None:
    program = (ROOT / "examples" / "lookup.py").read_text().split('"""\n\n', 1)[1].replace("  # fmt: skip", "")
    assert next(blocks("README.md")).text == program


@pytest.mark.slow
def test_every_block_runs_and_prints_what_its_page_says(tmp_path: Path) -> None:
    # One process for all pages: they share a JVM, which never leaves the directory that it was started in.
    done = subprocess.run(
        [sys.executable, __file__], cwd=tmp_path, check=False, capture_output=True, text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{len(PAGES)} pages"


def play(page: str) -> str:
    """Run all blocks of a page in the working directory. Returns what was compared with the page. Raises
    AssertionError, or what a block raised."""
    namespace: dict[str, object] = {"__name__": "page"}
    printed = compared = ""
    for block in blocks(page):
        where = f"{page}, line {block.line}"
        if block.language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * block.line + block.text, page, "exec"), namespace)
            printed = out.getvalue()
        elif block.language == "sh":
            printed = "".join(run(command, where) for command in block.text.splitlines())
        elif block.language not in ("diagram", "bash"):  # tests/jar/test_cluster.py runs bash
            assert block.language == "text", f"{where}: a {block.language} block is neither run nor compared"
            expected, actual = comparable(block.text), comparable(printed)
            assert expected in actual, f"{where}: the page says\n{expected}\nand what was printed is\n{actual}"
            compared += printed
    return compared


def run(command: str, where: str) -> str:
    words = shlex.split(command, comments=True)
    if words[0] in NOT_RUN:
        return ""
    assert words[0] == "bloomparquet", f"{where}: do not know how to run {words[0]}"
    out, err = io.StringIO(), io.StringIO()
    # In this process: to import pyarrow takes longer than most commands. A new one would have no cache.
    process_cache.clear()
    forget_indexes()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(words[1:])
    assert ended.value.code == 0, f"{where}: {command}\n{out.getvalue()}{err.getvalue()}"
    return out.getvalue()


def comparable(text: str) -> str:
    """`text` without what differs from run to run: times, sizes of compressed data, and the spacing of tables."""
    text = re.sub(r"\b[\d.]+ (ms|s|B|KiB|MiB|%)", r"# \1", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def test_the_tables_of_options_are_current() -> None:
    from pyspark_bloomparquet.options.table import OPTIONS

    row = r"^\| `([^`]+)` \| (?:`([^`]+)`)? ?\| (jar|Python|both)(?: \(only `(.*?)`\))? \| .+\. \|$"
    shown = re.findall(row, PAGES["docs/options.md"], re.MULTILINE)
    assert shown == [(each.name, each.default or "", each.used_by, each.source or "") for each in OPTIONS]


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for text in LINKING.values()
        for target in re.findall(r"`make ([a-z-]+)", text) + re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)
    }
    assert {"demo", "test", "lint"} <= named
    assert named <= targets


def test_extras_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    extras = re.findall(r"pip install \"\.\[(\w+)\]", PAGES["README.md"])
    assert extras
    for extra in extras:
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


def test_make_help_is_the_default_target_and_lists_every_target() -> None:
    shown = subprocess.run(["make", "-s"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    for target in set(phony.group(1).split()) - {"java"}:
        assert re.search(rf"^  {target} +\w", shown, re.MULTILINE), f"{target} is not in:\n{shown}"


@pytest.mark.parametrize("page", LINKING)
def test_links_lead_to_files_and_headings(page: str) -> None:
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", LINKING[page]):
        file = ((ROOT / page).parent / target).resolve() if target else ROOT / page
        assert file.exists(), target
        if heading:
            assert heading in headings(file), f"{target}#{heading}"


@pytest.mark.parametrize("page", LINKING)
def test_named_files_exist(page: str) -> None:
    """Paths of the project in backquotes, such as `query/sql/parse.py`, from the root or from the core's directory."""
    roots = (ROOT, ROOT / "python", ROOT / "python" / "bloomparquet", ROOT / "jvm-shim")
    for path in re.findall(r"`([\w-]+(?:/[\w-]+)+\.(?:py|java|md))`", LINKING[page]):
        assert any((root / path).exists() for root in roots), path


def headings(file: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them of headings."""
    titles = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("package", [bloomparquet, pyspark_bloomparquet])
def test_the_reference_has_every_public_name(package: ModuleType) -> None:
    sections = PAGES["docs/api.md"].split(".. currentmodule:: ")[1:]
    (section,) = (text for text in sections if text.split("\n", 1)[0] == package.__name__)
    documented = re.findall(r"^\.\. auto\w+:: (\w+)$", section, re.MULTILINE)
    assert sorted(documented) == sorted(package.__all__)


def test_the_contents_have_every_page() -> None:
    listed = PAGES["docs/contents.md"].split("```{toctree}", 1)[1].split()
    pages = {Path(name).stem for name in PAGES} - {"README", "contents"}
    assert {name for name in listed if not name.startswith((":", "`")) and name != "1"} == pages


def test_no_page_has_a_placeholder() -> None:
    assert not [name for name, text in PAGES.items() if "@@" in text]


if __name__ == "__main__":
    for name in PAGES:
        shown = play(name)
        assert name != "README.md" or "|42     |" in shown, shown
    print(len(PAGES), "pages")
