"""Options: unknown names, wrong values, and the generated table."""

from __future__ import annotations

import dataclasses
import os
import re

import pytest

from bloomparquet.errors import OptionError, PlanError
from pyspark_bloomparquet.options.load import Options, PlannerOptions
from pyspark_bloomparquet.options.table import JAR, LOADING
from tests.support.option_cases import WRONG_VALUES


def parse(**given: str) -> Options:
    return Options.parse({"path": "/data", **given})


def test_options_and_fields_correspond() -> None:
    fields = {field.name for field in dataclasses.fields(Options)}
    heeded = (option.name for option in LOADING if option.used_by != JAR)
    names = {re.sub(r"(?=[A-Z])", "_", name).lower() for name in heeded}
    assert names == fields | {"path"}


def test_option_names_are_case_insensitive() -> None:
    assert parse(PUSHFILTERS="ON").push_filters == "on"
    assert parse(mergeschema="True").merge_schema is True


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [("mergeschemas", "mergeSchema"), ("were", "where"), ("Filters", "where"), ("predicate", "where")],
)
def test_an_unknown_name_is_an_error_with_the_nearest_one(key: str, suggestion: str) -> None:
    with pytest.raises(OptionError, match=f"no option '{key}'; did you mean '{suggestion}'"):
        parse(**{key: "x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxPartitionBytes", "0"),
        ("maxPartitionBytes", "12q"),
        ("minPartitionNum", "0"),
        ("minPartitionNum", "1.5"),
        ("mergeSchema", "yes"),
        ("modifiedAfter", "2026-02-30"),
        ("timeZone", "Mars/Olympus"),
        ("paths", "/a,/b"),
        ("paths", "[]"),
    ],
)
def test_a_wrong_value_is_an_error_with_name_and_value(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} is '{re.escape(value)}'; expected"):
        parse(**{name: value})


@pytest.mark.parametrize(("name", "value", "expected"), WRONG_VALUES)
def test_python_and_the_jar_expect_the_same(name: str, value: str, expected: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} is '{value}'; expected {expected}"):
        parse(**{name: value})


def test_an_index_is_a_word_or_a_directory() -> None:
    words = {"AUTO": "auto", " off ": "off", "/a/b": "/a/b", "s3://b/i": "s3://b/i", "./i": f"{os.getcwd()}/./i"}
    assert {given: parse(index=given).index for given in words} == words
    assert parse().index == "auto"


def test_paths_are_one_path_or_a_json_list() -> None:
    assert parse().paths == ("/data",)
    assert Options.parse({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")
    with pytest.raises(OptionError, match="no path was given"):
        Options.parse({})


def test_options_of_the_jar_are_checked_and_ignored() -> None:
    assert Options.parse({"path": "x", "planning": "off", "bloomColumns": "a"}) == Options.parse({"path": "x"})
    with pytest.raises(OptionError, match="planning is 'of'; expected auto or off; did you mean 'off'"):
        Options.parse({"path": "x", "planning": "of"})


def test_planner_options_are_parsed_and_checked() -> None:
    given = {"onFilterError": "fail", "cacheMaxBytes": "2k", "cacheDirectory": "/c", "cache": "false", "index": "/i"}
    assert PlannerOptions.parse(given) == PlannerOptions("fail", False, "/i", "/c", 2048)
    with pytest.raises(OptionError, match="cacheMaxBytes is 'many'"):
        PlannerOptions.parse({"cacheMaxBytes": "many"})
    with pytest.raises(PlanError, match=r"sent the planner the options cachedirectory, .* the jar of the same release"):
        PlannerOptions.parse({"cachedirectory": "/c"})


@pytest.mark.parametrize("name", ["cacheDirectory", "cacheMaxBytes", "CACHEDIRECTORY"])
def test_the_cache_directory_is_not_an_option_of_a_load(name: str) -> None:
    with pytest.raises(OptionError, match=r"is not for a load, table or session; .* set spark.bloomparquet.cache"):
        parse(**{name: "/tmp"})


def test_a_load_ignores_write_options() -> None:
    given = {"bloommaxbytes": "1m", "parquet.bloom.filter.enabled#id": "true", "partitionoverwritemode": "dynamic"}
    assert parse(**given) == parse()
    with pytest.raises(OptionError, match="no option 'bloomFpp#c'"):
        parse(**{"bloomFpp#c": "0.1"})


def test_options_of_orc_are_unknown_to_parquet_loads() -> None:
    with pytest.raises(OptionError, match=r"no option 'orc\.stripe\.size': that is one of bloomorc"):
        parse(**{"orc.stripe.size": "1m"})
