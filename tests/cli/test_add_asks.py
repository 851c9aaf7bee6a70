"""``add`` without columns asks before it changes files."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import click
import pytest

from bloomparquet.cli.main import main
from tests.support import files


@pytest.mark.parametrize("answer", ["y", "n"])
def test_add_asks_on_a_terminal(tmp_path: Path, answer: str, monkeypatch: Any, capsys: Any) -> None:
    path = files.write(tmp_path / "a.parquet", {"id": [i * 7919 % 1_000_003 for i in range(6_000)], "at": range(6_000)},
                       rows_per_group=1_500)  # fmt: skip
    before = Path(path).read_bytes()
    asked = []

    def confirm(text: str, **_: Any) -> bool:
        asked.append(text)
        assert Path(path).read_bytes() == before
        return answer == "y"

    monkeypatch.setattr(click, "confirm", confirm)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it
    with pytest.raises(SystemExit) as ended:
        main(["add", path])
    assert ended.value.code == (0 if answer == "y" else 1)
    assert asked == ["Add filters of 8.1 KiB on id, in 1 file?"]
    assert "a lookup reads" in capsys.readouterr().out
    assert (Path(path).read_bytes() == before) == (answer == "n")
