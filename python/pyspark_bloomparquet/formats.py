"""The names of the two data sources."""

from __future__ import annotations

from typing import Literal

Source = Literal["bloomparquet", "bloomorc"]

PARQUET: Source = "bloomparquet"
ORC: Source = "bloomorc"
