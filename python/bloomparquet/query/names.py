"""The rule by which a name finds a column: exactly, or whatever its case.

One rule for the planner, the reader and the Spark face, because rows are lost where two of them disagree. Case is
folded as Spark does (Java's ``toLowerCase``), which holds fewer names to be the same than Unicode's folding would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def fold(name: str, case_sensitive: bool) -> str:
    """What two names must have in common to be the same."""
    return name if case_sensitive else name.lower()


def find(names: Sequence[str], name: str, case_sensitive: bool) -> list[int]:
    """Where `name` is among `names`: as it stands, or else under the rule. Several are the caller's to refuse."""
    exact = [i for i, other in enumerate(names) if other == name]
    return exact or [i for i, other in enumerate(names) if fold(other, case_sensitive) == fold(name, case_sensitive)]


def names_of(path: tuple[str, ...]) -> Iterator[str | tuple[str, ...]]:
    """Every name that means the leaf column at `path`: its path, the same with dots, and those of each group around it,
    from the innermost out."""
    for depth in range(len(path), 0, -1):
        yield path[:depth]
        yield ".".join(path[:depth])


def shown(path: Iterable[str]) -> str:
    """The name of a column as Unicode text, whatever bytes it is in its file."""
    return ".".join(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Names:
    """A set of column names under the rule."""

    def __init__(self, names: Iterable[str], case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive
        self._names = {fold(name, case_sensitive) for name in names}

    def __contains__(self, name: str) -> bool:
        return fold(name, self._case_sensitive) in self._names

    def all_in(self, names: Iterable[str]) -> bool:
        return self._names <= {fold(name, self._case_sensitive) for name in names}
