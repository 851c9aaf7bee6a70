"""Which columns of a write get Bloom filters: the options' words, checked against the schema before any task runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from bloomparquet.errors import OptionError, nearest
from bloomparquet.format.schema import FileSchema, LeafColumn
from bloomparquet.writing.bloom import EVERY_COLUMN, Bloom, BloomSpec, refusal
from pyspark_bloomparquet.write_options import DICTIONARY, ENABLED, FPP, NDV

if TYPE_CHECKING:
    from bloomparquet.predicate import Column
    from pyspark_bloomparquet.write_options import ColumnKeys, WriteOptions

Path = tuple[str, ...]


def chosen_blooms(options: WriteOptions, schema: FileSchema) -> BloomSpec | None:
    """The columns that get filters, for the core's writer; ``"*"`` is all that profit. None for none.

    Raises OptionError that names the option, its value and the choices, for a column that is not there or that no
    filter serves.
    """
    named = set(_named(options, schema.leaves))
    every = EVERY_COLUMN in words(options.bloom_columns) or options.enabled.default is True
    refused: set[Path] = set()
    for key, told in options.enabled.columns.items():
        leaves = _of_key(ENABLED, key, schema.leaves)
        (named.update if told else refused.update)(leaf.path for leaf in leaves)
    ndv = _by_path(NDV, options.ndv, schema.leaves)
    fpp = _by_path(FPP, options.fpp, schema.leaves)
    named.update(path for path in ndv if path is not None)

    def bloom(path: Path | None) -> Bloom:
        share = fpp.get(path, options.fpp.default or options.bloom_fpp)
        return Bloom(share, ndv.get(path, options.ndv.default), options.bloom_max_bytes)

    found: dict[Column, Bloom] = {path: bloom(path) for path in sorted(named - refused)}
    if not every:
        return found or None
    if not refused:
        said = {path: bloom(path) for path in fpp if path is not None}
        return cast("BloomSpec", {EVERY_COLUMN: bloom(None), **said, **found})
    others = (leaf.path for leaf in schema.leaves if refusal(leaf) is None)
    return {**{path: bloom(path) for path in others if path not in refused}, **found} or None


def dictionary_columns(options: WriteOptions, schema: FileSchema) -> bool | list[str]:
    """For pyarrow: whether dictionaries are tried, or for which columns."""
    told = _by_path(DICTIONARY, options.dictionary, schema.leaves)
    if not told:
        return bool(options.dictionary.default)
    return [".".join(leaf.path) for leaf in schema.leaves if told.get(leaf.path, options.dictionary.default)]


def words(columns: str | None) -> list[str]:
    """What the option bloomColumns names."""
    return [] if columns is None else [word.strip() for word in columns.split(",")]


def _named(options: WriteOptions, leaves: Sequence[LeafColumn]) -> Iterable[Path]:
    for word in words(options.bloom_columns):
        if word != EVERY_COLUMN:
            yield leaf_of(word, str(options.bloom_columns), leaves, _refused).path


def leaf_of(
    word: str,
    given: str,
    leaves: Sequence[LeafColumn],
    refused: Callable[[LeafColumn], str | None],
    option: str = "bloomColumns",
) -> LeafColumn:
    """The leaf that `option`, which is `given`, names by `word`. OptionError for one that is not there, and for what
    `refused` has a reason against."""
    found = [leaf for leaf in leaves if _name(leaf) == word] or [
        leaf for leaf in leaves if _name(leaf).lower() == word.lower()
    ]
    if len(found) == 1 and refused(found[0]) is None:
        return found[0]
    choices = [_name(leaf) for leaf in leaves if refused(leaf) is None]
    below = [leaf for leaf in leaves if _name(leaf).lower().startswith(f"{word.lower()}.")]
    if len(found) > 1:
        problem = f"which is one of several columns: {', '.join(map(_name, found))}"
    elif found:
        problem = f"which {refused(found[0])}"
    elif below:
        reason = refused(below[0])
        problem = "which is a struct; name its fields" if reason is None else f"which {reason}"
    else:
        problem = f"and there is no such column in the files{nearest(word, choices)}"
    expected = f"expected some of: {', '.join(choices)}" if choices else "no column here can have one"
    raise OptionError(f"option {option} is {given!r} and names {word!r}, {problem}; {expected}")


def _of_key(option: str, column: str, leaves: Iterable[LeafColumn]) -> list[LeafColumn]:
    """The leaves that a key of parquet-java names, of which Spark has lost the case."""
    leaves = list(leaves)
    found = [leaf for leaf in leaves if _name(leaf).lower() == column.lower()]
    if not found:
        choices = [_name(leaf) for leaf in leaves]
        raise OptionError(
            f"option {option}#{column} names {column!r}, and there is no such column in the files"
            f"{nearest(column, choices)}; expected one of: {', '.join(choices)}"
        )
    if option in (ENABLED, NDV):
        served = [leaf for leaf in found if refusal(leaf, named=True) is None]
        if not served:
            raise OptionError(f"option {option}#{column} names {column!r}, which {refusal(found[0], named=True)}")
        return served
    return found


def _by_path(option: str, keys: ColumnKeys, leaves: Iterable[LeafColumn]) -> Mapping[Path | None, Any]:
    leaves = list(leaves)
    return {leaf.path: value for column, value in keys.columns.items() for leaf in _of_key(option, column, leaves)}


def _refused(leaf: LeafColumn) -> str | None:
    if leaf.repeated:
        return "is a list or a map; filters on elements prune nothing"
    return refusal(leaf, named=True)


def _name(leaf: LeafColumn) -> str:
    return ".".join(leaf.path)
