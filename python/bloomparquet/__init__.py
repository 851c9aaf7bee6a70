"""bloomparquet: read only the Parquet row groups and ORC stripes that can hold the rows you asked for.

:func:`plan` skips the row groups that cannot match a predicate, by partition values, statistics and the Bloom filters
in the files. :func:`read_table` and :func:`scan_batches` read the others. :func:`inspect` and :func:`probe` show the
filters; :func:`write_table`, :func:`add_filters` and :func:`shrink_filters` write them. :func:`to_html` draws plans and
filters. Nothing here needs Spark.
"""

from typing import TYPE_CHECKING, Any

from bloomparquet.errors import (
    BloomParquetError,
    EncryptionError,
    FileBusyError,
    FileChangedError,
    FormatError,
    KeyRetrievalError,
    LimitError,
    MissingKeyError,
    OptionError,
    PlanError,
    UnsupportedError,
)
from bloomparquet.indexing.build import IndexInfo, build_index, drop_index, read_index_info, refresh_index
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.pictures.show import show_in_notebooks, to_html
from bloomparquet.planning.dataset import Paths
from bloomparquet.planning.plan import RowGroup, ScanPlan
from bloomparquet.planning.planner import Where, plan
from bloomparquet.query.case_mapping import CaseIn
from bloomparquet.query.elements import ContainsAny, ItemIn
from bloomparquet.query.predicate import (
    And,
    Eq,
    EqNullSafe,
    Gt,
    GtEq,
    In,
    IsNotNull,
    IsNull,
    Lt,
    LtEq,
    Not,
    NotEq,
    NotIn,
    Or,
    Predicate,
    StartsWith,
)
from bloomparquet.query.verdict import Verdict
from bloomparquet.reading.inspect import Probe, inspect, probe
from bloomparquet.reading.scan import count, read_table, scan_batches
from bloomparquet.tables.dataset import Dataset
from bloomparquet.writing.advice.advise import advise
from bloomparquet.writing.encryption import Encryption
from bloomparquet.writing.filters.spec import Bloom
from bloomparquet.writing.outcome import ColumnOutcome, FileOutcome
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from bloomparquet.writing.writer import ParquetWriter, write_table

if TYPE_CHECKING:
    from bloomparquet.tables.arrow_dataset import dataset

    __version__: str

__all__ = [
    "And",
    "Bloom",
    "BloomParquetError",
    "CaseIn",
    "ColumnOutcome",
    "ContainsAny",
    "Dataset",
    "Encryption",
    "EncryptionError",
    "Eq",
    "EqNullSafe",
    "FileBusyError",
    "FileChangedError",
    "FileOutcome",
    "FormatError",
    "Gt",
    "GtEq",
    "In",
    "IndexInfo",
    "IsNotNull",
    "IsNull",
    "ItemIn",
    "KeyRetrievalError",
    "Keys",
    "LimitError",
    "Lt",
    "LtEq",
    "MissingKeyError",
    "Not",
    "NotEq",
    "NotIn",
    "OptionError",
    "Or",
    "ParquetWriter",
    "Paths",
    "PlanError",
    "Predicate",
    "Probe",
    "RowGroup",
    "ScanPlan",
    "SplitBlockBloomFilter",
    "StartsWith",
    "UnsupportedError",
    "Verdict",
    "Where",
    "add_filters",
    "advise",
    "build_index",
    "count",
    "dataset",
    "drop_index",
    "inspect",
    "plan",
    "probe",
    "read_index_info",
    "read_table",
    "refresh_index",
    "scan_batches",
    "shrink_filters",
    "to_html",
    "write_table",
]

show_in_notebooks()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("bloomparquet")
    if name == "dataset":  # lazy import: pyarrow.dataset is slow to load
        from bloomparquet.tables.arrow_dataset import dataset

        return dataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
