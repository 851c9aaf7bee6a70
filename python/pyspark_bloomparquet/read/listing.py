"""Lists the files of a load: those that the options select, their partition columns and the inferred schema."""

from __future__ import annotations

import dataclasses
import datetime as dt
import fnmatch
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from bloomparquet.errors import FormatError, OptionError, UnsupportedError, join_names
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.partitions import infer_type
from bloomparquet.query.literals import find_zone
from bloomparquet.storage.files import FileInfo, ReadCount
from bloomparquet.storage.forks import lazy_property
from bloomparquet.storage.globs import expand_braces
from pyspark_bloomparquet.options.key_provider import invalidating, provided_keys
from pyspark_bloomparquet.read import spark_schema as types

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from pyspark_bloomparquet.options.load import Options


class LoadListing:
    """The files of one load. A listing is large, so it is made where it is needed and never pickled."""

    def __init__(self, options: Options) -> None:
        self.options = options
        paths = options.paths if len(options.paths) > 1 else options.paths[0]
        dataset = Dataset.open(
            paths,
            partitioned=not options.recursive_file_lookup,
            base_path=options.base_path,
            keys=provided_keys(options.key_provider),
            table_log=options.table_log,
            storage_options=options.storage_options,
        )
        kept = [i for i, file in enumerate(dataset.files) if _is_selected(file, options)]
        if not kept:
            raise OptionError(
                f"{join_names(options.paths)}: pathGlobFilter, modifiedBefore and modifiedAfter exclude all "
                f"{len(dataset.files)} files; expected at least one"
            )
        dataset = dataset.select(kept)
        infer = infer_type if options.infer_partition_types else lambda values: pa.string()
        self.dataset = dataclasses.replace(
            dataset,
            format=FileFormat.PARQUET,
            partition_types=tuple(
                infer(dict.fromkeys(values)) for values in zip(*dataset.partition_values, strict=True)
            ),
        )

    @property
    def partition_types(self) -> dict[str, pa.DataType]:
        """The type of each partition column, which Spark infers from all of its values."""
        return dict(zip(self.dataset.partition_names, self.dataset.partition_types or (), strict=True))

    @lazy_property
    def partition_fields(self) -> list[StructField]:
        return [types.partition_field(name, kind) for name, kind in self.partition_types.items()]

    @lazy_property
    def column_names(self) -> set[str]:
        """The top-level columns of the first file."""
        (_, first), *_ = self._distinct_footers()
        return {node.name for node in first.profile.schema.root.children}

    def schema(self) -> StructType:
        """The schema that Spark's own reader infers: the columns of the first file by path, or with `mergeSchema` of
        all files, then the partition columns."""
        case_sensitive = self.options.case_sensitive
        merged, footers, path = StructType([]), self._distinct_footers(), ""
        try:
            for file, footer in footers:
                path = file.path
                schema = types.file_schema(footer.profile.schema.root, footer.key_values)
                merged = types.merge(merged, schema, case_sensitive=case_sensitive)
        except UnsupportedError as error:
            raise UnsupportedError(f"{path}: {error}") from error
        return types.add_partitions(merged, self.partition_fields, case_sensitive=case_sensitive)

    def _distinct_footers(self) -> list[tuple[FileInfo, Footer]]:
        """The first file with its footer; with `mergeSchema`, one file for each distinct schema."""
        files = sorted(self.dataset.files, key=lambda file: file.path)
        distinct: dict[object, tuple[FileInfo, Footer]] = {}
        for some in [files] if self.options.merge_schema else ([file] for file in files):
            with invalidating(self.options.key_provider):
                footers = read_footers(
                    self.dataset.storage,
                    some,
                    ReadCount(),
                    keys=self.dataset.keys,
                    left_out={} if self.options.ignore_corrupt_files else None,
                )
            for file, footer in zip(some, footers, strict=True):
                if footer is not None:
                    key = id(footer.profile.schema), footer.key_values.get(types.SPARK_SCHEMA_KEY)
                    distinct.setdefault(key, (file, footer))
            if distinct:
                return list(distinct.values())
        raise FormatError(
            f"{join_names(self.options.paths)}: none of the {len(files)} files is a readable Parquet file"
        )


def _is_selected(file: FileInfo, options: Options) -> bool:
    if options.path_glob_filter is not None:
        name = file.path.rpartition("/")[2]
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in expand_braces(options.path_glob_filter)):
            return False
    modified = file.mtime_ns // 1_000_000
    zone = options.time_zone or "UTC"
    if options.modified_before is not None and modified >= _milliseconds(options.modified_before, zone):
        return False
    return options.modified_after is None or modified > _milliseconds(options.modified_after, zone)


def _milliseconds(time: str, zone: str) -> int:
    return int(dt.datetime.fromisoformat(time).replace(tzinfo=find_zone(zone)).timestamp() * 1000)
