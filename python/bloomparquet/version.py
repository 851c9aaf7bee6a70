"""The version of this package: of the checkout that it is imported from, or else of the installation."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r'^name = "bloomparquet"$', re.MULTILINE)
_VERSION = re.compile(r'^version = "(.+)"$', re.MULTILINE)


@cache
def version() -> str:
    """Such as ``0.1.0``. An editable installation remembers the version that it was made with, so a checkout's own
    ``pyproject.toml`` comes first."""
    try:
        project = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        project = ""
    match = _VERSION.search(project)
    if match is not None and _NAME.search(project):
        return match[1]
    from importlib import metadata

    return metadata.version("bloomparquet")
