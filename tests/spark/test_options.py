"""Options are checked: unknown names, values out of range, and the table for the README."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bloomparquet.errors import OptionError
from pyspark_bloomparquet.option import JAR
from pyspark_bloomparquet.options import LOADING, OPTIONS, Options, PlannerOptions, markdown
from pyspark_bloomparquet.write_options import CODECS, WriteOptions, check_codec


def parse(**given: str) -> Options:
    return Options.parse({"path": "/data", **given})


def test_every_option_has_one_field_and_the_other_way_round() -> None:
    fields = {field.name for field in dataclasses.fields(Options)}
    heeded = (option.name for option in LOADING if option.reader != JAR)
    names = {re.sub(r"(?=[A-Z])", "_", name).lower() for name in heeded}
    assert names - fields == {"path"}
    assert fields - names == {"source"}


def test_keys_are_found_whatever_their_case() -> None:
    assert parse(PUSHFILTERS="ON").push_filters == "on"
    assert parse(mergeschema="True").merge_schema is True


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("pushFilter", "pushFilters"),
        ("mergeschemas", "mergeSchema"),
        ("were", "where"),
        ("maxpartitionbyte", "maxPartitionBytes"),
    ],
)
def test_an_unknown_option_is_an_error_with_the_nearest_name(key: str, suggestion: str) -> None:
    with pytest.raises(OptionError, match=f"no option '{key}'; did you mean '{suggestion}'"):
        parse(**{key: "x"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("134217728", 134217728),
        ("128m", 2**27),
        ("128MB", 2**27),
        ("1g", 2**30),
        (" 64k ", 2**16),
        ("5b", 5),
        ("2t", 2**41),
    ],
)
def test_bytes_are_read_as_spark_reads_them(text: str, expected: int) -> None:
    assert parse(maxPartitionBytes=text).max_partition_bytes == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxPartitionBytes", "0"),
        ("maxPartitionBytes", "12q"),
        ("maxPartitionBytes", "-1"),
        ("openCostInBytes", "much"),
        ("minPartitionNum", "0"),
        ("minPartitionNum", "1.5"),
        ("mergeSchema", "yes"),
        ("pushFilters", "always"),
        ("onFilterError", "ignore"),
        ("modifiedBefore", "yesterday"),
        ("modifiedAfter", "2026-02-30"),
        ("timeZone", "Mars/Olympus"),
        ("paths", "/a,/b"),
        ("paths", "[]"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_an_error_that_names_both(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} is '{re.escape(value)}'; expected"):
        parse(**{name: value})


def test_paths_come_one_by_one_or_as_sparks_json_list() -> None:
    assert parse().paths == ("/data",)
    assert Options.parse({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")
    with pytest.raises(OptionError, match="no path was given"):
        Options.parse({})


def test_the_readme_table_has_one_row_for_every_option() -> None:
    rows = markdown().splitlines()
    assert len(rows) == 2 + len(OPTIONS)
    assert all(option.doc.rstrip().endswith(".") for option in OPTIONS)


def test_options_of_the_jar_are_checked_and_otherwise_passed_over() -> None:
    assert Options.parse({"path": "x", "planning": "off", "bloomColumns": "a"}) == Options.parse({"path": "x"})
    with pytest.raises(OptionError, match="planning is 'of'; expected auto, driver or off; did you mean 'off'"):
        Options.parse({"path": "x", "planning": "of"})


def test_the_planner_takes_what_it_heeds_and_warns_of_what_is_nearly_an_option() -> None:
    given = {
        "onfiltererror": "fail",
        "cachemaxbytes": "2k",
        "cachedirectory": "/c",
        "cache": "false",
        "mergeschema": "true",
    }
    options, warnings = PlannerOptions.parse(given)
    assert options == PlannerOptions("fail", False, "/c", 2048)
    assert warnings == []
    _, warnings = PlannerOptions.parse({"onfiltereror": "fail", "header": "true", "owner": "me"})
    assert warnings == ["bloomparquet has no option 'onfiltereror'; did you mean 'onFilterError'?"]
    given = {"parquet.page.size": "1", "parquet.block.sizes": "1", "parquet.bloom.filter.enabled#id": "true"}
    assert PlannerOptions.parse(given)[1] == []
    with pytest.raises(OptionError, match="cacheMaxBytes is 'many'"):
        PlannerOptions.parse({"cachemaxbytes": "many"})


def writing(**given: str) -> WriteOptions:
    return WriteOptions.parse({"path": "/data", **given})


def test_a_load_checks_options_of_writing_and_passes_them_over() -> None:
    given = {"bloommaxbytes": "1m", "parquet.bloom.filter.enabled#id": "true", "partitionby": "day"}
    assert parse(**given) == parse()
    with pytest.raises(OptionError, match="bloomMaxBytes is '1'; expected a number of bytes from 32 to 128m"):
        parse(bloomMaxBytes="1")


def test_a_write_passes_options_of_loads_over_but_where() -> None:
    assert writing(mergeSchema="true", pushFilters="off") == writing()
    with pytest.raises(OptionError, match="where belongs to a load"):
        writing(where="id = 1")


def test_parquet_javas_keys_win_over_ours() -> None:
    found = writing(**{"bloomMaxBytes": "1m", "parquet.bloom.filter.max.bytes": "3000", "parquet.compression": "GZIP"})
    assert (found.bloom_max_bytes, found.max_bytes_option) == (2048, "parquet.bloom.filter.max.bytes")
    assert (found.codec, found.row_group_bytes, found.row_group_rows) == ("gzip", 128 << 20, 1 << 20)
    assert writing(**{"compression": "zstd", "parquet.compression": "GZIP"}).codec == "zstd"


def test_keys_of_columns_are_kept_by_column() -> None:
    keys = {
        "parquet.bloom.filter.fpp#a.b": "0.1",
        "PARQUET.BLOOM.FILTER.FPP": "0.2",
        "parquet.bloom.filter.fpp#c": "0.3",
    }
    found = writing(**keys).fpp
    assert (found.default, dict(found.columns)) == (0.2, {"a.b": 0.1, "c": 0.3})
    with pytest.raises(OptionError, match=r"option parquet.bloom.filter.fpp#c is '7'"):
        writing(**{"parquet.bloom.filter.fpp#c": "7"})
    with pytest.raises(OptionError, match="no option 'bloomFpp#c'"):
        writing(**{"bloomFpp#c": "0.1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bloomFpp", "0"),
        ("bloomFpp", "much"),
        ("bloomMaxBytes", "31"),
        ("partitionOverwriteMode", "some"),
        ("ifExists", "overwrite"),
        ("partitionBy", "a,,b"),
        ("partitionBy", "[1]"),
        ("compression", "lzo"),
        ("parquet.block.size", "0"),
        ("parquet.block.row.count.limit", "-1"),
        ("parquet.enable.dictionary", "maybe"),
    ],
)
def test_a_value_that_a_write_does_not_take_is_an_error_that_names_both(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} is '{re.escape(value)}'; expected"):
        writing(**{name: value})


def test_names_of_partition_columns_may_have_commas() -> None:
    assert writing(partitionBy="day, hour").partition_by == ("day", "hour")
    assert writing(partitionBy='["a,b", "c"]').partition_by == ("a,b", "c")


def test_every_codec_is_one_that_pyarrow_knows() -> None:
    import pyarrow as pa

    for codec in CODECS:
        assert check_codec("compression", codec) in ("none", "lz4_raw") or pa.Codec.is_available(codec)


def test_one_path_is_written_to() -> None:
    assert WriteOptions.parse({"paths": '["/a"]'}).path == "/a"
    for given, message in (({"paths": '["/a", "/b"]'}, "2 paths were given"), ({}, "no path was given")):
        with pytest.raises(OptionError, match=message):
            WriteOptions.parse(given)
