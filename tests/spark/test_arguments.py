"""attach, configure, last_plan and explain_pruning say what they take, and what they got instead."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from bloomparquet.errors import OptionError
from pyspark_bloomparquet import attach, configure, explain_pruning, last_plan


def test_attach_takes_a_session() -> None:
    message = r"running SparkSession; found the Builder.*attach\(builder.getOrCreate\(\)\)"
    with pytest.raises(OptionError, match=message):
        attach(SparkSession.builder)


def test_configure_takes_a_builder(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match=r"SparkSession.builder; found the SparkSession .*use attach\(spark\)"):
        configure(spark)


def test_plans_are_those_of_a_dataframe_or_a_stream(spark: SparkSession) -> None:
    for wrong in (spark, "SELECT 1", spark.range(1).groupBy("id")):
        for ask in (last_plan, explain_pruning):
            with pytest.raises(OptionError, match=f"a streaming query; found the {type(wrong).__name__} "):
                ask(wrong)
