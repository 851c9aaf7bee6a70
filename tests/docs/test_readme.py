"""The README is run: every Python block and every command, in order, and what it says they print is what they print."""

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

from pyspark_bloomparquet.options import load as options

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Set up the machine or run everything; `test_make_targets_exist` looks at them instead.
NOT_RUN = ("make", "pip")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks() -> Iterator[Block]:
    for match in FENCE.finditer(README):
        yield Block(match.group(1), match.group(2), README.count("\n", 0, match.start()) + 1)


def test_an_example_runs_before_line_30() -> None:
    first = next(blocks())
    assert first.language == "python"
    assert first.line + first.text.count("\n") + 1 < 30


def test_the_first_example_is_examples_lookup() -> None:
    program = (ROOT / "examples" / "lookup.py").read_text().split('"""\n\n', 1)[1].replace("  # fmt: skip", "")
    assert next(blocks()).text == program


def test_every_block_runs_and_prints_what_the_readme_says(tmp_path: Path) -> None:
    # In a process of its own: paths in the README are relative, and a JVM never leaves the directory it was started in.
    done = subprocess.run(
        [sys.executable, __file__], cwd=tmp_path, check=False, capture_output=True, text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def play() -> None:
    """Run all blocks in the working directory; an AssertionError or whatever a block raised says what is wrong."""
    namespace: dict[str, object] = {"__name__": "readme"}
    printed = ""
    for block in blocks():
        where = f"README.md, line {block.line}"
        if block.language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * block.line + block.text, "README.md", "exec"), namespace)
            printed = out.getvalue()
        elif block.language == "sh":
            printed = "".join(run(command, where) for command in block.text.splitlines())
        elif block.language != "demo":  # tests/docs/test_examples.py runs that and compares
            assert block.language == "text", f"{where}: a {block.language} block is neither run nor compared"
            said, real = comparable(block.text), comparable(printed)
            assert said in real, f"{where}: the README says\n{said}\nand what was printed is\n{real}"


def run(command: str, where: str) -> str:
    words = shlex.split(command, comments=True)
    if words[0] in NOT_RUN:
        return ""
    assert words[0] == "bloomparquet", f"{where}: do not know how to run {words[0]}"
    done = subprocess.run(
        [sys.executable, "-m", "bloomparquet.cli.main", *words[1:]],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"
    return done.stdout


def comparable(text: str) -> str:
    """Without what differs from run to run: times, sizes of compressed data, and how a table was spaced for them."""
    text = re.sub(r"\b[\d.]+ (ms|s|B|KiB|MiB|%)", r"# \1", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def test_the_table_of_options_is_current() -> None:
    shown = re.search(r"<!-- options: .*? -->\n(.*)\n<!-- /options -->", README, re.DOTALL)
    assert shown is not None
    assert shown.group(1) == options.markdown(), "run: python -m pyspark_bloomparquet.options.load"


def test_the_make_targets_it_names_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)`", README)) | set(re.findall(r"^make ([a-z-]+)$", README, re.MULTILINE))
    assert {"demo", "test", "lint"} <= named
    assert named <= targets


def test_the_extras_it_names_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for extra in re.findall(r"pip install \"\.\[(\w+)\]", README):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


def test_make_help_is_the_default_target_and_lists_every_target() -> None:
    shown = subprocess.run(["make", "-s"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    for target in set(phony.group(1).split()) - {"java"}:
        assert re.search(rf"^  {target} +\w", shown, re.MULTILINE), f"{target} is not in:\n{shown}"


def test_files_that_it_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


if __name__ == "__main__":
    play()
