"""Verdicts by partition values, which are in the names of directories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bloomparquet.errors import PlanError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.options import PlanOptions
from bloomparquet.query.arrow_values import to_bools
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.predicate import ElementPredicate, Predicate, column_of
from bloomparquet.query.resolve import find_partition
from bloomparquet.query.variants import VariantField
from bloomparquet.query.verdict import Codes, Decision, Verdicts


@dataclass(eq=False)
class PartitionEvidence:
    """Verdicts on leaf predicates over partition columns."""

    dataset: Dataset
    options: PlanOptions
    _values: pa.Table | None = None

    def codes(self, leaf: Predicate, alive: Verdicts, strict: bool) -> Codes:
        """One decision per file of the data set, also of those that are not `alive`. A leaf that is not about a
        partition column excludes no file."""
        verdicts, codes = self.verdicts(leaf, strict), np.zeros(len(self.dataset.files), np.uint8)
        if verdicts is not None:
            codes[~verdicts] = Decision.PARTITION.code
        return codes

    def verdicts(self, leaf: Predicate, strict: bool) -> Verdicts | None:
        """One verdict per file of the data set; None if `leaf` is not about a partition column."""
        name = find_partition(self.dataset.partition_names, column_of(leaf), case_sensitive=self.options.case_sensitive)
        if name is None:
            return None
        zone = self.options.timezone or "UTC"
        if self._values is None:
            self._values = self.dataset.partition_table(zone)
        every_file = np.ones(len(self.dataset.files), np.bool_)
        if isinstance(leaf, ElementIn | VariantField):  # a directory name is no list and no VARIANT
            return every_file
        if self.options.timezone is None and pa.types.is_timestamp(self._values.schema.field(name).type):
            return every_file  # the time zone of the directory names is unknown
        try:
            matching = mask(leaf, self._values, timezone=zone, case_sensitive=self.options.case_sensitive)
        except PlanError:
            if strict:
                raise
            return every_file
        return to_bools(matching)

    def can_compare(self, leaf: Predicate) -> bool:
        """Whether partition values decide `leaf`, which is about a partition column. If not, every file is kept."""
        if self.options.timezone is None and self._values is not None:
            name = find_partition(
                self.dataset.partition_names, column_of(leaf), case_sensitive=self.options.case_sensitive
            )
            if pa.types.is_timestamp(self._values.schema.field(name).type):
                return False
        try:
            self.verdicts(leaf, strict=True)
        except PlanError:
            return False
        return not isinstance(leaf, ElementIn | ElementPredicate)
