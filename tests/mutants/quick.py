"""pytest plugin for runs on mutants: quick tests first, and few examples."""

from __future__ import annotations

import pytest
from hypothesis import is_hypothesis_test, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    settings.register_profile("mutants", settings.get_profile("ci"), max_examples=25)
    settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: is_hypothesis_test(getattr(item, "function", None)))
