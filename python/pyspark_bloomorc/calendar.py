"""Dates and instants in the hybrid Julian calendar, which ORC files count old days in, and in Spark's.

Spark 3 and later count days in the proleptic Gregorian calendar. In ORC files they are counted in the Julian calendar
before 1582-10-15, unless the file says otherwise; what both calendars keep of a day is its year, month and number.

Source: Spark's ``RebaseDateTime`` (``rebaseGregorianToJulianDays``, ``rebaseJulianToGregorianDays``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

GREGORIAN_BEGINS = -141427
"""1582-10-15, in days since 1970, after 1582-10-04 in the hybrid calendar."""

_UNIX_EPOCH = 719468  # days from 0000-03-01 in the proleptic Gregorian calendar to 1970-01-01
_JULIAN_EPOCH = 719470  # from 0000-03-01 in the Julian calendar
_OF_FOUR_YEARS, _OF_CENTURIES = 1461, 146097

Days = NDArray[np.int64]


def to_gregorian(days: Days) -> Days:
    """Days as files have them, as Spark counts them."""
    years, of_year = _julian_year(days)
    centuries = years // 100
    shifted = 365 * years + years // 4 - centuries + centuries // 4 + of_year - _UNIX_EPOCH
    return np.where(days < GREGORIAN_BEGINS, shifted, days)


def to_hybrid(days: Days) -> Days:
    """Days as Spark counts them, as files have them; those that the hybrid calendar left out are its first new day."""
    years, of_year = _gregorian_year(days)
    shifted = np.minimum(365 * years + years // 4 + of_year - _JULIAN_EPOCH, GREGORIAN_BEGINS)
    return np.where(days < GREGORIAN_BEGINS, shifted, days)


def _julian_year(days: Days) -> tuple[Days, Days]:
    """Years from March to February, and the days since the first of March."""
    since = days + _JULIAN_EPOCH
    cycles, of_cycle = np.divmod(since, _OF_FOUR_YEARS)
    years = np.minimum(of_cycle // 365, 3)
    return 4 * cycles + years, of_cycle - 365 * years


def _gregorian_year(days: Days) -> tuple[Days, Days]:
    cycles, of_cycle = np.divmod(days + _UNIX_EPOCH, _OF_CENTURIES)
    centuries = np.minimum(of_cycle // 36524, 3)
    of_century = of_cycle - 36524 * centuries
    fours, of_four = np.divmod(of_century, _OF_FOUR_YEARS)
    years = np.minimum(of_four // 365, 3)
    return 400 * cycles + 100 * centuries + 4 * fours + years, of_four - 365 * years


def numbers(column: Any) -> tuple[Days, Any]:
    """Dates or timestamps as numbers (0 where there is none), and where there is none, or None if that is nowhere."""
    plain = (column.cast(pa.int32()) if pa.types.is_date32(column.type) else column).cast(pa.int64())
    if not column.null_count:
        return plain.to_numpy(), None
    return plain.fill_null(0).to_numpy(), column.is_null().to_numpy(zero_copy_only=False)
