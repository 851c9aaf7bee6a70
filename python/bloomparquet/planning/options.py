"""The options of a plan."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

from bloomparquet.errors import OptionError, quoted
from bloomparquet.planning.cache.plan_cache import PlanCache, process_cache
from bloomparquet.planning.evidence.interface import ReaderTypes
from bloomparquet.planning.index.lookup import IndexDirectory
from bloomparquet.query.predicate import Predicate

OnFilterError = Literal["keep", "fail"]


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """All options of one plan. Readers with their own rules, such as Spark, set more than the options of :func:`plan`.

    * `timezone`, `case_sensitive`, `on_filter_error`, `skip_corrupt`: as for :func:`plan`.
    * `strict`: an unknown column, a comparison with a struct, a list or a map, and a literal of the wrong type are
      errors. Otherwise such a condition skips nothing.
    * `exact_names`: a dot is part of a column name, and never leads into a struct.
    * `reader_types`: the types that the reader gives to columns. Where the reader's values may differ from the stored
      ones, a column skips nothing. For elements of lists and maps, the path ends with `element`, `key` or `value`.
    * `pushed`: a second predicate that rows must match. It is never strict, and not part of :attr:`ScanPlan.where`.
    * `cache`: keeps the footers and filters that plans read.
    * `index`: where the index of the data set is: ``"auto"`` beside the data, ``"off"`` for none, or a directory, as a
      path or URL, or with its storage.
    """

    timezone: str | None = "UTC"
    case_sensitive: bool = True
    on_filter_error: OnFilterError = "keep"
    skip_corrupt: bool = False
    strict: bool = True
    exact_names: bool = False
    reader_types: ReaderTypes = field(default_factory=dict)
    pushed: Predicate | None = None
    cache: PlanCache = process_cache
    index: str | IndexDirectory = "auto"

    def __post_init__(self) -> None:
        if self.on_filter_error not in ("keep", "fail"):
            raise OptionError(f"on_filter_error is {self.on_filter_error!r}; expected 'keep' or 'fail'")
        if not isinstance(self.timezone, str | None):
            raise OptionError(f"timezone is {quoted(self.timezone)}; expected its name, such as 'Europe/Berlin'")


DEFAULT_OPTIONS = PlanOptions()


def index_path(index: object) -> str:
    """The parameter `index` of the public functions as the option of a plan."""
    if not isinstance(index, str | os.PathLike):
        raise OptionError(f"index is {quoted(index)}; expected 'auto', 'off', or the directory or URL of an index")
    return os.fspath(index)
