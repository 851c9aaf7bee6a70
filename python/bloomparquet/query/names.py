"""The rules by which a name finds a column, case-sensitive or not, and the forms in which names are written.

The planner, the reader and pyspark_bloomparquet share one rule: rows are lost if two of them disagree. Without case,
names are compared as Spark does (Java's ``toLowerCase``), which equates fewer names than Unicode's case folding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from bloomparquet.errors import OptionError, quoted

_KEYWORDS = (
    "AND|ANTI|ARRAY|BETWEEN|BINARY|CASE|CAST|CROSS|DATE|DIV|DOUBLE|ELSE|END|EXCEPT|EXISTS|FALSE|FROM|FULL|GROUP|HAVING|IN|"
    "INNER|INTERSECT|INTERVAL|IS|JOIN|LATERAL|LEFT|LIKE|LIMIT|MAP|MINUS|NATURAL|NOT|NULL|ON|OR|ORDER|OVER|RIGHT|SELECT|"
    "SEMI|STRUCT|THEN|TIME|TIMESTAMP|TIMESTAMP_LTZ|TIMESTAMP_NTZ|TRUE|UNION|USING|VALUES|WHEN|WHERE|WINDOW|WITH|X"
)
_PLAIN_NAME = re.compile(rf"(?!(?:{_KEYWORDS})$)[A-Z_][A-Z0-9_]*", re.IGNORECASE | re.ASCII)

_PART = re.compile(r"`(?:[^`]|``)+`|[^`.]+")
_QUOTED_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")
_COMMA = re.compile(r",(?=[^`]*(?:`[^`]*`[^`]*)*$)")


def fold(name: str, case_sensitive: bool) -> str:
    """The form of `name` that equal names share."""
    return name if case_sensitive else name.lower()


def find(names: Sequence[str], name: str, case_sensitive: bool) -> list[int]:
    """The positions of `name` in `names`: exact matches if there are any, or else those under the rule.

    The caller decides whether more than one is an error.
    """
    exact = [i for i, other in enumerate(names) if other == name]
    return exact or [i for i, other in enumerate(names) if fold(other, case_sensitive) == fold(name, case_sensitive)]


class Positions:
    """Finds positions in `names` as :func:`find` does, for many names: in time that does not grow with `names`."""

    def __init__(self, names: Iterable[str], case_sensitive: bool) -> None:
        self._exact: dict[str, list[int]] = {}
        self._folded: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            self._exact.setdefault(name, []).append(i)
            if not case_sensitive:
                self._folded.setdefault(name.lower(), []).append(i)

    def find(self, name: str) -> list[int]:
        return self._exact.get(name) or self._folded.get(name.lower(), [])

    def __contains__(self, name: str) -> bool:
        return bool(self.find(name))


def check_names(columns: object) -> None:
    """Raise OptionError unless `columns` is None or a list of texts. The letters of a text would be the names."""
    if isinstance(columns, str):
        raise OptionError(f"columns is {quoted(columns)}; expected a list of names, such as [{quoted(columns)}]")
    if not isinstance(columns, Iterable | None):
        raise OptionError(f"columns is {quoted(columns)}; expected a list of names")
    wrong = [name for name in columns if not isinstance(name, str)] if isinstance(columns, Sequence) else []
    if wrong:
        raise OptionError(f"columns has {quoted(wrong[0])}; expected names, as text")


def names_of(path: tuple[str, ...]) -> Iterator[str | tuple[str, ...]]:
    """Every name for the leaf column at `path`: the path and its dotted form, then those of each group around it,
    innermost first."""
    for depth in range(len(path), 0, -1):
        yield path[:depth]
        yield ".".join(path[:depth])


def dotted_name(path: Iterable[str]) -> str:
    """The name of a column as valid Unicode text, whatever bytes it has in its file."""
    return valid_text(".".join(path))


def valid_text(name: str) -> str:
    """The name of a column or a file with U+FFFD in place of bytes that are not UTF-8: Arrow takes no others."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def column_to_sql(column: tuple[str, ...]) -> str:
    """The SQL name of a column: ``address.city``. Parts that are not identifiers are quoted: `` `first name` ``."""
    return ".".join(part if _PLAIN_NAME.fullmatch(part) else "`" + part.replace("`", "``") + "`" for part in column)


def column_from_sql(name: str) -> str | tuple[str, ...]:
    """The column that `name` means on the command line: its parts if it is quoted as in SQL (``s.`a.b` ``), or else
    `name` as it is, with dots in the name or between names."""
    if "`" not in name or not _QUOTED_NAME.fullmatch(name):
        return name
    parts = (part[1:-1].replace("``", "`") if part[0] == "`" else part for part in _PART.findall(name))
    return tuple(parts)


def split_sql_names(text: str) -> list[str]:
    """The names in `text`, which commas separate. Commas between backticks are part of a name."""
    return [name.strip() for name in _COMMA.split(text)]


def quote_name(name: str) -> str:
    """`name`, which may be dotted, for ``--columns``: in backticks if it would be read as something else."""
    is_plain = name == name.strip() and name not in ("", "*") and not {",", "`"}.intersection(name)
    return name if is_plain else column_to_sql((name,))


def repr_column(column: tuple[str, ...]) -> str:
    """A column as the constructors of predicates take it: ``'id'``, ``('address', 'city')``."""
    return repr(column[0] if len(column) == 1 else column)
