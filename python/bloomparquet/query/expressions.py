"""Makes predicates of expressions of pyarrow.

pyarrow evaluates an expression for rows. Evidence is asked about a predicate that the expression implies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import PlanError, first_line, join_names, shorten
from bloomparquet.query.expression_tree import fields, read_tree
from bloomparquet.query.implied import PART, implied_by
from bloomparquet.query.predicate import Opaque, RowTest
from bloomparquet.query.why_not import WhyNot


def is_expression(where: object) -> bool:
    """Whether `where` is an expression of pyarrow."""
    return isinstance(where, pc.Expression)


def bind_expression(expression: Any, schemas: Iterable[pa.Schema]) -> RowTest:
    """`expression` as a predicate on the first of `schemas` that has its columns.

    Raises PlanError, with the message of pyarrow, if there is none or if the types do not fit.
    """
    if "FieldPath(" in str(expression):
        raise PlanError(
            f"where is {_describe(expression)}, which names a column by its number; expected names, as in "
            "pc.field('id'): numbers differ between files"
        )
    reason: Exception | None = None
    evaluate, tree = partial(_evaluate_arrow, expression), read_tree(expression)
    for schema in schemas:
        names = names_in([expression], schema)
        needed = pa.schema([field for field in schema if field.name in names])
        if absent := names.difference(schema.names):
            reason = reason or PlanError(
                f"no column {join_names(sorted(absent))}; the columns are {join_names(schema.names)}"
            )
            continue
        try:
            evaluate(_empty(needed))
        except Exception as error:  # noqa: BLE001 - functions that users register raise anything
            reason = reason or error
            continue
        implied = Opaque(PART, WhyNot.NOT_A_COMPARISON, "") if tree is None else implied_by(tree, needed)
        if isinstance(implied, Opaque):  # nothing is understood
            implied = replace(implied, sql=_describe(expression))
        return RowTest(
            tuple((name,) for name in needed.names),
            _describe(expression),
            implied,
            partial(_evaluate_rows, evaluate, _describe(expression)),
            tuple(needed.types),
        )
    why = "" if reason is None else first_line(reason)
    raise PlanError(f"where is {_describe(expression)}, which does not fit the files: {why}") from reason


def names_in(expressions: Iterable[Any], schema: pa.Schema) -> set[str]:
    """The names of the columns that `expressions` may need: all of `schema` if that is not known."""
    trees = [read_tree(expression) for expression in expressions]
    if None in trees:
        return set(schema.names)
    return {field.path[0] for tree in trees if tree is not None for field in fields(tree)}


def _describe(expression: Any) -> str:
    return shorten(" ".join(str(expression).split()), 2_000)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _evaluate_rows(evaluate: Callable[[pa.RecordBatch], Any], text: str, batch: pa.RecordBatch) -> Any:
    try:
        return evaluate(batch)
    except Exception as error:  # noqa: BLE001 - as in bind_expression
        reason = _why_every_row_fails(evaluate, batch.schema)
        if reason is not None:
            raise PlanError(f"where is {text}, which does not fit the files: {reason}") from None
        # Messages of pyarrow quote values, which may be of an encrypted column.
        raise PlanError(
            f"where is {text}, which fails for some rows ({type(error).__name__}); exclude them first, or cast so that "
            "values that do not fit become null"
        ) from None


def _why_every_row_fails(evaluate: Callable[[pa.RecordBatch], Any], schema: pa.Schema) -> str | None:
    """The error for a row of nulls, which quotes no data; None if there is none. Not all types fail without rows."""
    try:
        nulls = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], names=schema.names)
    except pa.ArrowException:  # a type that has no nulls
        return None
    try:
        evaluate(nulls)
    except Exception as error:  # noqa: BLE001 - as in bind_expression
        return first_line(error)
    return None


def project(expressions: Mapping[str, Any], batch: pa.RecordBatch) -> pa.Table:
    """The values of `expressions` for the rows of `batch`, as columns with these names."""
    import pyarrow.acero as acero  # lazy import: few conditions are expressions

    rows = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    node = acero.Declaration("project", acero.ProjectNodeOptions([*expressions.values()], [*expressions]))
    # Arrow's threads may all be waiting for this one, and one batch is evaluated sooner than they start.
    return acero.Declaration.from_sequence([rows, node]).to_table(use_threads=False)


def projected_schema(expressions: Mapping[str, Any], schema: pa.Schema) -> pa.Schema:
    """The columns of :func:`project` for batches of `schema`."""
    return project(expressions, _empty(schema)).schema


def _evaluate_arrow(expression: Any, batch: pa.RecordBatch) -> Any:
    return project({"matches": expression}, batch).column("matches").combine_chunks()
