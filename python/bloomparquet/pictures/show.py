"""Shows results as pictures: in notebooks, and as documents for a browser.

Classes of this package have ``_repr_html_``. ``pyarrow.Table`` is not ours, so IPython gets a printer for tables, which
draws those that have exactly the columns of `bloomparquet.inspect` or `bloomparquet.advise`. All other tables look as
before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from bloomparquet.errors import OptionError
from bloomparquet.reading.inspect import FILTER_SCHEMA, FILTER_SCHEMA_OF_ORC
from bloomparquet.report.html import document
from bloomparquet.writing.advice.advise import ADVICE_SCHEMA


class HasPicture(Protocol):
    """An object that notebooks show as HTML, such as a `ScanPlan`."""

    def _repr_html_(self) -> str: ...


def to_html(result: HasPicture | pa.Table, *, title: str = "bloomparquet") -> str:
    """The picture of `result` that notebooks show, as an HTML document without scripts that loads nothing.

    `result` is a plan or its explanation, the table of :func:`inspect` or :func:`advise`, or in Spark an item of
    ``last_plan(df)``. Raises OptionError for other objects.

    >>> plan = bp.plan("events.parquet", "user_id = 4711")
    >>> with open("report.html", "w", encoding="utf-8") as file:
    ...     characters = file.write(bp.to_html(plan))
    """
    if isinstance(result, pa.Table):
        picture = _draw(result)
    else:
        picture = result._repr_html_() if hasattr(result, "_repr_html_") else None
    if picture is None:
        kind = "pyarrow.Table with other columns" if isinstance(result, pa.Table) else type(result).__name__
        raise OptionError(
            f"result is of type {kind}; expected a plan, its explanation, an item of last_plan(df), or what inspect or "
            "advise returned"
        )
    return document(title, picture)


def _draw(table: pa.Table) -> str | None:
    # Lazy imports: few programs draw.
    if any(table.schema.equals(schema) for schema in (FILTER_SCHEMA, FILTER_SCHEMA_OF_ORC)):
        from bloomparquet.pictures.filters import draw_filters

        return draw_filters(table)
    if table.schema.equals(ADVICE_SCHEMA):
        from bloomparquet.pictures.advice import draw_advice

        return draw_advice(table)
    return None


def show_in_notebooks() -> None:
    """Let IPython, if this is one of its sessions, show our tables as pictures."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if get_shell is None else get_shell()
    if shell is None:
        return
    formatter = shell.display_formatter.formatters["text/html"]
    before: Callable[[Any], str | None] | None = formatter.type_printers.get(pa.Table)
    formatter.for_type(pa.Table, lambda table: _draw(table) or (None if before is None else before(table)))
