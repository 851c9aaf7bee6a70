"""pytest plugin for runs on mutants: quick tests first, few examples, and nothing cached from before the change."""

from __future__ import annotations

import sys
from functools import cache

import pytest
from hypothesis import is_hypothesis_test, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    settings.register_profile("mutants", settings.get_profile("ci"), max_examples=25)
    settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: is_hypothesis_test(getattr(item, "function", None)))


@cache
def _cached_functions() -> list[object]:
    modules = [module for name, module in sys.modules.items() if name.startswith("bloomparquet.")]
    return [value for module in modules for value in vars(module).values() if hasattr(value, "cache_clear")]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # A mutant runs in a fork of a process that has run the tests: what these have cached would hide it.
    for function in _cached_functions():
        function.cache_clear()  # type: ignore[attr-defined]
