"""Imports the whole package, so that `atheris` instruments also what is imported when it is first used."""

from __future__ import annotations

import importlib
import pkgutil


def load_package() -> None:
    import bloomparquet

    for module in pkgutil.walk_packages(bloomparquet.__path__, "bloomparquet."):
        importlib.import_module(module.name)
    for name in ("planner_worker", "protocol", "listing"):
        importlib.import_module(f"pyspark_bloomparquet.jar.{name}")
